//! Rows that wait for a tick, so that the changes of a stretch of time are told at once.
//!
//! A stretch begins with its first row and is measured by the clock of the process. Rows are waited for, not results:
//! changes that cancel each other in between are never told. Nothing waits at a barrier or at the end.

use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray};
use arrow_schema::DataType;

use crate::batch::Batch;
use crate::element::RowKind;
use crate::error::Result;
use crate::operators::contract::restore_batches;
use crate::operators::{OperatorContext, StateSnapshot};
use crate::rows::{take_array, take_bytes};

/// Rows that wait for a tick at most; with more the changes are told before.
const WAITING_ROWS_MAX: usize = 1 << 18;

/// See the module.
pub(super) struct Waiting {
    types: Vec<DataType>,
    every_us: u64,
    batches: Vec<Batch>,
    rows: usize,
    tick_ns: Option<u64>,
}

impl Waiting {
    /// No rows yet; `types` are those of their columns, and a tick comes so many microseconds after the first of them.
    pub(super) fn new(types: &[DataType], every_us: u64) -> Self {
        Waiting { types: types.to_vec(), every_us, batches: Vec::new(), rows: 0, tick_ns: None }
    }

    /// Takes a compact batch; whether there are so many rows that they should wait no longer.
    pub(super) fn take(&mut self, batch: Batch, cx: &OperatorContext<'_>) -> bool {
        self.rows += batch.num_rows();
        self.batches.push(batch);
        let now_ns = cx.job.env.monotonic_ns();
        self.tick_ns.get_or_insert(now_ns.saturating_add(self.every_us.saturating_mul(1_000)));
        self.rows > WAITING_ROWS_MAX
    }

    /// Whether the tick has come; if it is still to come, the task is woken then.
    pub(super) fn is_due(&self, cx: &OperatorContext<'_>) -> bool {
        let Some(tick_ns) = self.tick_ns else { return false };
        if cx.job.env.monotonic_ns() >= tick_ns {
            return true;
        }
        cx.job.env.wake_at(tick_ns, cx.waker.clone());
        false
    }

    /// The rows, which wait no longer.
    pub(super) fn release(&mut self) -> Result<Option<Batch>> {
        self.tick_ns = None;
        self.rows = 0;
        let batches = std::mem::take(&mut self.batches);
        match batches.is_empty() {
            true => Ok(None),
            false => crate::batch::concat(&batches).map(Some),
        }
    }

    /// Appends the rows to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let batches: Vec<Batch> = self.batches.iter().map(with_kinds_as_column).collect();
        let types = [self.types.as_slice(), &[DataType::Boolean]].concat();
        let bytes = StateSnapshot::of_batches(&batches, &types)?.bytes;
        out.extend((bytes.len() as u64).to_le_bytes());
        out.extend(bytes);
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        let length = u64::from_le_bytes(take_array(bytes)?) as usize;
        let batches = StateSnapshot { bytes: take_bytes(bytes, length)?.to_vec() };
        self.batches = restore_batches(&batches)?.into_iter().map(with_column_as_kinds).collect();
        self.rows = self.batches.iter().map(Batch::num_rows).sum();
        // What waited is told at the first step.
        self.tick_ns = (!self.batches.is_empty()).then_some(0);
        Ok(())
    }
}

/// A batch with one more column that tells which rows are withdrawn.
fn with_kinds_as_column(batch: &Batch) -> Batch {
    let rows = batch.num_rows();
    let withdrawn: BooleanArray = match batch.kinds() {
        Some(kinds) => kinds.iter().map(|kind| Some(*kind == RowKind::Delete)).collect(),
        None => BooleanArray::from(vec![false; rows]),
    };
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(withdrawn));
    Batch::new(columns, rows)
}

/// What [`with_kinds_as_column`] was made of.
fn with_column_as_kinds(batch: Batch) -> Batch {
    let rows = batch.num_rows();
    let Some((withdrawn, columns)) = batch.columns().split_last() else { return batch };
    let withdrawn = withdrawn.as_boolean();
    let kind = |row| match withdrawn.value(row) {
        true => RowKind::Delete,
        false => RowKind::Insert,
    };
    Batch::new(columns.to_vec(), rows).with_kinds((0..rows).map(kind).collect())
}
