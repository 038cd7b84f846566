//! Functions that cannot forget, over rows that may be withdrawn: all rows are kept, and the function is computed from
//! those of a group whenever the group's result is asked for.
//!
//! Invariant: the function sees the rows that the group has now, in the order of its ORDER BY, else in that of their
//! arrival where it matters; with DISTINCT each once. Constant arguments are not kept. Nothing but the rows lives
//! between two calls.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;

use super::build::StateSpec;
use super::groups::Groups;
use super::multiset::{Entries, Keep, Multiset};
use super::state::{AggregateState, Output, Restored, cannot_merge};
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::{
    PageStates, RowId, RowLayout, RowStore, Selected, SortColumn, SortKeyEncoder, StateSlot,
    StatesMut,
};

/// Rows handed to the function at a time, about.
const REPLAY_ROWS: usize = 32 << 10;

/// A function and the rows of its groups.
pub(crate) struct KeptReplay {
    inner: Box<dyn AggregateState>,
    rows: Multiset,
    distinct: bool,
    /// For each column of the rows, constant arguments among them, its value or where it is kept.
    columns: Vec<Column>,
    args: usize,
    /// Column and direction of each sort key.
    order: Vec<(usize, SortColumn)>,
    /// The states of the groups that are computed.
    scratch: RowStore,
    positions: Vec<u32>,
}

enum Column {
    Kept(usize),
    Constant(ScalarValue),
}

impl KeptReplay {
    /// Keeps the rows that `spec` describes for `inner`, a state of the same arguments without DISTINCT and ORDER BY;
    /// if it is lenient, rows may be taken out that never came.
    ///
    /// # Errors
    /// `Unsupported` for types whose values cannot be found again.
    pub(crate) fn new(
        mut inner: Box<dyn AggregateState>,
        spec: &StateSpec,
        (keep, lenient): (Keep, bool),
        reservation: &Reservation,
    ) -> Result<Self> {
        let mut types = Vec::new();
        let constant = |column: usize| spec.constants.get(column).cloned().flatten();
        // A row has at least one column.
        let all_constant = (0..spec.columns.len()).all(|column| constant(column).is_some());
        let columns = (0..spec.columns.len()).map(|column| match constant(column) {
            Some(value) if column > 0 || !all_constant => Column::Constant(value),
            Some(_) | None => {
                types.push(spec.types[column].clone());
                Column::Kept(types.len() - 1)
            }
        });
        let columns = columns.collect();
        let layout = RowLayout::new(&[], &inner.slots())?;
        let offsets: Vec<usize> = layout.states().iter().map(|field| field.offset).collect();
        inner.bind(&offsets, &offsets);
        Ok(KeptReplay {
            inner,
            rows: Multiset::new(&types, keep, lenient, reservation)?,
            distinct: spec.distinct,
            columns,
            args: spec.args,
            order: spec.order.clone(),
            scratch: RowStore::new(layout, reservation.share()),
            positions: Vec::new(),
        })
    }

    fn kept(&self, args: &[ArrayRef]) -> Vec<ArrayRef> {
        let kept = args.iter().zip(&self.columns);
        kept.filter(|(_, column)| matches!(column, Column::Kept(_)))
            .map(|(arg, _)| arg.clone())
            .collect()
    }

    /// Some columns of entries.
    fn gather(&self, ids: &[RowId], columns: impl Iterator<Item = usize>) -> Result<Vec<ArrayRef>> {
        let kept = self.rows.gather(ids)?;
        columns
            .map(|column| match &self.columns[column] {
                Column::Kept(position) => Ok(kept[*position].clone()),
                Column::Constant(value) => Ok(value.to_array_of_size(ids.len())?),
            })
            .collect()
    }

    /// The entries of groups in the function's order.
    fn entries_of(&mut self, groups: &[RowId]) -> Result<Entries> {
        let found = self.rows.entries_of(groups, self.distinct);
        if self.order.is_empty() || found.ids.is_empty() {
            return Ok(found);
        }
        let mut sort =
            vec![SortColumn { data_type: DataType::UInt32, descending: false, nulls_first: false }];
        sort.extend(self.order.iter().map(|(_, column)| column.clone()));
        let mut keys: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(found.groups.clone()))];
        keys.extend(self.gather(&found.ids, self.order.iter().map(|(column, _)| *column))?);
        let order = SortKeyEncoder::new(&sort)?.encode(&keys)?.sorted();
        Ok(Entries {
            groups: order.iter().map(|&at| found.groups[at as usize]).collect(),
            ids: order.iter().map(|&at| found.ids[at as usize]).collect(),
        })
    }

    /// The function's results for groups.
    fn compute(&mut self, output: Output, groups: &[RowId], result: &DataType) -> Result<ArrayRef> {
        let entries = self.entries_of(groups)?;
        self.scratch.append(&[], Selected::All(groups.len()))?;
        self.inner.reserve(groups.len());
        let mut start = 0;
        while start < entries.ids.len() {
            let end = chunk_end(&entries.groups, start);
            let args = self.gather(&entries.ids[start..end], 0..self.args)?;
            let numbers = Groups::Many(&entries.groups[start..end]);
            self.inner.update(&mut self.scratch.states_mut(), &args, numbers)?;
            start = end;
        }
        self.inner.finish();
        let numbers: Vec<RowId> = (0..groups.len() as RowId).collect();
        self.inner.finalize(&mut self.scratch.states_mut(), output, &numbers, result)
    }
}

/// The end of the rows that are handed over together. A group's rows are cut in the same places whatever other groups
/// there are, as some functions' results depend on it: only groups that are larger than a chunk are cut, from their
/// starts on.
fn chunk_end(groups: &[RowId], start: usize) -> usize {
    let most = (start + REPLAY_ROWS).min(groups.len());
    if most == groups.len() || groups[most - 1] != groups[most] {
        return most;
    }
    let first_of_last = start + groups[start..most].partition_point(|&group| group < groups[most]);
    if first_of_last == start { most } else { first_of_last }
}

impl AggregateState for KeptReplay {
    fn slots(&self) -> Vec<StateSlot> {
        Vec::new()
    }

    fn bind(&mut self, _own: &[usize], _incoming: &[usize]) {}

    fn carried(&self) -> Vec<DataType> {
        vec![self.rows.list_type().clone()]
    }

    fn reserve(&mut self, groups: usize) {
        self.rows.reserve(groups);
    }

    fn update(
        &mut self,
        _: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        let kept = self.kept(args);
        self.rows.insert(&groups.to_ids(), &kept, None, &mut self.positions)
    }

    fn retract(
        &mut self,
        _: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        let kept = self.kept(args);
        self.rows.remove(&groups.to_ids(), &kept, &mut self.positions)
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
        _: &mut StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        let computed = self.compute(output, ids, result);
        self.scratch.clear();
        self.inner.clear()?;
        computed
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
        self.rows.reserved_bytes() + self.scratch.memory_bytes()
    }
}
