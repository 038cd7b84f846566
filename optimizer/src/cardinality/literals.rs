//! Values on a number line, so that ranges can be interpolated.
//!
//! Invariant: two scalars of one type keep their order. Types without a distance (strings, nested) have no number.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;

/// A scalar as a number in the unit of its type; decimals are scaled.
pub(super) fn number(value: &ScalarValue) -> Option<f64> {
    Some(match value {
        ScalarValue::Boolean(Some(v)) => f64::from(u8::from(*v)),
        ScalarValue::Int8(Some(v)) => f64::from(*v),
        ScalarValue::Int16(Some(v)) => f64::from(*v),
        ScalarValue::Int32(Some(v))
        | ScalarValue::Date32(Some(v))
        | ScalarValue::Time32Second(Some(v)) => f64::from(*v),
        ScalarValue::Int64(Some(v))
        | ScalarValue::Date64(Some(v))
        | ScalarValue::TimestampSecond(Some(v), _)
        | ScalarValue::TimestampMillisecond(Some(v), _)
        | ScalarValue::TimestampMicrosecond(Some(v), _)
        | ScalarValue::TimestampNanosecond(Some(v), _) => *v as f64,
        ScalarValue::UInt8(Some(v)) => f64::from(*v),
        ScalarValue::UInt16(Some(v)) => f64::from(*v),
        ScalarValue::UInt32(Some(v)) => f64::from(*v),
        ScalarValue::UInt64(Some(v)) => *v as f64,
        ScalarValue::Float32(Some(v)) => f64::from(*v),
        ScalarValue::Float64(Some(v)) => *v,
        ScalarValue::Decimal32(Some(v), _, scale) => f64::from(*v) / 10_f64.powi(i32::from(*scale)),
        ScalarValue::Decimal64(Some(v), _, scale) => *v as f64 / 10_f64.powi(i32::from(*scale)),
        ScalarValue::Decimal128(Some(v), _, scale) => *v as f64 / 10_f64.powi(i32::from(*scale)),
        _ => return None,
    })
}

/// How many values a type has between two numbers, if it is discrete.
pub(super) fn values_between(data_type: &DataType, min: f64, max: f64) -> Option<f64> {
    let span = max - min;
    match data_type {
        DataType::Boolean => Some(2.0),
        t if t.is_integer() => Some(span + 1.0),
        DataType::Date32 => Some(span + 1.0),
        DataType::Date64 => Some(span / 86_400_000.0 + 1.0),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(span * 10_f64.powi(i32::from(*scale)) + 1.0),
        _ => None,
    }
}
