//! Reading Parquet.
//!
//! A split is one row group. Its column chunks are fetched on I/O threads, the next split's while the current one is
//! decoded; nothing is fetched that footers, bloom filters, page indexes or runtime filters rule out.

mod chunks;
mod decode;
mod meta;
mod narrow;
mod reader;
mod row_group;
mod source;
mod statistics;
#[cfg(test)]
mod tests;

pub use meta::ParquetMeta;
pub(crate) use meta::table_type;
pub(crate) use source::open;
pub(crate) use statistics::table_statistics;
