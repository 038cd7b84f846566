//! The text of single values, and how columns are shown.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;

use crate::connectors::write::format::Values;
use crate::error::Result;

/// The values of a batch as text.
pub(super) struct Cells {
    columns: Vec<Values>,
}

impl Cells {
    /// Prepares the columns of a batch.
    pub(super) fn new(batch: &RecordBatch) -> Result<Self> {
        let columns = batch
            .columns()
            .iter()
            .map(Values::new)
            .collect::<Result<_, thalweg_runtime::Error>>()?;
        Ok(Cells { columns })
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
