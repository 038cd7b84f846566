//! The format `debezium_json`: changes of a database's table as Debezium tells them, one object a change.
//!
//! A change has the row `before` and the row `after` it, and `op`: `c` and `r` for a row that is added, `d` for one that
//! is taken away, `u` for one that takes another's place. All of it may lie within `payload`. Invariant: a change that says
//! less than that is an error; none is left out.

mod read;
mod write;

pub(super) use read::{Changes, changes, schema};
pub(super) use write::write_changes;
