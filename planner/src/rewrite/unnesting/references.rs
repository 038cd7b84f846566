//! Outer columns: which ones a subquery reads of its surroundings, and how they are replaced.
//!
//! A reference does not say how many queries up its column is. It belongs to the nearest query around that has such a
//! column, so that whoever looks for references to one query leaves out those that are bound on the way.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::logical_plan::Join;
use datafusion_expr::{Expr, LogicalPlan, Subquery};

/// Pairs of an outer column and the column that takes its place.
pub(super) type Replacements = Vec<(Column, Column)>;

/// An outer column with its type.
pub(super) type OuterColumn = (FieldRef, Column);

/// The plan of the subquery that an expression is.
pub(in crate::rewrite) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// The same expression with another plan as its subquery.
pub(in crate::rewrite) fn with_subquery(expr: Expr, plan: LogicalPlan) -> Expr {
    let new = |old: Subquery| subquery(plan, old);
    match expr {
        Expr::ScalarSubquery(old) => Expr::ScalarSubquery(new(old)),
        Expr::Exists(Exists { subquery: old, negated }) => {
            Expr::Exists(Exists { subquery: new(old), negated })
        }
        Expr::InSubquery(InSubquery { expr, subquery: old, negated }) => {
            Expr::InSubquery(InSubquery { expr, subquery: new(old), negated })
        }
        Expr::SetComparison(SetComparison { expr, subquery: old, op, quantifier }) => {
            Expr::SetComparison(SetComparison { expr, subquery: new(old), op, quantifier })
        }
        other => other,
    }
}

/// The same subquery with its outer columns as it has them now.
pub(in crate::rewrite) fn refreshed(old: Subquery) -> Subquery {
    subquery(old.subquery.as_ref().clone(), old)
}

fn subquery(plan: LogicalPlan, old: Subquery) -> Subquery {
    let columns = free(&plan).into_iter().map(|(f, c)| Expr::OuterReferenceColumn(f, c));
    Subquery { outer_ref_columns: columns.collect(), subquery: Arc::new(plan), spans: old.spans }
}

/// Whether a join's right side reads rows of its left side, which takes LATERAL.
pub(in crate::rewrite) fn is_lateral(join: &Join) -> bool {
    let marked = join.right.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_))));
    marked.unwrap_or(false) && !read_of(join.left.schema(), &join.right).is_empty()
}

/// The outer columns that a plan reads and that no query inside it has, each once.
pub(super) fn free(plan: &LogicalPlan) -> Vec<OuterColumn> {
    let mut found = Vec::new();
    collect(plan, &mut found);
    found
}

/// The outer columns among those that the plan's own subqueries read.
pub(super) fn free_in_subqueries(plan: &LogicalPlan) -> Vec<OuterColumn> {
    let mut found = Vec::new();
    // Walking never fails here.
    let _ = plan.apply(|node| {
        nested(node, &mut found);
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// Whether one of a node's own subqueries reads the node's rows.
pub(super) fn has_correlated(node: &LogicalPlan) -> bool {
    let mut found = false;
    each(node, &mut |expr| {
        if let Some(subquery) = subquery_of(expr) {
            found |= free(&subquery.subquery).iter().any(|(_, column)| gives(node, column));
        }
    });
    found
}

/// Whether an expression has a subquery.
pub(in crate::rewrite) fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|e| Ok(subquery_of(e).is_some())).unwrap_or(true)
}

/// The outer columns that a plan reads of an input's rows.
pub(super) fn read_of(input: &DFSchema, subquery: &LogicalPlan) -> Vec<OuterColumn> {
    free(subquery).into_iter().filter(|(_, column)| has(input, column)).collect()
}

/// Whether a schema has a column.
pub(super) fn has(schema: &DFSchema, column: &Column) -> bool {
    schema.maybe_index_of_column(column).is_some()
}

fn add(found: &mut Vec<OuterColumn>, column: OuterColumn) {
    if !found.iter().any(|(_, known)| *known == column.1) {
        found.push(column);
    }
}

fn collect(plan: &LogicalPlan, found: &mut Vec<OuterColumn>) {
    if let LogicalPlan::Join(join) = plan
        && is_lateral(join)
    {
        collect(&join.left, found);
        let left = join.left.schema();
        free(&join.right).into_iter().filter(|(_, c)| !has(left, c)).for_each(|c| add(found, c));
    } else {
        plan.inputs().into_iter().for_each(|input| collect(input, found));
    }
    own(plan, found);
    nested(plan, found);
}

/// The outer columns in a node's expressions.
fn own(node: &LogicalPlan, found: &mut Vec<OuterColumn>) {
    each(node, &mut |expr| {
        if let Expr::OuterReferenceColumn(field, column) = expr {
            add(found, (Arc::clone(field), column.clone()));
        }
    });
}

/// The outer columns in the subqueries of a node's expressions.
fn nested(node: &LogicalPlan, found: &mut Vec<OuterColumn>) {
    each(node, &mut |expr| {
        if let Some(subquery) = subquery_of(expr) {
            let inner = free(&subquery.subquery).into_iter();
            inner.filter(|(_, c)| !gives(node, c)).for_each(|c| add(found, c));
        }
    });
}

/// Whether the rows that a node's expressions see have a column.
fn gives(node: &LogicalPlan, column: &Column) -> bool {
    node.inputs().iter().any(|input| has(input.schema(), column))
}

fn each(node: &LogicalPlan, visit: &mut dyn FnMut(&Expr)) {
    // Walking never fails here.
    let _ = node.apply_expressions(|expr| {
        expr.apply(|e| {
            visit(e);
            Ok(TreeNodeRecursion::Continue)
        })
    });
}

/// Whether an expression itself, subqueries not included, reads an outer column.
pub(super) fn reads_outer(expr: &Expr) -> bool {
    expr.exists(|e| Ok(matches!(e, Expr::OuterReferenceColumn(..)))).unwrap_or(true)
}

/// An expression over rows that have the replacing columns: outer columns become these, and in its subqueries they
/// become outer columns anew.
pub(super) fn substitute(expr: Expr, with: &Replacements, rows: &DFSchema) -> Result<Expr> {
    replace(expr, with, &|_, column| Expr::Column(column), &|column| has(rows, column))
}

/// A plan, inside a subquery of the query that has the replacing columns, with outer columns that are called otherwise.
pub(super) fn rename(plan: LogicalPlan, with: &Replacements) -> Result<LogicalPlan> {
    if with.is_empty() {
        return Ok(plan);
    }
    let plan = match plan {
        LogicalPlan::Join(mut join) if is_lateral(&join) => {
            let unbound = with.iter().filter(|(old, _)| !has(join.left.schema(), old));
            let unbound: Replacements = unbound.cloned().collect();
            join.left = Arc::new(rename(Arc::unwrap_or_clone(join.left), with)?);
            join.right = Arc::new(rename(Arc::unwrap_or_clone(join.right), &unbound)?);
            LogicalPlan::Join(join)
        }
        LogicalPlan::Subquery(old) => {
            let inner = rename(old.subquery.as_ref().clone(), with)?;
            return Ok(LogicalPlan::Subquery(subquery(inner, old)));
        }
        other => other.map_children(|child| Ok(Transformed::yes(rename(child, with)?)))?.data,
    };
    let names = NamePreserver::new(&plan);
    let schemas: Vec<_> = plan.inputs().iter().map(|i| Arc::clone(i.schema())).collect();
    let bound = |column: &Column| schemas.iter().any(|schema| has(schema, column));
    let renamed = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = replace(expr, with, &Expr::OuterReferenceColumn, &bound)?;
        Ok(Transformed::yes(name.restore(expr)))
    })?;
    renamed.data.recompute_schema()
}

fn replace(
    expr: Expr,
    with: &Replacements,
    make: &dyn Fn(FieldRef, Column) -> Expr,
    bound: &dyn Fn(&Column) -> bool,
) -> Result<Expr> {
    let replaced = expr.transform_down(|e| match e {
        Expr::OuterReferenceColumn(field, column) => {
            Ok(match with.iter().find(|(old, _)| *old == column) {
                Some((_, new)) => Transformed::yes(make(field, new.clone())),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            })
        }
        other => {
            let Some(subquery) = subquery_of(&other) else { return Ok(Transformed::no(other)) };
            let unbound = with.iter().filter(|(old, _)| !bound(old)).cloned().collect();
            let plan = rename(subquery.subquery.as_ref().clone(), &unbound)?;
            Ok(Transformed::yes(with_subquery(other, plan)))
        }
    })?;
    Ok(replaced.data)
}
