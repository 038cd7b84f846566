//! Making columns, a batch at a time.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewBuilder, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    StringViewBuilder, make_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use thalweg_runtime::Result;

use super::columns::{ColumnSpec, ValuesSpec};
use crate::connectors::streaming::Stream;
use crate::connectors::streaming::generator::Rows;

/// Which sequence of random numbers is for the values of a column, for their lower halves, and for its NULLs.
const VALUES: u64 = 0;
const LOWER: u64 = 1;
const NULLS: u64 = 2;
/// Hexadecimal digits of a random number.
const DIGITS: usize = 16;

/// A column of these rows, in the table's type. `seed` is the column's own; `now_us` is the time as it is now.
pub fn column(
    spec: &ColumnSpec,
    data_type: &DataType,
    rows: Rows,
    seed: u64,
    now_us: i64,
) -> Result<ArrayRef> {
    let values = values(&spec.values, data_type, rows, seed, now_us)?;
    if spec.null_rate <= 0.0 {
        return Ok(values);
    }
    let stream = Stream::new(seed, NULLS);
    let valid: BooleanBuffer = rows.iter().map(|row| stream.unit(row) >= spec.null_rate).collect();
    let data = values.to_data().into_builder().nulls(Some(NullBuffer::new(valid))).build()?;
    Ok(make_array(data))
}

fn values(
    spec: &ValuesSpec,
    data_type: &DataType,
    rows: Rows,
    seed: u64,
    now_us: i64,
) -> Result<ArrayRef> {
    let stream = Stream::new(seed, VALUES);
    match spec {
        ValuesSpec::Integers { min, max } => {
            // All 2^64 numbers are as many as a random number has; otherwise the width fits 64 bits.
            let width = max.wrapping_sub(*min) as u64;
            let value = |row| match width {
                u64::MAX => stream.bits(row) as i64,
                _ => min.wrapping_add(stream.below(row, width + 1) as i64),
            };
            typed(Int64Array::from_iter_values(rows.iter().map(value)), data_type)
        }
        ValuesSpec::Sequence { start, step, .. } => {
            let value = |row: u64| start.wrapping_add(step.wrapping_mul(row as i64));
            typed(Int64Array::from_iter_values(rows.iter().map(value)), data_type)
        }
        ValuesSpec::Decimals { min, max } => {
            let lower = Stream::new(seed, LOWER);
            // The width of 38 digits on both sides of 0 fits 128 bits without a sign.
            let width = max.wrapping_sub(*min) as u128 + 1;
            let value = |row| {
                let bits = u128::from(stream.bits(row)) << 64 | u128::from(lower.bits(row));
                min.wrapping_add((bits % width) as i128)
            };
            decimals(rows.iter().map(value), data_type)
        }
        ValuesSpec::Doubles { min, max } => {
            let value = |row| min + stream.unit(row) * (max - min);
            let doubles = Float64Array::from_iter_values(rows.iter().map(value));
            Ok(cast(&doubles, data_type)?)
        }
        ValuesSpec::Booleans => {
            let bits: BooleanBuffer = rows.iter().map(|row| stream.bits(row) >> 63 == 1).collect();
            Ok(Arc::new(BooleanArray::new(bits, None)))
        }
        ValuesSpec::Text { length } => text(rows, *length, stream, data_type),
        ValuesSpec::Bytes { length } => bytes(rows, *length, stream, data_type),
        ValuesSpec::Past { max_us } => {
            let value = |row| now_us.saturating_sub(stream.below(row, *max_us as u64 + 1) as i64);
            let micros = Int64Array::from_iter_values(rows.iter().map(value));
            let zone = match data_type {
                DataType::Timestamp(_, zone) => zone.clone(),
                _ => None,
            };
            let micros = cast(&micros, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
            Ok(cast(&micros, data_type)?)
        }
    }
}

/// Whole numbers as what they stand for in the column.
fn typed(numbers: Int64Array, data_type: &DataType) -> Result<ArrayRef> {
    match data_type {
        // Days have 32 bits.
        DataType::Date32 => Ok(cast(&cast(&numbers, &DataType::Int32)?, data_type)?),
        _ => Ok(cast(&numbers, data_type)?),
    }
}

fn decimals(values: impl Iterator<Item = i128>, data_type: &DataType) -> Result<ArrayRef> {
    let array = Decimal128Array::from_iter_values(values).with_data_type(data_type.clone());
    Ok(Arc::new(array))
}

fn text(rows: Rows, length: usize, stream: Stream, data_type: &DataType) -> Result<ArrayRef> {
    let mut builder = StringViewBuilder::with_capacity(rows.count);
    let mut digits = String::with_capacity(length + DIGITS);
    for row in rows.iter() {
        digits.clear();
        let words = length.div_ceil(DIGITS) as u64;
        let own = Stream::new(stream.bits(row), 0);
        (0..words).for_each(|word| push_digits(own.bits(word), &mut digits));
        builder.append_value(&digits[..length]);
    }
    let array = builder.finish();
    Ok(cast(&array, data_type)?)
}

fn push_digits(word: u64, out: &mut String) {
    const HEX: &[u8; DIGITS] = b"0123456789abcdef";
    let digits: [u8; DIGITS] =
        std::array::from_fn(|i| HEX[(word >> (4 * i)) as usize & (DIGITS - 1)]);
    out.extend(digits.map(char::from));
}

fn bytes(rows: Rows, length: usize, stream: Stream, data_type: &DataType) -> Result<ArrayRef> {
    let mut builder = BinaryViewBuilder::with_capacity(rows.count);
    let mut value = Vec::with_capacity(length + 8);
    for row in rows.iter() {
        value.clear();
        let own = Stream::new(stream.bits(row), 0);
        let words = length.div_ceil(8) as u64;
        (0..words).for_each(|word| value.extend_from_slice(&own.bits(word).to_le_bytes()));
        builder.append_value(&value[..length]);
    }
    let array = builder.finish();
    Ok(cast(&array, data_type)?)
}
