//! The lines of a text, without borders: plans, whose lines may be long.

use super::cell::Cells;
use super::*;

/// See the module. It prints the first column.
pub(super) struct Lines;

impl ResultFormat for Lines {
    fn begin(&mut self, _schema: &SchemaRef, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let cells = Cells::new(batch, None)?;
        let mut text = Vec::new();
        for row in 0..batch.num_rows() {
            out.extend_from_slice(cells.text(row, 0, &mut text).unwrap_or_default());
            out.push(b'\n');
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
