//! Columns of every type, from a fixed seed, for tests; and the naive model of equality.
//!
//! Values are drawn from small pools, so that equal keys, NULLs, NaNs, both zeros and empty and long strings all
//! occur often.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, DictionaryArray, GenericListArray, StringArray,
    StructArray, make_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int8Type, IntervalUnit, TimeUnit};
use arrow::row::{RowConverter, SortField};

use super::canonical_key;

/// A small generator of random numbers (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    pub(crate) fn indices(&mut self, count: usize, bound: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(bound) as u32).collect()
    }
}

/// One type of each kind that rows keep.
pub(crate) fn all_types() -> Vec<DataType> {
    use DataType as T;
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    let mut types = vec![
        T::Null,
        T::Boolean,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
        T::Float16,
        T::Float32,
        T::Float64,
        T::Date32,
        T::Date64,
        T::Utf8,
        T::LargeUtf8,
        T::Utf8View,
        T::Binary,
        T::LargeBinary,
        T::BinaryView,
    ];
    types.extend([
        T::Decimal32(7, 2),
        T::Decimal64(15, 2),
        T::Decimal128(30, 4),
        T::Decimal256(60, 5),
        T::Time32(TimeUnit::Millisecond),
        T::Time64(TimeUnit::Microsecond),
        T::Timestamp(TimeUnit::Microsecond, None),
        T::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        T::Duration(TimeUnit::Microsecond),
        T::Interval(IntervalUnit::YearMonth),
        T::Interval(IntervalUnit::DayTime),
        T::Interval(IntervalUnit::MonthDayNano),
        T::FixedSizeBinary(5),
        T::FixedSizeBinary(20),
        T::Dictionary(Box::new(T::Int8), Box::new(T::Utf8)),
        T::List(Arc::new(field("item", T::Int32))),
        T::List(Arc::new(field("item", T::Float64))),
        T::Struct(vec![field("a", T::Int64), field("b", T::Utf8)].into()),
    ]);
    types
}

const STRINGS: [&str; 9] = [
    "",
    "a",
    "b",
    "abcd",
    "twelve bytes",
    "thirteen byte",
    "a string that no view can hold by itself",
    "a string that no view can hold by itself, either",
    "ünï",
];

fn nulls(random: &mut Random, len: usize, null_percent: usize) -> Option<NullBuffer> {
    let valid = BooleanBuffer::collect_bool(len, |_| random.below(100) >= null_percent);
    (null_percent > 0).then(|| NullBuffer::new(valid))
}

/// A random array of `len` values, about `null_percent` of them NULL.
pub(crate) fn random_array(
    random: &mut Random,
    data_type: &DataType,
    len: usize,
    null_percent: usize,
) -> ArrayRef {
    use DataType as T;
    match data_type {
        T::Null => new_null_array(data_type, len),
        T::Boolean => {
            let values = BooleanBuffer::collect_bool(len, |_| random.below(2) == 0);
            Arc::new(BooleanArray::new(values, nulls(random, len, null_percent)))
        }
        T::Utf8 => {
            let values = (0..len).map(|_| STRINGS[random.below(STRINGS.len())]);
            let values: Vec<&str> = values.collect();
            let valid = nulls(random, len, null_percent);
            let value =
                |i: usize| valid.as_ref().is_none_or(|v| v.is_valid(i)).then_some(values[i]);
            Arc::new(StringArray::from_iter((0..len).map(value)))
        }
        T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView => {
            let strings = random_array(random, &T::Utf8, len, null_percent);
            cast(&strings, data_type).unwrap()
        }
        T::FixedSizeBinary(width) => {
            let bytes = (0..len * *width as usize).map(|_| random.below(2) as u8).collect();
            plain(random, data_type, len, null_percent, bytes)
        }
        T::Dictionary(_, _) => {
            let strings = random_array(random, &T::Utf8, len, null_percent);
            let strings = strings.as_any().downcast_ref::<StringArray>().unwrap();
            Arc::new(strings.iter().collect::<DictionaryArray<Int8Type>>())
        }
        T::List(field) => {
            let lengths: Vec<usize> = (0..len).map(|_| random.below(3)).collect();
            let values = random_array(random, field.data_type(), lengths.iter().sum(), 20);
            let nulls = nulls(random, len, null_percent);
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(GenericListArray::<i32>::new(field.clone(), offsets, values, nulls))
        }
        T::Struct(fields) => {
            let columns =
                fields.iter().map(|f| random_array(random, f.data_type(), len, 20)).collect();
            Arc::new(StructArray::new(fields.clone(), columns, nulls(random, len, null_percent)))
        }
        other => {
            let width = other.primitive_width().unwrap();
            let bytes = (0..len).flat_map(|_| pool_value(random, other, width)).collect();
            plain(random, data_type, len, null_percent, bytes)
        }
    }
}

fn pool_value(random: &mut Random, data_type: &DataType, width: usize) -> Vec<u8> {
    let choice = random.below(9);
    match data_type {
        DataType::Float64 => {
            let pool = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, -1.5, f64::INFINITY, f64::MIN, 2.0];
            pool[choice].to_le_bytes().to_vec()
        }
        DataType::Float32 => {
            let pool = [0.0, -0.0, f32::NAN, -f32::NAN, 1.5, -1.5, f32::INFINITY, f32::MIN, 2.0];
            pool[choice].to_le_bytes().to_vec()
        }
        DataType::Float16 => {
            let pool: [u16; 9] = [0, 0x8000, 0x7e00, 0xfe01, 0x3c00, 0xbc00, 0x7c00, 0xfbff, 1];
            pool[choice].to_le_bytes().to_vec()
        }
        // Small numbers of either sign; the sign extends over the whole width.
        _ if choice < 3 => {
            let mut bytes = vec![0xff; width];
            bytes[0] = 0xf0 + random.below(8) as u8;
            bytes
        }
        _ => {
            let mut bytes = vec![0; width];
            bytes[0] = random.below(12) as u8;
            bytes[width / 2] |= random.below(2) as u8;
            bytes
        }
    }
}

fn plain(
    random: &mut Random,
    data_type: &DataType,
    len: usize,
    null_percent: usize,
    bytes: Vec<u8>,
) -> ArrayRef {
    let nulls = nulls(random, len, null_percent);
    let buffer = Buffer::from(bytes.as_slice());
    let data = ArrayData::builder(data_type.clone()).len(len).add_buffer(buffer).nulls(nulls);
    make_array(data.build().unwrap())
}

/// The model of equality: rows are equal exactly when these byte strings are (NULL equal to NULL).
pub(crate) fn model_keys(columns: &[ArrayRef]) -> Vec<Vec<u8>> {
    let columns: Vec<ArrayRef> = columns.iter().map(|c| canonical_key(c).unwrap()).collect();
    let fields = columns.iter().map(|c| SortField::new(c.data_type().clone())).collect();
    let rows = RowConverter::new(fields).unwrap().convert_columns(&columns).unwrap();
    rows.iter().map(|row| row.data().to_vec()).collect()
}

/// Whether any of the columns is NULL in the row.
pub(crate) fn any_null(columns: &[ArrayRef], row: usize) -> bool {
    columns.iter().any(|c| c.logical_nulls().is_some_and(|nulls| nulls.is_null(row)))
}
