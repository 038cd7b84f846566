//! Partition columns in folder names: `…/year=2024/kind=a/file.parquet`.
//!
//! A table has the partition columns that all its files have, typed by their values, behind the files' own
//! columns. The values of a file are known without opening it.

use std::path::Path;

use arrow::array::{ArrayRef, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use serde::{Deserialize, Serialize};
use thalweg_runtime::Result;

/// The value that stands for NULL in a folder name.
const NULL_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// A column made from folder names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionColumn {
    /// Its name.
    pub name: String,
    /// Int64, Date32 or Utf8View.
    pub data_type: DataType,
}

/// The `key=value` parts of a path's folders, decoded; NULL is `None`.
pub fn parse(path: &Path) -> Vec<(String, Option<String>)> {
    let Some(parent) = path.parent() else { return Vec::new() };
    parent
        .components()
        .filter_map(|c| c.as_os_str().to_str())
        .filter_map(|part| part.split_once('='))
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| {
            (percent_decode(key), (value != NULL_VALUE).then(|| percent_decode(value)))
        })
        .collect()
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut i) = (Vec::with_capacity(bytes.len()), 0);
    while i < bytes.len() {
        let hex = text.get(i + 1..i + 3).and_then(|h| u8::from_str_radix(h, 16).ok());
        match (bytes[i], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                i += 3;
            }
            (byte, _) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_string())
}

/// The folder name part for a value, the inverse of [`parse`]. A text that looks like NULL is escaped.
pub fn encode(key: &str, value: Option<&str>) -> String {
    let escape = |text: &str| {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            if c.is_control()
                || matches!(c, '/' | '\\' | '%' | '=' | ':' | '*' | '?' | '"' | '<' | '>' | '|')
            {
                let mut utf8 = [0; 4];
                for byte in c.encode_utf8(&mut utf8).bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            } else {
                out.push(c);
            }
        }
        out
    };
    let value = match value {
        None => NULL_VALUE.to_string(),
        Some(NULL_VALUE) => NULL_VALUE.replacen('_', "%5F", 1),
        Some(value) => escape(value),
    };
    format!("{}={value}", escape(key))
}

/// The partition columns that all files have, typed by all their values.
pub fn columns(files: &[Vec<(String, Option<String>)>]) -> Vec<PartitionColumn> {
    let Some(first) = files.first() else { return Vec::new() };
    let mut columns: Vec<PartitionColumn> = Vec::new();
    for (name, _) in first {
        let values: Option<Vec<&Option<String>>> = files
            .iter()
            .map(|parts| parts.iter().find(|(k, _)| k == name).map(|(_, v)| v))
            .collect();
        if let Some(values) = values
            && !columns.iter().any(|c| &c.name == name)
        {
            columns.push(PartitionColumn { name: name.clone(), data_type: type_of(&values) });
        }
    }
    columns
}

fn type_of(values: &[&Option<String>]) -> DataType {
    let all = |to: DataType| {
        let mut some = values.iter().filter_map(|v| v.as_ref()).peekable();
        some.peek().is_some()
            && some
                .all(|v| cast_value(v, &to).is_ok() && (to != DataType::Int64 || plain_integer(v)))
    };
    if all(DataType::Int64) {
        DataType::Int64
    } else if all(DataType::Date32) {
        DataType::Date32
    } else {
        DataType::Utf8View
    }
}

/// Integers that print as they were written: `007` stays text.
fn plain_integer(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|v| v.to_string() == text)
}

fn cast_value(text: &str, to: &DataType) -> Result<ArrayRef> {
    let array = StringArray::from(vec![text]);
    let options = CastOptions { safe: false, ..Default::default() };
    Ok(cast_with_options(&array, to, &options)?)
}

/// The value of a partition column for one file.
pub fn value(text: Option<&str>, data_type: &DataType) -> Result<ScalarValue> {
    match text {
        None => Ok(ScalarValue::try_from(data_type)?),
        Some(text) => Ok(ScalarValue::try_from_array(&cast_value(text, data_type)?, 0)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_become_typed_columns() {
        let paths = ["d/y=2024/k=a%2Fb/f", "d/y=2025/k=__HIVE_DEFAULT_PARTITION__/f"];
        let parts: Vec<_> = paths.iter().map(|p| parse(Path::new(p))).collect();
        let found = columns(&parts);
        assert_eq!(found[0], PartitionColumn { name: "y".into(), data_type: DataType::Int64 });
        assert_eq!(found[1], PartitionColumn { name: "k".into(), data_type: DataType::Utf8View });
        assert_eq!(parts[0][1].1.as_deref(), Some("a/b"));
        assert_eq!(parts[1][1].1, None);
        assert_eq!(encode("k", Some("a/b")), "k=a%2Fb");
        for value in [None, Some("__HIVE_DEFAULT_PARTITION__"), Some(""), Some("%5F")] {
            let path = format!("d/{}/f", encode("k", value));
            assert_eq!(parse(Path::new(&path))[0].1.as_deref(), value, "{path}");
        }
        assert_eq!(type_of(&[&Some("007".into())]), DataType::Utf8View);
        assert_eq!(type_of(&[&Some("2024-01-31".into())]), DataType::Date32);
    }
}
