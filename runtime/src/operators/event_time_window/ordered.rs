//! Complete rows in the window's order, and what its functions say of them.

use super::held::rows_of;
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::positional_schema;
use crate::job::JobContext;
use crate::operators::sort_key_spec::{SortKeyColumns, SortKeySpec};
use crate::operators::window::{WindowOverRows, WindowSpec};
use crate::rows::SortKeyEncoder;

/// A window, compiled.
pub(super) struct OrderedWindow {
    keys: SortKeyColumns,
    encoder: Option<SortKeyEncoder>,
    functions: Option<WindowOverRows>,
}

impl OrderedWindow {
    /// Compiles keys and functions.
    pub(super) fn new(window: &WindowSpec, job: &JobContext) -> Result<Self> {
        let partition_by = window.partition_by.iter().cloned().map(SortKeySpec::ascending);
        let keys: Vec<SortKeySpec> = partition_by.chain(window.order_by.iter().cloned()).collect();
        let schema = positional_schema(&window.input);
        let keys = SortKeyColumns::new(&keys, &schema, &job.functions)?;
        let functions = (!window.functions.is_empty()).then(|| WindowOverRows::new(window, job));
        Ok(OrderedWindow { encoder: keys.encoder(0)?, keys, functions: functions.transpose()? })
    }

    /// The rows of a compact batch by partition and then in the window's order; else as they stand.
    pub(super) fn sort(&self, batch: Batch) -> Result<Batch> {
        let Some(encoder) = &self.encoder else { return Ok(batch) };
        let order = encoder.encode(&self.keys.evaluate(&batch)?)?.sorted();
        match order.is_sorted() {
            true => Ok(batch),
            false => rows_of(&batch, order),
        }
    }

    /// The rows with one more column for each function; the rows of a partition stand together, in order.
    pub(super) fn evaluate(&self, batch: Batch) -> Result<Batch> {
        let Some(functions) = &self.functions else { return Ok(batch) };
        let mut columns = batch.columns().to_vec();
        columns.extend(functions.evaluate(&batch)?);
        Ok(Batch::new(columns, batch.num_rows()))
    }
}
