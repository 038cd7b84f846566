//! LATERAL: the rows of a query for each row before it.

use std::sync::Arc;

use datafusion_common::{Column, JoinType, Result};
use datafusion_expr::logical_plan::{Filter, Join, Projection};
use datafusion_expr::utils::conjunction;
use datafusion_expr::{Expr, LogicalPlan};

use super::Pass;
use super::domain::{Domain, restored, same};
use super::references::OuterColumn;

impl Pass {
    /// The join of the rows with a subquery that reads these columns of them.
    pub(super) fn lateral_join(&self, join: Join, outer: Vec<OuterColumn>) -> Result<LogicalPlan> {
        let computes = is_of_one_row(&join.right, join.join_type == JoinType::Inner);
        let plain = join.filter.is_none() && join.on.is_empty();
        if computes && (plain || join.join_type == JoinType::Inner) {
            return self.compute(join);
        }
        let mut input = Arc::unwrap_or_clone(join.left);
        let domain = self.domain(&mut input, outer)?;
        let pushed = domain.push(&join.right)?;
        let columns = domain.columns();
        let strict = pushed.strict || domain.outer.iter().all(|(field, _)| !field.is_nullable());
        let schema = Arc::clone(&join.schema);
        let filter = join.filter.into_iter().chain(same(&columns, &pushed.keys, strict));
        let joined = Join::try_new(
            Arc::new(input),
            Arc::new(pushed.plan),
            join.on,
            conjunction(filter),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        restored(LogicalPlan::Join(joined), &schema, &[])
    }

    /// What only computes with one row is done with the rows themselves: nothing is to be joined.
    fn compute(&self, join: Join) -> Result<LogicalPlan> {
        let left = Arc::clone(join.left.schema());
        let all = left.iter().zip(left.columns());
        let all = all.map(|((_, field), column)| (Arc::clone(field), column)).collect();
        let domain = Domain::of_rows(Arc::unwrap_or_clone(join.left), all, &self.context)?;
        let pushed = domain.push(&join.right)?;
        let named =
            |key: Column, old: Column| Expr::Column(key).alias_qualified(old.relation, old.name);
        let rows = pushed.keys.into_iter().zip(left.columns()).map(|(key, old)| named(key, old));
        let own = join.right.schema().columns().into_iter().map(Expr::Column);
        let rows = Projection::try_new(rows.chain(own).collect(), Arc::new(pushed.plan))?;
        let plan = LogicalPlan::Projection(rows);
        let on = join.on.into_iter().map(|(l, r)| l.eq(r));
        match conjunction(on.chain(join.filter)) {
            Some(condition) => Ok(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?)),
            None => Ok(plan),
        }
    }
}

/// Whether a query has rows of one outer row only; `any`: any number of them, else exactly one.
fn is_of_one_row(plan: &LogicalPlan, any: bool) -> bool {
    match plan {
        LogicalPlan::Projection(node) => is_of_one_row(&node.input, any),
        LogicalPlan::SubqueryAlias(node) => is_of_one_row(&node.input, any),
        LogicalPlan::Subquery(node) => is_of_one_row(&node.subquery, any),
        LogicalPlan::Filter(node) => any && is_of_one_row(&node.input, any),
        LogicalPlan::Unnest(node) => any && is_of_one_row(&node.input, any),
        LogicalPlan::EmptyRelation(node) => node.produce_one_row && node.schema.fields().is_empty(),
        _ => false,
    }
}
