//! Connectors: how tables are read and written.
//!
//! Files in Parquet, CSV, JSON and Arrow IPC, tables in memory, series, rows that a program makes, generators, and the
//! writers. Users name connectors in `WITH ('connector' = …)`, see [`registry`].

pub(crate) mod blackhole;
pub(crate) mod buffers;
pub(crate) mod compact;
mod conflicts;
mod csv;
mod datagen;
mod debezium;
mod decoder;
pub mod external;
pub mod files;
mod filesystem;
mod ipc;
mod json;
mod keys;
pub(crate) mod late_rows;
pub mod memory;
pub(crate) mod metadata;
mod nexmark;
pub mod parquet;
mod print;
pub mod registry;
mod rejects;
mod row_ops;
mod scan;
pub mod series;
mod single_file;
mod socket;
mod stdin;
mod stdout;
mod streaming;
#[cfg(test)]
mod testing;
mod text;
mod text_rows;
pub mod write;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use conflicts::{CONFLICT_SINK, ConflictSpec};
pub use external::{ExternalTable, RowSource};
pub(crate) use files::{FILE_CONNECTOR, spool};
pub use files::{FileFormat, FileOptions, FileTable};
pub use memory::MemoryTable;
pub(crate) use rejects::COLUMNS as DEAD_LETTER_COLUMNS;
pub(crate) use row_ops::row_ops;
pub(crate) use streaming::options::wrong_value;
pub(crate) use streaming::watch::CONNECTOR as WATCH_CONNECTOR;
use thalweg_runtime::sink::SinkConnector;
use thalweg_runtime::source::SourceConnector;
pub use write::{FILE_SINK, FileWriteOptions, Replaced, RowCounter};

/// The connectors that read, by name.
pub fn sources() -> HashMap<String, Arc<dyn SourceConnector>> {
    let file: Arc<dyn SourceConnector> = Arc::new(scan::FileConnector);
    let memory: Arc<dyn SourceConnector> = Arc::new(memory::MemoryConnector);
    let series: Arc<dyn SourceConnector> = Arc::new(series::SeriesConnector);
    let external: Arc<dyn SourceConnector> = Arc::new(external::ExternalConnector);
    let datagen: Arc<dyn SourceConnector> = Arc::new(datagen::DatagenConnector);
    let nexmark: Arc<dyn SourceConnector> = Arc::new(nexmark::NexmarkConnector);
    let socket: Arc<dyn SourceConnector> = Arc::new(socket::SocketConnector);
    let single_file: Arc<dyn SourceConnector> = Arc::new(single_file::SingleFileConnector);
    let stdin: Arc<dyn SourceConnector> = Arc::new(stdin::StdinConnector);
    let late: Arc<dyn SourceConnector> = Arc::new(late_rows::LateRowsConnector);
    let watch: Arc<dyn SourceConnector> = Arc::new(streaming::watch::WatchConnector);
    let write_only: Arc<dyn SourceConnector> = Arc::new(streaming::WriteOnly);
    HashMap::from([
        (blackhole::CONNECTOR.to_string(), write_only.clone()),
        (datagen::CONNECTOR.to_string(), datagen),
        (late_rows::CONNECTOR.to_string(), late),
        (nexmark::CONNECTOR.to_string(), nexmark),
        (print::CONNECTOR.to_string(), write_only.clone()),
        (single_file::CONNECTOR.to_string(), single_file),
        (socket::CONNECTOR.to_string(), socket),
        (streaming::watch::CONNECTOR.to_string(), watch),
        (stdin::CONNECTOR.to_string(), stdin),
        (stdout::CONNECTOR.to_string(), write_only),
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
    let blackhole: Arc<dyn SinkConnector> = Arc::new(blackhole::BlackholeSink);
    let print: Arc<dyn SinkConnector> = Arc::new(print::PrintSink);
    let single_file: Arc<dyn SinkConnector> = Arc::new(single_file::SingleFileSink);
    let stdout: Arc<dyn SinkConnector> = Arc::new(stdout::StdoutSink);
    let socket: Arc<dyn SinkConnector> = Arc::new(socket::SocketSink);
    let view: Arc<dyn SinkConnector> = Arc::new(memory::ViewSink);
    let fold: Arc<dyn SinkConnector> = Arc::new(memory::FoldSink);
    let conflicts: Arc<dyn SinkConnector> = Arc::new(conflicts::ConflictSink);
    HashMap::from([
        (blackhole::CONNECTOR.to_string(), blackhole),
        (CONFLICT_SINK.to_string(), conflicts),
        (memory::CONNECTOR.to_string(), memory),
        (print::CONNECTOR.to_string(), print),
        (single_file::CONNECTOR.to_string(), single_file),
        (stdout::CONNECTOR.to_string(), stdout),
        (socket::CONNECTOR.to_string(), socket),
        (memory::VIEW_SINK.to_string(), view),
        (memory::FOLD_SINK.to_string(), fold),
        (write::FILE_SINK.to_string(), file),
    ])
}
