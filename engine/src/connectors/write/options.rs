//! What the sink "file-write" needs: where to, in which format, with which columns.

use std::path::Path;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use thalweg_runtime::{Error, Result};

use crate::connectors::files::{
    Compression, FileFormat, boolean, format_by_name, no_such_option, one_byte, strip_compression,
};

/// Rows of a Parquet row group when nothing else is said.
const ROW_GROUP_ROWS: usize = 122_880;
/// How long a file of rows without an end takes rows when nothing else is said.
const ROLL_INTERVAL_NS: u64 = 10_000_000_000;

/// How the values inside Parquet and Arrow files are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Codec {
    /// Not at all.
    None,
    /// Snappy (Parquet).
    Snappy,
    /// Zstandard.
    Zstd,
    /// gzip (Parquet).
    Gzip,
    /// LZ4.
    Lz4,
    /// Brotli (Parquet).
    Brotli,
}

/// A file or folder to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileWriteOptions {
    /// A file, or a folder for many.
    pub path: String,
    /// The format.
    pub format: FileFormat,
    /// The columns of the rows that will come.
    pub schema: Schema,
    /// Compression inside Parquet and Arrow files.
    pub codec: Codec,
    /// Compression around text files.
    pub compression: Compression,
    /// Rows of a Parquet row group.
    pub row_group_rows: usize,
    /// Whether delimited text begins with the columns' names.
    pub header: bool,
    /// Between fields of delimited text.
    pub delimiter: u8,
    /// Columns whose values become folders, by position; they are left out of the files.
    pub partition_by: Vec<usize>,
    /// Whether the files that a folder holds are replaced.
    pub overwrite: bool,
    /// Whether files are added to those that a folder holds.
    pub append: bool,
    /// The keys that were set.
    pub named: Vec<String>,
    /// Distinguishes the files of this statement from others in the same folder.
    pub run: u64,
    /// The number of a [`super::RowCounter`].
    pub counter: Option<u64>,
    /// Whether the rows have no end: the files of a folder appear one after the other then.
    pub endless: bool,
    /// How long such a file takes rows at most, in nanoseconds.
    pub roll_interval_ns: u64,
}

impl FileWriteOptions {
    /// The keys that [`FileWriteOptions::set`] knows.
    pub const KEYS: [&'static str; 8] = [
        "format",
        "compression",
        "row_group_size",
        "header",
        "delimiter",
        "partition_by",
        "overwrite",
        "append",
    ];

    /// The options for a path; format and compression follow from its name if it tells them.
    pub fn new(path: &str, schema: &SchemaRef) -> Self {
        let path = path.strip_prefix("file://").unwrap_or(path);
        let name = Path::new(path)
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        let (compression, _) = strip_compression(&name);
        let tab = name.to_ascii_lowercase().contains(".tsv");
        FileWriteOptions {
            path: path.to_string(),
            format: format_by_name(&name).unwrap_or(match is_stream(path) {
                true => FileFormat::Csv,
                false => FileFormat::Parquet,
            }),
            schema: schema.as_ref().clone(),
            codec: Codec::Snappy,
            compression,
            row_group_rows: ROW_GROUP_ROWS,
            header: true,
            delimiter: if tab { b'\t' } else { b',' },
            partition_by: Vec::new(),
            overwrite: false,
            append: false,
            named: Vec::new(),
            run: 0,
            counter: None,
            endless: false,
            roll_interval_ns: ROLL_INTERVAL_NS,
        }
    }

    /// Whether the name alone tells a format.
    pub fn names_format(&self) -> bool {
        self.file_name().is_some_and(|name| format_by_name(&name).is_some())
    }

    /// What is wrong with the target as a whole: a folder that is missing, or options that the format has not.
    pub fn check(&self, format_is_given: bool) -> Result<()> {
        self.check_keys()?;
        if let Some(field) = self.schema.fields().iter().find(|f| !self.holds(f.data_type())) {
            return Err(Error::User {
                message: format!("{} files cannot hold intervals", self.format.name()),
                detail: Some(format!("the column \"{}\" has such values", field.name())),
                hint: Some("cast the column to VARCHAR".into()),
            });
        }
        let name = self.file_name().unwrap_or_default();
        let text = matches!(self.format, FileFormat::Csv | FileFormat::Json);
        if !text && strip_compression(&name).0 != Compression::None {
            return Err(Error::User {
                message: format!("{} files are not compressed as a whole", self.format.name()),
                detail: None,
                hint: Some("leave out the extension, and set COMPRESSION for their columns".into()),
            });
        }
        if is_stream(&self.path) {
            return Ok(());
        }
        if self.is_single_file() && !format_is_given && !self.names_format() {
            return Err(Error::User {
                message: format!("the name of \"{}\" does not tell a file format", self.path),
                detail: None,
                hint: Some("add (FORMAT parquet), or csv, json or arrow".into()),
            });
        }
        let folder = Path::new(&self.path).parent().filter(|p| !p.as_os_str().is_empty());
        match folder {
            Some(folder) if !folder.is_dir() => Err(Error::User {
                message: format!("there is no folder \"{}\"", folder.display()),
                detail: None,
                hint: None,
            }),
            _ => Ok(()),
        }
    }

    fn check_keys(&self) -> Result<()> {
        let concerned = |key: &str| match key {
            "header" | "csv.header" | "delimiter" | "csv.delimiter" => {
                self.format == FileFormat::Csv
            }
            "row_group_size" => self.format == FileFormat::Parquet,
            _ => true,
        };
        if let Some(key) = self.named.iter().find(|key| !concerned(key)) {
            return Err(no_such_option(self.format, key));
        }
        if self.overwrite && self.append {
            return Err(Error::user("overwrite and append exclude each other"));
        }
        if !self.partition_by.is_empty() && self.partition_by.len() == self.schema.fields().len() {
            return Err(Error::User {
                message: "partition_by names all columns, so that no column is left for the files"
                    .into(),
                detail: Some("the rows would be lost".into()),
                hint: Some("leave a column out of it, or select one more".into()),
            });
        }
        Ok(())
    }

    /// Whether files of the format have a form for values of a type.
    fn holds(&self, data_type: &DataType) -> bool {
        match data_type {
            DataType::Interval(_) => self.format != FileFormat::Parquet,
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => self.holds(item.data_type()),
            DataType::Struct(fields) => fields.iter().all(|f| self.holds(f.data_type())),
            _ => true,
        }
    }

    fn file_name(&self) -> Option<String> {
        Path::new(&self.path).file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// Sets an option by its key; false if the key is none of [`FileWriteOptions::KEYS`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool> {
        match key.to_ascii_lowercase().as_str() {
            "format" => self.format = FileFormat::by_name(value)?,
            "compression" => self.set_compression(value)?,
            "row_group_size" => self.row_group_rows = positive(key, value)?,
            "header" | "csv.header" => self.header = boolean(key, value)?,
            "delimiter" | "csv.delimiter" => self.delimiter = one_byte(key, value)?,
            "partition_by" => self.partition_by = self.positions(value)?,
            "overwrite" => self.overwrite = boolean(key, value)?,
            "append" => self.append = boolean(key, value)?,
            _ => return Ok(false),
        }
        self.named.push(key.to_ascii_lowercase());
        Ok(true)
    }

    /// What the sink gets.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("plain data without maps can be written as JSON")
    }

    /// Reads what [`FileWriteOptions::to_value`] wrote.
    pub fn from_value(value: &serde_json::Value) -> Result<Self> {
        serde_json::from_value(value.clone())
            .map_err(|e| Error::Internal(format!("the options of a file sink: {e}")))
    }

    /// Whether one file is written rather than a folder of files: its name has an extension, or its format was given.
    /// A folder is meant by partitions, by a slash at the end, and by its being there.
    pub fn is_single_file(&self) -> bool {
        if is_stream(&self.path) {
            return true;
        }
        let given = self.named.iter().any(|key| key == "format");
        let named = given || Path::new(&self.path).extension().is_some();
        let folder = self.path.ends_with('/') || Path::new(&self.path).is_dir();
        named && !folder && self.partition_by.is_empty()
    }

    /// The format must have been set before.
    fn set_compression(&mut self, value: &str) -> Result<()> {
        let name = value.to_ascii_lowercase();
        let known: &[&str] = match self.format {
            FileFormat::Parquet => &["none", "snappy", "zstd", "gzip", "lz4", "brotli"],
            FileFormat::Arrow => &["none", "zstd", "lz4"],
            FileFormat::Csv | FileFormat::Json => &["none", "gzip", "zstd"],
        };
        let name = match name.as_str() {
            "uncompressed" => "none",
            "gz" => "gzip",
            "zst" => "zstd",
            other => other,
        };
        if !known.contains(&name) {
            return Err(Error::User {
                message: format!("{} files have no compression \"{value}\"", self.format.name()),
                detail: None,
                hint: Some(format!("their compressions are {}", known.join(", "))),
            });
        }
        (self.codec, self.compression) = match name {
            "none" => (Codec::None, Compression::None),
            "snappy" => (Codec::Snappy, Compression::None),
            "zstd" => (Codec::Zstd, Compression::Zstd),
            "gzip" => (Codec::Gzip, Compression::Gzip),
            "lz4" => (Codec::Lz4, Compression::None),
            _ => (Codec::Brotli, Compression::None),
        };
        Ok(())
    }

    fn positions(&self, names: &str) -> Result<Vec<usize>> {
        let names = names.trim().trim_start_matches('(').trim_end_matches(')');
        let names = names.split(',').map(|n| n.trim().trim_matches('"')).filter(|n| !n.is_empty());
        names
            .map(|name| {
                let fields = self.schema.fields();
                let exact = fields.iter().position(|f| f.name() == name);
                let folded = || fields.iter().position(|f| f.name().eq_ignore_ascii_case(name));
                exact.or_else(folded).ok_or_else(|| {
                    Error::user(format!(
                        "partition_by names \"{name}\", which is no column of the result"
                    ))
                })
            })
            .collect()
    }
}

/// Whether bytes can only be sent there one after another: a pipe, a terminal, another device.
pub fn is_stream(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
        || standard_stream(path).is_some()
}

/// A stream that the process has from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standard {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// The standard stream of this path, if it is one.
pub fn standard_stream(path: &str) -> Option<Standard> {
    match path {
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Some(Standard::Output),
        "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => Some(Standard::Error),
        _ => None,
    }
}

fn positive(key: &str, value: &str) -> Result<usize> {
    match value.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(Error::user(format!("{key} must be a positive number, not \"{value}\""))),
    }
}
