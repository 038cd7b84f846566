//! The connector "single_file": one file that is read from its beginning, or written anew.
//!
//! The rows of a file keep their order. Objects of JSON are read and written in the conventions of Arroyo: a whole number
//! for a point in time counts nanoseconds since 1970, and points in time are written as `2026-01-31T12:00:00.250`. The
//! format `debezium_json` has changes instead of rows, see [`super::debezium`]. Invariant: a file that is written appears
//! whole, or not at all.

mod encode;
mod instants;
mod records;
mod sink;
mod source;
mod table;

pub(super) use encode::Objects;
pub(super) use records::ObjectRecords;
pub use sink::SingleFileSink;
pub use source::SingleFileConnector;
pub(super) use table::{RowFormat, table};

/// The connector's name, for users and in graphs.
pub const CONNECTOR: &str = "single_file";
