//! Integer arithmetic on constants is checked before it is folded: the library folds it with wrap-around.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::bind::carry;
use crate::error::PlannerError;

/// Fails when a constant integer expression of the plan leaves its type's range.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                if let Expr::BinaryExpr(_) = e
                    && let Constant::Integer(..) = value(e)?
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

/// A constant integer with its type, or anything else.
enum Constant {
    Integer(i128, DataType),
    Other,
}

fn value(expr: &Expr) -> Result<Constant> {
    match expr {
        Expr::Literal(literal, _) => Ok(integer(literal)),
        Expr::Negative(inner) => match value(inner)? {
            Constant::Integer(v, data_type) => in_range(-v, data_type, expr),
            Constant::Other => Ok(Constant::Other),
        },
        Expr::Cast(cast) => match value(&cast.expr)? {
            Constant::Integer(v, _) if cast.field.data_type().is_integer() => {
                in_range(v, cast.field.data_type().clone(), expr)
            }
            Constant::Integer(..) | Constant::Other => Ok(Constant::Other),
        },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => binary(left, *op, right, expr),
        _ => Ok(Constant::Other),
    }
}

fn binary(left: &Expr, op: Operator, right: &Expr, expr: &Expr) -> Result<Constant> {
    if !matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply) {
        return Ok(Constant::Other);
    }
    let (Constant::Integer(a, data_type), Constant::Integer(b, other)) =
        (value(left)?, value(right)?)
    else {
        return Ok(Constant::Other);
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
