//! Reading Parquet.
//!
//! A split is one row group. Its column chunks are fetched on I/O threads, the next split's while the current one is
//! decoded; nothing is fetched that footers, bloom filters, page indexes or runtime filters rule out.

mod chunks;
mod columns;
mod decode;
mod distinct;
mod encryption;
#[cfg(test)]
mod estimate_tests;
mod intervals;
mod learned;
mod meta;
mod narrow;
mod page_header;
mod page_sizes;
mod pages;
mod ranges;
mod reader;
mod row_group;
mod sample;
mod selectivity;
mod source;
mod statistics;
mod table_groups;
#[cfg(test)]
mod tests;
mod thrift;

pub(crate) use distinct::distinct;
pub use meta::ParquetMeta;
pub(crate) use meta::table_type;
pub(crate) use selectivity::selectivity;
pub(crate) use source::open;
pub(crate) use statistics::table_statistics;
