//! Errors that name file, line, column and value.

use arrow::datatypes::DataType;
use thalweg_runtime::Error;

/// Characters of a bad value that a message shows at most.
const VALUE_CHARS_MAX: usize = 60;

/// The SQL name of a type, for messages.
pub fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INTEGER".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => format!("DECIMAL({p}, {s})"),
        DataType::Date32 | DataType::Date64 => "DATE".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".into(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Interval(_) => "INTERVAL".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA".into(),
        other => other.to_string(),
    }
}

/// A value that is not of its column's type.
pub fn bad_value(
    file: &str,
    line: u64,
    column: usize,
    name: &str,
    value: &[u8],
    wanted: &DataType,
) -> Error {
    let text = String::from_utf8_lossy(value);
    let mut shown: String = text.chars().take(VALUE_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let wanted = sql_name(wanted);
    let invalid = std::str::from_utf8(value).is_err();
    let detail = invalid.then(|| "the value is not valid UTF-8".to_string());
    Error::User {
        message: format!(
            "CSV error in {file}, line {line}, column {} (\"{name}\"): cannot read \"{shown}\" as {wanted}",
            column + 1
        ),
        detail,
        hint: Some("set 'csv.ignore-errors' = 'true' to leave such rows out".into()),
    }
}

/// A quoted field that reaches to the end of the file.
pub fn unclosed_quote(file: &str, line: u64) -> Error {
    Error::User {
        message: format!("CSV error in {file}, line {line}: the quote is never closed"),
        detail: Some("The rest of the file would be one field.".into()),
        hint: Some("set 'csv.quote' = '' if the file has no quoted fields".into()),
    }
}

/// A record with another number of fields than the table has columns.
pub fn ragged(file: &str, line: u64, found: usize, wanted: usize) -> Error {
    let fields = if found == 1 { "field" } else { "fields" };
    Error::User {
        message: format!("CSV error in {file}, line {line}: {found} {fields} instead of {wanted}"),
        detail: None,
        hint: Some(
            "check 'csv.delimiter' and 'csv.quote', or set 'csv.ignore-errors' = 'true' to leave such rows out"
                .into(),
        ),
    }
}
