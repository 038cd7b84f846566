//! Values as text, for files and for the shell.
//!
//! One text form a type: dates and times in ISO form, shortest doubles that read back the same, decimals at their
//! scale, binary as `\x…`, nested values as JSON. Batches are written column by column into typed [`Values`], so
//! that no cell looks at a type.

mod csv;
mod json;
mod number;
mod time;
mod values;

pub use csv::{CsvStyle, write_csv_header, write_csv_rows, write_csv_text, write_typed_csv_header};
pub use json::{write_json_rows, write_json_string};
pub use time::write_timestamp;
pub use values::Values;
