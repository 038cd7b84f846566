//! INSERT statements, one a row, with literals that our own parser reads back as the same values.

use arrow::datatypes::DataType;

use super::cell::Cells;
use super::*;

/// See the module.
pub(super) struct Insert {
    table: String,
    head: String,
    text: Vec<u8>,
}

impl Insert {
    pub(super) fn new(table: &str) -> Self {
        Insert { table: quoted_name(table), head: String::new(), text: Vec::new() }
    }
}

impl ResultFormat for Insert {
    fn begin(&mut self, schema: &SchemaRef, _out: &mut Vec<u8>) -> Result<()> {
        let names: Vec<String> = schema.fields().iter().map(|f| quoted_name(f.name())).collect();
        self.head = format!("INSERT INTO {} ({}) VALUES (", self.table, names.join(", "));
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let cells = Cells::new(batch)?;
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            out.extend_from_slice(self.head.as_bytes());
            for (column, field) in schema.fields().iter().enumerate() {
                if column > 0 {
                    out.extend_from_slice(b", ");
                }
                literal(field.data_type(), cells.text(row, column, &mut self.text), out);
            }
            out.extend_from_slice(b");\n");
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

/// A value's text as a literal of its type.
fn literal(data_type: &DataType, text: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(text) = text else { return out.extend_from_slice(b"NULL") };
    let prefix = match data_type {
        DataType::Null => return out.extend_from_slice(b"NULL"),
        DataType::Boolean => return out.extend_from_slice(text),
        number if number.is_numeric() && text.iter().any(u8::is_ascii_digit) => {
            return out.extend_from_slice(text);
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => {
            out.extend_from_slice(b"X'");
            out.extend_from_slice(text.strip_prefix(b"\\x").unwrap_or(text));
            return out.push(b'\'');
        }
        number if number.is_numeric() => return special_number(text, out),
        DataType::Date32 | DataType::Date64 => "DATE ",
        DataType::Time32(_) | DataType::Time64(_) => "TIME ",
        DataType::Timestamp(_, None) => "TIMESTAMP ",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMPTZ ",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL ",
        _ => "",
    };
    out.extend_from_slice(prefix.as_bytes());
    quoted(text, out);
}

/// NaN and the infinities have no literal.
fn special_number(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"CAST(");
    quoted(text, out);
    out.extend_from_slice(b" AS DOUBLE)");
}

fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for &byte in text {
        if byte == b'\'' {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'\'');
}

/// A name in double quotes, so that it may be any.
fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
