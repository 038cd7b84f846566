//! The functions of a window over rows that are all at hand.
//!
//! Invariant: the rows of a partition stand together, in the window's order; every partition is whole.

use arrow::array::ArrayRef;
use arrow_schema::SortOptions;

use super::WindowSpec;
use super::function::CompiledFunctions;
use super::pieces::{Chunk, LastRow, Piece};
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::positional_schema;
use crate::job::JobContext;
use crate::operators::sort_key_spec::{SortKeyColumns, SortKeySpec};

/// A window, compiled.
pub(crate) struct WindowOverRows {
    partition_by: SortKeyColumns,
    order_by: SortKeyColumns,
    functions: CompiledFunctions,
}

impl WindowOverRows {
    /// Compiles keys and functions.
    pub(crate) fn new(spec: &WindowSpec, job: &JobContext) -> Result<Self> {
        let schema = positional_schema(&spec.input);
        let partition_by: Vec<SortKeySpec> =
            spec.partition_by.iter().cloned().map(SortKeySpec::ascending).collect();
        let direction = spec.order_by.first().map_or(SortOptions::default(), SortKeySpec::options);
        Ok(WindowOverRows {
            partition_by: SortKeyColumns::new(&partition_by, &schema, &job.functions)?,
            order_by: SortKeyColumns::new(&spec.order_by, &schema, &job.functions)?,
            functions: CompiledFunctions::new(&spec.functions, direction, &schema, &job.functions)?,
        })
    }

    /// What orders the rows of a partition.
    pub(crate) fn order_by(&self) -> &SortKeyColumns {
        &self.order_by
    }

    /// One column for each function over a compact batch.
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Vec<ArrayRef>> {
        let partition_keys = self.partition_by.evaluate(batch)?;
        let order_keys = self.order_by.evaluate(batch)?;
        let columns = self.functions.evaluate_inputs(batch, order_keys.first())?;
        let mut last = LastRow::default();
        let piece = Piece::new(batch.clone(), columns, partition_keys, order_keys, &mut last)?;
        self.functions.evaluate(&Chunk::new(std::slice::from_ref(&piece))?)
    }
}
