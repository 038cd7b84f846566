//! Reading JSON: one object a line, objects over several lines, or a top-level array of objects.

mod infer;
mod layout;
mod records;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use infer::infer_files;
pub(crate) use layout::JsonLayout;
pub(crate) use records::JsonRecords;
pub(crate) use scan::open;
