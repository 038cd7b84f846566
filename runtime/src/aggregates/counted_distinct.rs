//! DISTINCT over rows that may be withdrawn: a combination of arguments reaches the aggregate when its first row comes,
//! and leaves it when its last row goes.
//!
//! Invariant: the inner aggregate, which can forget, has exactly the combinations that have rows.

use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::DataType;

use super::arguments::take_all;
use super::groups::Groups;
use super::multiset::{Keep, Multiset};
use super::state::{AggregateState, Output, Restored, cannot_merge};
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// An aggregate over distinct arguments.
pub(crate) struct CountedDistinct {
    inner: Box<dyn AggregateState>,
    rows: Multiset,
    positions: Vec<u32>,
}

impl CountedDistinct {
    /// Hands the distinct combinations of arguments of the given types on to `inner`; if it is `lenient`, rows may be taken
    /// out that never came.
    ///
    /// # Errors
    /// `Unsupported` for types whose values cannot be found again.
    pub(crate) fn new(
        inner: Box<dyn AggregateState>,
        arg_types: &[DataType],
        lenient: bool,
        reservation: &Reservation,
    ) -> Result<Self> {
        let rows = Multiset::new(arg_types, Keep::Counts, lenient, reservation)?;
        Ok(CountedDistinct { inner, rows, positions: Vec::new() })
    }

    /// The rows at `positions`.
    fn changed(&self, args: &[ArrayRef], ids: &[RowId]) -> Result<(Vec<ArrayRef>, Vec<RowId>)> {
        let ids = self.positions.iter().map(|&row| ids[row as usize]).collect();
        Ok((take_all(args, &UInt32Array::from(self.positions.clone()))?, ids))
    }
}

impl AggregateState for CountedDistinct {
    fn slots(&self) -> Vec<StateSlot> {
        self.inner.slots()
    }

    fn bind(&mut self, own: &[usize], incoming: &[usize]) {
        self.inner.bind(own, incoming);
    }

    fn carried(&self) -> Vec<DataType> {
        vec![self.rows.list_type().clone()]
    }

    fn reserve(&mut self, groups: usize) {
        self.inner.reserve(groups);
    }

    fn update(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        let ids = groups.to_ids();
        self.rows.insert(&ids, args, None, &mut self.positions)?;
        if self.positions.is_empty() {
            return Ok(());
        }
        let (args, ids) = self.changed(args, &ids)?;
        self.inner.update(states, &args, Groups::Many(&ids))
    }

    fn retract(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        let ids = groups.to_ids();
        self.rows.remove(&ids, args, &mut self.positions)?;
        if self.positions.is_empty() {
            return Ok(());
        }
        let (args, ids) = self.changed(args, &ids)?;
        self.inner.retract(states, &args, Groups::Many(&ids))
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
        Ok(vec![self.rows.lists(ids)?])
    }

    fn finalize(
        &mut self,
        states: &mut StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        self.inner.finalize(states, output, ids, result)
    }

    fn finish(&mut self) {
        self.inner.finish();
    }

    fn clear(&mut self) -> Result<()> {
        self.rows.clear();
        self.inner.clear()
    }

    fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes() + self.inner.memory_bytes()
    }

    fn reserved_bytes(&self) -> usize {
        self.rows.reserved_bytes() + self.inner.reserved_bytes()
    }
}
