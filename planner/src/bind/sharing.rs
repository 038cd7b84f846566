//! Which CTEs become shared plans, and the shared plans of a statement while it is bound.
//!
//! `cte` marks the candidates in the syntax tree; when one has been bound, [`SharedRegistry::admit`] decides by its plan.
//! Plans are admitted in the order they are bound, so that each reads only earlier ones.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DataFusionError, Result};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource};

use super::sources::{SharedSource, WorkTableSource};
use crate::rewrite::Rewriter;

/// How a CTE was declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Referenced twice or more: shared when that saves work.
    Candidate,
    /// `AS MATERIALIZED`: shared whenever possible.
    Forced,
    /// `AS NOT MATERIALIZED`: never shared, nor anything else in the statement that its author did not ask for.
    Inlined,
}

/// The shared plans of one statement.
#[derive(Clone)]
pub(crate) struct SharedRegistry {
    rewriter: Arc<Rewriter>,
}

impl std::fmt::Debug for SharedRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedRegistry")
            .field("plans", self.rewriter.shared())
            .finish_non_exhaustive()
    }
}

impl SharedRegistry {
    pub(crate) fn new(rewriter: Arc<Rewriter>) -> Self {
        SharedRegistry { rewriter }
    }

    /// The plan that references of a CTE get: a scan of a shared plan, or the plan itself.
    pub(crate) fn admit(
        &self,
        name: &str,
        sharing: Sharing,
        plan: LogicalPlan,
    ) -> Result<LogicalPlan> {
        let wanted = match sharing {
            Sharing::Forced => true,
            Sharing::Inlined => {
                self.rewriter.shared().leave_common();
                false
            }
            Sharing::Candidate => is_volatile(&plan)? || !is_cheap(&plan)?,
        };
        if !wanted || !is_self_contained(&plan)? || !has_unique_names(plan.schema()) {
            return Ok(plan);
        }
        // The source's types are those after coercion.
        let plan = self.rewriter.analyze(plan)?;
        let types = Arc::clone(plan.schema().inner());
        let id = self.rewriter.shared().push(name, plan);
        let source = SharedSource::new(id, name.to_string(), types);
        let source: Arc<dyn TableSource> = Arc::new(source);
        LogicalPlanBuilder::scan(datafusion_common::TableReference::bare(name), source, None)?
            .build()
    }
}

/// Whether evaluating the plan twice may give different rows.
pub(crate) fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| any_expr(node, Expr::is_volatile))
}

/// Whether the plan does no more than reading, filtering and projecting: reading it twice costs less than keeping it.
fn is_cheap(plan: &LogicalPlan) -> Result<bool> {
    let costly = any_node(plan, |node| {
        let light = matches!(
            node,
            LogicalPlan::TableScan(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Projection(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Values(_)
                | LogicalPlan::EmptyRelation(_)
        );
        Ok(!light || any_expr(node, has_subquery)?)
    })?;
    Ok(!costly)
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    })
    .unwrap_or(true)
}

/// Whether the plan refers to nothing outside itself: no outer column, no working table of an outer recursion.
pub(crate) fn is_self_contained(plan: &LogicalPlan) -> Result<bool> {
    let mut recursions = HashSet::new();
    let mut open = false;
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::RecursiveQuery(query) => {
                recursions.insert(query.name.clone());
            }
            LogicalPlan::TableScan(scan) => {
                let work_table = scan.source.downcast_ref::<WorkTableSource>();
                open |= work_table.is_some_and(|source| !recursions.contains(source.name()));
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(!open && outer_columns_resolve(plan)?)
}

/// Whether every outer column in the plan's subqueries is one of the plan's own relations.
fn outer_columns_resolve(plan: &LogicalPlan) -> Result<bool> {
    let mut tables = HashSet::new();
    let mut outer = Vec::new();
    plan.apply_with_subqueries(|node| {
        tables.extend(node.schema().iter().filter_map(|(qualifier, _)| qualifier.cloned()));
        for input in node.inputs() {
            tables.extend(input.schema().iter().filter_map(|(qualifier, _)| qualifier.cloned()));
        }
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                if let Expr::OuterReferenceColumn(_, column) = e {
                    outer.push(column.relation.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    // A plan that has an outer column at its own level is correlated whatever the column's table is called.
    let own_level = any_node(plan, |node| any_expr(node, Expr::contains_outer))?;
    Ok(!own_level
        && outer.iter().all(|relation| relation.as_ref().is_some_and(|r| tables.contains(r))))
}

fn has_unique_names(schema: &DFSchema) -> bool {
    let mut seen = HashSet::new();
    schema.fields().iter().all(|field| seen.insert(field.name()))
}

/// Whether the predicate holds for a node of the plan, subqueries not included.
fn any_node(
    plan: &LogicalPlan,
    mut predicate: impl FnMut(&LogicalPlan) -> Result<bool>,
) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found = predicate(node)?;
        Ok::<_, DataFusionError>(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

fn any_expr(node: &LogicalPlan, predicate: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= predicate(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
