//! Complete rows in the window's order, and what its functions say of them.

use arrow::compute::partition;
use arrow_schema::DataType;

use super::held::{compact_rows, rows_of};
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::positional_schema;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::sort_key_spec::{SortKeyColumns, SortKeySpec};
use crate::operators::window::{Carried, Progress, WindowOverRows, WindowSpec};
use crate::rows::SortKeyEncoder;

/// A window, compiled.
pub(super) struct OrderedWindow {
    keys: SortKeyColumns,
    /// How many of the keys are those of partitions.
    partition_keys: usize,
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
        Ok(OrderedWindow {
            partition_keys: window.partition_by.len(),
            encoder: keys.encoder(0)?,
            keys,
            functions: functions.transpose()?,
        })
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

    /// The first rows of each partition of a compact batch, so many of each, by partition and in the window's order.
    pub(super) fn first_rows(&self, batch: Batch, most: usize) -> Result<Batch> {
        let sorted = self.sort(batch)?;
        let keys = self.keys.evaluate(&sorted)?;
        let rows = sorted.num_rows();
        let starts: Vec<usize> = match &keys[..self.partition_keys] {
            [] => vec![0],
            keys => partition(keys)?.ranges().iter().map(|range| range.start).collect(),
        };
        let ends = starts.iter().skip(1).copied().chain([rows]);
        let first = starts
            .iter()
            .zip(ends)
            .flat_map(|(&start, end)| start as u32..end.min(start.saturating_add(most)) as u32);
        compact_rows(&sorted, first.collect())
    }

    /// What the functions know of rows that are forgotten, where there is such.
    pub(super) fn carried(
        &self,
        key_types: &[DataType],
        reservation: &Reservation,
    ) -> Result<Option<Carried>> {
        self.functions.as_ref().map_or(Ok(None), |f| f.carried(key_types, reservation))
    }

    /// The same as [`Self::evaluate`], of partitions that had other rows before.
    pub(super) fn evaluate_carried(
        &self,
        batch: Batch,
        carried: &mut Carried,
        progress: &[Progress],
    ) -> Result<Batch> {
        let Some(functions) = &self.functions else { return Ok(batch) };
        let mut columns = batch.columns().to_vec();
        columns.extend(functions.evaluate_carried(&batch, carried, progress)?);
        Ok(Batch::new(columns, batch.num_rows()))
    }

    /// Appends what is carried to a snapshot.
    pub(super) fn write_carried(&self, carried: &mut Carried, out: &mut Vec<u8>) -> Result<()> {
        self.functions.as_ref().map_or(Ok(()), |f| f.write_carried(carried, out))
    }

    /// Takes over what [`Self::write_carried`] wrote.
    pub(super) fn read_carried(&self, carried: &mut Carried, bytes: &mut &[u8]) -> Result<()> {
        self.functions.as_ref().map_or(Ok(()), |f| f.read_carried(carried, bytes))
    }

    /// The rows with one more column for each function; the rows of a partition stand together, in order.
    pub(super) fn evaluate(&self, batch: Batch) -> Result<Batch> {
        let Some(functions) = &self.functions else { return Ok(batch) };
        let mut columns = batch.columns().to_vec();
        columns.extend(functions.evaluate(&batch)?);
        Ok(Batch::new(columns, batch.num_rows()))
    }
}
