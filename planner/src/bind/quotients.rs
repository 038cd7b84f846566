//! Division by zero as NULL, for sessions that ask for it: SQLite, DuckDB and others divide so.
//!
//! `a / b` becomes `a / nullif(b, 0)`, and so does the remainder; a constant divisor that is not zero stays as it is.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, Value, VisitMut, visit_expressions_mut,
};

use super::text_casts::call;

/// Rewrites all divisions of the tree.
pub(super) fn divide_to_null<T: VisitMut>(tree: &mut T) {
    let _ = visit_expressions_mut(tree, |expr| {
        if let Expr::BinaryOp { op, right, .. } = expr
            && matches!(
                op,
                BinaryOperator::Divide
                    | BinaryOperator::Modulo
                    | BinaryOperator::DuckIntegerDivide
                    | BinaryOperator::MyIntegerDivide
            )
            && !is_other_number(right)
        {
            let divisor = std::mem::replace(right.as_mut(), Expr::value(Value::Null));
            **right = call("nullif", vec![divisor, Expr::value(Value::Number("0".into(), false))]);
        }
        ControlFlow::<()>::Continue(())
    });
}

fn is_other_number(expr: &Expr) -> bool {
    let Expr::Value(value) = expr else { return false };
    let Value::Number(number, _) = &value.value else { return false };
    number.parse::<f64>().is_ok_and(|number| number != 0.0)
}
