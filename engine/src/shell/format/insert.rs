//! INSERT statements, one a row, with literals that our own parser reads back as the same values.

use arrow::datatypes::DataType;

use super::cell::Cells;
use super::*;

/// See the module.
pub(super) struct Insert {
    table: String,
    head: String,
    text: String,
}

impl Insert {
    pub(super) fn new(table: &str) -> Self {
        Insert { table: quoted_name(table), head: String::new(), text: String::new() }
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
                self.text.clear();
                let valid = cells.append(row, column, &mut self.text)?;
                literal(field.data_type(), valid.then_some(self.text.as_str()), out);
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
fn literal(data_type: &DataType, text: Option<&str>, out: &mut Vec<u8>) {
    let Some(text) = text else { return out.extend_from_slice(b"NULL") };
    let prefix = match data_type {
        DataType::Null => return out.extend_from_slice(b"NULL"),
        DataType::Boolean => return out.extend_from_slice(text.as_bytes()),
        number if number.is_numeric() && text.bytes().any(|b| b.is_ascii_digit()) => {
            return out.extend_from_slice(text.as_bytes());
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            out.extend_from_slice(b"X'");
            out.extend_from_slice(text.trim_start_matches("\\x").as_bytes());
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
fn special_number(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"CAST(");
    quoted(text, out);
    out.extend_from_slice(b" AS DOUBLE)");
}

fn quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'\'');
    out.extend_from_slice(text.replace('\'', "''").as_bytes());
    out.push(b'\'');
}

/// A name in double quotes, so that it may be any.
fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
