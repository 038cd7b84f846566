//! Sqllogictest files: read in several dialects, run against the engine, counted.
//!
//! `fixtures` makes data that a suite expects, `preprocess` and `include` turn a file's text into records, `dialect` says whose they are, `values` turns rows into the dialect's text, `compare` decides
//! whether a record has passed, and `runner` drives a file. Files are never changed.

mod compare;
mod dialect;
mod excuse;
mod fixtures;
mod include;
mod preprocess;
mod runner;
mod values;

pub use dialect::Dialect;
pub use excuse::Excuse;
pub use include::without_fragments;
pub use runner::{FileReport, Options, run_file};
