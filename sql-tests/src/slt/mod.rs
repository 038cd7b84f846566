//! Sqllogictest files: read in several dialects, run against the engine, counted.
//!
//! `dialect` turns a file's text into records, `values` turns rows into the dialect's text, `compare` decides
//! whether a record has passed, and `runner` drives a file. Files are never changed.

mod compare;
mod dialect;
mod preprocess;
mod runner;
mod values;

pub use dialect::Dialect;
pub use runner::{FileReport, Options, run_file};
