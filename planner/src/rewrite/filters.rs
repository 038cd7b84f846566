//! Filters move towards the tables, but not below a node that would answer otherwise.
//!
//! The library asks only whether a node groups by all columns of a condition, which holds of a condition without
//! columns as well. An aggregate without groups has a row even when nothing comes in: a condition that holds for no row
//! removes it above, and makes it out of nothing below. And a condition that is decided anew for each row, such as
//! `random() < 0.5`, means the rows that come out, not those that go in. Such conditions stay; all others move.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::logical_plan::{Aggregate, Filter};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, GroupingSet, LogicalPlan};
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::push_down_filter::PushDownFilter;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

/// The library's rule, for the conditions that may move.
#[derive(Debug, Default)]
pub(super) struct PushFilters {
    library: PushDownFilter,
}

impl OptimizerRule for PushFilters {
    fn name(&self) -> &str {
        "push_filters"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(top) = &plan else { return self.library.rewrite(plan, config) };
        // The library merges filters before it looks below them: the node that counts is below all of them.
        let mut below = &top.input;
        let mut predicates = split_conjunction_owned(top.predicate.clone());
        while let LogicalPlan::Filter(next) = below.as_ref() {
            let inner = split_conjunction_owned(next.predicate.clone());
            predicates.splice(0..0, inner);
            below = &next.input;
        }
        let (stay, move_on): (Vec<Expr>, Vec<Expr>) =
            predicates.into_iter().partition(|predicate| must_stay(predicate, below));
        let Some(stay) = conjunction(stay) else { return self.library.rewrite(plan, config) };
        let Some(move_on) = conjunction(move_on) else { return Ok(Transformed::no(plan)) };
        let moving = LogicalPlan::Filter(Filter::try_new(move_on, Arc::clone(below))?);
        let moved = self.library.rewrite(moving, config)?;
        if !moved.transformed {
            return Ok(Transformed::no(plan));
        }
        let kept = Filter::try_new(stay, Arc::new(moved.data))?;
        Ok(Transformed::yes(LogicalPlan::Filter(kept)))
    }
}

/// Whether a condition means something else below the node than above it.
fn must_stay(predicate: &Expr, below: &LogicalPlan) -> bool {
    match below {
        LogicalPlan::Aggregate(aggregate) => {
            predicate.is_volatile()
                || (makes_a_row(aggregate) && predicate.column_refs().is_empty())
        }
        LogicalPlan::Window(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Extension(_) => predicate.is_volatile(),
        _ => false,
    }
}

/// Whether the aggregate has a row for no input at all: one of its sets of groups is empty.
fn makes_a_row(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [] => true,
        [Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_))] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        _ => false,
    }
}
