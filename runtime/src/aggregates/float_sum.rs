//! SUM, AVG and COUNT of floats whose rows may be withdrawn.
//!
//! Values that are not finite are counted, not summed, so that an infinity or NaN leaves no trace once it is gone. Finite
//! values are summed with a second double for what the first rounds away (Neumaier). Those so large that a sum of them
//! may overflow have a scaled sum of their own. Invariant: a sum without values is exactly zero.

use std::marker::PhantomData;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::DataType;

use super::count::counts;
use super::groups::{Groups, nulls_of};
use super::state::{Offsets, Output, RowState};
use super::sum_result::SumResult;
use crate::error::Result;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// Values of at least this magnitude are summed scaled: 2^900.
const LARGE: f64 = f64::from_bits((1023 + 900) << 52);
/// By what they are scaled: 2^-200, so that 2^76 of the largest fit a double.
const SCALE: f64 = f64::from_bits((1023 - 200) << 52);

/// What is known of a group's values.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    sum: f64,
    /// What `sum` has rounded away.
    rest: f64,
    /// The scaled sum of large values.
    large: f64,
    count: i64,
    large_count: i64,
    nan: i64,
    infinite: i64,
    negative_infinite: i64,
}

const SLOTS: usize = 8;

impl Parts {
    /// With a value once more (`sign` 1) or once less (−1).
    #[inline]
    fn change(mut self, value: f64, sign: i64) -> Self {
        self.count += sign;
        if value.is_nan() {
            self.nan += sign;
        } else if value == f64::INFINITY {
            self.infinite += sign;
        } else if value == f64::NEG_INFINITY {
            self.negative_infinite += sign;
        } else if value.abs() >= LARGE {
            self.large += value * sign as f64 * SCALE;
            self.large_count += sign;
        } else {
            self.add(value * sign as f64);
        }
        self.settle()
    }

    #[inline]
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        self.rest += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
    }

    /// Forgets what rounding has left where no value is left.
    #[inline]
    fn settle(mut self) -> Self {
        if self.large_count == 0 {
            self.large = 0.0;
        }
        let special = self.nan + self.infinite + self.negative_infinite;
        if self.count == self.large_count + special {
            (self.sum, self.rest) = (0.0, 0.0);
        }
        self
    }

    fn merge(mut self, other: Parts) -> Self {
        self.add(other.sum);
        self.rest += other.rest;
        self.large += other.large;
        self.count += other.count;
        self.large_count += other.large_count;
        self.nan += other.nan;
        self.infinite += other.infinite;
        self.negative_infinite += other.negative_infinite;
        self.settle()
    }

    fn total(&self) -> f64 {
        if self.nan > 0 || (self.infinite > 0 && self.negative_infinite > 0) {
            f64::NAN
        } else if self.infinite > 0 {
            f64::INFINITY
        } else if self.negative_infinite > 0 {
            f64::NEG_INFINITY
        } else {
            self.large / SCALE + (self.sum + self.rest)
        }
    }

    #[inline]
    fn read(
        offsets: &[usize; SLOTS],
        float: impl Fn(usize) -> f64,
        number: impl Fn(usize) -> i64,
    ) -> Self {
        let [sum, rest, large, count, large_count, nan, infinite, negative] = *offsets;
        Parts {
            sum: float(sum),
            rest: float(rest),
            large: float(large),
            count: number(count),
            large_count: number(large_count),
            nan: number(nan),
            infinite: number(infinite),
            negative_infinite: number(negative),
        }
    }
}

/// The state for floats of type `T`.
pub(crate) struct FloatSum<T> {
    offsets: Offsets<SLOTS>,
    types: PhantomData<fn(T)>,
}

impl<T> FloatSum<T>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64>,
{
    /// Sums an argument of type `T`.
    pub(crate) fn new() -> Self {
        FloatSum { offsets: Offsets::unbound(), types: PhantomData }
    }

    fn parts(&self, states: &StatesMut<'_>, id: RowId) -> Parts {
        Parts::read(&self.offsets.own, |at| states.read(id, at), |at| states.read(id, at))
    }

    #[inline]
    fn replace(&self, states: &mut StatesMut<'_>, id: RowId, f: impl FnOnce(Parts) -> Parts) {
        let parts = f(self.parts(states, id));
        let [sum, rest, large, count, large_count, nan, infinite, negative] = self.offsets.own;
        states.write(id, sum, parts.sum);
        states.write(id, rest, parts.rest);
        states.write(id, large, parts.large);
        states.write(id, count, parts.count);
        states.write(id, large_count, parts.large_count);
        states.write(id, nan, parts.nan);
        states.write(id, infinite, parts.infinite);
        states.write(id, negative, parts.negative_infinite);
    }

    fn apply(&self, states: &mut StatesMut<'_>, args: &[ArrayRef], groups: Groups<'_>, sign: i64) {
        let array = args[0].as_primitive::<T>();
        let (nulls, values) = (nulls_of(array), array.values());
        if let Groups::One { id, .. } = groups {
            self.replace(states, id, |mut parts| {
                groups.for_each_valid(nulls.as_ref(), |row, _| {
                    parts = parts.change(values[row].into(), sign);
                });
                parts
            });
            return;
        }
        groups.for_each_valid(nulls.as_ref(), |row, id| {
            self.replace(states, id, |parts| parts.change(values[row].into(), sign));
        });
    }
}

impl<T> RowState for FloatSum<T>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64>,
{
    fn slots(&self) -> Vec<StateSlot> {
        vec![StateSlot::new(8, 8); SLOTS]
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
        for (row, &id) in groups.iter().enumerate() {
            let other = Parts::read(
                &self.offsets.incoming,
                |at| source.read(row, at),
                |at| source.read(row, at),
            );
            self.replace(states, id, |parts| parts.merge(other));
        }
        Ok(())
    }

    fn finalize(
        &self,
        states: &StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        let totals = ids.iter().map(|&id| {
            let parts = self.parts(states, id);
            (parts.total(), parts.count)
        });
        match output {
            Output::Count => Ok(counts(states, self.offsets.own[3], ids)),
            Output::Average => f64::averages(totals, 0, result),
            Output::Only | Output::Sum | Output::Moment(_) | Output::Rank(_) => {
                f64::sums(totals, result)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(changes: &[(f64, i64)]) -> f64 {
        let sum = changes.iter().fold(Parts::default(), |p, &(value, sign)| p.change(value, sign));
        sum.total()
    }

    #[test]
    fn what_is_withdrawn_leaves_no_trace() {
        assert_eq!(sum_of(&[(1.5, 1), (f64::INFINITY, 1), (f64::INFINITY, -1)]), 1.5);
        assert_eq!(sum_of(&[(1.5, 1), (f64::NAN, 1), (2.0, 1), (f64::NAN, -1)]), 3.5);
        assert_eq!(sum_of(&[(1e16, 1), (1.0, 1), (1e16, -1)]), 1.0);
        assert_eq!(sum_of(&[(0.1, 1), (0.2, 1), (0.1, -1), (0.2, -1)]), 0.0);
        let huge = f64::MAX;
        assert_eq!(sum_of(&[(huge, 1), (huge, 1), (1.0, 1)]), f64::INFINITY);
        assert_eq!(sum_of(&[(huge, 1), (huge, 1), (1.0, 1), (huge, -1)]), huge);
        assert_eq!(sum_of(&[(huge, 1), (1e300, 1), (1.0, 1), (huge, -1), (1e300, -1)]), 1.0);
    }

    #[test]
    fn infinities_of_both_signs_give_nan() {
        assert!(sum_of(&[(f64::INFINITY, 1), (f64::NEG_INFINITY, 1)]).is_nan());
        assert_eq!(sum_of(&[(f64::NEG_INFINITY, 1), (3.0, 1)]), f64::NEG_INFINITY);
    }
}
