//! BOOL_AND, BOOL_OR, MIN and MAX of booleans whose rows may be withdrawn.
//!
//! Invariant: the two numbers are those of the true and the false values that the group has now.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;

use super::groups::{Groups, nulls_of};
use super::state::{Offsets, Output, RowState};
use crate::error::Result;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// The state: how many values are false, and how many are true.
pub(crate) struct BooleanCounts {
    offsets: Offsets<2>,
    /// True for OR.
    any: bool,
}

impl BooleanCounts {
    /// Whether all values are true, or, with `any`, whether one is.
    pub(crate) fn new(any: bool) -> Self {
        BooleanCounts { offsets: Offsets::unbound(), any }
    }

    fn apply(&self, states: &mut StatesMut<'_>, args: &[ArrayRef], groups: Groups<'_>, sign: i64) {
        let values = args[0].as_boolean().values();
        groups.for_each_valid(nulls_of(&args[0]).as_ref(), |row, id| {
            let offset = self.offsets.own[usize::from(values.value(row))];
            states.update(id, offset, |count: i64| count + sign);
        });
    }
}

impl RowState for BooleanCounts {
    fn slots(&self) -> Vec<StateSlot> {
        vec![StateSlot::new(8, 8); 2]
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
        for (own, incoming) in self.offsets.own.into_iter().zip(self.offsets.incoming) {
            states.update_each(groups, own, |row, count: i64| {
                count + source.read::<i64>(row, incoming)
            });
        }
        Ok(())
    }

    fn finalize(
        &self,
        states: &StatesMut<'_>,
        _output: Output,
        ids: &[RowId],
        _result: &DataType,
    ) -> Result<ArrayRef> {
        let values = ids.iter().map(|&id| {
            let [no, yes] = self.offsets.own.map(|offset| states.read::<i64>(id, offset));
            let value = if self.any { yes > 0 } else { no == 0 };
            (no + yes > 0).then_some(value)
        });
        Ok(Arc::new(values.collect::<BooleanArray>()))
    }
}
