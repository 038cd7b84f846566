//! Integer and decimal arithmetic on constants is checked before it is folded: the library folds integers with
//! wrap-around, and decimals into more digits than their type has.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::bind::carry;
use crate::error::PlannerError;

/// Fails when a constant integer or decimal expression of the plan leaves its type's range.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                if let Expr::BinaryExpr(_) = e
                    && let Constant::Integer(..) | Constant::Decimal(..) = value(e)?
                {
                    // Its operands have been checked with it.
                    return Ok(TreeNodeRecursion::Jump);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// A constant number with its type, or anything else.
enum Constant {
    Integer(i128, DataType),
    /// Digits and scale.
    Decimal(i128, i8),
    Other,
}

fn value(expr: &Expr) -> Result<Constant> {
    match expr {
        Expr::Literal(ScalarValue::Decimal128(Some(digits), _, scale), _) => {
            Ok(Constant::Decimal(*digits, *scale))
        }
        Expr::Literal(literal, _) => Ok(integer(literal)),
        Expr::Negative(inner) => match value(inner)? {
            Constant::Integer(v, data_type) => in_range(-v, data_type, expr),
            Constant::Decimal(digits, scale) => Ok(Constant::Decimal(-digits, scale)),
            Constant::Other => Ok(Constant::Other),
        },
        Expr::Cast(cast) => match value(&cast.expr)? {
            Constant::Integer(v, _) if cast.field.data_type().is_integer() => {
                in_range(v, cast.field.data_type().clone(), expr)
            }
            Constant::Integer(v, _) | Constant::Decimal(v, 0) => {
                Ok(as_decimal(v, 0, cast.field.data_type()))
            }
            Constant::Decimal(digits, scale) => {
                Ok(as_decimal(digits, scale, cast.field.data_type()))
            }
            Constant::Other => Ok(Constant::Other),
        },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => binary(left, *op, right, expr),
        _ => Ok(Constant::Other),
    }
}

fn binary(left: &Expr, op: Operator, right: &Expr, expr: &Expr) -> Result<Constant> {
    if !matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply) {
        return Ok(Constant::Other);
    }
    let (a, data_type, b, other) = match (value(left)?, value(right)?) {
        (Constant::Integer(a, data_type), Constant::Integer(b, other)) => (a, data_type, b, other),
        (Constant::Decimal(a, s), Constant::Decimal(b, t)) => {
            return decimal((a, s), op, (b, t), expr);
        }
        _ => return Ok(Constant::Other),
    };
    if data_type != other {
        return Ok(Constant::Other);
    }
    let result = match op {
        Operator::Plus => a + b,
        Operator::Minus => a - b,
        _ => a.checked_mul(b).unwrap_or(i128::MAX),
    };
    in_range(result, data_type, expr)
}

/// The constant as a decimal of a type, if the type has a place for each of its digits.
fn as_decimal(digits: i128, scale: i8, data_type: &DataType) -> Constant {
    let DataType::Decimal128(_, to) = data_type else { return Constant::Other };
    let lift = u32::try_from(i16::from(*to) - i16::from(scale)).ok();
    let factor = lift.and_then(|lift| 10_i128.checked_pow(lift));
    match factor.and_then(|factor| digits.checked_mul(factor)) {
        Some(digits) => Constant::Decimal(digits, *to),
        None => Constant::Other,
    }
}

/// Sums are at the longer scale, products at the sum of both; no decimal has more than 38 digits.
fn decimal(left: (i128, i8), op: Operator, right: (i128, i8), expr: &Expr) -> Result<Constant> {
    let scale = match op {
        Operator::Multiply => left.1.saturating_add(right.1),
        _ => left.1.max(right.1),
    };
    let lifted = |(digits, from): (i128, i8)| {
        let lift = u32::try_from(scale - from).ok()?;
        digits.checked_mul(10_i128.checked_pow(lift)?)
    };
    let result = match op {
        Operator::Multiply => left.0.checked_mul(right.0),
        Operator::Plus => lifted(left).zip(lifted(right)).and_then(|(a, b)| a.checked_add(b)),
        _ => lifted(left).zip(lifted(right)).and_then(|(a, b)| a.checked_sub(b)),
    };
    let bound = 10_u128.pow(u32::from(DECIMAL128_MAX_PRECISION));
    match result.filter(|digits| digits.unsigned_abs() < bound) {
        Some(digits) => Ok(Constant::Decimal(digits, scale)),
        None => Err(carry(PlannerError::invalid("decimal overflow").with_detail(format!(
            "{} has more than {DECIMAL128_MAX_PRECISION} digits.",
            expr.human_display()
        )))),
    }
}

fn in_range(value: i128, data_type: DataType, expr: &Expr) -> Result<Constant> {
    match range(&data_type) {
        Some((least, most)) if value < least || value > most => {
            let error = PlannerError::invalid("integer out of range");
            Err(carry(
                error.with_detail(format!(
                    "{} is not a value of {data_type}.",
                    expr.human_display()
                )),
            ))
        }
        Some(_) => Ok(Constant::Integer(value, data_type)),
        None => Ok(Constant::Other),
    }
}

fn range(data_type: &DataType) -> Option<(i128, i128)> {
    match data_type {
        DataType::Int8 => Some((i8::MIN.into(), i8::MAX.into())),
        DataType::Int16 => Some((i16::MIN.into(), i16::MAX.into())),
        DataType::Int32 => Some((i32::MIN.into(), i32::MAX.into())),
        DataType::Int64 => Some((i64::MIN.into(), i64::MAX.into())),
        DataType::UInt8 => Some((0, u8::MAX.into())),
        DataType::UInt16 => Some((0, u16::MAX.into())),
        DataType::UInt32 => Some((0, u32::MAX.into())),
        DataType::UInt64 => Some((0, u64::MAX.into())),
        _ => None,
    }
}

fn integer(literal: &ScalarValue) -> Constant {
    let value: Option<i128> = match literal {
        ScalarValue::Int8(v) => v.map(i128::from),
        ScalarValue::Int16(v) => v.map(i128::from),
        ScalarValue::Int32(v) => v.map(i128::from),
        ScalarValue::Int64(v) => v.map(i128::from),
        ScalarValue::UInt8(v) => v.map(i128::from),
        ScalarValue::UInt16(v) => v.map(i128::from),
        ScalarValue::UInt32(v) => v.map(i128::from),
        ScalarValue::UInt64(v) => v.map(i128::from),
        _ => None,
    };
    value.map_or(Constant::Other, |v| Constant::Integer(v, literal.data_type()))
}
