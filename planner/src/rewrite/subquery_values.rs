//! EXISTS and IN (query) used as values, not as conditions: `SELECT id, id IN (SELECT …)`.
//!
//! The library turns such expressions into mark joins inside filters only, and with two truth values only. Here
//! 1. IN gets its third value (NULL, when nothing matches but a NULL might have) wherever NULL and false differ, and
//! 2. in projections, aggregates, sorts and windows the marks come from a join below the node.
//!
//! What the library cannot decorrelate stays as it is; `leftovers` reports it.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion_expr::expr::InSubquery;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    exists, lit, not, scalar_subquery, when,
};
use datafusion_functions_aggregate::expr_fn::count;
use datafusion_optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use crate::bind::carry;
use crate::error::PlannerError;

/// What the value of IN's query is called; no user can mean it.
const VALUE: &str = "\u{1}value";

/// Rewrites an analysed plan, subqueries included.
pub(super) fn rewrite(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => filter_values(filter),
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_)
            if node.expressions().iter().any(has_subquery) =>
        {
            node_values(node, config)
        }
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)
            if node.expressions().iter().any(has_set_comparison) =>
        {
            Err(carry(PlannerError::not_supported("ANY or ALL with a subquery outside WHERE")))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn has_set_comparison(expr: &Expr) -> bool {
    expr.exists(|e| Ok(matches!(e, Expr::SetComparison(_)))).unwrap_or(false)
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery(_) | Expr::Exists(_))
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|e| Ok(is_subquery(e))).unwrap_or(false)
}

/// Gives the third value to those INs of a filter for which NULL and false differ.
fn filter_values(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let Filter { predicate, input, .. } = filter;
    let Transformed { data: predicate, transformed: mut changed, .. } = with_own_name(predicate)?;
    let conjuncts = split_conjunction_owned(predicate).into_iter().map(|conjunct| {
        if null_is_false(&conjunct) || is_plain_negation(&conjunct) {
            return Ok(conjunct);
        }
        changed = true;
        three_valued(conjunct, input.schema())
    });
    let conjuncts = conjuncts.collect::<Result<Vec<_>>>()?;
    let predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
    let filter = LogicalPlan::Filter(Filter::try_new(predicate, input)?);
    Ok(if changed { Transformed::yes(filter) } else { Transformed::no(filter) })
}

/// Gives the value of IN's query a name of its own where a column that it is computed from has the same: the library would
/// take that for the value, and have it twice.
fn with_own_name(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|e| match e {
        Expr::InSubquery(InSubquery { expr, mut subquery, negated }) => {
            let query = &subquery.subquery;
            let name = query.schema().field(0).name();
            let value = query.head_output_expr()?;
            let is_taken = |column: &&Column| column.relation.is_none() && column.name == *name;
            let clashes = value.is_some_and(|v| v.column_refs().iter().any(is_taken));
            if clashes {
                let column = Expr::Column(Column::from(query.schema().qualified_field(0)));
                let query = LogicalPlanBuilder::from(Arc::clone(query));
                subquery.subquery = Arc::new(query.project([column.alias(VALUE)])?.build()?);
            }
            let in_query = Expr::InSubquery(InSubquery { expr, subquery, negated });
            Ok(Transformed::new_transformed(in_query, clashes))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Whether every IN of a condition stands where NULL has the same effect as false.
fn null_is_false(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            null_is_false(left) && null_is_false(right)
        }
        Expr::InSubquery(InSubquery { negated, .. }) => !negated,
        Expr::Exists(_) => true,
        other => !other.exists(|e| Ok(matches!(e, Expr::InSubquery(_)))).unwrap_or(true),
    }
}

/// `x NOT IN (query)` as a whole conjunct: the library makes a null-aware anti join of it.
fn is_plain_negation(expr: &Expr) -> bool {
    match expr {
        Expr::InSubquery(_) => true,
        Expr::Not(inner) => matches!(**inner, Expr::InSubquery(_)),
        _ => false,
    }
}

/// The expression with INs that may be NULL spelt out: `CASE WHEN x IN q THEN true WHEN … THEN NULL ELSE false END`.
fn three_valued(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let rewritten = expr.transform_down(|e| match e {
        Expr::InSubquery(in_query) => {
            let InSubquery { expr, subquery, negated } = in_query;
            let key = subquery.subquery.schema().field(0).is_nullable();
            let positive = Expr::InSubquery(InSubquery::new(expr.clone(), subquery.clone(), false));
            let value = if key || expr.nullable(schema)? {
                spell_out(positive, *expr, &subquery, schema)?
            } else {
                positive
            };
            let value = if negated { not(value) } else { value };
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn spell_out(positive: Expr, expr: Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Expr> {
    let query = Arc::clone(&subquery.subquery);
    let key = Expr::Column(Column::from(query.schema().qualified_field(0)));
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    if subquery.outer_ref_columns.is_empty() {
        let rows = |of: Expr| -> Result<Expr> {
            let none: Vec<Expr> = Vec::new();
            let counted = LogicalPlanBuilder::from(Arc::clone(&query))
                .aggregate(none, vec![count(of)])?
                .build()?;
            Ok(scalar_subquery(Arc::new(counted)))
        };
        let (all, known) = (rows(lit(1_i64))?, rows(key)?);
        return when(positive, lit(true))
            .when(all.clone().eq(lit(0_i64)), lit(false))
            .when(expr.is_null().or(known.lt(all)), null)
            .otherwise(lit(false));
    }
    let unknown = key.is_null().or(outer(expr, schema)?.is_null());
    let maybe = LogicalPlanBuilder::from(query).filter(unknown)?.build()?;
    when(positive, lit(true)).when(exists(Arc::new(maybe)), null).otherwise(lit(false))
}

/// An expression of the outer query, as seen from inside a subquery.
fn outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let rewritten = expr.transform(|e| match e {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// Joins the marks of a node's subqueries to its input, and lets the node read them.
fn node_values(
    node: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let inputs = node.inputs();
    let [input] = inputs.as_slice() else { return Ok(Transformed::no(node)) };
    let input = (*input).clone();
    let names = NamePreserver::new(&node);
    let exprs = node.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        Ok(name.restore(three_valued(with_own_name(expr)?.data, input.schema())?))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let mut subqueries: Vec<Expr> = Vec::new();
    for expr in &exprs {
        expr.apply(|e| {
            if is_subquery(e) && !subqueries.contains(e) {
                subqueries.push(e.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let original: Vec<Column> = node.schema().columns();
    let Some((joined, marks)) = mark(input, &subqueries, config)? else {
        return Ok(Transformed::no(node));
    };
    let exprs = exprs.into_iter().map(|expr| {
        let name = names.save(&expr);
        let replaced = expr.transform_down(|e| match subqueries.iter().position(|s| *s == e) {
            Some(at) => Ok(Transformed::new(marks[at].clone(), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(e)),
        })?;
        Ok(name.restore(replaced.data))
    });
    let node = node.with_new_exprs(exprs.collect::<Result<Vec<_>>>()?, vec![joined])?;
    if node.schema().fields().len() == original.len() {
        return Ok(Transformed::yes(node));
    }
    // Sorts and windows pass their input's columns on: the marks end here.
    let kept = original.into_iter().map(Expr::Column);
    Ok(Transformed::yes(LogicalPlanBuilder::from(node).project(kept)?.build()?))
}

/// The input with one mark for each subquery, and the expressions that stand for them; `None` when one of them cannot be
/// decorrelated.
fn mark(
    input: LogicalPlan,
    subqueries: &[Expr],
    config: &dyn OptimizerConfig,
) -> Result<Option<(LogicalPlan, Vec<Expr>)>> {
    // The library's rule works on filters: below an OR it makes marks. The OR is taken apart again.
    let alternatives =
        subqueries.iter().cloned().fold(lit(false), |all, subquery| all.or(subquery));
    let filter = LogicalPlan::Filter(Filter::try_new(alternatives, Arc::new(input))?);
    let rewritten = DecorrelatePredicateSubquery::new().rewrite(filter, config)?.data;
    let filter = match rewritten {
        LogicalPlan::Projection(projection) => Arc::unwrap_or_clone(projection.input),
        other => other,
    };
    let LogicalPlan::Filter(Filter { predicate, input, .. }) = filter else { return Ok(None) };
    let mut marks = Vec::new();
    let mut rest = predicate;
    while let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) = rest {
        marks.push(*right);
        rest = *left;
    }
    marks.reverse();
    let complete = marks.len() == subqueries.len() && !marks.iter().any(has_subquery);
    Ok(complete.then(|| (Arc::unwrap_or_clone(input), marks)))
}
