//! First rows: of each partition only those are kept that come out, as nothing is ever withdrawn.
//!
//! The rows of a partition form a chain in the window's order, beside each row its order key. A row that does not stand
//! before the last one of a full partition is dropped at once, most of them by one comparison of numbers. Invariant: a
//! partition has as many rows as are wanted, or all that came; of rows with equal keys those that came first.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::compute::cast;
use arrow_schema::DataType;

use super::ChangelogWindowSpec;
use super::chains::{Chains, Place};
use super::closing::Closing;
use crate::batch::Batch;
use crate::element::RowKind;
use crate::error::{Error, Result};
use crate::expr::{CompiledExpr, compile_all, positional_schema};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::sort_key_spec::SortKeyColumns;
use crate::operators::untouched::Untouched;
use crate::rows::{RowId, Selected, SortKeyEncoder, SortKeys, unpack, unpacked_type};

/// The first rows of all partitions.
pub(super) struct FirstRows {
    keys: Vec<CompiledExpr>,
    order_by: SortKeyColumns,
    encoder: Option<SortKeyEncoder>,
    /// Types of the row numbers that come out.
    numbers: Vec<DataType>,
    wanted: usize,
    batch_rows: usize,

    chains: Chains,
    /// The holder of the chains.
    reservation: Reservation,
    /// Rows to be emitted: those that leave, then those that come.
    listed: Vec<Place>,
    withdrawn: usize,
    next: usize,
    partitions: Vec<RowId>,
    new: Vec<u32>,
}

impl FirstRows {
    /// Compiles the window.
    pub(super) fn new(spec: &ChangelogWindowSpec, job: &JobContext) -> Result<Self> {
        let window = &spec.window;
        let schema = positional_schema(&window.input);
        let keys = compile_all(&window.partition_by, &schema, &job.functions)?;
        let order_by = SortKeyColumns::new(&window.order_by, &schema, &job.functions)?;
        let encoder = order_by.encoder(0)?;
        let types: Vec<DataType> = window.input.iter().map(unpacked_type).collect();
        let key_types: Vec<DataType> = keys.iter().map(|k| unpacked_type(k.data_type())).collect();
        let prefix_decides = encoder.as_ref().is_none_or(SortKeyEncoder::prefix_decides);
        let wanted = spec.rows_kept();
        let reservation = job.memory.reserve("ChangelogWindow");
        Ok(FirstRows {
            keys,
            order_by,
            encoder,
            numbers: window.functions.iter().map(|f| f.result.clone()).collect(),
            wanted,
            batch_rows: job.options.batch_rows.max(1),
            chains: Chains::new(&types, &key_types, (wanted, prefix_decides), &reservation)?,
            reservation,
            listed: Vec::new(),
            withdrawn: 0,
            next: 0,
            partitions: Vec::new(),
            new: Vec::new(),
        })
    }

    /// Rows of all partitions, and bytes of all that is kept.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.chains.len(), self.reservation.total())
    }

    /// Takes a compact batch in; what it changes is to be fetched.
    pub(super) fn apply(&mut self, batch: &Batch, untouched: Option<&mut Untouched>) -> Result<()> {
        let inserts = |kinds: &[RowKind]| kinds.iter().all(|&kind| kind == RowKind::Insert);
        if !batch.kinds().is_none_or(inserts) {
            let message = "ChangelogWindow: a row of an input without withdrawals was withdrawn";
            return Err(Error::Internal(message.into()));
        }
        self.listed.clear();
        (self.withdrawn, self.next) = (0, 0);
        if batch.num_rows() == 0 || self.wanted == 0 {
            return Ok(());
        }
        let keys = self
            .keys
            .iter()
            .map(|key| unpack(&key.evaluate(batch)?))
            .collect::<Result<Vec<ArrayRef>>>()?;
        let rows = batch.num_rows();
        self.chains.find(&keys, rows, &mut self.partitions, &mut self.new)?;
        if let Some(untouched) = untouched {
            untouched.touch(self.partitions.iter().copied())?;
        }
        let order = match &self.encoder {
            Some(encoder) => Some(encoder.encode(&self.order_by.evaluate(batch)?)?),
            None => None,
        };
        let candidates = self.candidates(order.as_ref(), rows);
        if candidates.is_empty() {
            return Ok(());
        }
        let columns = batch.columns().iter().map(unpack).collect::<Result<Vec<_>>>()?;
        let ids = self.chains.append(&columns, Selected::Rows(&candidates))?;
        for (&row, id) in candidates.iter().zip(ids) {
            let key = order.as_ref().map_or(&[][..], |order| order.key(row as usize));
            self.chains.insert(self.partitions[row as usize], id, key)?;
        }
        let numbered = !self.numbers.is_empty();
        self.withdrawn = self.chains.take_changes(numbered, &mut self.listed);
        Ok(())
    }

    /// The rows that stand before the last one of their partition, or whose partition is not full.
    fn candidates(&mut self, order: Option<&SortKeys>, rows: usize) -> Vec<u32> {
        let chains = &self.chains;
        let mut candidates: Vec<u32> = match order {
            Some(order) => (0..rows as u32)
                .filter(|&row| {
                    let (partition, row) = (self.partitions[row as usize], row as usize);
                    chains.may_enter(partition, order.prefix(row), order.key(row))
                })
                .collect(),
            None => (0..rows as u32)
                .filter(|&row| !chains.is_full(self.partitions[row as usize]))
                .collect(),
        };
        if self.wanted == 1 {
            let compare = |a: u32, b: u32| match order {
                Some(order) => {
                    let (a, b) = (a as usize, b as usize);
                    order
                        .prefix(a)
                        .cmp(&order.prefix(b))
                        .then_with(|| order.key(a).cmp(order.key(b)))
                }
                None => Ordering::Equal,
            };
            self.chains.keep_best(&self.partitions, compare, &mut candidates);
        }
        candidates
    }

    /// The next rows that come out.
    pub(super) fn next_output(&mut self) -> Result<Option<Batch>> {
        let end = self.listed.len().min(self.next + self.batch_rows);
        let places = &self.listed[self.next..end];
        if places.is_empty() {
            if !self.listed.is_empty() {
                self.listed.clear();
                (self.withdrawn, self.next) = (0, 0);
                self.chains.compact()?;
            }
            return Ok(None);
        }
        let ids: Vec<RowId> = places.iter().map(|place| place.id).collect();
        let mut columns = self.chains.gather(&ids)?;
        let numbers = UInt64Array::from_iter_values(places.iter().map(|p| u64::from(p.number)));
        let numbers: ArrayRef = Arc::new(numbers);
        for data_type in &self.numbers {
            columns.push(cast(&numbers, data_type)?);
        }
        let deleted = self.withdrawn.saturating_sub(self.next).min(ids.len());
        self.next = end;
        let batch = Batch::new(columns, ids.len());
        if deleted == 0 {
            return Ok(Some(batch));
        }
        let kind = |i: usize| if i < deleted { RowKind::Delete } else { RowKind::Insert };
        Ok(Some(batch.with_kinds((0..ids.len()).map(kind).collect())))
    }

    /// Forgets the partitions that nothing has touched for long enough.
    pub(super) fn forget_untouched(&mut self, untouched: &mut Untouched) -> Result<()> {
        self.forget(|partition| !untouched.is_old(partition)).map(|kept| {
            if let Some(kept) = kept {
                untouched.renumber(|old| kept.binary_search(&old).ok().map(|new| new as RowId));
            }
        })
    }

    /// Forgets the partitions that are closed, from time to time.
    pub(super) fn forget_closed(
        &mut self,
        closing: &mut Closing,
        untouched: Option<&mut Untouched>,
    ) -> Result<()> {
        if !closing.search.is_due(self.chains.len() + self.chains.partitions()) {
            return Ok(());
        }
        let closed = closing.are_closed(&self.chains.partition_key(closing.key())?)?;
        let kept = self.forget(|partition| !closed[partition as usize])?;
        closing.search.note(self.chains.len() + self.chains.partitions());
        if let (Some(untouched), Some(kept)) = (untouched, kept) {
            untouched.renumber(|old| kept.binary_search(&old).ok().map(|new| new as RowId));
        }
        Ok(())
    }

    /// Keeps some partitions alone; gives them in order if any was forgotten.
    fn forget(&mut self, stays: impl Fn(RowId) -> bool) -> Result<Option<Vec<RowId>>> {
        let partitions = self.chains.partitions() as RowId;
        let kept: Vec<RowId> = (0..partitions).filter(|&partition| stays(partition)).collect();
        if kept.len() == partitions as usize {
            return Ok(None);
        }
        self.chains.keep_only(&kept)?;
        Ok(Some(kept))
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        self.chains.write_to(out);
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.chains.read_from(bytes)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.chains.clear();
        self.listed.clear();
    }
}
