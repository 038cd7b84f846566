//! Addition, subtraction and multiplication of decimals.
//!
//! When the precisions of the operands leave room for every possible result, no check is needed and the loops
//! vectorise. Otherwise every result is checked against the precision of its type, since Arrow checks 128 bits only.
//! Invariant: a result is exact, or an error. Products whose digits behind the point the type cannot hold, and
//! quotients, are left to Arrow.

use std::cell::Cell;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::Decimal128Type;
use arrow_schema::{DataType, Schema};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::BinaryOperator;

/// `left op right`.
#[derive(Debug, Clone, Eq)]
pub struct DecimalArithmetic {
    op: DecimalOperator,
    left: Arc<dyn PhysicalExpr>,
    right: Arc<dyn PhysicalExpr>,
    /// Factors that bring the operands to a common scale; 1 for multiplication.
    factors: (i128, i128),
    /// Whether both operands fit into 64 bits.
    narrow: bool,
    /// Whether a result may be too long for its type.
    may_overflow: bool,
    precision: u8,
    scale: i8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum DecimalOperator {
    Add,
    Subtract,
    Multiply,
}

/// Digits that fit into 64 bits with a sign.
const NARROW_DIGITS_MAX: u8 = 18;

impl DecimalArithmetic {
    /// The expression, if it is arithmetic of two decimals. `result` is the type that the planner gave it.
    pub fn try_new(
        op: BinaryOperator,
        left: &Arc<dyn PhysicalExpr>,
        right: &Arc<dyn PhysicalExpr>,
        result: &DataType,
        schema: &Schema,
    ) -> Result<Option<Self>> {
        let op = match op {
            BinaryOperator::Plus => DecimalOperator::Add,
            BinaryOperator::Minus => DecimalOperator::Subtract,
            BinaryOperator::Multiply => DecimalOperator::Multiply,
            _ => return Ok(None),
        };
        let types = (left.data_type(schema)?, right.data_type(schema)?, result);
        let (
            DataType::Decimal128(p1, s1),
            DataType::Decimal128(p2, s2),
            &DataType::Decimal128(precision, scale),
        ) = types
        else {
            return Ok(None);
        };
        let (factors, digits) = match op {
            DecimalOperator::Multiply => {
                if i16::from(s1) + i16::from(s2) != i16::from(scale) {
                    return Ok(None);
                }
                ((1, 1), i16::from(p1) + i16::from(p2))
            }
            DecimalOperator::Add | DecimalOperator::Subtract => {
                let (lift1, lift2) =
                    (i16::from(scale) - i16::from(s1), i16::from(scale) - i16::from(s2));
                let factor =
                    |lift: i16| u32::try_from(lift).ok().and_then(|l| 10_i128.checked_pow(l));
                let (Some(factor1), Some(factor2)) = (factor(lift1), factor(lift2)) else {
                    return Ok(None);
                };
                let digits = (i16::from(p1) + lift1).max(i16::from(p2) + lift2) + 1;
                ((factor1, factor2), digits)
            }
        };
        let may_overflow = digits > i16::from(precision);
        let narrow = p1 <= NARROW_DIGITS_MAX && p2 <= NARROW_DIGITS_MAX;
        let (left, right) = (left.clone(), right.clone());
        Ok(Some(DecimalArithmetic {
            op,
            left,
            right,
            factors,
            narrow,
            may_overflow,
            precision,
            scale,
        }))
    }

    /// The products where their types leave no room but the values at hand do; `None` if they may not.
    fn compute_bounded(&self, left: &Operand, right: &Operand, rows: usize) -> Option<Vec<i128>> {
        let DecimalOperator::Multiply = self.op else { return None };
        let (a, b) = (left.bits(), right.bits());
        if a + b > significant_bits(10_i128.pow(u32::from(self.precision)) - 1) - 1 {
            return None;
        }
        Some(if a.max(b) < i64::BITS {
            zip(left, right, rows, |a, b| i128::from(a as i64) * i128::from(b as i64))
        } else {
            zip(left, right, rows, i128::wrapping_mul)
        })
    }

    /// The results where some may be too long for their type, at one pass; `None` when one is, be it of a NULL.
    fn compute_watched(&self, left: &Operand, right: &Operand, rows: usize) -> Option<Vec<i128>> {
        let ((f, g), bound) = (self.factors, 10_u128.pow(u32::from(self.precision)));
        let too_long = Cell::new(false);
        let watched = |(value, overflown): (i128, bool)| {
            too_long.set(too_long.get() | overflown | (value.unsigned_abs() >= bound));
            value
        };
        let lifted = |value: i128, factor: i128| {
            let (value, overflown) = value.overflowing_mul(factor);
            too_long.set(too_long.get() | overflown);
            value
        };
        let values = match self.op {
            DecimalOperator::Multiply => {
                zip(left, right, rows, |a, b| watched(a.overflowing_mul(b)))
            }
            DecimalOperator::Add => {
                zip(left, right, rows, |a, b| watched(lifted(a, f).overflowing_add(lifted(b, g))))
            }
            DecimalOperator::Subtract => {
                zip(left, right, rows, |a, b| watched(lifted(a, f).overflowing_sub(lifted(b, g))))
            }
        };
        (!too_long.get()).then_some(values)
    }

    /// The results where some are too long; rows without a value have none to check.
    fn compute_checked(
        &self,
        left: &Operand,
        right: &Operand,
        nulls: Option<&NullBuffer>,
        rows: usize,
    ) -> Result<Vec<i128>> {
        let ((f, g), bound) = (self.factors, 10_i128.pow(u32::from(self.precision)));
        let (left, right) = (left.at(), right.at());
        let result = |row: usize| {
            let (a, b) = (left(row), right(row));
            let value = match self.op {
                DecimalOperator::Multiply => a.checked_mul(b),
                DecimalOperator::Add => a.checked_mul(f)?.checked_add(b.checked_mul(g)?),
                DecimalOperator::Subtract => a.checked_mul(f)?.checked_sub(b.checked_mul(g)?),
            };
            value.filter(|value| value.unsigned_abs() < bound.unsigned_abs())
        };
        let values = (0..rows).map(|row| match nulls {
            Some(nulls) if nulls.is_null(row) => Ok(0),
            _ => result(row).ok_or_else(|| overflow(self.precision, self.scale)),
        });
        values.collect()
    }

    fn compute(&self, left: &Operand, right: &Operand, rows: usize) -> Vec<i128> {
        let (f, g) = self.factors;
        match (self.op, self.narrow, self.factors) {
            (DecimalOperator::Multiply, true, _) => {
                zip(left, right, rows, |a, b| i128::from(a as i64) * i128::from(b as i64))
            }
            (DecimalOperator::Multiply, false, _) => zip(left, right, rows, i128::wrapping_mul),
            (DecimalOperator::Add, _, (1, 1)) => zip(left, right, rows, i128::wrapping_add),
            (DecimalOperator::Subtract, _, (1, 1)) => zip(left, right, rows, i128::wrapping_sub),
            (DecimalOperator::Add, _, _) => {
                zip(left, right, rows, |a, b| a.wrapping_mul(f).wrapping_add(b.wrapping_mul(g)))
            }
            (DecimalOperator::Subtract, _, _) => {
                zip(left, right, rows, |a, b| a.wrapping_mul(f).wrapping_sub(b.wrapping_mul(g)))
            }
        }
    }
}

fn overflow(precision: u8, scale: i8) -> DataFusionError {
    DataFusionError::Execution(format!(
        "decimal overflow: the result is no value of DECIMAL({precision}, {scale})"
    ))
}

/// The least n such that no number with these bits, its sign folded away, is absolutely greater than 2^n.
fn significant_bits(folded: i128) -> u32 {
    i128::BITS - folded.leading_zeros()
}

/// One side: a column of values, or one value for all rows.
enum Operand {
    Values(ScalarBuffer<i128>, Option<NullBuffer>),
    Constant(i128),
    Null,
}

impl Operand {
    fn new(value: ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => {
                let decimals = array.as_primitive::<Decimal128Type>();
                Operand::Values(decimals.values().clone(), decimals.nulls().cloned())
            }
            ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), _, _)) => {
                Operand::Constant(value)
            }
            ColumnarValue::Scalar(_) => Operand::Null,
        })
    }

    /// The value of each row; anything where it is NULL.
    fn at(&self) -> impl Fn(usize) -> i128 + '_ {
        move |row| match self {
            Operand::Values(values, _) => values[row],
            Operand::Constant(value) => *value,
            Operand::Null => 0,
        }
    }

    /// An n such that no row is absolutely greater than 2^n.
    fn bits(&self) -> u32 {
        match self {
            Operand::Values(values, _) => {
                significant_bits(values.iter().fold(0, |all, v| all | (v ^ (v >> 127))))
            }
            Operand::Constant(value) => significant_bits(value ^ (value >> 127)),
            Operand::Null => 0,
        }
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Operand::Values(_, nulls) => nulls.as_ref(),
            Operand::Constant(_) | Operand::Null => None,
        }
    }
}

#[inline(always)]
fn zip(left: &Operand, right: &Operand, rows: usize, f: impl Fn(i128, i128) -> i128) -> Vec<i128> {
    match (left, right) {
        (Operand::Values(a, _), Operand::Values(b, _)) => {
            a.iter().zip(b.iter()).map(|(a, b)| f(*a, *b)).collect()
        }
        (Operand::Values(a, _), Operand::Constant(b)) => a.iter().map(|a| f(*a, *b)).collect(),
        (Operand::Constant(a), Operand::Values(b, _)) => b.iter().map(|b| f(*a, *b)).collect(),
        (Operand::Constant(a), Operand::Constant(b)) => vec![f(*a, *b); rows],
        (Operand::Null, _) | (_, Operand::Null) => vec![0; rows],
    }
}

impl PartialEq for DecimalArithmetic {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for DecimalArithmetic {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.op.hash(state);
        self.left.hash(state);
        self.right.hash(state);
    }
}

impl fmt::Display for DecimalArithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.op {
            DecimalOperator::Add => '+',
            DecimalOperator::Subtract => '-',
            DecimalOperator::Multiply => '*',
        };
        write!(f, "{} {sign} {}", self.left, self.right)
    }
}

impl PhysicalExpr for DecimalArithmetic {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Decimal128(self.precision, self.scale))
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        Ok(self.left.nullable(schema)? || self.right.nullable(schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let left = Operand::new(self.left.evaluate(batch)?)?;
        let right = Operand::new(self.right.evaluate(batch)?)?;
        let rows = batch.num_rows();
        if matches!(left, Operand::Null) || matches!(right, Operand::Null) {
            let null = ScalarValue::Decimal128(None, self.precision, self.scale);
            return Ok(ColumnarValue::Scalar(null));
        }
        let nulls = NullBuffer::union(left.nulls(), right.nulls());
        let values = match self.may_overflow {
            true => match self
                .compute_bounded(&left, &right, rows)
                .or_else(|| self.compute_watched(&left, &right, rows))
            {
                Some(values) => values,
                None => self.compute_checked(&left, &right, nulls.as_ref(), rows)?,
            },
            false => self.compute(&left, &right, rows),
        };
        let array = Decimal128Array::new(values.into(), nulls)
            .with_precision_and_scale(self.precision, self.scale)?;
        let array: ArrayRef = Arc::new(array);
        Ok(ColumnarValue::Array(array))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let (left, right) = (children[0].clone(), children[1].clone());
        Ok(Arc::new(DecimalArithmetic { left, right, ..self.as_ref().clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
