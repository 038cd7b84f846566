//! Reading delimited text.
//!
//! A file is cut at fixed byte positions; each piece is read and parsed on its own. Where its first record begins
//! depends on whether the cut lies inside quotes: every piece is summarised while it is read (how quoting comes out
//! of it for each way of coming in), and a piece is parsed once the summaries of all pieces before it are there.

mod columns;
mod error;
mod infer;
mod parse;
#[cfg(test)]
mod random_tests;
mod records;
mod rows;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use infer::{infer_files, structure};
pub(crate) use records::{Column, CsvRecords, Origin};
pub(crate) use scan::open;
