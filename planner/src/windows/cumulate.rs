//! CUMULATE: windows that begin together each `size` and end each `step`; a list of the ends after a row, unnested.

use datafusion_common::{Column, Result};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::arguments::Arguments;
use super::grid::{Grid, bounds};
use super::input::{END, Input, START};
use super::lengths::{multiple, offset};

pub(super) fn plan(
    arguments: &Arguments,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let (step, size) = multiple(arguments, "step", input.unit, context)?;
    let offset = offset(arguments, size, input.unit, context)?;
    let grid = Grid::new(input, arguments, size, [step, size], offset)?;
    let (start, ends) = (grid.floor(input).alias(START), grid.ends(input).alias(END));
    let plan = LogicalPlanBuilder::from(input.plan.clone())
        .project(input.and([start, ends]))?
        .unnest_column(Column::new_unqualified(END))?
        .build()?;
    let column = |name| Expr::Column(Column::new_unqualified(name));
    input.finish(plan, bounds(column(START), column(END)))
}
