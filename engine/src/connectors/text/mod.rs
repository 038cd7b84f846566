//! Text in files: pieces of files that are read in parallel, records and fields, and values.

mod block_bytes;
mod blocks;
mod dialect;
mod digits;
mod index;
mod kinds;
mod quoting;
mod record;
mod timestamps;
pub(crate) mod value;

#[cfg(test)]
pub(crate) use block_bytes::BlockBytes;
pub(crate) use blocks::{Block, Decoded, Pieces, TextBlocks, starts};
pub(crate) use dialect::{
    DELIMITERS, ends_a_field, header_needs_quotes, needs_quotes, stands_without_quotes,
};
pub(crate) use index::{RecordIndex, Stretch};
pub(crate) use kinds::{FixedPoint, Kinds};
#[cfg(test)]
pub(crate) use quoting::{Quoting, Summary, first_record};
pub(crate) use record::{Field, RecordEnd, Structure};
pub(crate) use timestamps::TimestampReader;
