//! Keyed state.
