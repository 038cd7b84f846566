//! Names to tables.

mod table;

pub use table::{EngineTable, Table};
