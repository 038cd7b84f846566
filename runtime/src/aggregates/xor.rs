//! BIT_XOR of rows that may be withdrawn: taking a value out is taking it in once more.
//!
//! Invariant: a state without values has the value zero and the count zero, and gives NULL.

use std::marker::PhantomData;
use std::ops::BitXor;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::DataType;

use super::count::count_rows;
use super::groups::{Groups, nulls_of};
use super::state::{Offsets, Output, RowState};
use crate::error::Result;
use crate::memory::Plain;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// The state: the bits so far, and the number of values.
pub(crate) struct Xor<T> {
    offsets: Offsets<2>,
    types: PhantomData<fn(T)>,
}

impl<T> Xor<T>
where
    T: ArrowPrimitiveType,
    T::Native: Plain + BitXor<Output = T::Native>,
{
    /// For integers of type `T`.
    pub(crate) fn new() -> Self {
        Xor { offsets: Offsets::unbound(), types: PhantomData }
    }

    fn apply(&self, states: &mut StatesMut<'_>, args: &[ArrayRef], groups: Groups<'_>, sign: i64) {
        let array = args[0].as_primitive::<T>();
        let (nulls, values, offset) = (nulls_of(array), array.values(), self.offsets.own[0]);
        groups.for_each_valid(nulls.as_ref(), |row, id| {
            states.update(id, offset, |bits: T::Native| bits ^ values[row]);
        });
        count_rows(states, self.offsets.own[1], nulls.as_ref(), groups, sign);
    }
}

impl<T> RowState for Xor<T>
where
    T: ArrowPrimitiveType,
    T::Native: Plain + BitXor<Output = T::Native>,
{
    fn slots(&self) -> Vec<StateSlot> {
        let size = size_of::<T::Native>();
        vec![StateSlot::new(size, size.min(8)), StateSlot::new(8, 8)]
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
        let ([own_bits, own_count], [bits, count]) = (self.offsets.own, self.offsets.incoming);
        for (row, &id) in groups.iter().enumerate() {
            states.update(id, own_bits, |old: T::Native| old ^ source.read::<T::Native>(row, bits));
            states.update(id, own_count, |old: i64| old + source.read::<i64>(row, count));
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
        let [bits, count] = self.offsets.own;
        let values = ids.iter().map(|&id| {
            (states.read::<i64>(id, count) > 0).then(|| states.read::<T::Native>(id, bits))
        });
        Ok(Arc::new(values.collect::<PrimitiveArray<T>>()))
    }
}
