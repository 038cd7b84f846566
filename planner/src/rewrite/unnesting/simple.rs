//! Which correlated subqueries the library's rules take apart, and rightly so.
//!
//! They pull conditions with outer columns up into a join. That is right as long as nothing between the condition and the
//! top of the subquery depends on which rows there are besides: no LIMIT, no outer join, no grouping of all rows, except
//! for a scalar aggregate over equalities.

use datafusion_common::{Column, JoinType};
use datafusion_expr::expr::{BinaryExpr, Cast};
use datafusion_expr::logical_plan::{Distinct, FetchType, SkipType};
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{Expr, Limit, LogicalPlan, Operator};

use super::references::{free, free_in_subqueries, has_correlated, has_subquery, reads_outer};

/// What a subquery is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Whether it has rows.
    Exists,
    /// Whether its rows have a value.
    In,
    /// The value of its only row.
    Scalar,
    /// Its rows, in FROM.
    Lateral,
}

/// Whether the library's rules can be left to it.
pub(super) fn is_simple(plan: &LogicalPlan, used: Use) -> bool {
    let walk = Walk { used, grouped: false, whole: false, top: true };
    free_in_subqueries(plan).is_empty() && walk.is_plain(plan) && has_distinct_names(plan)
}

/// Whether a query is an aggregate without GROUP BY, or has no FROM, under nothing that could take its row away.
pub(super) fn always_has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => always_has_a_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => always_has_a_row(&node.input),
        LogicalPlan::Sort(node) => node.fetch != Some(0) && always_has_a_row(&node.input),
        LogicalPlan::Distinct(node) => always_has_a_row(node.input()),
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(node) => node.produce_one_row,
        _ => false,
    }
}

#[derive(Clone, Copy)]
struct Walk {
    used: Use,
    /// Below a grouping.
    grouped: bool,
    /// Below a grouping of all rows into one.
    whole: bool,
    /// Nothing but projections above.
    top: bool,
}

impl Walk {
    fn is_plain(self, plan: &LogicalPlan) -> bool {
        if free(plan).is_empty() {
            // Its own rows are the same for all; but a scalar is one value only by its aggregate.
            return self.used != Use::Scalar || self.whole;
        }
        // The domain of a subquery in here would depend on the outer query.
        if has_correlated(plan) && plan.inputs().iter().any(|input| !free(input).is_empty()) {
            return false;
        }
        let predicate = matches!(self.used, Use::Exists | Use::In);
        let deeper = Walk { top: false, ..self };
        match plan {
            LogicalPlan::Projection(p) => {
                !p.expr.iter().any(reads_outer) && self.is_plain(&p.input)
            }
            // Under an alias the rules lose the columns of what they move.
            LogicalPlan::SubqueryAlias(alias) => {
                self.used == Use::Lateral && self.top && self.is_plain(&alias.input)
            }
            LogicalPlan::Subquery(subquery) if self.used == Use::Lateral && self.top => {
                self.is_plain(&subquery.subquery)
            }
            LogicalPlan::Filter(filter) => {
                let correlated =
                    split_conjunction(&filter.predicate).into_iter().filter(|c| reads_outer(c));
                let movable = |c: &Expr| !has_subquery(c) && (!self.grouped || is_equality(c));
                (self.used != Use::Scalar || self.whole)
                    && correlated.into_iter().all(movable)
                    && deeper.is_plain(&filter.input)
            }
            LogicalPlan::Distinct(Distinct::All(input)) => predicate && deeper.is_plain(input),
            LogicalPlan::Join(join) => {
                let exprs = join.on.iter().flat_map(|(l, r)| [l, r]).chain(&join.filter);
                join.join_type == JoinType::Inner
                    && (self.used != Use::Scalar || self.whole)
                    && !exprs.into_iter().any(reads_outer)
                    && both(deeper, &join.left, &join.right)
            }
            LogicalPlan::Limit(limit) => {
                self.used == Use::Exists
                    && self.top
                    && keeps_the_first(limit)
                    && self.is_plain(&limit.input)
            }
            LogicalPlan::Aggregate(aggregate) => {
                let whole = aggregate.group_expr.is_empty();
                let exprs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
                let sets = aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_)));
                let fits =
                    if whole { self.used == Use::Scalar && !self.grouped } else { predicate };
                let below = Walk { grouped: true, whole: self.whole || whole, ..deeper };
                fits && !sets
                    && !exprs.into_iter().any(reads_outer)
                    && below.is_plain(&aggregate.input)
            }
            _ => false,
        }
    }
}

/// Either side of a join may be uncorrelated.
fn both(walk: Walk, left: &LogicalPlan, right: &LogicalPlan) -> bool {
    [left, right].into_iter().all(|side| free(side).is_empty() || walk.is_plain(side))
}

/// The rules put the columns of the conditions that they move beside the subquery's own, all under one alias.
fn has_distinct_names(plan: &LogicalPlan) -> bool {
    let mut columns: Vec<Column> = plan.schema().columns();
    let mut distinct = true;
    collect_moved(plan, &mut |moved| {
        if !columns.contains(moved) {
            distinct &= !columns.iter().any(|known| known.name == moved.name);
            columns.push(moved.clone());
        }
    });
    distinct
}

fn collect_moved(plan: &LogicalPlan, add: &mut dyn FnMut(&Column)) {
    if let LogicalPlan::Filter(filter) = plan {
        for condition in split_conjunction(&filter.predicate).into_iter().filter(|c| reads_outer(c))
        {
            condition.column_refs().into_iter().for_each(&mut *add);
        }
    }
    plan.inputs().into_iter().for_each(|input| collect_moved(input, add));
}

/// A LIMIT that does not change whether there are rows.
fn keeps_the_first(limit: &Limit) -> bool {
    let skips = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
    let fetches = match limit.get_fetch_type() {
        Ok(FetchType::Literal(fetch)) => fetch != Some(0),
        _ => false,
    };
    skips && fetches
}

/// An inner column that equals something of the outer query: one group for each value.
fn is_equality(expr: &Expr) -> bool {
    let is_column = |e: &Expr| match e {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, .. }) => matches!(**expr, Expr::Column(_)),
        _ => false,
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            (is_column(left) && !right.any_column_refs())
                || (is_column(right) && !left.any_column_refs())
        }
        _ => false,
    }
}
