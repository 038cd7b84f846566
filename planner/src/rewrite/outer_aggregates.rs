//! Aggregates in a subquery over columns of an outer query alone: `SELECT (SELECT sum(t.a) FROM s) FROM t`.
//!
//! By the standard such an aggregate is one over the rows of the outer query, which becomes an aggregation by it. Nothing
//! here plans that, and an aggregate over the subquery's rows would be a wrong answer, so that it is refused.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DataFusionError, Result};
use datafusion_expr::{Expr, LogicalPlan};

use super::leftovers;
use crate::bind::carry;
use crate::error::PlannerError;

/// Fails when a bound plan has such an aggregate.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        for expr in &aggregate.aggr_expr {
            expr.apply(|e| match outer_column(e) {
                Some(column) => Err(refused(&column)),
                None => Ok(TreeNodeRecursion::Continue),
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// An outer column that an aggregate reads, if it reads none of its own query.
fn outer_column(expr: &Expr) -> Option<Column> {
    if !matches!(expr, Expr::AggregateFunction(_)) || expr.any_column_refs() {
        return None;
    }
    let mut outer = None;
    // Walking never fails here.
    let _ = expr.apply(|e| {
        if let Expr::OuterReferenceColumn(_, column) = e {
            outer = Some(column.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    outer
}

fn refused(column: &Column) -> DataFusionError {
    let error = PlannerError::not_supported("an aggregate of outer columns alone")
        .with_detail(
            "It is one over the rows of the query that the columns come from, not of the subquery."
                .to_string(),
        )
        .with_hint(
            "aggregate in a query in FROM and read its column here, or let the aggregate read a \
             column of its own query"
                .to_string(),
        );
    carry(leftovers::at(error, column))
}
