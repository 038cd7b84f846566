//! Writing results: files of all formats, and the text form of values.

mod counter;
pub mod format;
mod typed;

pub use counter::RowCounter;
pub(crate) use typed::typed_batch;
