//! Markdown tables: numbers to the right; `|` and line breaks are written so that a row stays a row.

use super::cell::{Cells, is_right_aligned};
use super::*;

/// See the module.
#[derive(Default)]
pub(super) struct Markdown {
    text: Vec<u8>,
}

impl ResultFormat for Markdown {
    fn begin(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<()> {
        for field in schema.fields() {
            out.extend_from_slice(b"| ");
            escape(field.name().as_bytes(), out);
            out.push(b' ');
        }
        out.extend_from_slice(b"|\n");
        for field in schema.fields() {
            out.extend_from_slice(if is_right_aligned(field.data_type()) {
                b"|---:"
            } else {
                b"|---"
            });
        }
        out.extend_from_slice(b"|\n");
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let cells = Cells::new(batch)?;
        for row in 0..batch.num_rows() {
            for column in 0..batch.num_columns() {
                out.extend_from_slice(b"| ");
                match cells.text(row, column, &mut self.text) {
                    Some(text) => escape(text, out),
                    None => out.extend_from_slice(b"NULL"),
                }
                out.push(b' ');
            }
            out.extend_from_slice(b"|\n");
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'|' => out.extend_from_slice(b"\\|"),
            b'\n' => out.extend_from_slice(b"<br>"),
            b'\r' => {}
            byte => out.push(byte),
        }
    }
}
