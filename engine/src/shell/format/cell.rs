//! The text of single values, and how columns are shown.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;

use super::zone::in_zone;
use crate::connectors::write::format::Values;
use crate::error::Result;

/// The values of a batch as text.
pub(super) struct Cells {
    columns: Vec<Values>,
}

impl Cells {
    /// Prepares the columns of a batch; points in time are shown in a zone.
    pub(super) fn new(batch: &RecordBatch, zone: Option<&str>) -> Result<Self> {
        let values = |column: &ArrayRef| match zone {
            Some(zone) => Values::new(&in_zone(column, zone)?),
            None => Values::new(column),
        };
        let columns = batch.columns().iter().map(values);
        Ok(Cells { columns: columns.collect::<Result<_, thalweg_runtime::Error>>()? })
    }

    /// The text of a value in place of what `text` held, or `None` when it is NULL.
    pub(super) fn text<'t>(
        &self,
        row: usize,
        column: usize,
        text: &'t mut Vec<u8>,
    ) -> Option<&'t [u8]> {
        let values = &self.columns[column];
        text.clear();
        if values.is_null(row) {
            return None;
        }
        values.write_text(row, text);
        Some(text)
    }
}

/// Whether a column's values are numbers, which stand on the right.
pub(super) fn is_right_aligned(data_type: &DataType) -> bool {
    data_type.is_numeric()
}
