//! An HTML table; a NULL is an empty cell of the class `null`, so that it differs from an empty string.

use super::cell::Cells;
use super::*;

/// See the module.
pub(super) struct Html {
    zone: Option<String>,
    text: Vec<u8>,
}

impl Html {
    pub(super) fn new(display: &Display) -> Self {
        Html { zone: display.zone.clone(), text: Vec::new() }
    }
}

impl ResultFormat for Html {
    fn begin(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"<table>\n<tr>");
        for field in schema.fields() {
            out.extend_from_slice(b"<th>");
            escape(field.name().as_bytes(), out);
            out.extend_from_slice(b"</th>");
        }
        out.extend_from_slice(b"</tr>\n");
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let cells = Cells::new(batch, self.zone.as_deref())?;
        for row in 0..batch.num_rows() {
            out.extend_from_slice(b"<tr>");
            for column in 0..batch.num_columns() {
                match cells.text(row, column, &mut self.text) {
                    Some(text) => {
                        out.extend_from_slice(b"<td>");
                        escape(text, out);
                    }
                    None => out.extend_from_slice(b"<td class=\"null\">"),
                }
                out.extend_from_slice(b"</td>");
            }
            out.extend_from_slice(b"</tr>\n");
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"</table>\n");
        Ok(())
    }
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            byte => out.push(byte),
        }
    }
}
