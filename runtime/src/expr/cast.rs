//! Casts of decimals to floating-point numbers, which Arrow rounds twice.
//!
//! A decimal is digits over a power of ten. Where a double holds both exactly, their quotient is rounded once, at the end.
//! Longer digits are read as their text would be. Invariant: the result is the floating-point number nearest to the
//! decimal, the same that its text gives. All other casts are left to Arrow.

use std::fmt;
use std::hash::Hash;
use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float32Type,
    Float64Type,
};
use arrow::error::ArrowError;
use arrow_schema::{DataType, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

/// Whole numbers up to this are doubles, each of them.
const WHOLE_MAX: u128 = 1 << f64::MANTISSA_DIGITS;
/// Powers of ten up to this one are doubles.
const EXACT_POWER_MAX: u8 = 22;
/// Bytes of the longest digits with sign and exponent.
const TEXT_BYTES: usize = 96;

/// The column cast to a type: as Arrow does it, but decimals become the nearest floating-point numbers.
pub fn cast_column(
    column: &ArrayRef,
    to: &DataType,
    options: &CastOptions<'_>,
) -> Result<ArrayRef, ArrowError> {
    let nearest = match to {
        DataType::Float64 => nearest::<Float64Type>(column),
        DataType::Float32 => nearest::<Float32Type>(column),
        _ => None,
    };
    match nearest {
        Some(nearest) => Ok(nearest),
        None => cast_with_options(column, to, options),
    }
}

/// The decimals as floating-point numbers; `None` if the column is of another type.
fn nearest<T: Float>(column: &ArrayRef) -> Option<ArrayRef> {
    let scale = |scale: &i8| Scale::new(*scale);
    Some(Arc::new(match column.data_type() {
        DataType::Decimal32(_, s) => {
            let scale = scale(s);
            column.as_primitive::<Decimal32Type>().unary::<_, T>(|v| T::nearest(scale, v.into()))
        }
        DataType::Decimal64(_, s) => {
            let scale = scale(s);
            column.as_primitive::<Decimal64Type>().unary::<_, T>(|v| T::nearest(scale, v.into()))
        }
        DataType::Decimal128(_, s) => {
            let scale = scale(s);
            column.as_primitive::<Decimal128Type>().unary::<_, T>(|v| T::nearest(scale, v))
        }
        DataType::Decimal256(_, s) => {
            let scale = scale(s);
            column.as_primitive::<Decimal256Type>().unary::<_, T>(|v| match v.to_i128() {
                Some(v) => T::nearest(scale, v),
                None => scale.parsed(v),
            })
        }
        _ => return None,
    }))
}

/// How many digits of a decimal stand behind the point.
#[derive(Debug, Clone, Copy)]
struct Scale {
    scale: i8,
    /// Ten to the number of these digits, or of the zeros left out, if a double holds it.
    power: Option<f64>,
}

impl Scale {
    fn new(scale: i8) -> Self {
        let power = scale.unsigned_abs();
        let exact = || 10_u128.pow(u32::from(power)) as f64;
        Scale { scale, power: (power <= EXACT_POWER_MAX).then(exact) }
    }

    /// The double nearest to the decimal of these digits.
    fn double(self, digits: i128) -> f64 {
        match self.power {
            Some(power) if digits.unsigned_abs() <= WHOLE_MAX => {
                let whole = digits as i64 as f64;
                if self.scale < 0 { whole * power } else { whole / power }
            }
            _ => self.parsed(digits),
        }
    }

    /// The number nearest to the decimal of these digits, whatever their length.
    #[cold]
    fn parsed<F: FromStr>(self, digits: impl fmt::Display) -> F {
        let mut text = [0_u8; TEXT_BYTES];
        let mut rest = &mut text[..];
        let written = write!(rest, "{digits}e{}", -i32::from(self.scale));
        let length = TEXT_BYTES - rest.len();
        written
            .ok()
            .and_then(|()| std::str::from_utf8(&text[..length]).ok()?.parse().ok())
            .expect("digits and an exponent fit there and are a number")
    }
}

/// Floating-point types that decimals are cast to.
trait Float: ArrowPrimitiveType<Native: FromStr> {
    fn nearest(scale: Scale, digits: i128) -> Self::Native;
}

impl Float for Float64Type {
    fn nearest(scale: Scale, digits: i128) -> f64 {
        scale.double(digits)
    }
}

impl Float for Float32Type {
    fn nearest(scale: Scale, digits: i128) -> f32 {
        /// The bits of a double that no real has, and their value halfway between two reals.
        const BEYOND: u64 = (1 << (f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS)) - 1;
        const HALFWAY: u64 = BEYOND / 2 + 1;
        let double = scale.double(digits);
        let small = double != 0.0 && double.abs() < f64::from(f32::MIN_POSITIVE);
        // Only there does it matter on which side of the double the decimal lies.
        if double.to_bits() & BEYOND == HALFWAY || small {
            scale.parsed(digits)
        } else {
            double as f32
        }
    }
}

/// Casts the decimals that its argument gives.
#[derive(Debug, Clone, Eq)]
pub struct DecimalToFloat {
    expr: Arc<dyn PhysicalExpr>,
    to: DataType,
}

impl DecimalToFloat {
    /// The expression, if it is a cast of a decimal to a floating-point number.
    pub fn try_new(
        expr: &Arc<dyn PhysicalExpr>,
        to: &DataType,
        schema: &Schema,
    ) -> Result<Option<Self>> {
        let concerned = matches!(to, DataType::Float64 | DataType::Float32)
            && expr.data_type(schema)?.is_decimal();
        Ok(concerned.then(|| DecimalToFloat { expr: expr.clone(), to: to.clone() }))
    }
}

impl PartialEq for DecimalToFloat {
    fn eq(&self, other: &Self) -> bool {
        self.expr.eq(&other.expr) && self.to == other.to
    }
}

impl Hash for DecimalToFloat {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
        self.to.hash(state);
    }
}

impl fmt::Display for DecimalToFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CAST({} AS {})", self.expr, self.to)
    }
}

impl PhysicalExpr for DecimalToFloat {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.expr.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let cast = |column: &ArrayRef| cast_column(column, &self.to, &CastOptions::default());
        Ok(match self.expr.evaluate(batch)? {
            ColumnarValue::Array(column) => ColumnarValue::Array(cast(&column)?),
            ColumnarValue::Scalar(value) => {
                let number = cast(&value.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&number, 0)?)
            }
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.expr]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(DecimalToFloat { expr: children[0].clone(), to: self.to.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Decimal256Array};
    use arrow::datatypes::i256;

    use super::*;

    fn cast<T: ArrowPrimitiveType>(column: ArrayRef) -> Vec<T::Native> {
        let cast = cast_column(&column, &T::DATA_TYPE, &CastOptions::default()).unwrap();
        cast.as_primitive::<T>().values().to_vec()
    }

    fn decimals(digits: &[i128], scale: i8) -> ArrayRef {
        let array = Decimal128Array::from(digits.to_vec());
        Arc::new(array.with_precision_and_scale(38, scale).unwrap())
    }

    /// Numbers of every length, the same in every run.
    fn random_digits() -> Vec<i128> {
        let mut state = 17_u128;
        let mut digits = Vec::new();
        for round in 0..2_000_u32 {
            state = state
                .wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645)
                .wrapping_add(0x5851_F42D_4C95_7F2D_1405_7B7E_F767_814F);
            let value = (state >> 2) as i128 % 10_i128.pow(1 + round % 38);
            digits.push(if round % 3 == 0 { -value } else { value });
        }
        digits
    }

    #[test]
    fn decimals_become_the_numbers_that_their_text_gives() {
        for scale in [-3_i8, 0, 1, 8, 22, 23, 38] {
            let digits = random_digits();
            let doubles = cast::<Float64Type>(decimals(&digits, scale));
            let reals = cast::<Float32Type>(decimals(&digits, scale));
            for (i, digits) in digits.iter().enumerate() {
                let text = format!("{digits}e{}", -i32::from(scale));
                assert_eq!(doubles[i], text.parse::<f64>().unwrap(), "{text}");
                assert_eq!(reals[i], text.parse::<f32>().unwrap(), "{text}");
            }
        }
        assert_eq!(
            cast::<Float64Type>(decimals(&[12_345_678_912_345_679], 8)),
            [123_456_789.123_456_79]
        );
    }

    #[test]
    fn halves_between_reals_are_not_rounded_twice() {
        // One digit beyond the middle of 1 and the next real, which no double tells from the middle.
        let above = 1_000_000_059_604_644_775_390_626_i128;
        assert_eq!(cast::<Float32Type>(decimals(&[above], 24)), [1.000_000_1]);
        assert_eq!(cast::<Float32Type>(decimals(&[above - 1], 24)), [1.0]);
    }

    #[test]
    fn long_decimals_are_read_as_text() {
        let long = i256::from_string(&"7".repeat(70)).unwrap();
        let column = Decimal256Array::from(vec![long, i256::from_i128(-5)]);
        let column: ArrayRef = Arc::new(column.with_precision_and_scale(76, 30).unwrap());
        let expected = [format!("{}e-30", "7".repeat(70)).parse().unwrap(), -5e-30];
        assert_eq!(cast::<Float64Type>(column), expected);
    }
}
