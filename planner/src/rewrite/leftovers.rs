//! What no rewrite could remove: correlated subqueries in shapes that nothing downstream evaluates.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result};
use datafusion_expr::{Expr, LogicalPlan};

use crate::bind::translate;
use crate::error::{ErrorKind, PlannerError, Span};

/// Fails when a rewritten plan still has a subquery that depends on its surroundings.
pub(super) fn check(plan: &LogicalPlan) -> crate::Result<()> {
    let mut found: Option<PlannerError> = None;
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Subquery(subquery) = node
            && !subquery.outer_ref_columns.is_empty()
        {
            found = Some(error(subquery.outer_ref_columns.first()));
        }
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                if matches!(e, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
                    && found.is_none()
                {
                    found = Some(error(outer_columns(e).first()));
                }
                if let Expr::OuterReferenceColumn(..) = e {
                    found = Some(error(Some(e)));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    let visited: Result<TreeNodeRecursion> = visited;
    visited.map_err(translate)?;
    match found {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// What an error of rewriting an analysed plan means: names have been resolved by then, so that an unknown name or a
/// broken invariant says that a correlated subquery could not be taken apart.
pub(super) fn explain(plan: &LogicalPlan, cause: PlannerError) -> PlannerError {
    if !matches!(cause.kind, ErrorKind::Name | ErrorKind::Internal) {
        return cause;
    }
    match check(plan) {
        Err(error) => error,
        Ok(()) => PlannerError { kind: ErrorKind::Internal, ..cause },
    }
}

fn outer_columns(expr: &Expr) -> Vec<Expr> {
    match expr {
        Expr::Exists(exists) => exists.subquery.outer_ref_columns.clone(),
        Expr::InSubquery(in_query) => in_query.subquery.outer_ref_columns.clone(),
        Expr::SetComparison(comparison) => comparison.subquery.outer_ref_columns.clone(),
        _ => Vec::new(),
    }
}

/// That a subquery cannot be taken apart, at the place of an outer column.
pub(super) fn error(outer: Option<&Expr>) -> PlannerError {
    let column = match outer {
        Some(Expr::OuterReferenceColumn(_, column)) => Some(column),
        _ => None,
    };
    let detail = column.map(|c| {
        format!(
            "The subquery depends on the outer column {c} in a way that no join can express yet."
        )
    });
    let error = PlannerError::not_supported("this subquery")
        .with_detail(detail)
        .with_hint("write it as a join".to_string());
    match column {
        Some(column) => at(error, column),
        None => error,
    }
}

/// The error with the place of a column: where it was written, as far as that is known, or its name.
pub(super) fn at(error: PlannerError, column: &Column) -> PlannerError {
    let pair = |l: datafusion_common::Location| (l.line as u32, l.column as u32);
    let span = column.spans().first();
    let span = span.map(|s| Span { start: pair(s.start), end: pair(s.end) });
    let subject = match &column.relation {
        Some(relation) => format!("{}.{}", relation.table(), column.name),
        None => column.name.clone(),
    };
    error.with_span(span).about(subject)
}
