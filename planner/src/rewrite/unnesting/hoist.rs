//! Subqueries in ORDER BY and in the conditions of outer joins, moved to where they can be taken apart: into projections
//! below.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, JoinType, NullEquality, Result};
use datafusion_expr::expr::Sort as SortExpr;
use datafusion_expr::logical_plan::{Filter, Join, Projection, Sort};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan};

use super::domain::restored;
use super::references::{free, has, has_subquery, subquery_of};
use super::shared_rows::Context;
use crate::bind::carry;
use crate::error::PlannerError;
use crate::rewrite::leftovers;

/// Computes the keys of a sort below it.
pub(super) fn sort(sort: Sort, context: &Context) -> Result<Transformed<LogicalPlan>> {
    if !sort.expr.iter().any(|key| has_subquery(&key.expr)) {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let original = Arc::clone(sort.input.schema());
    let input = with_read(sort.input, sort.expr.iter().map(|key| &key.expr))?;
    let schema = Arc::clone(input.schema());
    let mut below: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    let mut keys = Vec::with_capacity(sort.expr.len());
    for key in sort.expr {
        if !has_subquery(&key.expr) {
            keys.push(key);
            continue;
        }
        let name = context.fresh();
        below.push(key.expr.unalias().alias(name.clone()));
        keys.push(SortExpr { expr: Expr::Column(Column::from_name(name)), ..key });
    }
    let projection = Projection::try_new(below, input)?;
    let input = Arc::new(LogicalPlan::Projection(projection));
    let sorted = LogicalPlan::Sort(Sort { expr: keys, input, fetch: sort.fetch });
    Ok(Transformed::yes(restored(sorted, &original, &[])?))
}

/// A projection with the columns below it that the subqueries of expressions read, besides its own.
fn with_read<'a>(
    input: Arc<LogicalPlan>,
    exprs: impl Iterator<Item = &'a Expr>,
) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = input.as_ref() else { return Ok(input) };
    let mut all = projection.expr.clone();
    for expr in exprs {
        expr.apply(|e| {
            let read = subquery_of(e).map(|subquery| free(&subquery.subquery)).unwrap_or_default();
            let below = projection.input.schema();
            let missing = read.into_iter().map(|(_, column)| column);
            let missing = missing.filter(|c| !has(&projection.schema, c) && has(below, c));
            for column in missing.map(Expr::Column) {
                if !all.contains(&column) {
                    all.push(column);
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    if all.len() == projection.expr.len() {
        return Ok(input);
    }
    let projection = Projection::try_new(all, Arc::clone(&projection.input))?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}

/// Whether a join's conditions have subqueries that no rule takes out of them.
pub(super) fn is_wanted(join: &Join) -> bool {
    join.filter.iter().any(is_hoisted)
        || join.on.iter().any(|(l, r)| is_hoisted(l) || is_hoisted(r))
}

/// Takes the subqueries out of a join's conditions.
pub(super) fn join(mut join: Join, context: &Context) -> Result<LogicalPlan> {
    let mut conditions = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    if join.null_equality == NullEquality::NullEqualsNothing {
        let (moved, on): (Vec<_>, Vec<_>) =
            join.on.into_iter().partition(|(l, r)| is_hoisted(l) || is_hoisted(r));
        conditions.extend(moved.into_iter().map(|(l, r)| l.eq(r)));
        join.on = on;
    }
    if join.join_type == JoinType::Inner {
        // Conditions of an inner join are as good behind it.
        let (late, early): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_hoisted);
        let plan = LogicalPlan::Join(Join { filter: conjunction(early), ..join });
        return match conjunction(late) {
            Some(late) => Ok(LogicalPlan::Filter(Filter::try_new(late, Arc::new(plan))?)),
            None => Ok(plan),
        };
    }
    let schema = Arc::clone(&join.schema);
    let mut sides = [Vec::new(), Vec::new()];
    let conditions = conditions.into_iter().map(|condition| {
        let replaced = condition.transform_down(|e| {
            if subquery_of(&e).is_none() || !is_hoisted(&e) {
                return Ok(Transformed::no(e));
            }
            let name = context.fresh();
            sides[side_of(&e, &join)?].push(e.alias(name.clone()));
            let column = Expr::Column(Column::from_name(name));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        })?;
        Ok(replaced.data)
    });
    let filter = conjunction(conditions.collect::<Result<Vec<_>>>()?);
    let [left_values, right_values] = sides;
    let left = with_values(join.left, left_values)?;
    let right = with_values(join.right, right_values)?;
    let joined = Join::try_new(
        left,
        right,
        join.on,
        filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    restored(LogicalPlan::Join(joined), &schema, &[])
}

/// Uncorrelated values can be computed anywhere.
fn is_hoisted(expr: &Expr) -> bool {
    let found = expr.exists(|e| {
        Ok(match e {
            Expr::ScalarSubquery(subquery) => !free(&subquery.subquery).is_empty(),
            other => subquery_of(other).is_some(),
        })
    });
    found.unwrap_or(true)
}

/// Which input, 0 or 1, has all that a subquery reads.
fn side_of(expr: &Expr, join: &Join) -> Result<usize> {
    let Some(subquery) = subquery_of(expr) else { return Ok(0) };
    let mut read: Vec<Column> = free(&subquery.subquery).into_iter().map(|(_, c)| c).collect();
    let outer_most =
        |column: &Column| has(join.left.schema(), column) || has(join.right.schema(), column);
    read.retain(outer_most);
    read.extend(expr.column_refs().into_iter().cloned());
    let sides = [&join.left, &join.right];
    let found = sides.iter().position(|side| read.iter().all(|c| has(side.schema(), c)));
    found.ok_or_else(|| {
        let error = PlannerError::not_supported("this subquery")
            .with_detail(
                "It reads both sides of the outer join whose condition it is in.".to_string(),
            )
            .with_hint("join the subquery to one of the sides first".to_string());
        carry(match read.first() {
            Some(column) => leftovers::at(error, column),
            None => error,
        })
    })
}

fn with_values(input: Arc<LogicalPlan>, values: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    if values.is_empty() {
        return Ok(input);
    }
    let own = input.schema().columns().into_iter().map(Expr::Column);
    let exprs = own.chain(values).collect();
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, input)?)))
}
