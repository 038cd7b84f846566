//! HOP: each row is in `size / slide` windows, or one more where that is no whole number; a list of their starts,
//! unnested. Invariant: a slide is no longer than the size, so that a row is in one window at least.

use datafusion_common::{Column, Result};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::arguments::Arguments;
use super::grid::Grid;
use super::input::{Input, START};
use super::lengths::{multiple, offset};

pub(super) fn plan(
    arguments: &Arguments,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let (slide, size) = multiple(arguments, "slide", input.unit, context)?;
    let offset = offset(arguments, slide, input.unit, context)?;
    let grid = Grid::new(input, arguments, slide, [slide, size], offset)?;
    let starts = grid.starts(input).alias(START);
    let plan = LogicalPlanBuilder::from(input.plan.clone())
        .project(input.and([starts]))?
        .unnest_column(Column::new_unqualified(START))?
        .build()?;
    input.finish(plan, grid.of_start(Expr::Column(Column::new_unqualified(START))))
}
