//! COUNT: rows, or rows in which no argument is NULL.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::groups::{Groups, nulls_of};
use super::state::{Offsets, Output, RowState};
use crate::error::Result;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// The state: one 64-bit number.
pub(crate) struct Count {
    offsets: Offsets<1>,
}

impl Count {
    /// Counts the rows in which no argument is NULL; without arguments all rows.
    pub(crate) fn new() -> Self {
        Count { offsets: Offsets::unbound() }
    }

    fn apply(&self, states: &mut StatesMut<'_>, args: &[ArrayRef], groups: Groups<'_>, sign: i64) {
        let nulls = args.iter().fold(None, |nulls: Option<NullBuffer>, array| {
            NullBuffer::union(nulls.as_ref(), nulls_of(array).as_ref())
        });
        count_rows(states, self.offsets.own[0], nulls.as_ref(), groups, sign);
    }
}

/// Adds `sign` for every row that is not NULL to the 64-bit number at `offset`.
pub(crate) fn count_rows(
    states: &mut StatesMut<'_>,
    offset: usize,
    nulls: Option<&NullBuffer>,
    groups: Groups<'_>,
    sign: i64,
) {
    match (groups, nulls) {
        (Groups::One { id, rows }, _) => {
            let valid = rows - nulls.map_or(0, NullBuffer::null_count);
            states.update(id, offset, |count: i64| count + sign * valid as i64);
        }
        (Groups::Few { counts, .. }, None) => {
            for (id, &rows) in counts.iter().enumerate().filter(|(_, rows)| **rows > 0) {
                states.update(id as RowId, offset, |count: i64| count + sign * rows as i64);
            }
        }
        (Groups::Many(ids), None) => {
            for &id in ids {
                states.update(id, offset, |count: i64| count + sign);
            }
        }
        (groups, nulls) => {
            groups.for_each_valid(nulls, |_, id| states.update(id, offset, |c: i64| c + sign));
        }
    }
}

/// The 64-bit numbers at `offset` as an array without NULLs.
pub(crate) fn counts(states: &StatesMut<'_>, offset: usize, ids: &[RowId]) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(ids.iter().map(|&id| states.read::<i64>(id, offset))))
}

impl RowState for Count {
    fn slots(&self) -> Vec<StateSlot> {
        vec![StateSlot::new(8, 8)]
    }

    fn bind(&mut self, own: &[usize], incoming: &[usize]) {
        self.offsets.bind(own, incoming);
    }

    fn update(
        &self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.apply(states, args, groups, 1);
        Ok(())
    }

    fn retract(
        &self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.apply(states, args, groups, -1);
        Ok(())
    }

    fn merge(
        &self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()> {
        let incoming = self.offsets.incoming[0];
        states.update_each(groups, self.offsets.own[0], |row, count: i64| {
            count + source.read::<i64>(row, incoming)
        });
        Ok(())
    }

    fn finalize(
        &self,
        states: &StatesMut<'_>,
        _output: Output,
        ids: &[RowId],
        _result: &DataType,
    ) -> Result<ArrayRef> {
        Ok(counts(states, self.offsets.own[0], ids))
    }
}
