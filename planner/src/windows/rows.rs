//! `COUNT_WINDOW`, `DELTA_WINDOW`, `PUNCTUATION_WINDOW` and `LANDMARK_WINDOW`: windows that rows make, in the order of
//! their times or as they come.
//!
//! A landmark that is a point in time makes one window that never ends: a filter and a projection.

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion_sql::sqlparser::ast::{self, Spanned};

use super::WindowFunction;
use super::arguments::Arguments;
use super::functions::TimeFunction;
use super::input::{END, Input, START, TIME};
use super::row_windows::{NUMBER, RowWindowKind, RowWindows};
use super::session::key_of;
use crate::bind::carry;
use crate::error::PlannerError;
use crate::parse::span_of;

/// The parameter that says in which order rows go into windows.
const ROW_ORDER: &str = "row_order";

pub(super) fn plan(
    arguments: &Arguments,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let (kind, argument) = match arguments.function {
        WindowFunction::Count => (count(arguments, context)?, None),
        WindowFunction::Delta => delta(arguments, input, context)?,
        WindowFunction::Punctuation => {
            let condition = condition(arguments, "condition", input, context)?;
            (RowWindowKind::Punctuation, Some(condition))
        }
        WindowFunction::Landmark => {
            let landmark = value(arguments, "landmark", input, context)?;
            if landmark.get_type(input.plan.schema())? != DataType::Boolean {
                return since(arguments, input, landmark);
            }
            (RowWindowKind::Landmark, Some(landmark))
        }
        WindowFunction::Tumble
        | WindowFunction::Hop
        | WindowFunction::Cumulate
        | WindowFunction::Session => {
            return Err(carry(PlannerError::internal("such windows are not made by rows")));
        }
    };
    let keys = arguments.keys.iter().map(|key| key_of(key, input, context));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let by_arrival = by_arrival(arguments, context)?;
    let (plan, time) = (input.plan.clone(), input.time.clone());
    let windows = RowWindows::new(plan, kind, keys, time, argument, by_arrival)?.into_plan();
    let column = |name| Expr::Column(datafusion_common::Column::new_unqualified(name));
    let time = TimeFunction::Shift.call(vec![column(END)], &[-1]);
    let columns = [column(START), column(END), time.alias(TIME), column(NUMBER)];
    LogicalPlanBuilder::from(windows).project(input.and(columns))?.build()
}

/// One window from a point in time on, which is never complete.
fn since(arguments: &Arguments, input: &Input, landmark: Expr) -> Result<LogicalPlan> {
    let data_type = input.time.get_type(input.plan.schema())?;
    if !matches!(landmark, Expr::Literal(..)) && !landmark.column_refs().is_empty() {
        let what = "is a condition over the rows, or a constant point in time";
        return Err(wrong(arguments, "landmark", what));
    }
    let landmark = cast(landmark, data_type.clone());
    let null =
        || -> Result<Expr> { Ok(Expr::Literal(ScalarValue::try_new_null(&data_type)?, None)) };
    let columns = [
        landmark.clone().alias(START),
        null()?.alias(END),
        null()?.alias(TIME),
        lit(1_i64).alias(NUMBER),
    ];
    LogicalPlanBuilder::from(input.plan.clone())
        .filter(input.time.clone().gt_eq(landmark))?
        .project(input.and(columns))?
        .build()
}

fn count(arguments: &Arguments, context: &mut dyn RelationPlannerContext) -> Result<RowWindowKind> {
    let size = number(arguments, "size", context)?;
    let slide = match arguments.get("slide") {
        Some(_) => number(arguments, "slide", context)?,
        None => size,
    };
    Ok(RowWindowKind::Count { size, slide })
}

/// A number of rows.
fn number(
    arguments: &Arguments,
    parameter: &str,
    context: &mut dyn RelationPlannerContext,
) -> Result<u64> {
    let constant = constant(arguments, parameter, context)?;
    let number = match constant.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(Some(number))) if constant.data_type().is_integer() => number,
        _ => return Err(wrong(arguments, parameter, "is a constant number of rows")),
    };
    match u64::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(wrong(arguments, parameter, "must be more than no rows")),
    }
}

fn delta(
    arguments: &Arguments,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<(RowWindowKind, Option<Expr>)> {
    let of = value(arguments, "value", input, context)?;
    if !of.get_type(input.plan.schema())?.is_numeric() {
        return Err(wrong(arguments, "value", "is a number"));
    }
    let threshold = constant(arguments, "threshold", context)?;
    match threshold.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(Some(number))) if number >= 0.0 => {
            let kind = RowWindowKind::Delta { threshold: number.to_bits() };
            Ok((kind, Some(cast(of, DataType::Float64))))
        }
        _ => Err(wrong(arguments, "threshold", "is a constant number that is not negative")),
    }
}

fn condition(
    arguments: &Arguments,
    parameter: &str,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<Expr> {
    let condition = value(arguments, parameter, input, context)?;
    match condition.get_type(input.plan.schema())? {
        DataType::Boolean => Ok(condition),
        _ => Err(wrong(arguments, parameter, "is a condition over the rows")),
    }
}

fn by_arrival(arguments: &Arguments, context: &mut dyn RelationPlannerContext) -> Result<bool> {
    if arguments.get(ROW_ORDER).is_none() {
        return Ok(false);
    }
    match constant(arguments, ROW_ORDER, context)?.try_as_str().flatten() {
        Some("time") => Ok(false),
        Some("arrival") => Ok(true),
        _ => Err(wrong(arguments, ROW_ORDER, "is 'time' or 'arrival'")),
    }
}

/// An expression over the data.
fn value(
    arguments: &Arguments,
    parameter: &str,
    input: &Input,
    context: &mut dyn RelationPlannerContext,
) -> Result<Expr> {
    let written = arguments.get(parameter).ok_or_else(|| arguments.missing(parameter))?;
    context.sql_to_expr(written.clone(), input.plan.schema())
}

fn constant(
    arguments: &Arguments,
    parameter: &str,
    context: &mut dyn RelationPlannerContext,
) -> Result<ScalarValue> {
    let written = arguments.get(parameter).ok_or_else(|| arguments.missing(parameter))?;
    match context.sql_to_expr(written.clone(), &DFSchema::empty())? {
        Expr::Literal(value, _) => Ok(value),
        _ => Err(wrong(arguments, parameter, "is a constant")),
    }
}

fn wrong(arguments: &Arguments, parameter: &str, what: &str) -> datafusion_common::DataFusionError {
    let message = format!("{} of {} {what}", parameter.to_uppercase(), arguments.function.name());
    let written = arguments.get(parameter).and_then(|written: &ast::Expr| span_of(written.span()));
    carry(PlannerError::invalid(message).with_span(written).with_span(arguments.span))
}
