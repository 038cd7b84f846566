//! Keys that are one integer, as `i64`.
//!
//! Integers, dates, times, timestamps and small decimals are read without regard to their unit. Invariant: the mapping
//! to `i64` is one to one (`u64` wraps), so that a table addressed by it needs no comparison.

use std::ops::RangeInclusive;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};

use crate::memory::Plain;
use crate::rows::{FieldKind, Selected, plain_values};

/// A native integer that a direct table is addressed by.
pub(super) trait IntKey: ArrowNativeType + Plain {
    fn as_key(self) -> i64;
}

macro_rules! int_key {
    ($($t:ty),*) => { $(
        impl IntKey for $t {
            #[inline]
            fn as_key(self) -> i64 {
                self as i64
            }
        }
    )* };
}
int_key!(i8, i16, i32, i64, u8, u16, u32, u64);

/// Whether values of the type are integers for this purpose.
pub(super) fn is_int_key(data_type: &DataType) -> bool {
    let kind = FieldKind::of(data_type);
    matches!(kind, FieldKind::Width1 | FieldKind::Width2 | FieldKind::Width4 | FieldKind::Width8)
}

/// Runs an expression with `$native` standing for the native integer type of `$data_type`, for which
/// [`is_int_key`] holds.
macro_rules! dispatch_int {
    ($data_type:expr, $native:ident => $body:expr) => {{
        use arrow::datatypes::DataType as T;
        use $crate::rows::FieldKind as K;
        match ($data_type, K::of($data_type)) {
            (T::UInt8, _) => {
                type $native = u8;
                $body
            }
            (T::UInt16, _) => {
                type $native = u16;
                $body
            }
            (T::UInt32, _) => {
                type $native = u32;
                $body
            }
            (T::UInt64, _) => {
                type $native = u64;
                $body
            }
            (_, K::Width1) => {
                type $native = i8;
                $body
            }
            (_, K::Width2) => {
                type $native = i16;
                $body
            }
            (_, K::Width4) => {
                type $native = i32;
                $body
            }
            (_, _) => {
                type $native = i64;
                $body
            }
        }
    }};
}
pub(super) use dispatch_int;

/// The selected values of a column, and which are NULL.
pub(super) struct IntColumn<T: IntKey> {
    pub(super) values: ScalarBuffer<T>,
    pub(super) nulls: Option<NullBuffer>,
}

impl<T: IntKey> IntColumn<T> {
    pub(super) fn new(column: &ArrayRef) -> Self {
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        Self { values: plain_values(column.as_ref()), nulls }
    }

    #[inline]
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// The smallest and the greatest selected value; none if all are NULL.
    pub(super) fn range(&self, rows: Selected<'_>) -> Option<RangeInclusive<i64>> {
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        let mut widen = |value: T| {
            let value = value.as_key();
            min = min.min(value);
            max = max.max(value);
        };
        match (rows, &self.nulls) {
            (Selected::All(_), None) => self.values.iter().for_each(|&value| widen(value)),
            (Selected::Rows(rows), None) => {
                rows.iter().for_each(|&row| widen(self.values[row as usize]));
            }
            (rows, Some(nulls)) => {
                let rows = (0..rows.len()).map(|i| rows.row(i) as usize);
                rows.filter(|&row| nulls.is_valid(row)).for_each(|row| widen(self.values[row]));
            }
        }
        (min <= max).then_some(min..=max)
    }
}
