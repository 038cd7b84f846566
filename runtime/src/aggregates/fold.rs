//! MIN, MAX and the bitwise aggregates over fixed-width values: one value folded by one operation.
//!
//! Invariant: of floats, −0.0 equals 0.0, and NaN equals itself and is greater than every number. No values give
//! NULL.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::DataType;

use super::groups::{Groups, nulls_of};
use super::state::{Offsets, Output, RowState, cannot_retract};
use crate::error::Result;
use crate::memory::Plain;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// The order of values as the engine's comparisons see it.
pub(crate) trait Ordered: Copy {
    /// Whether the value is less than the other.
    fn is_less(self, other: Self) -> bool;
}

macro_rules! ordered {
    ($($t:ty),*) => { $(
        impl Ordered for $t {
            #[inline]
            fn is_less(self, other: Self) -> bool {
                self < other
            }
        }
    )* };
}
ordered!(i8, i16, i32, i64, i128, u8, u16, u32, u64, arrow::datatypes::i256);

macro_rules! ordered_floats {
    ($($t:ty),*) => { $(
        impl Ordered for $t {
            #[inline]
            fn is_less(self, other: Self) -> bool {
                self < other || (other.is_nan() && !self.is_nan())
            }
        }
    )* };
}
ordered_floats!(f32, f64);

/// An operation that folds values into one; it is associative and commutative.
pub(crate) trait FoldOperation<N>: Send + 'static {
    /// Its SQL name.
    const NAME: &'static str;
    /// Of two values, one.
    fn fold(a: N, b: N) -> N;
}

/// The least value.
pub(crate) struct Min;
/// The greatest value.
pub(crate) struct Max;
/// Bits that all values have.
pub(crate) struct BitAnd;
/// Bits that any value has.
pub(crate) struct BitOr;
/// Bits that an odd number of values has.
pub(crate) struct BitXor;

impl<N: Ordered> FoldOperation<N> for Min {
    const NAME: &'static str = "MIN";
    #[inline]
    fn fold(a: N, b: N) -> N {
        if b.is_less(a) { b } else { a }
    }
}

impl<N: Ordered> FoldOperation<N> for Max {
    const NAME: &'static str = "MAX";
    #[inline]
    fn fold(a: N, b: N) -> N {
        if a.is_less(b) { b } else { a }
    }
}

macro_rules! bitwise {
    ($($operation:ident $name:literal $trait:ident $method:ident),*) => { $(
        impl<N: std::ops::$trait<Output = N>> FoldOperation<N> for $operation {
            const NAME: &'static str = $name;
            #[inline]
            fn fold(a: N, b: N) -> N {
                a.$method(b)
            }
        }
    )* };
}
bitwise!(BitAnd "BIT_AND" BitAnd bitand, BitOr "BIT_OR" BitOr bitor, BitXor "BIT_XOR" BitXor bitxor);

/// The state: the value so far, and a byte that says whether there is one.
pub(crate) struct Fold<T, O> {
    offsets: Offsets<2>,
    types: PhantomData<fn(T) -> O>,
}

impl<T, O> Fold<T, O>
where
    T: ArrowPrimitiveType,
    T::Native: Plain,
    O: FoldOperation<T::Native>,
{
    /// Folds an argument of type `T`.
    pub(crate) fn new() -> Self {
        Fold { offsets: Offsets::unbound(), types: PhantomData }
    }

    #[inline]
    fn take(&self, states: &mut StatesMut<'_>, id: RowId, value: T::Native) {
        let [value_at, seen_at] = self.offsets.own;
        if states.read::<u8>(id, seen_at) != 0 {
            states.update(id, value_at, |old| O::fold(old, value));
        } else {
            states.write(id, value_at, value);
            states.write(id, seen_at, 1_u8);
        }
    }
}

impl<T, O> RowState for Fold<T, O>
where
    T: ArrowPrimitiveType,
    T::Native: Plain,
    O: FoldOperation<T::Native>,
{
    fn slots(&self) -> Vec<StateSlot> {
        let size = size_of::<T::Native>();
        vec![StateSlot::new(size, size.min(8)), StateSlot::new(1, 1)]
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
        let (nulls, values) = (nulls_of(array), array.values());
        match (groups, &nulls) {
            (Groups::One { id, .. }, None) => {
                if let Some(value) = values.iter().copied().reduce(O::fold) {
                    self.take(states, id, value);
                }
            }
            (Groups::Few { ids, .. } | Groups::Many(ids), None) => {
                for (&value, &id) in values.iter().zip(ids) {
                    self.take(states, id, value);
                }
            }
            (groups, Some(_)) => {
                groups.for_each_valid(nulls.as_ref(), |row, id| self.take(states, id, values[row]));
            }
        }
        Ok(())
    }

    fn retract(&self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: Groups<'_>) -> Result<()> {
        Err(cannot_retract(O::NAME))
    }

    fn merge(
        &self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()> {
        let [value, seen] = self.offsets.incoming;
        for (row, &id) in groups.iter().enumerate() {
            if source.read::<u8>(row, seen) != 0 {
                self.take(states, id, source.read(row, value));
            }
        }
        Ok(())
    }

    fn finalize(
        &self,
        states: &StatesMut<'_>,
        _output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        let [value, seen] = self.offsets.own;
        let values = ids.iter().map(|&id| {
            (states.read::<u8>(id, seen) != 0).then(|| states.read::<T::Native>(id, value))
        });
        let array = values.collect::<PrimitiveArray<T>>();
        // Types of one physical form (decimals, time zones) differ in what the array alone does not know.
        let same_form = array.data_type().primitive_width() == result.primitive_width()
            && std::mem::discriminant(array.data_type()) == std::mem::discriminant(result);
        Ok(if same_form { Arc::new(array.with_data_type(result.clone())) } else { Arc::new(array) })
    }
}
