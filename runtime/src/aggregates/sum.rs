//! SUM, AVG and COUNT of one argument: a sum and the number of values, which the three share.
//!
//! Integers and decimals are summed in 128 bits (decimals of more than 38 digits in 256), floats in 64. Invariant:
//! an integer sum that leaves its accumulator is an error, never a wrong number; whether it fits the result type is
//! checked at the end.

use std::marker::PhantomData;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{ArrowNativeType, DataType, i256};

use super::count::{count_rows, counts};
use super::groups::{FEW_GROUPS, Groups, nulls_of};
use super::state::{Offsets, Output, RowState};
use super::sum_result::SumResult;
use crate::error::{Error, Result};
use crate::memory::Plain;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// What values of type `N` are summed in. `overflow` is set when a sum does not fit; it is looked at once a batch.
pub(crate) trait Accumulator<N>: SumResult + Plain + Copy + Default + Send {
    /// The sum with a value.
    fn add(self, value: N, overflow: &mut bool) -> Self;
    /// The sum without a value.
    fn subtract(self, value: N, overflow: &mut bool) -> Self;
}

impl<N: Into<i128>> Accumulator<N> for i128 {
    #[inline]
    fn add(self, value: N, overflow: &mut bool) -> Self {
        let (sum, over) = self.overflowing_add(value.into());
        *overflow |= over;
        sum
    }

    #[inline]
    fn subtract(self, value: N, overflow: &mut bool) -> Self {
        let (sum, over) = self.overflowing_sub(value.into());
        *overflow |= over;
        sum
    }
}

impl<N: Into<f64>> Accumulator<N> for f64 {
    #[inline]
    fn add(self, value: N, _overflow: &mut bool) -> Self {
        self + value.into()
    }

    #[inline]
    fn subtract(self, value: N, _overflow: &mut bool) -> Self {
        self - value.into()
    }
}

impl Accumulator<i256> for i256 {
    #[inline]
    fn add(self, value: i256, overflow: &mut bool) -> Self {
        self.checked_add(value).unwrap_or_else(|| {
            *overflow = true;
            self
        })
    }

    #[inline]
    fn subtract(self, value: i256, overflow: &mut bool) -> Self {
        self.checked_sub(value).unwrap_or_else(|| {
            *overflow = true;
            self
        })
    }
}

/// The state for values of type `T`, summed in `A`.
pub(crate) struct Sum<T, A> {
    offsets: Offsets<2>,
    /// The argument's scale, if it is a decimal.
    scale: i8,
    types: PhantomData<fn(T) -> A>,
}

impl<T: ArrowPrimitiveType, A: Accumulator<T::Native> + Accumulator<A>> Sum<T, A> {
    /// Sums an argument of a given type.
    pub(crate) fn new(argument: &DataType) -> Self {
        let scale = match argument {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => *scale,
            _ => 0,
        };
        Sum { offsets: Offsets::unbound(), scale, types: PhantomData }
    }

    /// Sums where no value is NULL.
    fn add_all(
        &self,
        states: &mut StatesMut<'_>,
        values: &[T::Native],
        groups: Groups<'_>,
        overflow: &mut bool,
    ) {
        let offset = self.offsets.own[0];
        match groups {
            Groups::One { id, .. } => {
                let sum = sum_in_lanes::<T::Native, A>(values, overflow);
                states.update(id, offset, |old: A| old.add(sum, overflow));
            }
            Groups::Few { ids, counts } => {
                let mut sums = [A::default(); FEW_GROUPS];
                for (&value, &id) in values.iter().zip(ids) {
                    let sum = &mut sums[id as usize % FEW_GROUPS];
                    *sum = sum.add(value, overflow);
                }
                for (id, sum) in sums.into_iter().enumerate().filter(|(id, _)| counts[*id] > 0) {
                    states.update(id as RowId, offset, |old: A| old.add(sum, overflow));
                }
            }
            Groups::Many(ids) => {
                for (&value, &id) in values.iter().zip(ids) {
                    states.update(id, offset, |old: A| old.add(value, overflow));
                }
            }
        }
    }
}

/// The sum of values in four chains, so that one addition does not wait for the one before.
fn sum_in_lanes<N: ArrowNativeType, A: Accumulator<N> + Accumulator<A>>(
    values: &[N],
    overflow: &mut bool,
) -> A {
    let mut lanes = [A::default(); 4];
    let chunks = values.chunks_exact(4);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = lane.add(value, overflow);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = lane.add(value, overflow);
    }
    lanes.into_iter().fold(A::default(), |sum, lane| sum.add(lane, overflow))
}

fn check(overflow: bool) -> Result<()> {
    if overflow {
        return Err(Error::User {
            message: "a sum is out of range".into(),
            detail: Some(
                "It does not fit the number of digits that sums are computed with.".into(),
            ),
            hint: Some("Cast the argument to DOUBLE PRECISION.".into()),
        });
    }
    Ok(())
}

impl<T, A> RowState for Sum<T, A>
where
    T: ArrowPrimitiveType,
    A: Accumulator<T::Native> + Accumulator<A>,
{
    fn slots(&self) -> Vec<StateSlot> {
        vec![StateSlot::new(size_of::<A>(), 8), StateSlot::new(8, 8)]
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
        let array = args[0].as_primitive::<T>();
        let (nulls, values, offset) = (nulls_of(array), array.values(), self.offsets.own[0]);
        let mut overflow = false;
        match &nulls {
            None => self.add_all(states, values, groups, &mut overflow),
            Some(_) => groups.for_each_valid(nulls.as_ref(), |row, id| {
                states.update(id, offset, |old: A| old.add(values[row], &mut overflow));
            }),
        }
        count_rows(states, self.offsets.own[1], nulls.as_ref(), groups, 1);
        check(overflow)
    }

    fn retract(
        &self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        let array = args[0].as_primitive::<T>();
        let (nulls, values, offset) = (nulls_of(array), array.values(), self.offsets.own[0]);
        let mut overflow = false;
        groups.for_each_valid(nulls.as_ref(), |row, id| {
            states.update(id, offset, |old: A| old.subtract(values[row], &mut overflow));
        });
        count_rows(states, self.offsets.own[1], nulls.as_ref(), groups, -1);
        check(overflow)
    }

    fn merge(
        &self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()> {
        let ([own_sum, own_count], [sum, count]) = (self.offsets.own, self.offsets.incoming);
        let mut overflow = false;
        for (row, &id) in groups.iter().enumerate() {
            states.update(id, own_sum, |old: A| old.add(source.read::<A>(row, sum), &mut overflow));
            states.update(id, own_count, |old: i64| old + source.read::<i64>(row, count));
        }
        check(overflow)
    }

    fn finalize(
        &self,
        states: &StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        let [sum, count] = self.offsets.own;
        let read = |&id: &RowId| (states.read::<A>(id, sum), states.read::<i64>(id, count));
        match output {
            Output::Count => Ok(counts(states, count, ids)),
            Output::Average => A::averages(ids.iter().map(read), self.scale, result),
            Output::Only | Output::Sum | Output::Moment(_) | Output::Rank(_) => {
                A::sums(ids.iter().map(read), result)
            }
        }
    }
}
