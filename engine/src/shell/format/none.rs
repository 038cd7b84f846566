//! The format that prints nothing; the shell still reads every batch.

use super::*;

/// See the module.
pub(super) struct Nothing;

impl ResultFormat for Nothing {
    fn begin(&mut self, _schema: &SchemaRef, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn batch(&mut self, _batch: &RecordBatch, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
