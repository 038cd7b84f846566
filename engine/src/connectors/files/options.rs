//! The options of `WITH (…)` that concern reading files.

use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use thalweg_runtime::{Error, Result};

use super::FileFormat;
use crate::connectors::rejects::BadRecords;

/// How delimited text is read. What is `None` is found out from the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvOptions {
    /// Whether the first record of each file names the columns.
    pub header: Option<bool>,
    /// The byte between fields.
    pub delimiter: Option<u8>,
    /// The byte around fields; `None` switches quoting off.
    pub quote: Option<u8>,
    /// Unquoted text that means NULL, beside the empty field.
    pub null: Option<String>,
    /// Leave out records that cannot be read instead of failing.
    pub ignore_errors: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            header: None,
            delimiter: None,
            quote: Some(b'"'),
            null: None,
            ignore_errors: false,
        }
    }
}

/// How files are read.
#[derive(Debug, Clone, Default)]
pub struct FileOptions {
    /// Options of delimited text.
    pub csv: CsvOptions,
    /// Leave out JSON records that cannot be read.
    pub json_ignore_errors: bool,
    /// Whether the files are read one after another in the order of their names.
    pub ordered: bool,
    /// The number of the table in memory that takes text records which cannot be read.
    pub dead_letters: Option<u64>,
    /// The columns, when the user declares them; otherwise they are inferred.
    pub schema: Option<SchemaRef>,
    /// The keys that were set.
    pub named: Vec<String>,
}

impl FileOptions {
    /// The keys that [`FileOptions::set`] knows.
    pub const KEYS: [&'static str; 7] = [
        "csv.header",
        "csv.delimiter",
        "csv.quote",
        "csv.null",
        "csv.ignore-errors",
        "json.ignore-errors",
        "scan.splits.ordered",
    ];

    /// Sets an option by its key; false if the key is none of [`FileOptions::KEYS`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool> {
        let key = &key.to_ascii_lowercase();
        match key.as_str() {
            "csv.header" => self.csv.header = Some(boolean(key, value)?),
            "csv.delimiter" => self.csv.delimiter = Some(one_byte(key, value)?),
            "csv.quote" if value.is_empty() => self.csv.quote = None,
            "csv.quote" => self.csv.quote = Some(one_byte(key, value)?),
            "csv.null" => self.csv.null = Some(value.to_string()),
            "csv.ignore-errors" => self.csv.ignore_errors = boolean(key, value)?,
            "scan.splits.ordered" => self.ordered = boolean(key, value)?,
            "json.ignore-errors" => self.json_ignore_errors = boolean(key, value)?,
            _ => return Ok(false),
        }
        self.named.push(key.clone());
        Ok(true)
    }

    /// What becomes of text records that cannot be read.
    pub(crate) fn bad_records(&self) -> BadRecords {
        BadRecords::of(self.dead_letters, self.csv.ignore_errors || self.json_ignore_errors)
    }

    /// Refuses options that say nothing about files of a format.
    pub fn check(&self, format: FileFormat) -> Result<()> {
        if self.dead_letters.is_some() && !matches!(format, FileFormat::Csv | FileFormat::Json) {
            return Err(no_such_option(format, "dead-letter.table"));
        }
        let concerned = |key: &str| match key.split_once('.') {
            Some(("csv", _)) => format == FileFormat::Csv,
            Some(("json", _)) => format == FileFormat::Json,
            _ => true,
        };
        match self.named.iter().find(|key| !concerned(key)) {
            Some(key) => Err(no_such_option(format, key)),
            None => Ok(()),
        }
    }
}

/// An option that files of a format do not have.
pub(crate) fn no_such_option(format: FileFormat, key: &str) -> Error {
    Error::User {
        message: format!("{} files have no option \"{key}\"", format.name()),
        detail: None,
        hint: Some("leave it out, or name another format".into()),
    }
}

/// A truth value as SQL users write it.
pub(crate) fn boolean(key: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(Error::User {
            message: format!("{key} must be true or false, not \"{value}\""),
            detail: None,
            hint: None,
        }),
    }
}

/// One byte, with the usual names for those that are hard to type.
pub(crate) fn one_byte(key: &str, value: &str) -> Result<u8> {
    match (value, value.as_bytes()) {
        ("\\t" | "tab", _) => Ok(b'\t'),
        (_, [byte]) if !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => Err(Error::User {
            message: format!("{key} must be one byte, not \"{value}\""),
            detail: None,
            hint: Some("write '\\t' for a tab".into()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_by_key() {
        let mut options = FileOptions::default();
        assert!(options.set("csv.header", "off").unwrap());
        assert!(options.set("csv.delimiter", "\\t").unwrap());
        assert!(!options.set("csv.headers", "off").unwrap());
        assert!(options.set("csv.header", "perhaps").is_err());
        assert!(options.set("csv.delimiter", "ab").is_err());
        assert_eq!(options.csv.header, Some(false));
        assert_eq!(options.csv.delimiter, Some(b'\t'));
        assert!(options.check(FileFormat::Csv).is_ok());
        assert!(options.check(FileFormat::Parquet).is_err());
        assert!(options.set("json.ignore-errors", "on").unwrap());
        assert!(options.check(FileFormat::Csv).is_err());
    }
}
