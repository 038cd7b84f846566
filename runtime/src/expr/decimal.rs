//! Addition, subtraction and multiplication of decimals that cannot overflow.
//!
//! Arrow checks every single operation. When the precisions of the operands leave room for every possible
//! result, no check is needed and the loops vectorise. Other cases are left to Arrow.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::Decimal128Type;
use arrow_schema::{DataType, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::BinaryOperator;

/// `left op right` where no result can leave 128 bits.
#[derive(Debug, Clone, Eq)]
pub struct DecimalArithmetic {
    op: DecimalOperator,
    left: Arc<dyn PhysicalExpr>,
    right: Arc<dyn PhysicalExpr>,
    /// Factors that bring the operands to a common scale; 1 for multiplication.
    factors: (i128, i128),
    /// Whether both operands fit into 64 bits.
    narrow: bool,
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
    /// The expression, if it is arithmetic of two decimals without a possible overflow. `result` is the type
    /// that the planner gave it.
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
        let factors = match op {
            DecimalOperator::Multiply => {
                if p1 + p2 > precision || s1 + s2 != scale {
                    return Ok(None);
                }
                (1, 1)
            }
            DecimalOperator::Add | DecimalOperator::Subtract => {
                let (lift1, lift2) =
                    (i16::from(scale) - i16::from(s1), i16::from(scale) - i16::from(s2));
                if lift1 < 0 || lift2 < 0 {
                    return Ok(None);
                }
                let digits = (i16::from(p1) + lift1).max(i16::from(p2) + lift2) + 1;
                if digits > i16::from(precision) {
                    return Ok(None);
                }
                (10_i128.pow(lift1 as u32), 10_i128.pow(lift2 as u32))
            }
        };
        let narrow = p1 <= NARROW_DIGITS_MAX && p2 <= NARROW_DIGITS_MAX;
        let (left, right) = (left.clone(), right.clone());
        Ok(Some(DecimalArithmetic { op, left, right, factors, narrow, precision, scale }))
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
        let values = self.compute(&left, &right, rows);
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
