//! The text of single values, and how columns are shown.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::error::Result;

/// The values of a batch as text.
pub(super) struct Cells<'a> {
    batch: &'a RecordBatch,
    columns: Vec<ArrayFormatter<'a>>,
}

impl<'a> Cells<'a> {
    /// Prepares the columns of a batch.
    pub(super) fn new(batch: &'a RecordBatch) -> Result<Self> {
        let options = FormatOptions::new();
        let columns = batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options));
        let columns = columns.collect::<Result<_, arrow::error::ArrowError>>()?;
        Ok(Cells { batch, columns })
    }

    /// Appends the text of a value; false, and nothing appended, when it is NULL.
    pub(super) fn append(&self, row: usize, column: usize, out: &mut String) -> Result<bool> {
        if self.batch.column(column).is_null(row) {
            return Ok(false);
        }
        self.columns[column].value(row).write(out).map_err(|_| crate::Error::internal("a value has no text"))?;
        Ok(true)
    }
}

/// Whether a column's values are numbers, which stand on the right.
pub(super) fn is_right_aligned(data_type: &DataType) -> bool {
    data_type.is_numeric()
}
