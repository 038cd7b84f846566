//! From sums and counts to the columns of SUM and AVG.
//!
//! Invariant: the sum or mean of no values is NULL; a result that its type cannot hold is an error; decimal means are
//! rounded half away from zero.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, Float64Array, PrimitiveArray};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Int64Type, TimeUnit, UInt64Type, i256,
};

use crate::error::{Error, Result};

/// A sum that becomes results.
pub(crate) trait SumResult: Sized {
    /// The sums of (sum, number of values) as a column of type `result`.
    fn sums(states: impl Iterator<Item = (Self, i64)>, result: &DataType) -> Result<ArrayRef>;
    /// The means, where the summed values have `scale` digits behind the point.
    fn averages(
        states: impl Iterator<Item = (Self, i64)>,
        scale: i8,
        result: &DataType,
    ) -> Result<ArrayRef>;
}

impl SumResult for f64 {
    fn sums(states: impl Iterator<Item = (f64, i64)>, _result: &DataType) -> Result<ArrayRef> {
        let values = states.map(|(sum, count)| (count > 0).then_some(sum));
        Ok(Arc::new(values.collect::<Float64Array>()))
    }

    fn averages(
        states: impl Iterator<Item = (f64, i64)>,
        _scale: i8,
        _result: &DataType,
    ) -> Result<ArrayRef> {
        let values = states.map(|(sum, count)| (count > 0).then(|| sum / count as f64));
        Ok(Arc::new(values.collect::<Float64Array>()))
    }
}

impl SumResult for i128 {
    fn sums(states: impl Iterator<Item = (i128, i64)>, result: &DataType) -> Result<ArrayRef> {
        column(states.map(|(sum, count)| Ok((count > 0).then_some(sum))), result)
    }

    fn averages(
        states: impl Iterator<Item = (i128, i64)>,
        scale: i8,
        result: &DataType,
    ) -> Result<ArrayRef> {
        let Some(result_scale) = decimal_scale(result) else {
            if let DataType::Duration(_) = result {
                let mean = |(sum, count): (i128, i64)| (count > 0).then(|| sum / i128::from(count));
                return column(states.map(|state| Ok(mean(state))), result);
            }
            let unit = 10_f64.powi(i32::from(scale));
            let mean =
                |(sum, count): (i128, i64)| (count > 0).then(|| sum as f64 / (unit * count as f64));
            return Ok(Arc::new(states.map(mean).collect::<Float64Array>()));
        };
        let factor = power(result_scale - scale)?;
        let small = factor.to_i128().unwrap_or(i128::MAX);
        column(
            states.map(|(sum, count)| {
                if count == 0 {
                    return Ok(None);
                }
                match sum.checked_mul(small) {
                    Some(scaled) => Ok(Some(divide(scaled, i128::from(count)))),
                    None => {
                        let mean = divide_wide(i256::from_i128(sum), factor, count)?;
                        mean.to_i128().map(Some).ok_or_else(|| out_of_range("a mean", result))
                    }
                }
            }),
            result,
        )
    }
}

impl SumResult for i256 {
    fn sums(states: impl Iterator<Item = (i256, i64)>, result: &DataType) -> Result<ArrayRef> {
        column_wide(states.map(|(sum, count)| Ok((count > 0).then_some(sum))), result)
    }

    fn averages(
        states: impl Iterator<Item = (i256, i64)>,
        scale: i8,
        result: &DataType,
    ) -> Result<ArrayRef> {
        let Some(result_scale) = decimal_scale(result) else {
            let unit = 10_f64.powi(i32::from(scale));
            let mean = |(sum, count)| (count > 0).then(|| double(sum) / (unit * count as f64));
            return Ok(Arc::new(states.map(mean).collect::<Float64Array>()));
        };
        let factor = power(result_scale - scale)?;
        let mean = |(sum, count)| {
            if count == 0 { Ok(None) } else { divide_wide(sum, factor, count).map(Some) }
        };
        column_wide(states.map(mean), result)
    }
}

/// The nearest double.
fn double(value: i256) -> f64 {
    value.to_i128().map_or_else(|| value.to_string().parse().unwrap_or(f64::NAN), |v| v as f64)
}

fn decimal_scale(result: &DataType) -> Option<i8> {
    match result {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

fn power(digits: i8) -> Result<i256> {
    let digits = u32::try_from(digits)
        .map_err(|_| Error::Internal("a mean with fewer digits than its argument".into()))?;
    Ok(i256::from_i128(10).wrapping_pow(digits))
}

/// The quotient rounded half away from zero; the divisor is positive.
fn divide(value: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (value / divisor, value % divisor);
    // Compared without doubling, which could overflow.
    if rest.abs() >= divisor - rest.abs() { quotient + value.signum() } else { quotient }
}

fn divide_wide(sum: i256, factor: i256, count: i64) -> Result<i256> {
    let scaled = sum.checked_mul(factor).ok_or_else(|| Error::user("a mean is out of range"))?;
    let divisor = i256::from_i128(i128::from(count));
    let (quotient, rest) = (scaled.wrapping_div(divisor), scaled.wrapping_rem(divisor));
    let magnitude = if rest < i256::ZERO { rest.wrapping_neg() } else { rest };
    let sign = if scaled < i256::ZERO { i256::MINUS_ONE } else { i256::ONE };
    Ok(if magnitude >= divisor.wrapping_sub(magnitude) {
        quotient.wrapping_add(sign)
    } else {
        quotient
    })
}

fn out_of_range(what: &str, result: &DataType) -> Error {
    Error::User {
        message: format!("{what} is out of range for its type"),
        detail: Some(format!("The type of the result is {result}.")),
        hint: Some(
            "Cast the argument to a wider type, such as DECIMAL(38, 0) or DOUBLE PRECISION.".into(),
        ),
    }
}

/// The values as an integer, decimal or duration column.
fn column(
    values: impl Iterator<Item = Result<Option<i128>>>,
    result: &DataType,
) -> Result<ArrayRef> {
    match result {
        DataType::Int64 => narrow::<Int64Type>(values, result, None),
        DataType::UInt64 => narrow::<UInt64Type>(values, result, None),
        DataType::Decimal32(p, _) => narrow::<Decimal32Type>(values, result, Some(*p)),
        DataType::Decimal64(p, _) => narrow::<Decimal64Type>(values, result, Some(*p)),
        DataType::Decimal128(p, _) => narrow::<Decimal128Type>(values, result, Some(*p)),
        DataType::Decimal256(_, _) => {
            column_wide(values.map(|v| Ok(v?.map(i256::from_i128))), result)
        }
        DataType::Duration(TimeUnit::Second) => narrow::<DurationSecondType>(values, result, None),
        DataType::Duration(TimeUnit::Millisecond) => {
            narrow::<DurationMillisecondType>(values, result, None)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            narrow::<DurationMicrosecondType>(values, result, None)
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            narrow::<DurationNanosecondType>(values, result, None)
        }
        DataType::Float64 => {
            let values = values.map(|v| Ok(v?.map(|v| v as f64)));
            Ok(Arc::new(values.collect::<Result<Float64Array>>()?))
        }
        other => Err(Error::Internal(format!("a sum of type {other}"))),
    }
}

fn narrow<T>(
    values: impl Iterator<Item = Result<Option<i128>>>,
    result: &DataType,
    precision: Option<u8>,
) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    let bound = precision.map_or(u128::MAX, |digits| 10_u128.pow(u32::from(digits)));
    let values = values.map(|value| {
        let Some(value) = value? else { return Ok(None) };
        if value.unsigned_abs() >= bound {
            return Err(out_of_range("a sum", result));
        }
        T::Native::try_from(value).map(Some).map_err(|_| out_of_range("a sum", result))
    });
    let array = values.collect::<Result<PrimitiveArray<T>>>()?;
    Ok(Arc::new(array.with_data_type(result.clone())))
}

/// The values as a column of a decimal type of up to 76 digits.
fn column_wide(
    values: impl Iterator<Item = Result<Option<i256>>>,
    result: &DataType,
) -> Result<ArrayRef> {
    match result {
        DataType::Decimal256(precision, _) => {
            let bound = i256::from_i128(10).wrapping_pow(u32::from(*precision));
            let values = values.map(|value| match value? {
                Some(v) if v >= bound || v <= bound.wrapping_neg() => {
                    Err(out_of_range("a sum", result))
                }
                value => Ok(value),
            });
            let array = values.collect::<Result<PrimitiveArray<Decimal256Type>>>()?;
            Ok(Arc::new(array.with_data_type(result.clone())))
        }
        DataType::Float64 => {
            let values = values.map(|v| Ok(v?.map(double)));
            Ok(Arc::new(values.collect::<Result<Float64Array>>()?))
        }
        _ => {
            // Behind a pointer, since the two functions call each other with ever longer iterators otherwise.
            let narrowed: Box<dyn Iterator<Item = Result<Option<i128>>> + '_> =
                Box::new(values.map(|value| match value? {
                    Some(v) => v.to_i128().map(Some).ok_or_else(|| out_of_range("a sum", result)),
                    None => Ok(None),
                }));
            column(narrowed, result)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Float64Type;

    #[test]
    fn means_round_half_away_from_zero() {
        assert_eq!([divide(5, 2), divide(-5, 2), divide(4, 3), divide(-5, 3)], [3, -3, 1, -2]);
        let wide = |v| divide_wide(i256::from_i128(v), i256::ONE, 2).unwrap().to_i128();
        assert_eq!([wide(5), wide(-5), wide(4)], [Some(3), Some(-3), Some(2)]);
    }

    #[test]
    fn sums_beyond_their_type_are_errors() {
        let sum = |value: i128, result: &DataType| i128::sums([(value, 1)].into_iter(), result);
        assert!(sum(i128::from(i64::MAX) + 1, &DataType::Int64).is_err());
        assert!(sum(i128::from(i64::MIN), &DataType::Int64).is_ok());
        assert!(sum(-1, &DataType::UInt64).is_err());
        assert!(sum(10_i128.pow(38), &DataType::Decimal128(38, 0)).is_err());
        assert!(sum(1 - 10_i128.pow(38), &DataType::Decimal128(38, 0)).is_ok());
    }

    #[test]
    fn means_of_decimals_as_doubles_lose_nothing_before_the_division() {
        let states = [(10_i128.pow(37) + 1, 3), (0, 0), (-25, 2)];
        let means =
            |array: ArrayRef| array.as_primitive::<Float64Type>().iter().collect::<Vec<_>>();
        let narrow = i128::averages(states.into_iter(), 1, &DataType::Float64).unwrap();
        let wide = states.map(|(sum, count)| (i256::from_i128(sum), count));
        let wide = i256::averages(wide.into_iter(), 1, &DataType::Float64).unwrap();
        let wanted = vec![Some(1e37 / 30.0), None, Some(-1.25)];
        assert_eq!((means(narrow), means(wide)), (wanted.clone(), wanted));
    }

    #[test]
    fn large_means_take_the_wide_path() {
        let result = DataType::Decimal128(38, 6);
        let array =
            i128::averages([(10_i128.pow(36), 10_000_000)].into_iter(), 2, &result).unwrap();
        assert_eq!(array.as_primitive::<Decimal128Type>().value(0), 10_i128.pow(33));
    }
}
