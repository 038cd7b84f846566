//! Names to tables.

mod clock;
mod declared;
mod indexes;
mod listing;
mod resolve;
mod statistics;
mod store;
mod table;
mod table_functions;

pub use declared::{Declaration, DeclaredTable, TimeUse};
pub use store::{
    CATALOG_NAME, DEFAULT_SCHEMA, Entry, EntryKey, INFORMATION_SCHEMA, OnConflict,
    TEMPORARY_SCHEMA, TableCatalog, ViewJob,
};
pub use table::{
    ComputedColumn, EngineTable, EventTime, MetadataField, SinkKind, Table, TableSink, TimeOptions,
};
pub use thalweg_planner::sql_type_name;

pub(crate) use declared::StoredColumns;
pub(crate) use listing::{Listings, describe, texts};
pub(crate) use resolve::StatementCatalog;
pub(crate) use statistics::EngineStatistics;
pub(crate) use table_functions::{set_option, unknown_option};
