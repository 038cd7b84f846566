//! DISTINCT: each combination of arguments reaches the aggregate once a group.
//!
//! The combinations are kept in a hash table over (group, arguments). They travel as one list of structs a group;
//! what the inner aggregate made of them does not, since other partial results may hold the same ones. Invariant:
//! the inner aggregate has seen exactly the combinations of the table.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::{DataType, Fields, UInt32Type};

use super::arguments::take_all;
use super::groups::Groups;
use super::kept_rows::{GroupedRows, SortedRows, flatten, list_type};
use super::state::{AggregateState, Output, Restored, cannot_retract};
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::{PageStates, RowId, Selected, StateSlot, StatesMut};
use crate::state::KeyedState;

/// An aggregate over distinct arguments.
pub(crate) struct Distinct {
    inner: Box<dyn AggregateState>,
    seen: KeyedState,
    list: DataType,
    fields: Fields,
    total: usize,
    sorted: Option<SortedRows>,
    slots: Vec<RowId>,
    new: Vec<u32>,
}

impl Distinct {
    /// Hands the distinct combinations of arguments of the given types on to `inner`.
    pub(crate) fn new(
        inner: Box<dyn AggregateState>,
        arg_types: &[DataType],
        reservation: &Reservation,
    ) -> Result<Self> {
        let mut key = vec![DataType::UInt32];
        key.extend_from_slice(arg_types);
        let (list, fields) = list_type(arg_types);
        Ok(Distinct {
            inner,
            seen: KeyedState::new(&key, &[], reservation.share())?,
            list,
            fields,
            total: 0,
            sorted: None,
            slots: Vec::new(),
            new: Vec::new(),
        })
    }

    fn take_in(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Vec<RowId>,
    ) -> Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        self.sorted = None;
        let bound = groups.iter().max().map_or(0, |&id| id as usize + 1);
        self.reserve(bound);
        let groups = UInt32Array::from(groups);
        let mut key: Vec<ArrayRef> = vec![Arc::new(groups.clone())];
        key.extend_from_slice(args);
        let rows = Selected::All(groups.len());
        self.seen.lookup_or_insert(&key, None, rows, &mut self.slots, &mut self.new)?;
        if self.new.is_empty() {
            return Ok(());
        }
        let new = UInt32Array::from(self.new.clone());
        let args = take_all(args, &new)?;
        let ids: Vec<RowId> = self.new.iter().map(|&row| groups.value(row as usize)).collect();
        self.inner.update(states, &args, Groups::Many(&ids))
    }

    /// The rows of the table by group.
    fn sorted(&mut self) -> Result<&SortedRows> {
        if self.sorted.is_none() {
            let store = self.seen.store();
            let ids: Vec<RowId> = store.ids().collect();
            let mut columns = store.gather_all(0..self.fields.len() + 1, &ids)?;
            let groups = columns.remove(0).as_primitive::<UInt32Type>().values().to_vec();
            self.sorted = Some(GroupedRows { groups, columns }.sort(self.total)?);
        }
        Ok(self.sorted.as_ref().expect("it was just made"))
    }
}

impl AggregateState for Distinct {
    fn slots(&self) -> Vec<StateSlot> {
        self.inner.slots()
    }

    fn bind(&mut self, own: &[usize], incoming: &[usize]) {
        self.inner.bind(own, incoming);
    }

    fn carried(&self) -> Vec<DataType> {
        vec![self.list.clone()]
    }

    fn reserve(&mut self, groups: usize) {
        if groups > self.total {
            self.total = groups;
            self.sorted = None;
            self.inner.reserve(groups);
        }
    }

    fn update(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.take_in(states, args, groups.to_ids())
    }

    fn retract(&mut self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: Groups<'_>) -> Result<()> {
        Err(cannot_retract("an aggregate with DISTINCT"))
    }

    fn merge(&mut self, _: &mut StatesMut<'_>, _: &PageStates<'_>, _: &[RowId]) -> Result<()> {
        Ok(())
    }

    fn merge_carried(
        &mut self,
        states: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: &[RowId],
    ) -> Result<()> {
        let rows = flatten(&columns[0], groups)?;
        self.take_in(states, &rows.columns, rows.groups)
    }

    fn restore_carried(&mut self, _: &[ArrayRef], _: &[RowId]) -> Result<Restored> {
        Ok(Restored::ByMerging)
    }

    fn carry(&mut self, ids: Range<RowId>) -> Result<Vec<ArrayRef>> {
        self.reserve(ids.end as usize);
        let fields = self.fields.clone();
        Ok(vec![self.sorted()?.lists(&fields, ids)?])
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
        self.seen.clear();
        self.sorted = None;
        self.total = 0;
        self.inner.clear()
    }

    fn memory_bytes(&self) -> usize {
        let sorted = self.sorted.as_ref().map_or(0, |sorted| {
            sorted.columns.iter().map(|c| c.get_array_memory_size()).sum::<usize>()
        });
        self.inner.memory_bytes() + sorted
    }

    fn reserved_bytes(&self) -> usize {
        self.seen.memory_bytes() + self.inner.reserved_bytes()
    }
}
