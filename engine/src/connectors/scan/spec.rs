//! What a file scan gets in [`thalweg_runtime::source::SourceSpec::options`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thalweg_runtime::{Error, Result};

use crate::connectors::files::{CsvOptions, FileKind, PartitionColumn};
use crate::connectors::json::JsonLayout;
use crate::connectors::rejects::BadRecords;

/// One file of a scan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanFile {
    /// Where to open it.
    pub path: PathBuf,
    /// Its name in messages.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970 of its last change.
    pub mtime_ns: i64,
    /// The value of each partition column; NULL is `None`.
    pub partition: Vec<Option<String>>,
    /// For delimited text: the columns of this file, if they are not those of the table in the table's order.
    pub columns: Option<Vec<String>>,
}

/// The files of a table and how they are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileScan {
    /// Format and compression of all files.
    pub kind: FileKind,
    /// The files.
    pub files: Vec<ScanFile>,
    /// Columns made from folder names; they are the last ones of the table.
    pub partition_columns: Vec<PartitionColumn>,
    /// For delimited text: everything decided, nothing left open but the header of single files.
    pub csv: CsvOptions,
    /// For delimited text: whether each file begins with a header, as far as it was looked at.
    pub csv_header: bool,
    /// For delimited text: whether headers must name the table's columns.
    pub csv_by_name: bool,
    /// For delimited text: whether the columns' types were guessed, so that a value of another form is an error.
    pub csv_guessed: bool,
    /// For JSON: how objects follow each other.
    pub json_layout: JsonLayout,
    /// Whether the files are read one after another in the order of their names.
    pub ordered: bool,
    /// What becomes of text records that cannot be read.
    pub bad_records: BadRecords,
}

impl FileScan {
    /// The scan's own form in a graph.
    pub fn to_options(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("plain data without maps can be written as JSON")
    }

    /// Reads what [`FileScan::to_options`] wrote.
    pub fn from_options(options: &serde_json::Value) -> Result<Self> {
        serde_json::from_value(options.clone())
            .map_err(|e| Error::Internal(format!("the options of a file scan: {e}")))
    }
}
