//! Rows in the types of the table that they are written to.

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::compute::CastOptions;
use arrow::datatypes::SchemaRef;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::expr::cast_column;
use thalweg_runtime::{Error, Result};

/// The batch with the columns of a schema, by position. Values that do not fit and NULLs where none may be are errors.
pub fn typed_batch(batch: Batch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.columns().len() != schema.fields().len() {
        let (given, wanted) = (batch.columns().len(), schema.fields().len());
        return Err(Error::Internal(format!("{given} columns for a table of {wanted}")));
    }
    let options = CastOptions { safe: false, ..Default::default() };
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (column, field) in batch.columns().iter().zip(schema.fields()) {
        let column = if column.data_type() == field.data_type() {
            column.clone()
        } else {
            cast_column(column, field.data_type(), &options)?
        };
        if !field.is_nullable() && column.logical_null_count() > 0 {
            return Err(Error::user(format!("column \"{}\" must not be NULL", field.name())));
        }
        columns.push(column);
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &rows)?)
}
