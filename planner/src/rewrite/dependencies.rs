//! Sound functional dependencies of groupings.
//!
//! A grouping over a join inherits what the keys of the join's sides determine. The library takes such a key to determine
//! all columns of the grouping, other keys included: a grouping above it then loses keys and merges groups, and a DISTINCT
//! above it is dropped. Before these rules run, what does not hold is taken out, and the schemas above are computed anew.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{
    DFSchema, Dependency, FunctionalDependence, FunctionalDependencies, Result,
};
use datafusion_expr::{Aggregate, Expr, LogicalPlan};
use datafusion_optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion_optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The repair as a rule, before those that look at dependencies anywhere in a plan.
#[derive(Debug)]
pub(super) struct SoundDependencies;

/// DISTINCT as a grouping, by the library's rule. It goes from the bottom up, and a DISTINCT that became a grouping is the
/// source of new dependencies for the one above it: each looks at a plan that was repaired just before.
#[derive(Debug, Default)]
pub(super) struct SoundDistinct {
    library: ReplaceDistinctWithAggregate,
}

impl OptimizerRule for SoundDistinct {
    fn name(&self) -> &str {
        "sound_distinct"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Distinct(_) => self.library.rewrite(repaired(plan)?, config),
            other => Ok(Transformed::no(other)),
        }
    }
}

impl OptimizerRule for SoundDependencies {
    fn name(&self) -> &str {
        "sound_dependencies"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        // The plan is as it was but for what its schemas claim: no reason for another round of rules.
        repaired(plan).map(Transformed::no)
    }
}

/// The plan without dependencies that do not hold.
fn repaired(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut inherits = false;
    plan.apply(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            inherits |= inherited(aggregate)?;
        }
        Ok(if inherits { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !inherits {
        return Ok(plan);
    }
    let repaired = plan.transform_up(|node| {
        let node = node.recompute_schema()?;
        Ok(Transformed::yes(match node {
            LogicalPlan::Aggregate(aggregate) if inherited(&aggregate)? => {
                LogicalPlan::Aggregate(sound(aggregate)?)
            }
            other => other,
        }))
    })?;
    Ok(repaired.data)
}

/// Whether a grouping claims that some of its keys determine everything.
fn inherited(aggregate: &Aggregate) -> Result<bool> {
    let keys = aggregate.group_expr_len()?;
    let dependencies = aggregate.schema.functional_dependencies();
    Ok(dependencies.iter().any(|d| d.source_indices.len() < keys))
}

/// The grouping with what all its keys, or some that determine the others, determine.
fn sound(mut aggregate: Aggregate) -> Result<Aggregate> {
    let Aggregate { input, group_expr, schema, .. } = &aggregate;
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let keys: Vec<Option<usize>> = group_expr.iter().map(|e| column(e, input.schema())).collect();
    let place = |source: &usize| keys.iter().position(|k| k.as_ref() == Some(source));
    let mut kept = Vec::new();
    for dependence in input.schema().functional_dependencies().iter() {
        let Some(source) = dependence.source_indices.iter().map(place).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        // A dependence on no column would be one of a single row.
        let unique = dependence.mode == Dependency::Single && !source.is_empty();
        let determined = |key: &Option<usize>| {
            key.is_some_and(|key| {
                dependence.target_indices.contains(&key) || dependence.source_indices.contains(&key)
            })
        };
        if unique || keys.iter().all(determined) {
            let own = FunctionalDependence::new(source, all.clone(), dependence.nullable);
            kept.push(own.with_mode(Dependency::Single));
        }
    }
    if kept.is_empty() && !group_expr.is_empty() {
        let own = FunctionalDependence::new((0..group_expr.len()).collect(), all, true);
        kept.push(own.with_mode(Dependency::Single));
    }
    let schema = schema.as_ref().clone();
    let schema = schema.with_functional_dependencies(FunctionalDependencies::new(kept))?;
    // The library's constructors would compute the dependencies anew.
    aggregate.schema = Arc::new(schema);
    Ok(aggregate)
}

/// The input's column that a key is.
fn column(key: &Expr, input: &DFSchema) -> Option<usize> {
    match key {
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    }
}
