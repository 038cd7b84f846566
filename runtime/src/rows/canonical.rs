//! Canonical values: what equal values have in common.
//!
//! −0.0 becomes 0.0 and every NaN the same NaN, also inside lists and structs; dictionaries become their values.
//! Intervals of one length, with months of 30 days, become one interval, and such intervals are ordered by their parts.
//! Invariant: two values are equal for the engine exactly when their canonical forms are equal bit by bit. Stored
//! payload is never canonicalised: a result shows what came in.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, FixedSizeListArray, GenericListArray, MapArray,
    OffsetSizeTrait, PrimitiveArray, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};

use crate::error::{Error, Result};

/// Arrow's half float.
type Half = <Float16Type as ArrowPrimitiveType>::Native;

const DAY_NS: i64 = 86_400_000_000_000;
const MONTH_DAYS: i64 = 30;

const NAN_64: u64 = 0x7ff8_0000_0000_0000;
const NAN_32: u32 = 0x7fc0_0000;
const NAN_16: u16 = 0x7e00;

/// The canonical bits of a double.
#[inline]
pub(crate) fn canonical_f64(value: f64) -> u64 {
    // Adding 0.0 turns −0.0 into 0.0 and leaves every other number as it is.
    let bits = (value + 0.0).to_bits();
    if value.is_nan() { NAN_64 } else { bits }
}

/// The canonical bits of a float.
#[inline]
pub(crate) fn canonical_f32(value: f32) -> u32 {
    let bits = (value + 0.0).to_bits();
    if value.is_nan() { NAN_32 } else { bits }
}

/// The canonical bits of the bits of a half float.
#[inline]
pub(crate) fn canonical_f16(bits: u16) -> u16 {
    match bits & 0x7fff {
        0 => 0,
        magnitude if magnitude > 0x7c00 => NAN_16,
        _ => bits,
    }
}

/// Whole days within a month of 30 and a time within a day, so that the parts in turn decide as the length does.
pub(crate) fn canonical_interval(value: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let IntervalMonthDayNano { months, days, nanoseconds } = value;
    let days = i64::from(days) + nanoseconds.div_euclid(DAY_NS);
    let whole = i64::from(months) + days.div_euclid(MONTH_DAYS);
    // Beyond the range of the months, which no calendar reaches, the order is kept and the distance is not.
    let months = whole.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
    IntervalMonthDayNano {
        months: months as i32,
        days: (days.rem_euclid(MONTH_DAYS) + (whole - months) * MONTH_DAYS) as i32,
        nanoseconds: nanoseconds.rem_euclid(DAY_NS),
    }
}

/// The type without dictionaries, also inside nested types.
pub fn unpacked_type(data_type: &DataType) -> DataType {
    use DataType as T;
    let field = |field: &FieldRef| -> FieldRef {
        let inner = unpacked_type(field.data_type());
        if &inner == field.data_type() {
            Arc::clone(field)
        } else {
            Arc::new(Field::new(field.name(), inner, field.is_nullable()))
        }
    };
    match data_type {
        T::Dictionary(_, value) => unpacked_type(value),
        T::List(inner) => T::List(field(inner)),
        T::LargeList(inner) => T::LargeList(field(inner)),
        T::FixedSizeList(inner, size) => T::FixedSizeList(field(inner), *size),
        T::Struct(fields) => T::Struct(fields.iter().map(field).collect()),
        T::Map(inner, sorted) => T::Map(field(inner), *sorted),
        other => other.clone(),
    }
}

/// The array without dictionaries.
pub(crate) fn unpack(array: &ArrayRef) -> Result<ArrayRef> {
    let data_type = array.data_type();
    if !data_type.is_nested() && !matches!(data_type, DataType::Dictionary(_, _)) {
        return Ok(Arc::clone(array));
    }
    let unpacked = unpacked_type(data_type);
    if &unpacked == data_type { Ok(Arc::clone(array)) } else { Ok(cast(array, &unpacked)?) }
}

/// Whether values of the type contain floats or intervals: what has several forms of one value.
pub(crate) fn has_forms(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Float16 | T::Float32 | T::Float64 => true,
        T::Interval(IntervalUnit::MonthDayNano) => true,
        T::List(inner) | T::LargeList(inner) | T::ListView(inner) | T::LargeListView(inner) => {
            has_forms(inner.data_type())
        }
        T::FixedSizeList(inner, _) | T::Map(inner, _) | T::RunEndEncoded(_, inner) => {
            has_forms(inner.data_type())
        }
        T::Struct(fields) => fields.iter().any(|field| has_forms(field.data_type())),
        T::Union(fields, _) => fields.iter().any(|(_, field)| has_forms(field.data_type())),
        T::Dictionary(_, value) => has_forms(value),
        _ => false,
    }
}

/// The array with every value in canonical form, dictionaries unpacked: what is hashed, compared and sorted.
///
/// # Errors
/// `Unsupported` for floats and intervals inside unions, list views and run-end encoding.
pub fn canonical_key(array: &ArrayRef) -> Result<ArrayRef> {
    let array = unpack(array)?;
    if has_forms(array.data_type()) { canonical_values(&array) } else { Ok(array) }
}

fn canonical_values(array: &ArrayRef) -> Result<ArrayRef> {
    use DataType as T;
    if !has_forms(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        T::Float64 => map::<Float64Type>(array, |v| f64::from_bits(canonical_f64(v))),
        T::Float32 => map::<Float32Type>(array, |v| f32::from_bits(canonical_f32(v))),
        T::Float16 => map::<Float16Type>(array, |v| Half::from_bits(canonical_f16(v.to_bits()))),
        T::Interval(IntervalUnit::MonthDayNano) => {
            map::<IntervalMonthDayNanoType>(array, canonical_interval)
        }
        T::List(field) => canonical_list::<i32>(array, field)?,
        T::LargeList(field) => canonical_list::<i64>(array, field)?,
        T::FixedSizeList(field, size) => {
            let list = array.as_fixed_size_list();
            let values = canonical_values(list.values())?;
            let nulls = list.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new(Arc::clone(field), *size, values, nulls)?)
        }
        T::Struct(fields) => {
            let rows = array.as_struct();
            let columns = rows.columns().iter().map(canonical_values).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, rows.nulls().cloned())?)
        }
        T::Map(field, sorted) => {
            let rows = array.as_map();
            let entries: ArrayRef = Arc::new(rows.entries().clone());
            let entries = canonical_values(&entries)?.as_struct().clone();
            let (offsets, nulls) = (rows.offsets().clone(), rows.nulls().cloned());
            Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *sorted)?)
        }
        other => {
            return Err(Error::Unsupported(format!("comparing values of type {other}")));
        }
    })
}

fn map<T: ArrowPrimitiveType>(array: &ArrayRef, op: impl Fn(T::Native) -> T::Native) -> ArrayRef {
    let values: &PrimitiveArray<T> = array.as_primitive();
    Arc::new(values.unary::<_, T>(op))
}

fn canonical_list<O: OffsetSizeTrait>(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
    let list = array.as_list::<O>();
    let values = canonical_values(list.values())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(field), offsets, values, nulls)?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Float64Array, ListArray};
    use arrow::datatypes::Int8Type;

    use super::*;

    #[test]
    fn floats_have_one_zero_and_one_nan() {
        assert_eq!(canonical_f64(-0.0), 0);
        assert_eq!(canonical_f64(-f64::NAN), canonical_f64(f64::NAN));
        assert_eq!(canonical_f64(-1.5), (-1.5_f64).to_bits());
        assert_eq!(canonical_f32(-0.0), 0);
        assert_eq!(canonical_f32(f32::from_bits(0xffff_ffff)), NAN_32);
        assert_eq!(canonical_f16(0x8000), 0);
        assert_eq!(canonical_f16(0xfe01), NAN_16);
        assert_eq!(canonical_f16(0xfc00), 0xfc00, "infinity stays");
    }

    #[test]
    fn intervals_of_one_length_have_one_form() {
        let interval = |months, days, nanoseconds| {
            canonical_interval(IntervalMonthDayNano { months, days, nanoseconds })
        };
        assert_eq!(interval(0, 1, 0), interval(0, 0, DAY_NS));
        assert_eq!(interval(1, 0, 0), interval(0, 30, 0));
        assert_eq!(interval(0, -1, DAY_NS), interval(0, 0, 0));
        let ordered =
            [interval(0, -1, 1), interval(0, 0, 0), interval(0, 29, 5), interval(1, 0, 0)];
        let parts = ordered.map(|i| (i.months, i.days, i.nanoseconds));
        assert!(parts.is_sorted(), "{parts:?}");
    }

    #[test]
    fn floats_inside_lists_are_canonical() {
        let list = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(-0.0), None]),
            None,
            Some(vec![Some(-f64::NAN)]),
        ]);
        let array: ArrayRef = Arc::new(list);
        let key = canonical_key(&array).unwrap();
        let values = key.as_list::<i32>().values().clone();
        let bits: Vec<u64> =
            values.as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits()).collect();
        assert_eq!((bits[0], *bits.last().unwrap()), (0, NAN_64));
    }

    #[test]
    fn dictionaries_are_unpacked() {
        let array: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter(["a", "b", "a"]));
        let plain = unpack(&array).unwrap();
        assert_eq!(plain.data_type(), &DataType::Utf8);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![-0.0]));
        assert_eq!(
            canonical_key(&floats).unwrap().as_primitive::<Float64Type>().value(0).to_bits(),
            0
        );
    }
}
