//! TUMBLE: each row is in the one window of its size that holds its time; a projection.

use datafusion_common::{Column, Result};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::arguments::Arguments;
use super::grid::Grid;
use super::input::{Input, START};
use super::lengths::{length, offset};

pub(super) fn plan(
    arguments: &Arguments,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let size = length(arguments, "size", input.unit, context)?;
    let offset = offset(arguments, size, input.unit, context)?;
    let grid = Grid::new(input, arguments, size, [size, size], offset)?;
    let plan = LogicalPlanBuilder::from(input.plan.clone())
        .project(input.and([grid.floor(input).alias(START)]))?
        .build()?;
    input.finish(plan, grid.of_start(Expr::Column(Column::new_unqualified(START))))
}
