//! Rows as delimited text that our own reader reads back exactly.
//!
//! NULL is an empty field and the empty string `""`; a row of one column that is NULL is an empty line. Fields are
//! quoted only where they must be.

use arrow::array::ArrayRef;
use thalweg_runtime::Result;

use super::values::Values;

/// How fields are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvStyle {
    /// Between fields.
    pub delimiter: u8,
    /// Around fields that need it.
    pub quote: u8,
}

impl Default for CsvStyle {
    fn default() -> Self {
        CsvStyle { delimiter: b',', quote: b'"' }
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
        write_csv_text(name.as_bytes(), style, out);
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

/// Writes a field that is not NULL, quoted if it must be.
pub fn write_csv_text(text: &[u8], style: CsvStyle, out: &mut Vec<u8>) {
    let special = |b: &u8| *b == style.delimiter || *b == style.quote || matches!(b, b'\n' | b'\r');
    if !text.is_empty() && !text.iter().any(special) {
        out.extend_from_slice(text);
        return;
    }
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
