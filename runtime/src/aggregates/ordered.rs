//! ORDER BY inside an aggregate: rows are kept, and reach the aggregate in order when results are wanted.
//!
//! Invariant: rows with equal keys keep the order in which they arrived.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::datatypes::{DataType, Fields};

use super::arguments::take_all;
use super::foreign::Foreign;
use super::groups::Groups;
use super::kept_rows::{KeptRows, SortedRows, flatten, list_type};
use super::state::{AggregateState, Output, Restored, cannot_retract};
use crate::error::Result;
use crate::rows::{PageStates, RowId, SortColumn, SortKeyEncoder, StateSlot, StatesMut};

/// Rows handed to the inner aggregate at a time.
const REPLAY_ROWS: usize = 32 << 10;

/// An order-sensitive library function over ordered rows.
pub(crate) struct Ordered {
    inner: Foreign,
    /// The first columns are the inner aggregate's arguments.
    args: usize,
    /// Column and direction of each sort key.
    order: Vec<(usize, SortColumn)>,
    rows: KeptRows,
    list: DataType,
    fields: Fields,
    total: usize,
    sorted: Option<SortedRows>,
    replayed: bool,
}

impl Ordered {
    /// Keeps columns of the given types, of which the first `args` are arguments, for `inner`.
    pub(crate) fn new(
        inner: Foreign,
        args: usize,
        order: Vec<(usize, SortColumn)>,
        types: &[DataType],
    ) -> Self {
        let (list, fields) = list_type(types);
        Ordered {
            inner,
            args,
            order,
            rows: KeptRows::default(),
            list,
            fields,
            total: 0,
            sorted: None,
            replayed: false,
        }
    }

    fn take_in(&mut self, groups: Vec<RowId>, columns: &[ArrayRef]) {
        if groups.is_empty() {
            return;
        }
        (self.sorted, self.replayed) = (None, false);
        let bound = groups.iter().max().map_or(0, |&id| id as usize + 1);
        self.reserve(bound);
        self.rows.push(groups, columns);
    }

    /// Gives the inner aggregate all rows in order.
    fn replay(&mut self, states: &mut StatesMut<'_>) -> Result<()> {
        self.inner.clear()?;
        self.inner.reserve(self.total);
        let Some(rows) = self.rows.joined()? else { return Ok(()) };
        let group =
            SortColumn { data_type: DataType::UInt32, descending: false, nulls_first: false };
        let mut sort = vec![group];
        sort.extend(self.order.iter().map(|(_, column)| column.clone()));
        let mut keys: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(rows.groups.clone()))];
        keys.extend(self.order.iter().map(|(column, _)| rows.columns[*column].clone()));
        let order = SortKeyEncoder::new(&sort)?.encode(&keys)?.sorted();
        for part in order.chunks(REPLAY_ROWS) {
            let ids: Vec<RowId> = part.iter().map(|&row| rows.groups[row as usize]).collect();
            let args = take_all(&rows.columns[..self.args], &UInt32Array::from(part.to_vec()))?;
            self.inner.update(states, &args, Groups::Many(&ids))?;
        }
        Ok(())
    }
}

impl AggregateState for Ordered {
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
            (self.total, self.sorted, self.replayed) = (groups, None, false);
        }
    }

    fn update(
        &mut self,
        _: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.take_in(groups.to_ids(), args);
        Ok(())
    }

    fn retract(&mut self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: Groups<'_>) -> Result<()> {
        Err(cannot_retract("an aggregate with ORDER BY"))
    }

    fn merge(&mut self, _: &mut StatesMut<'_>, _: &PageStates<'_>, _: &[RowId]) -> Result<()> {
        Ok(())
    }

    fn merge_carried(
        &mut self,
        _: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: &[RowId],
    ) -> Result<()> {
        let rows = flatten(&columns[0], groups)?;
        self.take_in(rows.groups, &rows.columns);
        Ok(())
    }

    fn restore_carried(&mut self, _: &[ArrayRef], _: &[RowId]) -> Result<Restored> {
        Ok(Restored::ByMerging)
    }

    fn carry(&mut self, ids: Range<RowId>) -> Result<Vec<ArrayRef>> {
        self.reserve(ids.end as usize);
        if self.sorted.is_none() {
            self.sorted = match self.rows.joined()? {
                Some(rows) => Some(rows.sort(self.total)?),
                None => {
                    let types = self.fields.iter().map(|field| field.data_type());
                    let columns = types.map(arrow::array::new_empty_array).collect();
                    Some(SortedRows { offsets: vec![0; self.total + 1], columns })
                }
            };
        }
        let sorted = self.sorted.as_ref().expect("it was just made");
        Ok(vec![sorted.lists(&self.fields, ids)?])
    }

    fn finalize(
        &mut self,
        states: &mut StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        if !self.replayed {
            self.replay(states)?;
            self.inner.finish();
            self.replayed = true;
        }
        self.inner.finalize(states, output, ids, result)
    }

    fn finish(&mut self) {}

    fn clear(&mut self) -> Result<()> {
        self.rows.clear();
        (self.total, self.sorted, self.replayed) = (0, None, false);
        self.inner.clear()
    }

    fn memory_bytes(&self) -> usize {
        let sorted = self.sorted.as_ref().map_or(0, |sorted| {
            sorted.columns.iter().map(|c| c.get_array_memory_size()).sum::<usize>()
        });
        self.inner.memory_bytes() + self.rows.memory_bytes() + sorted
    }

    fn reserved_bytes(&self) -> usize {
        0
    }
}
