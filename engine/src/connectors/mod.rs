//! Connectors: how tables are read and written.
//!
//! Files in Parquet, CSV, JSON and Arrow IPC, tables in memory, series, rows that a program makes, and the writers.

pub(crate) mod compact;
mod csv;
mod decoder;
pub mod external;
pub mod files;
mod ipc;
mod json;
mod keys;
pub mod memory;
pub mod parquet;
mod scan;
pub mod series;
#[cfg(test)]
mod testing;
mod text;
pub mod write;

use std::collections::HashMap;
use std::sync::Arc;

pub use external::{ExternalTable, RowSource};
pub(crate) use files::spool;
pub use files::{FileFormat, FileOptions, FileTable};
pub use memory::MemoryTable;
use thalweg_runtime::sink::SinkConnector;
use thalweg_runtime::source::SourceConnector;
pub use write::{FILE_SINK, FileWriteOptions, Replaced, RowCounter};

/// The connectors that read, by name.
pub fn sources() -> HashMap<String, Arc<dyn SourceConnector>> {
    let file: Arc<dyn SourceConnector> = Arc::new(scan::FileConnector);
    let memory: Arc<dyn SourceConnector> = Arc::new(memory::MemoryConnector);
    let series: Arc<dyn SourceConnector> = Arc::new(series::SeriesConnector);
    let external: Arc<dyn SourceConnector> = Arc::new(external::ExternalConnector);
    HashMap::from([
        ("file".to_string(), file),
        (memory::CONNECTOR.to_string(), memory),
        (series::CONNECTOR.to_string(), series),
        (external::CONNECTOR.to_string(), external),
    ])
}

/// The connectors that write, by name.
pub fn sinks() -> HashMap<String, Arc<dyn SinkConnector>> {
    let memory: Arc<dyn SinkConnector> = Arc::new(memory::MemorySink);
    let file: Arc<dyn SinkConnector> = Arc::new(write::FileSink);
    HashMap::from([(memory::CONNECTOR.to_string(), memory), (write::FILE_SINK.to_string(), file)])
}
