//! Constants such as `0.06 - 0.01` as the decimals that their text says.
//!
//! SQL's `0.06` is read as a double, whose shortest text is what was written. Invariant: the decimal is exact, or there
//! is none: explicit casts, divisions, NaN, infinities and numbers beyond 38 digits are refused.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion_common::ScalarValue;
use datafusion_expr::{BinaryExpr, Expr, Operator};

/// The value `digits` / 10^`scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    digits: i128,
    scale: u8,
}

impl Exact {
    /// The value of a constant expression.
    pub(super) fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Literal(value, _) => Exact::of_literal(value),
            Expr::Negative(inner) => {
                let Exact { digits, scale } = Exact::of(inner)?;
                Some(Exact { digits: digits.checked_neg()?, scale })
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                Exact::of(left)?.combine(*op, Exact::of(right)?)
            }
            _ => None,
        }
    }

    fn of_literal(value: &ScalarValue) -> Option<Self> {
        match value {
            // Without an exponent, in the fewest digits that give the double back.
            ScalarValue::Float64(Some(v)) => Exact::parse(&v.to_string()),
            ScalarValue::Decimal128(Some(digits), _, scale) => {
                Some(Exact { digits: *digits, scale: u8::try_from(*scale).ok()? })
            }
            ScalarValue::Int64(Some(v)) => Some(Exact { digits: i128::from(*v), scale: 0 }),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let scale = u8::try_from(fraction.len()).ok()?;
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Exact { digits, scale })
    }

    fn combine(self, op: Operator, other: Exact) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        match op {
            Operator::Plus => {
                let digits = self.at(scale)?.checked_add(other.at(scale)?)?;
                Some(Exact { digits, scale })
            }
            Operator::Minus => {
                let digits = self.at(scale)?.checked_sub(other.at(scale)?)?;
                Some(Exact { digits, scale })
            }
            Operator::Multiply => Some(Exact {
                digits: self.digits.checked_mul(other.digits)?,
                scale: self.scale.checked_add(other.scale)?,
            }),
            _ => None,
        }
    }

    /// The digits at a scale that is not smaller.
    fn at(self, scale: u8) -> Option<i128> {
        let factor = 10_i128.checked_pow(u32::from(scale.checked_sub(self.scale)?))?;
        self.digits.checked_mul(factor)
    }

    fn without_trailing_zeros(mut self) -> Self {
        while self.scale > 0 && self.digits % 10 == 0 {
            self.digits /= 10;
            self.scale -= 1;
        }
        self
    }

    /// A literal to stand beside values of a decimal type: of that very type if it can be, so that they need no cast;
    /// `None` if no decimal type holds both without loss.
    pub(super) fn beside(self, data_type: &DataType) -> Option<ScalarValue> {
        let exact = self.without_trailing_zeros();
        let (precision, scale) = match data_type {
            DataType::Decimal32(p, s)
            | DataType::Decimal64(p, s)
            | DataType::Decimal128(p, s)
            | DataType::Decimal256(p, s) => (*p, *s),
            _ => return None,
        };
        if let DataType::Decimal128(..) = data_type
            && let Ok(own) = u8::try_from(scale)
            && let Some(digits) = exact.at(own)
            && digit_count(digits) <= precision
        {
            return Some(ScalarValue::Decimal128(Some(digits), precision, scale));
        }
        let own = i8::try_from(exact.scale).ok()?;
        let literal = digit_count(exact.digits).max(exact.scale).max(1);
        // What both sides are cast to: the longer whole part and the longer fraction.
        let whole =
            (i16::from(precision) - i16::from(scale)).max(i16::from(literal) - i16::from(own));
        let limit = i16::from(DECIMAL128_MAX_PRECISION);
        (whole + i16::from(own.max(scale)) <= limit).then_some(ScalarValue::Decimal128(
            Some(exact.digits),
            literal,
            own,
        ))
    }
}

fn digit_count(value: i128) -> u8 {
    value.unsigned_abs().checked_ilog10().map_or(0, |log| log as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion_expr::{cast, lit};

    fn beside(expr: &Expr, precision: u8, scale: i8) -> Option<(i128, u8, i8)> {
        match Exact::of(expr)?.beside(&DataType::Decimal128(precision, scale))? {
            ScalarValue::Decimal128(Some(digits), p, s) => Some((digits, p, s)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn constants_keep_the_digits_that_were_written() {
        assert_eq!(beside(&(lit(0.06) - lit(0.01)), 15, 2), Some((5, 15, 2)));
        assert_eq!(beside(&(lit(0.1) + lit(0.2)), 15, 2), Some((30, 15, 2)));
        assert_eq!(beside(&(lit(1.2) * lit(3_i64)), 5, 1), Some((36, 5, 1)));
        assert_eq!(beside(&Expr::Negative(Box::new(lit(2.5))), 5, 1), Some((-25, 5, 1)));
        assert_eq!(beside(&lit(-0.0), 5, 1), Some((0, 5, 1)));
    }

    #[test]
    fn literals_that_the_type_cannot_hold_have_a_type_of_their_own() {
        assert_eq!(beside(&lit(0.075), 15, 2), Some((75, 3, 3)));
        assert_eq!(beside(&lit(12345.5), 4, 2), Some((123_455, 6, 1)));
    }

    #[test]
    fn what_is_not_exact_stays_a_double() {
        assert_eq!(beside(&lit(f64::NAN), 15, 2), None);
        assert_eq!(beside(&lit(f64::INFINITY), 15, 2), None);
        assert_eq!(beside(&lit(1e300), 15, 2), None);
        assert_eq!(beside(&lit(1e-300), 15, 2), None);
        assert_eq!(beside(&(lit(1.0) / lit(4.0)), 15, 2), None);
        assert_eq!(beside(&cast(lit(0.5), DataType::Float64), 15, 2), None);
        assert_eq!(beside(&lit(0.0001), 38, 2), None, "38 digits and two more places");
    }
}
