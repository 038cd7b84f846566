//! Comma- and tab-separated values, as files have them.

use super::*;
use crate::connectors::write::format::{CsvStyle, write_csv_header, write_csv_rows};

/// See the module.
pub(super) struct Delimited {
    style: CsvStyle,
}

impl Delimited {
    pub(super) fn new(delimiter: u8) -> Self {
        Delimited { style: CsvStyle { delimiter, ..CsvStyle::default() } }
    }
}

impl ResultFormat for Delimited {
    fn begin(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<()> {
        write_csv_header(
            schema.fields().iter().map(|field| field.name().as_str()),
            self.style,
            out,
        );
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        Ok(write_csv_rows(batch.columns(), batch.num_rows(), self.style, out)?)
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
