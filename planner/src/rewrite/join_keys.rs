//! Equalities of join conditions as keys of the join.
//!
//! A join has one rule for NULLs in all of its keys, and the library's rules flatten joins and add keys without a look at
//! it. So `=` becomes a key while the rules run, and IS NOT DISTINCT FROM behind them, where there is no other key.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{NullEquality, Result};
use datafusion_expr::expr::BinaryExpr;
use datafusion_expr::logical_plan::Join;
use datafusion_expr::utils::{
    can_hash, conjunction, find_valid_equijoin_key_pair, split_conjunction_owned,
};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

/// Makes keys of `=`.
#[derive(Debug)]
pub(super) struct JoinKeys;

impl OptimizerRule for JoinKeys {
    fn name(&self) -> &str {
        "join_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNothing => {
                extract(join, Operator::Eq)
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Makes keys of IS NOT DISTINCT FROM in a plan that no rule looks at any more.
pub(super) fn null_safe(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if join.on.is_empty() && !join.null_aware => {
            extract(join, Operator::IsNotDistinctFrom)
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn extract(mut join: Join, wanted: Operator) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.take() else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let known = join.on.len();
    let mut rest = Vec::new();
    for conjunct in split_conjunction_owned(filter) {
        match key_pair(&conjunct, wanted, &join)? {
            Some(pair) => join.on.push(pair),
            None => rest.push(conjunct),
        }
    }
    join.filter = conjunction(rest);
    if join.on.len() == known {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    if wanted == Operator::IsNotDistinctFrom {
        join.null_equality = NullEquality::NullEqualsNull;
    }
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

fn key_pair(conjunct: &Expr, wanted: Operator, join: &Join) -> Result<Option<(Expr, Expr)>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { return Ok(None) };
    if *op != wanted {
        return Ok(None);
    }
    let (l, r) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
    let Some((left, right)) = find_valid_equijoin_key_pair(left, right, &l, &r)? else {
        return Ok(None);
    };
    let hashable = can_hash(&left.get_type(&l)?) && can_hash(&right.get_type(&r)?);
    Ok(hashable.then_some((left, right)))
}
