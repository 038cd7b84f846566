//! Tables over files: which files, in which format, with which columns.
//!
//! Everything here runs on the session's thread while a statement is planned and may block. What is found out is
//! metadata alone (paths, footers, a sample of text); no data is kept.

mod cache;
mod discover;
mod format;
mod glob;
mod hive;
mod infer;
mod options;
pub(crate) mod spool;
mod table;
mod union;

pub use cache::FileCache;
pub use format::{Compression, FileFormat, FileKind};
pub(crate) use format::{delimiter_by_name, format_by_name, strip_compression};
pub use hive::PartitionColumn;
pub(crate) use hive::{encode as partition_folder, value as partition_value};
pub use options::{CsvOptions, FileOptions};
pub(crate) use options::{boolean, no_such_option, one_byte};
pub(crate) use spool::reader as unpacking_reader;
pub(crate) use table::CONNECTOR as FILE_CONNECTOR;
pub use table::FileTable;

pub(crate) use discover::{FoundFile, system_env};
pub(crate) use glob::{expand as expand_glob, is_pattern as is_glob};
pub(crate) use union::{common_type, must_share_a_column};
