//! The changes of a result as rows: a column `op` before the others says what becomes of each.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_optimizer::PhysicalPlan;
use thalweg_runtime::Batch;

use crate::connectors::row_ops;
use crate::error::Result;

/// The name of the column that says what becomes of a row.
pub(crate) const OP: &str = "op";

/// The columns of a result with their changes.
pub(super) fn schema(rows: &Schema) -> SchemaRef {
    let op = Arc::new(Field::new(OP, DataType::Utf8, false));
    let fields = std::iter::once(op).chain(rows.fields().iter().cloned());
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// How the changes of a plan's result are told.
pub(crate) struct Changes {
    /// The positions of columns that tell its rows apart, if there are any.
    key: Option<Vec<usize>>,
}

impl Changes {
    /// Of a plan whose result changes.
    pub(crate) fn of(plan: &PhysicalPlan) -> Self {
        Changes { key: plan.key.clone() }
    }

    /// A batch of changes as rows of `schema`, which [`schema`] made.
    pub(crate) fn record_batch(&self, batch: Batch, schema: &SchemaRef) -> Result<RecordBatch> {
        let batch = batch.compact()?;
        let ops: ArrayRef = Arc::new(StringArray::from(row_ops(&batch, self.key.as_deref())?));
        let columns = std::iter::once(ops).chain(batch.columns().iter().cloned()).collect();
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    }
}
