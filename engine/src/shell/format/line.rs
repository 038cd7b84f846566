//! One `name = value` a line, names right-aligned; rows, also of different results, are separated by a blank line.

use unicode_width::UnicodeWidthStr;

use super::cell::Cells;
use super::*;

/// See the module.
pub(super) struct Line {
    names: Vec<String>,
    zone: Option<String>,
    begun: bool,
    text: Vec<u8>,
}

impl Line {
    pub(super) fn new(display: &Display) -> Self {
        let zone = display.zone.clone();
        Line { names: Vec::new(), zone, begun: display.follows, text: Vec::new() }
    }
}

impl ResultFormat for Line {
    fn begin(&mut self, schema: &SchemaRef, _out: &mut Vec<u8>) -> Result<()> {
        let widest = schema.fields().iter().map(|f| f.name().width()).max().unwrap_or(0);
        let padded = |name: &str| format!("{}{name} = ", " ".repeat(widest - name.width()));
        self.names = schema.fields().iter().map(|f| padded(f.name())).collect();
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let cells = Cells::new(batch, self.zone.as_deref())?;
        for row in 0..batch.num_rows() {
            if self.begun {
                out.push(b'\n');
            }
            self.begun = true;
            for (column, name) in self.names.iter().enumerate() {
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(cells.text(row, column, &mut self.text).unwrap_or(b"NULL"));
                out.push(b'\n');
            }
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
