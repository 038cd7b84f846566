//! Ordinals: whole numbers that are ordered as the values of a type are.
//!
//! Numbers, decimals, dates, times and booleans have them; strings and nested values do not. Floats must be in
//! canonical form. NULLs have arbitrary ordinals: the caller looks at the NULLs.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::*;

/// Types whose values map to whole numbers in order.
pub(crate) fn has_ordinals(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Int8 | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | UInt64
            | Float32
            | Float64
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(_, _)
            | Duration(_)
            | Decimal32(_, _)
            | Decimal64(_, _)
            | Decimal128(_, _)
    )
}

/// A native value's place in the order.
pub(crate) trait Ordinal: Copy {
    /// The place.
    fn ordinal(self) -> i128;
}
macro_rules! whole_numbers {
    ($($native:ty),*) => { $(impl Ordinal for $native {
        #[inline]
        fn ordinal(self) -> i128 { self as i128 }
    })* };
}
whole_numbers!(i8, i16, i32, i64, u8, u16, u32, u64, i128);
impl Ordinal for f64 {
    #[inline]
    fn ordinal(self) -> i128 {
        let bits = self.to_bits() as i64;
        i128::from(bits ^ (((bits >> 63) as u64) >> 1) as i64)
    }
}
impl Ordinal for f32 {
    #[inline]
    fn ordinal(self) -> i128 {
        let bits = self.to_bits() as i32;
        i128::from(bits ^ (((bits >> 31) as u32) >> 1) as i32)
    }
}

/// Runs `$body` with the native values of a primitive array.
macro_rules! with_natives {
    ($array:expr, $values:ident => $body:expr, $otherwise:expr) => {
        with_natives!(@ $array, $values, $body, $otherwise,
            Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type,
            UInt8 => UInt8Type, UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type,
            Float32 => Float32Type, Float64 => Float64Type, Date32 => Date32Type, Date64 => Date64Type,
            Time32(TimeUnit::Second) => Time32SecondType,
            Time32(TimeUnit::Millisecond) => Time32MillisecondType,
            Time64(TimeUnit::Microsecond) => Time64MicrosecondType,
            Time64(TimeUnit::Nanosecond) => Time64NanosecondType,
            Timestamp(TimeUnit::Second, _) => TimestampSecondType,
            Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
            Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
            Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
            Duration(TimeUnit::Second) => DurationSecondType,
            Duration(TimeUnit::Millisecond) => DurationMillisecondType,
            Duration(TimeUnit::Microsecond) => DurationMicrosecondType,
            Duration(TimeUnit::Nanosecond) => DurationNanosecondType,
            Decimal32(_, _) => Decimal32Type, Decimal64(_, _) => Decimal64Type,
            Decimal128(_, _) => Decimal128Type)
    };
    (@ $array:expr, $values:ident, $body:expr, $otherwise:expr, $($pattern:pat => $native:ty),*) => {
        match $array.data_type() {
            $($pattern => {
                let $values = $array.as_primitive::<$native>().values();
                $body
            })*
            _ => $otherwise,
        }
    };
}

pub(crate) use with_natives;

/// The least and the greatest ordinal of the values that are not NULL.
pub(crate) fn ordinal_range(array: &ArrayRef) -> (i128, i128) {
    let empty = (i128::MAX, i128::MIN);
    if array.logical_null_count() == array.len() {
        return empty;
    }
    use DataType::*;
    if let Boolean = array.data_type() {
        let values: &BooleanArray = array.as_boolean();
        let ordinals = values.iter().flatten().map(i128::from);
        return ordinals.fold(empty, |(low, high), v| (low.min(v), high.max(v)));
    }
    with_natives!(array, values => {
        // The order of natives of one type is that of their ordinals, but for floats; the fold is on ordinals.
        let fold = |(low, high): (i128, i128), v: i128| (low.min(v), high.max(v));
        match array.nulls() {
            None => values.iter().map(|v| v.ordinal()).fold(empty, fold),
            Some(nulls) => nulls.valid_indices().map(|i| values[i].ordinal()).fold(empty, fold),
        }
    }, empty)
}

/// The ordinals of all rows; none for a type without ordinals.
pub(crate) fn ordinals(array: &ArrayRef) -> Option<Vec<i128>> {
    use DataType::*;
    if let Boolean = array.data_type() {
        return Some(array.as_boolean().values().iter().map(i128::from).collect());
    }
    with_natives!(array, values => Some(values.iter().map(|v| v.ordinal()).collect()), None)
}
