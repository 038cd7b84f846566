//! SESSION: windows around rows of a key that are no further than `gap` from each other, from the first time to the
//! last and the gap after it.
//!
//! A row is the first of its session when the one before is further away; the start of a session is the greatest
//! first time up to a row, and its end the least last time from it on. Invariant: rows of equal times get one answer,
//! whatever their order, since the frames hold all of them.

use datafusion_common::{Column, Result, ScalarValue};
use datafusion_expr::expr::WindowFunction as WindowCall;
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, WindowFrame, WindowFrameBound,
    WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_window::lead_lag::{lag, lead};
use datafusion_sql::sqlparser::ast;

use super::arguments::Arguments;
use super::functions::TimeFunction;
use super::input::Input;
use super::lengths::fixed_length;

/// Names of columns within the plan; no user can mean them.
const BEFORE: &str = "\u{1}before";
const AFTER: &str = "\u{1}after";
const FIRST: &str = "\u{1}first";
const LAST: &str = "\u{1}last";

pub(super) fn plan(
    arguments: &Arguments,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let gap = fixed_length(arguments, "gap", input.unit, context)?;
    let keys = arguments.keys.iter().map(|key| key_of(key, input, context));
    let over = Over { keys: keys.collect::<Result<Vec<_>>>()?, time: input.time.clone() };

    let neighbours = [
        over.build(lag(input.time.clone(), Some(1), None), None)?,
        over.build(lead(input.time.clone(), Some(1), None), None)?,
    ];
    let plan = with_windows(input, input.plan.clone(), neighbours, [BEFORE, AFTER])?;
    let edge = |other| {
        let times = vec![input.time.clone(), Expr::Column(Column::new_unqualified(other))];
        TimeFunction::SessionEdge.call(times, &[gap])
    };
    let edges = [edge(BEFORE).alias(FIRST), edge(AFTER).alias(LAST)];
    let plan = LogicalPlanBuilder::from(plan).project(input.and(edges))?.build()?;

    let unbounded = || ScalarValue::Null;
    let up_to = (WindowFrameBound::Preceding(unbounded()), WindowFrameBound::CurrentRow);
    let from_on = (WindowFrameBound::CurrentRow, WindowFrameBound::Following(unbounded()));
    let bounds = [
        over.build(aggregate(max_udaf().into(), FIRST), Some(up_to))?,
        over.build(aggregate(min_udaf().into(), LAST), Some(from_on))?,
    ];
    let plan = with_windows(input, plan, bounds, [FIRST, LAST])?;
    let column = |name| Expr::Column(Column::new_unqualified(name));
    let shifted = |by| TimeFunction::Shift.call(vec![column(LAST)], &[by]);
    input.finish(plan, [column(FIRST), shifted(gap), shifted(gap - 1)])
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

fn aggregate(function: WindowFunctionDefinition, column: &str) -> Expr {
    let args = vec![Expr::Column(Column::new_unqualified(column))];
    Expr::from(WindowCall::new(function, args))
}

/// The rows of one key by time.
struct Over {
    keys: Vec<Expr>,
    time: Expr,
}

impl Over {
    fn build(
        &self,
        call: Expr,
        frame: Option<(WindowFrameBound, WindowFrameBound)>,
    ) -> Result<Expr> {
        let ordered = call
            .partition_by(self.keys.clone())
            .order_by(vec![self.time.clone().sort(true, false)]);
        match frame {
            None => ordered.build(),
            Some((start, end)) => ordered
                .window_frame(WindowFrame::new_bounds(WindowFrameUnits::Range, start, end))
                .build(),
        }
    }
}

/// The input's columns and two window functions under names.
fn with_windows(
    input: &Input,
    plan: LogicalPlan,
    calls: [Expr; 2],
    names: [&str; 2],
) -> Result<LogicalPlan> {
    let results = calls.iter().zip(names).map(|(call, name)| {
        Expr::Column(Column::new_unqualified(call.schema_name().to_string())).alias(name)
    });
    let columns = input.and(results.collect::<Vec<_>>());
    LogicalPlanBuilder::from(plan).window(calls.to_vec())?.project(columns)?.build()
}
