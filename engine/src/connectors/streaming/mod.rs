//! What tables share whose rows come by and by: generators, sockets, standard input.
//!
//! A connector says which splits there are and how to read one ([`StreamFormat`]); sharing them out among subtasks,
//! filters, event time, waiting and positions are the same for all. Nothing here blocks a worker thread.

pub(crate) mod feed;
pub(crate) mod generator;
pub(crate) mod options;
mod pace;
mod random;
mod raw;
mod reader;
mod table;
mod tail;
pub(crate) mod text;
pub(crate) mod watch;
#[cfg(test)]
mod watch_tests;
mod write_only;

pub(crate) use options::ConnectorOptions;
pub(crate) use random::{Stream, mix};
pub(crate) use reader::{StreamFormat, StreamProgress, StreamSource, StreamSplit};
pub(crate) use table::ConnectorTable;
pub use write_only::WriteOnly;
