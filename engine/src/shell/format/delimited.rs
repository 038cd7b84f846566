//! Comma- and tab-separated values.

use super::cell::Cells;
use super::*;

/// See the module.
pub(super) struct Delimited {
    delimiter: u8,
    text: String,
}

impl Delimited {
    pub(super) fn new(delimiter: u8) -> Self {
        Delimited { delimiter, text: String::new() }
    }

    fn quote(&self, text: &str, out: &mut Vec<u8>) {
        let special = |b: u8| b == self.delimiter || matches!(b, b'"' | b'\n' | b'\r');
        if text.is_empty() || text.bytes().any(special) {
            out.push(b'"');
            out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
            out.push(b'"');
        } else {
            out.extend_from_slice(text.as_bytes());
        }
    }
}

impl ResultFormat for Delimited {
    fn begin(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<()> {
        for (column, field) in schema.fields().iter().enumerate() {
            if column > 0 {
                out.push(self.delimiter);
            }
            self.quote(field.name(), out);
        }
        out.push(b'\n');
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let cells = Cells::new(batch)?;
        for row in 0..batch.num_rows() {
            for column in 0..batch.num_columns() {
                if column > 0 {
                    out.push(self.delimiter);
                }
                let mut text = std::mem::take(&mut self.text);
                text.clear();
                if cells.append(row, column, &mut text)? {
                    self.quote(&text, out);
                }
                self.text = text;
            }
            out.push(b'\n');
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
