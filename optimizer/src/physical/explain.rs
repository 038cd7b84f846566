//! EXPLAIN: a plan as text.
