//! Subqueries that are written twice are computed once.
//!
//! After all rewrites, groupings of the main plan that are equal in every part, conditions included, become one shared
//! plan. What is not a grouping stays as it is: reading again costs less than keeping. Invariant: a plan whose rows may
//! differ from one evaluation to the next, or that reads something outside itself, is never shared.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result, TableReference};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource};

use super::shared::SharedPlans;
use crate::bind::{SharedSource, is_self_contained, is_volatile};
use crate::statement::{QueryPlan, SharedPlan};

/// Shares equal groupings of the main plan, the largest first.
pub(super) fn share(known: &SharedPlans, query: &mut QueryPlan) -> Result<()> {
    while let Some(grouping) = repeated(&query.plan)? {
        let id = known.next_id();
        let name = format!("common {}", id.0);
        let plan = positional(grouping.clone())?;
        let types = Arc::clone(plan.schema().inner());
        let source: Arc<dyn TableSource> = Arc::new(SharedSource::new(id, name.clone(), types));
        let reader = reader(&grouping, &name, source)?;
        let taken = std::mem::take(&mut query.plan);
        let replaced = taken.transform_down(|node| {
            Ok(if node == grouping {
                Transformed::new(reader.clone(), true, TreeNodeRecursion::Jump)
            } else {
                Transformed::no(node)
            })
        })?;
        query.plan = replaced.data;
        query.shared.push(SharedPlan { id, name, plan });
    }
    Ok(())
}

/// The first grouping, from the top, that occurs more than once.
fn repeated(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut groupings: Vec<&LogicalPlan> = Vec::new();
    plan.apply(|node| {
        if matches!(node, LogicalPlan::Aggregate(_)) {
            groupings.push(node);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if groupings.len() < 2 {
        return Ok(None);
    }
    let mut times: HashMap<&LogicalPlan, usize> = HashMap::new();
    groupings.iter().for_each(|g| *times.entry(g).or_default() += 1);
    for grouping in groupings {
        if times[grouping] > 1 && !is_volatile(grouping)? && is_self_contained(grouping)? {
            return Ok(Some(grouping.clone()));
        }
    }
    Ok(None)
}

/// The plan with its columns named by position: a source has one name for each column, a plan may have more.
fn positional(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan
        .schema()
        .columns()
        .into_iter()
        .enumerate()
        .map(|(at, column)| Expr::Column(column).alias(position(at)))
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// A scan of the shared plan whose columns are named as those of `plan`.
fn reader(plan: &LogicalPlan, name: &str, source: Arc<dyn TableSource>) -> Result<LogicalPlan> {
    let table = TableReference::bare(name);
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .enumerate()
        .map(|(at, (qualifier, field))| {
            Expr::Column(Column::new(Some(table.clone()), position(at)))
                .alias_qualified(qualifier.cloned(), field.name())
        })
        .collect();
    LogicalPlanBuilder::scan(table, source, None)?.project(columns)?.build()
}

fn position(at: usize) -> String {
    format!("c{at}")
}
