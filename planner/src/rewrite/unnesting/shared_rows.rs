//! The rows of which a domain takes its values, and what is to be read in their place.
//!
//! The domain reads a part of the outer query a second time: no more of it than the columns come from. What would cost
//! much, or might give other rows the second time, becomes a shared plan that both read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result, TableReference};
use datafusion_expr::logical_plan::{Filter, Join, Projection};
use datafusion_expr::utils::{conjunction, split_conjunction};
use datafusion_expr::{
    Expr, JoinType, LogicalPlan, LogicalPlanBuilder, TableScanBuilder, TableSource,
};

use super::references::{has, has_subquery, is_lateral, reads_outer};
use crate::bind::{SharedSource, WorkTableSource, carry};
use crate::error::PlannerError;
use crate::rewrite::shared::SharedPlans;

/// What EXPLAIN calls a shared part of an outer query.
const NAME: &str = "outer_rows";

/// Names that are new in a plan, and the statement's shared plans.
pub(super) struct Context {
    numbers: AtomicUsize,
    shared: SharedPlans,
}

/// An outer query's rows, in two readings.
pub(super) struct Rows {
    /// All of them.
    pub(super) input: LogicalPlan,
    /// At least all values of the columns that were asked for.
    pub(super) values: LogicalPlan,
}

impl Context {
    pub(super) fn new(shared: SharedPlans) -> Self {
        Context { numbers: AtomicUsize::new(1), shared }
    }

    /// A column name that nothing else in the plan has.
    pub(super) fn fresh(&self) -> String {
        format!("__outer_{}", self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    /// The columns under names of their own.
    pub(super) fn named(&self, columns: &[Column]) -> Vec<Expr> {
        columns.iter().map(|column| Expr::Column(column.clone()).alias(self.fresh())).collect()
    }

    /// Splits an outer query into its rows and the values of some of its columns. `finish` rewrites what is shared.
    pub(super) fn split(
        &self,
        input: LogicalPlan,
        columns: &[Column],
        finish: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>,
    ) -> Result<Rows> {
        match input {
            LogicalPlan::Filter(filter) => {
                let below = self.split(Arc::unwrap_or_clone(filter.input), columns, finish)?;
                let values = restricted(below.values, &filter.predicate)?;
                let filter = Filter::try_new(filter.predicate, Arc::new(below.input))?;
                Ok(Rows { input: LogicalPlan::Filter(filter), values })
            }
            LogicalPlan::Join(join) => match side_of(&join, columns) {
                Some(Side::Left) => {
                    let left = self.split(Arc::unwrap_or_clone(join.left), columns, finish)?;
                    let input = LogicalPlan::Join(Join { left: Arc::new(left.input), ..join });
                    Ok(Rows { input, values: left.values })
                }
                Some(Side::Right) => {
                    let right = self.split(Arc::unwrap_or_clone(join.right), columns, finish)?;
                    let input = LogicalPlan::Join(Join { right: Arc::new(right.input), ..join });
                    Ok(Rows { input, values: right.values })
                }
                None => self.twice(LogicalPlan::Join(join), finish),
            },
            other => self.twice(other, finish),
        }
    }

    fn twice(
        &self,
        plan: LogicalPlan,
        finish: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>,
    ) -> Result<Rows> {
        if reads_work_table(&plan)? {
            let error = PlannerError::not_supported("this subquery in a recursive term")
                .with_hint("write it as a join".to_string());
            return Err(carry(error));
        }
        if is_light(&plan)? {
            return Ok(Rows { input: plan.clone(), values: plan });
        }
        let schema = Arc::clone(plan.schema());
        let columns = schema.columns();
        let named = self.named(&columns);
        let plan = LogicalPlanBuilder::from(finish(plan)?).project(named)?.build()?;
        let names: Vec<Column> = plan.schema().columns();
        let types = Arc::clone(plan.schema().inner());
        let id = self.shared.push(NAME, plan);
        let source: Arc<dyn TableSource> = Arc::new(SharedSource::new(id, NAME.to_string(), types));
        let table = TableReference::bare(NAME);
        let scan = TableScanBuilder::new(table.clone(), source).build()?;
        let exprs = columns.into_iter().zip(names).map(|(old, new)| {
            Expr::Column(Column::new(Some(table.clone()), new.name))
                .alias_qualified(old.relation, old.name)
        });
        let scan = Arc::new(LogicalPlan::TableScan(scan));
        let plan = LogicalPlan::Projection(Projection::try_new(exprs.collect(), scan)?);
        Ok(Rows { input: plan.clone(), values: plan })
    }
}

enum Side {
    Left,
    Right,
}

/// The input of a join that has all of the columns, when it gives each of their values to the result unchanged.
fn side_of(join: &Join, columns: &[Column]) -> Option<Side> {
    let all_in = |side: &LogicalPlan| columns.iter().all(|column| has(side.schema(), column));
    let (left, right) = match join.join_type {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            (true, false)
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            (false, true)
        }
        JoinType::Full => (false, false),
    };
    if left && all_in(&join.left) {
        return Some(Side::Left);
    }
    (right && !is_lateral(join) && all_in(&join.right)).then_some(Side::Right)
}

/// The rows without some that the predicate of all rows rejects.
fn restricted(values: LogicalPlan, predicate: &Expr) -> Result<LogicalPlan> {
    let schema = Arc::clone(values.schema());
    let usable = |e: &&Expr| {
        !e.is_volatile()
            && !has_subquery(e)
            && !reads_outer(e)
            && e.column_refs().into_iter().all(|column| has(&schema, column))
    };
    let usable: Vec<Expr> =
        split_conjunction(predicate).into_iter().filter(usable).cloned().collect();
    match conjunction(usable) {
        Some(predicate) => LogicalPlanBuilder::from(values).filter(predicate)?.build(),
        None => Ok(values),
    }
}

/// Whether a plan does no more than reading, filtering, joining and projecting, with the same result each time.
fn is_light(plan: &LogicalPlan) -> Result<bool> {
    let mut light = true;
    plan.apply(|node| {
        light &= matches!(
            node,
            LogicalPlan::TableScan(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Projection(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Values(_)
                | LogicalPlan::EmptyRelation(_)
        );
        let heavy = |e: &Expr| e.is_volatile() || has_subquery(e);
        light &= !node.expressions().iter().any(heavy);
        Ok(if light { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(light)
}

fn reads_work_table(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= scan.source.downcast_ref::<WorkTableSource>().is_some();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
