//! Text in files: pieces of files that are read in parallel, records and fields, and values.

mod blocks;
mod quoting;
mod record;
pub(crate) mod value;

pub(crate) use blocks::{Pieces, TextBlocks};
pub(crate) use record::{Field, RecordEnd, Structure};
