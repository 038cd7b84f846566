//! Writing results: files of all formats, and the text form of values.

mod counter;
mod encoder;
pub mod format;
#[cfg(test)]
mod guess_tests;
mod options;
mod output;
mod replaced;
mod sink;
#[cfg(test)]
mod tests;
mod typed;

pub use counter::RowCounter;
pub(crate) use encoder::{Encoder, encoder};
pub use options::{Codec, FileWriteOptions};
pub(crate) use output::OutputFile;
pub use replaced::Replaced;
pub use sink::FileSink;
pub(crate) use typed::typed_batch;

/// The file sink's registered name.
pub const FILE_SINK: &str = "file-write";
