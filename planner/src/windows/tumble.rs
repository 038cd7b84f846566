//! TUMBLE: each row is in the one window of its size that holds its time; a projection.

use datafusion_common::Result;
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{LogicalPlan, LogicalPlanBuilder};

use super::arguments::Arguments;
use super::functions::TimeFunction;
use super::input::{Input, START};
use super::lengths::{length, offset};

pub(super) fn plan(
    arguments: &Arguments,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let input = Input::plan(arguments, context)?;
    let size = length(arguments, "size", input.unit, context)?;
    let offset = offset(arguments, input.unit, context)?;
    let origin = input.origin(arguments, size, offset)?;
    let start = TimeFunction::Floor.call(vec![input.time.clone()], &[size, origin]).alias(START);
    let plan = LogicalPlanBuilder::from(input.plan.clone()).project(input.and([start]))?.build()?;
    input.of_size(plan, size)
}
