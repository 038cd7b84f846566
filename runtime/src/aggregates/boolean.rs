//! BOOL_AND, BOOL_OR, and MIN and MAX of booleans, which are the same two.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;

use super::groups::{Groups, nulls_of};
use super::state::{Offsets, Output, RowState, cannot_retract};
use crate::error::Result;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

const SEEN_FALSE: u8 = 1;
const SEEN_TRUE: u8 = 2;

/// The state: one byte that says which of the two values occurred.
pub(crate) struct Boolean {
    offsets: Offsets<1>,
    /// True for OR.
    any: bool,
}

impl Boolean {
    /// Whether all values are true, or, with `any`, whether one is.
    pub(crate) fn new(any: bool) -> Self {
        Boolean { offsets: Offsets::unbound(), any }
    }
}

impl RowState for Boolean {
    fn slots(&self) -> Vec<StateSlot> {
        vec![StateSlot::new(1, 1)]
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
        let (values, offset) = (args[0].as_boolean().values(), self.offsets.own[0]);
        groups.for_each_valid(nulls_of(&args[0]).as_ref(), |row, id| {
            let seen = if values.value(row) { SEEN_TRUE } else { SEEN_FALSE };
            states.update(id, offset, |old: u8| old | seen);
        });
        Ok(())
    }

    fn retract(&self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: Groups<'_>) -> Result<()> {
        Err(cannot_retract(if self.any { "BOOL_OR" } else { "BOOL_AND" }))
    }

    fn merge(
        &self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()> {
        let incoming = self.offsets.incoming[0];
        states.update_each(groups, self.offsets.own[0], |row, old: u8| {
            old | source.read::<u8>(row, incoming)
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
        let values = ids.iter().map(|&id| {
            let seen = states.read::<u8>(id, self.offsets.own[0]);
            let value = if self.any { seen & SEEN_TRUE != 0 } else { seen & SEEN_FALSE == 0 };
            (seen != 0).then_some(value)
        });
        Ok(Arc::new(values.collect::<BooleanArray>()))
    }
}
