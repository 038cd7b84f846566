//! What the scans of all file formats share: the spec, which columns are read, pruning, and the exact filter.

mod connector;
mod filter;
mod layout;
mod ordered;
mod partition;
pub(crate) mod prune;
mod spec;
mod split_source;

pub use connector::FileConnector;
pub(crate) use filter::{ScanFilter, apply_mask};
pub(crate) use layout::{ColumnSource, ReadLayout, constant, to_table_type};
pub(crate) use partition::file_may_match;
pub(crate) use spec::{FileScan, ScanFile};
pub(crate) use split_source::{SplitFormat, SplitProgress, SplitScan, SplitSource, Wanted};
