//! Numbers with fractions as whole numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float32Type, Float64Type,
};
use datafusion_common::{Result, plan_err};

/// The type of the whole numbers: one more digit, since 9.5 is rounded to 10.
pub(super) fn whole_type(number: &DataType) -> DataType {
    match number {
        DataType::Decimal128(precision, scale) if *scale > 0 => {
            let digits = i16::from(*precision) - i16::from(*scale) + 1;
            let digits = u8::try_from(digits).unwrap_or(1).clamp(1, DECIMAL128_MAX_PRECISION);
            DataType::Decimal128(digits, 0)
        }
        other => other.clone(),
    }
}

/// Doubles rounded half to even, decimals half away from zero, as PostgreSQL's casts do.
pub(super) fn whole(numbers: &ArrayRef) -> Result<ArrayRef> {
    let result = whole_type(numbers.data_type());
    match numbers.data_type() {
        DataType::Float64 => {
            let doubles = numbers.as_primitive::<Float64Type>();
            Ok(Arc::new(doubles.unary::<_, Float64Type>(f64::round_ties_even)))
        }
        DataType::Float32 => {
            let reals = numbers.as_primitive::<Float32Type>();
            Ok(Arc::new(reals.unary::<_, Float32Type>(f32::round_ties_even)))
        }
        DataType::Decimal128(_, scale) if *scale > 0 => {
            let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
            let decimals = numbers.as_primitive::<Decimal128Type>();
            let rounded = decimals.unary::<_, Decimal128Type>(|digits| round(digits, unit));
            Ok(Arc::new(rounded.with_data_type(result)))
        }
        DataType::Decimal128(..) | DataType::Null => Ok(Arc::clone(numbers)),
        other => plan_err!("{other} has no fractions to round"),
    }
}

fn round(digits: i128, unit: i128) -> i128 {
    let (whole, rest) = (digits / unit, digits % unit);
    // Compared without doubling, which could overflow.
    if rest.abs() >= unit - rest.abs() { whole + digits.signum() } else { whole }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Float64Array};

    use super::*;

    #[test]
    fn halves_go_to_even_in_doubles_and_away_from_zero_in_decimals() {
        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5, -1.5, -0.5, 3.4]));
        let rounded = whole(&doubles).unwrap();
        let values = rounded.as_primitive::<Float64Type>().values().to_vec();
        assert_eq!(values, [0.0, 2.0, 2.0, -2.0, 0.0, 3.0]);
        let decimals =
            Decimal128Array::from(vec![25, -25, 24, 995]).with_precision_and_scale(3, 1).unwrap();
        let decimals: ArrayRef = Arc::new(decimals);
        let rounded = whole(&decimals).unwrap();
        assert_eq!(rounded.data_type(), &DataType::Decimal128(3, 0));
        assert_eq!(rounded.as_primitive::<Decimal128Type>().values(), &[3, -3, 2, 100]);
    }
}
