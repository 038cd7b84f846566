//! Correlated EXISTS and IN over a query that gives a row of its own even where nothing matches, or that counts rows.
//!
//! The library takes a correlated condition out of such a subquery as if its rows were those of a join. Over an
//! aggregate without GROUP BY that loses the row for no match; under OFFSET it skips in the wrong place. Here EXISTS over
//! the aggregate alone becomes what it always is, true, and the rest is refused.

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, FetchType, LogicalPlan, SkipType, Subquery, lit};

use super::leftovers;
use crate::bind::carry;

/// Rewrites the conditions of an analysed plan, subqueries included.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        if !node.expressions().iter().any(is_affected) {
            return Ok(Transformed::no(node));
        }
        node.map_expressions(|expr| expr.transform_up(decide))
    })?;
    Ok(rewritten.data)
}

fn is_affected(expr: &Expr) -> bool {
    expr.exists(|e| Ok(matches!(e, Expr::Exists(_) | Expr::InSubquery(_)))).unwrap_or(false)
}

fn decide(expr: Expr) -> Result<Transformed<Expr>> {
    match &expr {
        Expr::Exists(exists) if !exists.subquery.outer_ref_columns.is_empty() => {
            if always_has_a_row(&exists.subquery.subquery) {
                return Ok(Transformed::yes(lit(!exists.negated)));
            }
            refuse_counted(&exists.subquery)?;
        }
        Expr::InSubquery(query) if !query.subquery.outer_ref_columns.is_empty() => {
            refuse_counted(&query.subquery)?;
        }
        _ => {}
    }
    Ok(Transformed::no(expr))
}

/// Whether a query is an aggregate without GROUP BY under nothing that could take its row away.
fn always_has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => always_has_a_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => always_has_a_row(&node.input),
        LogicalPlan::Sort(node) => node.fetch != Some(0) && always_has_a_row(&node.input),
        LogicalPlan::Distinct(node) => always_has_a_row(node.input()),
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        _ => false,
    }
}

/// Refuses an aggregate without GROUP BY, or an OFFSET, over what depends on outer columns.
fn refuse_counted(subquery: &Subquery) -> Result<()> {
    let mut refused = false;
    subquery.subquery.apply(|node| {
        let counts = match node {
            LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
            LogicalPlan::Limit(limit) => {
                !matches!(limit.get_skip_type()?, SkipType::Literal(0))
                    || matches!(limit.get_fetch_type()?, FetchType::Literal(Some(0)))
            }
            _ => false,
        };
        refused |= counts && depends(node)?;
        Ok(if refused { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match refused {
        true => Err(carry(leftovers::error(subquery.outer_ref_columns.first()))),
        false => Ok(()),
    }
}

/// Whether anything in a plan names a column of its surroundings.
fn depends(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|e| Ok(matches!(e, Expr::OuterReferenceColumn(..))))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
