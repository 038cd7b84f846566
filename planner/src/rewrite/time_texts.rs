//! Timestamps compared with texts and with constants of a finer unit, in the unit that the timestamps have.
//!
//! The library compares in nanoseconds then, which end in the year 2262: a later timestamp would be an error. Invariant:
//! a constant becomes one of the other side's type; what depends on rows stays with the library.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::{Between, InList};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, cast};

use super::typed::rewrite_expressions;

/// The node with such constants cast.
pub(super) fn fit(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(rewrite_expressions(plan, |expr, schema| Ok(fitted(expr, schema)))?.data)
}

fn fitted(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            let (left, right, changed) = match (coarse(&left, schema), coarse(&right, schema)) {
                (Some(to), _) if is_finer(&right, schema) => {
                    (left, Box::new(cast(*right, to)), true)
                }
                (_, Some(to)) if is_finer(&left, schema) => {
                    (Box::new(cast(*left, to)), right, true)
                }
                _ => (left, right, false),
            };
            let binary = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Transformed::new_transformed(binary, changed)
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let (mut changed, to) = (false, coarse(&expr, schema));
            let mut fit = |bound: Box<Expr>| match &to {
                Some(to) if is_finer(&bound, schema) => {
                    changed = true;
                    Box::new(cast(*bound, to.clone()))
                }
                Some(_) | None => bound,
            };
            let (low, high) = (fit(low), fit(high));
            let between = Expr::Between(Between { expr, negated, low, high });
            Transformed::new_transformed(between, changed)
        }
        Expr::InList(InList { expr, list, negated }) => {
            let to = coarse(&expr, schema).filter(|_| list.iter().all(|e| is_finer(e, schema)));
            let (list, changed) = match to {
                Some(to) => (list.into_iter().map(|e| cast(e, to.clone())).collect(), true),
                None => (list, false),
            };
            Transformed::new_transformed(Expr::InList(InList { expr, list, negated }), changed)
        }
        other => Transformed::no(other),
    }
}

/// The type of a timestamp that depends on rows and does not count in nanoseconds.
fn coarse(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let data_type = expr.get_type(schema).ok()?;
    let coarse = matches!(
        data_type,
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond, _)
    );
    (coarse && !expr.column_refs().is_empty()).then_some(data_type)
}

/// Whether it is a text that stands for a timestamp.
fn is_finer(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr, Expr::Literal(..)) && expr.get_type(schema).is_ok_and(|t| t.is_string())
}
