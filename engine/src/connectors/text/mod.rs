//! Text in files: pieces of files that are read in parallel, records and fields, and values.

mod blocks;
mod dialect;
mod kinds;
mod quoting;
mod record;
pub(crate) mod value;

pub(crate) use blocks::{Block, Decoded, Pieces, TextBlocks};
pub(crate) use dialect::{
    DELIMITERS, ends_a_field, header_needs_quotes, needs_quotes, stands_without_quotes,
};
pub(crate) use kinds::{FixedPoint, Kinds};
pub(crate) use record::{Field, RecordEnd, Structure};
