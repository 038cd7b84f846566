//! Markdown tables: numbers to the right, a blank line between results. What would end a cell or change how a text looks
//! is written so that the text itself is shown.

use super::cell::{Cells, is_right_aligned};
use super::*;

/// See the module.
pub(super) struct Markdown {
    zone: Option<String>,
    follows: bool,
    text: Vec<u8>,
}

impl Markdown {
    pub(super) fn new(display: &Display) -> Self {
        Markdown { zone: display.zone.clone(), follows: display.follows, text: Vec::new() }
    }
}

impl ResultFormat for Markdown {
    fn begin(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<()> {
        if self.follows {
            out.push(b'\n');
        }
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
        let cells = Cells::new(batch, self.zone.as_deref())?;
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
    let in_word = |at: Option<usize>| {
        at.and_then(|at| text.get(at)).is_some_and(|b| b.is_ascii_alphanumeric() || *b >= 0x80)
    };
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'|' | b'\\' | b'`' | b'*' | b'~' => out.extend_from_slice(&[b'\\', byte]),
            // Underlines emphasise around words only, and brackets are links only before parentheses.
            b'_' if !(in_word(at.checked_sub(1)) && in_word(Some(at + 1))) => {
                out.extend_from_slice(b"\\_");
            }
            b']' if text.get(at + 1) == Some(&b'(') => out.extend_from_slice(b"\\]"),
            b'\n' => out.extend_from_slice(b"<br>"),
            b'\r' => {}
            byte => out.push(byte),
        }
    }
}
