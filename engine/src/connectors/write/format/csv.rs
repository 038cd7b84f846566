//! Rows as delimited text that our own reader reads back exactly.
//!
//! NULL is an empty field and the empty string `""`; a row of one column that is NULL is an empty line. Fields are
//! quoted only where they must be; where types are to be kept, that is also text that could be taken for a number, a
//! date or another type, so that a reader that guesses types finds text again.

use arrow::array::ArrayRef;
use thalweg_runtime::Result;

use super::values::Values;
use crate::connectors::text::{ends_a_field, header_needs_quotes, needs_quotes};

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
    for (i, name) in names.into_iter().enumerate() {
        if i > 0 {
            out.push(style.delimiter);
        }
        let name = name.as_bytes();
        match style.keeps_types && header_needs_quotes(name, style.delimiter, style.quote) {
            true => write_quoted(name, style, out),
            false => write_csv_text(name, style, out),
        }
    }
    out.push(b'\n');
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
        false => text.is_empty() || ends_a_field(text, style.delimiter, style.quote),
    };
    match needed {
        true => write_quoted(text, style, out),
        false => out.extend_from_slice(text),
    }
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
