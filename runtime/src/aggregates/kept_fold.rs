//! MIN, MAX, FIRST_VALUE and the like of rows that may be withdrawn: the best value so far, and all rows beside it.
//!
//! The folded value lies in the group's row and takes new rows in as ever. A row that goes makes it stale only if it
//! may be the one that the value came from; the value is then folded anew from the group's rows, once, when it is asked
//! for. Invariant: a value that is not stale is that of the rows kept.

use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::filter;
use arrow::datatypes::DataType;

use super::arguments::take_all;
use super::groups::{Groups, nulls_of};
use super::multiset::{Keep, Multiset};
use super::same::same_values;
use super::state::{AggregateState, Output, Restored, cannot_merge};
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// Rows folded at a time.
const REPLAY_ROWS: usize = 32 << 10;

/// How a fold is to be kept up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoldUpkeep {
    /// Whether the result is the first column of one of the rows, so that only such a row's going matters.
    pub(crate) picks_row: bool,
    /// Whether rows whose first column is NULL count for nothing.
    pub(crate) ignores_nulls: bool,
    /// Whether the result depends on the order of arrival.
    pub(crate) in_order: bool,
    /// Whether rows may be taken out that never came.
    pub(crate) lenient: bool,
}

/// A fold and the rows it came from.
pub(crate) struct KeptFold {
    inner: Box<dyn AggregateState>,
    upkeep: FoldUpkeep,
    rows: Multiset,
    value: DataType,
    /// Offset and size of the fold's slots that are no byte strings.
    plain_slots: Vec<(usize, usize)>,
    stale_at: usize,
    positions: Vec<u32>,
}

impl KeptFold {
    /// Keeps rows of columns of the given types for `inner`, which keeps all it knows in its slots.
    ///
    /// # Errors
    /// `Unsupported` for types whose values cannot be found again.
    pub(crate) fn new(
        inner: Box<dyn AggregateState>,
        upkeep: FoldUpkeep,
        types: &[DataType],
        reservation: &Reservation,
    ) -> Result<Self> {
        let keep = if upkeep.in_order { Keep::Occurrences } else { Keep::Rows };
        Ok(KeptFold {
            inner,
            upkeep,
            rows: Multiset::new(types, keep, upkeep.lenient, reservation)?,
            value: types[0].clone(),
            plain_slots: Vec::new(),
            stale_at: 0,
            positions: Vec::new(),
        })
    }

    /// The rows that count.
    fn relevant(
        &self,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<(Vec<ArrayRef>, Vec<RowId>)> {
        let nulls = if self.upkeep.ignores_nulls { nulls_of(&args[0]) } else { None };
        let Some(nulls) = nulls else { return Ok((args.to_vec(), groups.to_ids())) };
        let mask = BooleanArray::new(nulls.inner().clone(), None);
        let args = args.iter().map(|arg| Ok(filter(arg, &mask)?)).collect::<Result<_>>()?;
        Ok((args, nulls.valid_indices().map(|row| groups.id(row)).collect()))
    }

    /// Marks the groups whose values may have come from rows that are gone: of `args`, those at `positions`.
    fn mark_stale(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        ids: &[RowId],
    ) -> Result<()> {
        let all = self.upkeep.in_order;
        let gone: Vec<u32> =
            if all { (0..ids.len() as u32).collect() } else { self.positions.clone() };
        let mut groups: Vec<RowId> = gone.iter().map(|&row| ids[row as usize]).collect();
        if self.upkeep.picks_row && !gone.is_empty() {
            let values = take_all(&args[..1], &UInt32Array::from(gone))?;
            let folded = self.inner.finalize(states, Output::Only, &groups, &self.value)?;
            let same = same_values(&folded, &values[0])?;
            let mut row = 0;
            groups.retain(|_| {
                row += 1;
                same.value(row - 1)
            });
        }
        groups.iter().for_each(|&group| states.write(group, self.stale_at, 1_u8));
        Ok(())
    }

    /// Folds the values of stale groups anew.
    fn refresh(&mut self, states: &mut StatesMut<'_>, ids: &[RowId]) -> Result<()> {
        let is_stale = |id: &RowId| states.read::<u8>(*id, self.stale_at) != 0;
        let stale: Vec<RowId> = ids.iter().copied().filter(is_stale).collect();
        if stale.is_empty() {
            return Ok(());
        }
        for &id in &stale {
            // Byte strings stay, so that the next one takes their place.
            for &(offset, size) in &self.plain_slots {
                states.slice_mut(id, offset, size).fill(0);
            }
            states.write(id, self.stale_at, 0_u8);
        }
        let entries = self.rows.entries_of(&stale, !self.upkeep.in_order);
        for (ids, numbers) in
            entries.ids.chunks(REPLAY_ROWS).zip(entries.groups.chunks(REPLAY_ROWS))
        {
            let groups: Vec<RowId> = numbers.iter().map(|&number| stale[number as usize]).collect();
            let columns = self.rows.gather(ids)?;
            self.inner.update(states, &columns, Groups::Many(&groups))?;
        }
        Ok(())
    }
}

impl AggregateState for KeptFold {
    fn slots(&self) -> Vec<StateSlot> {
        let mut slots = self.inner.slots();
        slots.push(StateSlot::new(1, 1));
        slots
    }

    fn bind(&mut self, own: &[usize], incoming: &[usize]) {
        let slots = self.inner.slots();
        let inner = slots.len();
        self.inner.bind(&own[..inner], &incoming[..inner]);
        let plain = slots.iter().zip(own).filter(|(slot, _)| !slot.bytes);
        self.plain_slots = plain.map(|(slot, &offset)| (offset, slot.size)).collect();
        self.stale_at = own[inner];
    }

    fn carried(&self) -> Vec<DataType> {
        vec![self.rows.list_type().clone()]
    }

    fn reserve(&mut self, groups: usize) {
        self.rows.reserve(groups);
    }

    fn update(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        let (args, ids) = self.relevant(args, groups)?;
        if ids.is_empty() {
            return Ok(());
        }
        self.inner.update(states, &args, Groups::Many(&ids))?;
        self.rows.insert(&ids, &args, None, &mut self.positions)
    }

    fn retract(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        let (args, ids) = self.relevant(args, groups)?;
        self.rows.remove(&ids, &args, &mut self.positions)?;
        self.mark_stale(states, &args, &ids)
    }

    fn merge(&mut self, _: &mut StatesMut<'_>, _: &PageStates<'_>, _: &[RowId]) -> Result<()> {
        Err(cannot_merge())
    }

    fn merge_carried(&mut self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: &[RowId]) -> Result<()> {
        Err(cannot_merge())
    }

    fn restore_carried(&mut self, columns: &[ArrayRef], groups: &[RowId]) -> Result<Restored> {
        self.rows.insert_lists(&columns[0], groups)?;
        Ok(Restored::Done)
    }

    fn carry(&mut self, ids: Range<RowId>) -> Result<Vec<ArrayRef>> {
        self.rows.reserve(ids.end as usize);
        Ok(vec![self.rows.lists(ids)?])
    }

    fn finalize(
        &mut self,
        states: &mut StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        _result: &DataType,
    ) -> Result<ArrayRef> {
        self.refresh(states, ids)?;
        let value = self.value.clone();
        self.inner.finalize(states, output, ids, &value)
    }

    fn finish(&mut self) {}

    fn clear(&mut self) -> Result<()> {
        self.rows.clear();
        self.inner.clear()
    }

    fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes() + self.inner.memory_bytes()
    }

    fn reserved_bytes(&self) -> usize {
        self.rows.reserved_bytes()
    }
}
