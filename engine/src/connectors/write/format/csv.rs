//! Rows as delimited text that our own reader reads back exactly.
//!
//! NULL is an empty field and the empty string `""`; a row of one column that is NULL is an empty line. Fields are
//! quoted only where they must be; where types are to be kept, that is also text that could be taken for a number, a
//! date or another type, so that a reader that guesses types finds text again.

use arrow::array::ArrayRef;
use thalweg_runtime::Result;

use super::values::Values;
use crate::connectors::text::{
    Kinds, ends_a_field, header_needs_quotes, needs_quotes, stands_without_quotes,
};

/// How fields are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvStyle {
    /// Between fields.
    pub delimiter: u8,
    /// Around fields that need it.
    pub quote: u8,
    /// Whether text that looks like a value of another type is quoted.
    pub keeps_types: bool,
}

impl Default for CsvStyle {
    fn default() -> Self {
        CsvStyle { delimiter: b',', quote: b'"', keeps_types: false }
    }
}

/// Writes a line of column names.
pub fn write_csv_header<'a>(
    names: impl IntoIterator<Item = &'a str>,
    style: CsvStyle,
    out: &mut Vec<u8>,
) {
    write_names(names, style, |_, name| needs_quotes_as_text(name, style), out);
}

/// Writes a line of column names from which a reader that guesses tells that it is no row: names that look like values
/// are quoted, unless the values below look alike and are quoted too. `rows` are the first rows; behind a header
/// without any that could be a row comes an empty line, or no line end where an empty line is a row.
pub fn write_typed_csv_header<'a>(
    names: impl IntoIterator<Item = &'a str>,
    rows: &[ArrayRef],
    style: CsvStyle,
    out: &mut Vec<u8>,
) -> Result<()> {
    let first = rows.iter().map(first_text).collect::<Result<Vec<_>>>()?;
    let CsvStyle { delimiter, quote, .. } = style;
    let quoted = |column: usize, name: &[u8]| {
        let value = first.get(column).and_then(Option::as_deref);
        let bare = value.is_some_and(|value| looks_alike(name, value))
            && stands_without_quotes(name, delimiter, quote);
        !bare && header_needs_quotes(name, delimiter, quote)
    };
    let names: Vec<&str> = names.into_iter().collect();
    write_names(names.iter().copied(), style, quoted, out);
    let all = || names.iter().map(|name| name.as_bytes()).enumerate();
    if rows.is_empty()
        && all().all(|(column, name)| quoted(column, name))
        && all().any(|(_, name)| !Kinds::of(name).is_text())
    {
        match names.len() {
            1 => drop(out.pop()),
            _ => out.push(b'\n'),
        }
    }
    Ok(())
}

fn write_names<'a>(
    names: impl IntoIterator<Item = &'a str>,
    style: CsvStyle,
    quoted: impl Fn(usize, &[u8]) -> bool,
    out: &mut Vec<u8>,
) {
    for (i, name) in names.into_iter().map(str::as_bytes).enumerate() {
        if i > 0 {
            out.push(style.delimiter);
        }
        match quoted(i, name) {
            true => write_quoted(name, style, out),
            false => out.extend_from_slice(name),
        }
    }
    out.push(b'\n');
}

/// The first value of a column of text that is not NULL or blank.
fn first_text(column: &ArrayRef) -> Result<Option<Vec<u8>>> {
    let values = Values::new(column)?;
    if !values.is_free_text() {
        return Ok(None);
    }
    let mut text = Vec::new();
    for row in (0..column.len()).filter(|&row| !values.is_null(row)) {
        text.clear();
        values.write_text(row, &mut text);
        if !text.trim_ascii().is_empty() {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Whether a name looks like a value that is quoted because it could be of another type.
fn looks_alike(name: &[u8], value: &[u8]) -> bool {
    let value = Kinds::of(value);
    !value.is_text() && value.looks_like(Kinds::of(name))
}

/// Writes the rows of columns of equal length, a line each.
pub fn write_csv_rows(
    columns: &[ArrayRef],
    rows: usize,
    style: CsvStyle,
    out: &mut Vec<u8>,
) -> Result<()> {
    let columns = columns.iter().map(Values::new).collect::<Result<Vec<_>>>()?;
    let mut text = Vec::new();
    for row in 0..rows {
        for (i, values) in columns.iter().enumerate() {
            if i > 0 {
                out.push(style.delimiter);
            }
            if values.is_null(row) {
                continue;
            }
            if values.is_free_text() {
                text.clear();
                values.write_text(row, &mut text);
                write_csv_text(&text, style, out);
            } else {
                values.write_text(row, out);
            }
        }
        out.push(b'\n');
    }
    Ok(())
}

/// Writes a text that is not NULL, quoted if it must be.
pub fn write_csv_text(text: &[u8], style: CsvStyle, out: &mut Vec<u8>) {
    let needed = match style.keeps_types {
        true => needs_quotes(text, style.delimiter, style.quote),
        false => needs_quotes_as_text(text, style),
    };
    match needed {
        true => write_quoted(text, style, out),
        false => out.extend_from_slice(text),
    }
}

/// Whether a text without quotes would be NULL or more than one field.
fn needs_quotes_as_text(text: &[u8], style: CsvStyle) -> bool {
    text.is_empty() || ends_a_field(text, style.delimiter, style.quote)
}

fn write_quoted(text: &[u8], style: CsvStyle, out: &mut Vec<u8>) {
    out.push(style.quote);
    for &byte in text {
        if byte == style.quote {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(style.quote);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
            Arc::new(StringArray::from(vec![Some("a,b"), Some(""), None])),
        ];
        let mut out = Vec::new();
        write_csv_header(["x", "the \"y\""], CsvStyle::default(), &mut out);
        write_csv_rows(&columns, 3, CsvStyle::default(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "x,\"the \"\"y\"\"\"\n1,\"a,b\"\n,\"\"\n3,\n");
    }
}
