//! SESSION: windows around rows of a key that are no further than `gap` from each other, from the first time to the
//! last and the gap after it. The first and the last time of a row's session are window functions of its key.

use datafusion_common::{Column, Result};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion_sql::sqlparser::ast;

use super::arguments::Arguments;
use super::functions::TimeFunction;
use super::input::Input;
use super::lengths::fixed_length;
use super::plan_functions::PlanFunction;

/// Names of columns within the plan; no user can mean them.
const FIRST: &str = "\u{1}first";
const LAST: &str = "\u{1}last";

pub(super) fn plan(
    arguments: &Arguments,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let gap = fixed_length(arguments, "gap", input.unit, context)?;
    let keys = arguments.keys.iter().map(|key| key_of(key, input, context));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let order = || vec![input.time.clone().sort(true, false)];
    let edge = |edge: PlanFunction| {
        let call = edge.function().call(vec![input.time.clone(), lit(gap)]);
        call.partition_by(keys.clone()).order_by(order()).build()
    };
    let calls = [edge(PlanFunction::SessionFirst)?, edge(PlanFunction::SessionLast)?];
    let results = calls.iter().zip([FIRST, LAST]).map(|(call, name)| {
        Expr::Column(Column::new_unqualified(call.schema_name().to_string())).alias(name)
    });
    let columns = input.and(results.collect::<Vec<_>>());
    let plan = LogicalPlanBuilder::from(input.plan.clone()).window(calls)?.project(columns)?;
    let column = |name| Expr::Column(Column::new_unqualified(name));
    let shifted = |by| TimeFunction::Shift.call(vec![column(LAST)], &[by]);
    input.finish(plan.build()?, [column(FIRST), shifted(gap), shifted(gap - 1)])
}

/// A key over the data: the first of several that can be one.
pub(super) fn key_of(
    key: &ast::Expr,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<Expr> {
    let mut keys = match key {
        ast::Expr::Tuple(keys) if keys.len() > 1 => keys.clone(),
        key => vec![key.clone()],
    };
    let last = keys.pop().unwrap_or_else(|| key.clone());
    for key in keys {
        if let Ok(key) = context.sql_to_expr(key, input.plan.schema()) {
            return Ok(key);
        }
    }
    context.sql_to_expr(last, input.plan.schema())
}
