//! Interval arguments as numbers of the units in which a column counts time.

use std::sync::Arc;

use arrow::datatypes::{IntervalMonthDayNano, TimeUnit};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::Expr;
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::simplify::SimplifyContext;
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_sql::sqlparser::ast::{self, Spanned};

use super::WindowFunction;
use super::arguments::Arguments;
use crate::bind::carry;
use crate::error::PlannerError;
use crate::intervals::length_ns;
use crate::parse::span_of;

/// The most windows that a row may be in: each is a row of the result.
const MAX_WINDOWS: i64 = 2_000;

/// How many units a second has.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A length that must be there and longer than nothing.
pub(super) fn length(
    arguments: &Arguments,
    parameter: &str,
    unit: TimeUnit,
    context: &mut dyn RelationPlannerContext,
) -> Result<i64> {
    let written = arguments.get(parameter).ok_or_else(|| arguments.missing(parameter))?;
    let length = read(arguments, parameter, written, unit, context)?;
    if length <= 0 {
        let what = format!("of {} must be longer than nothing", arguments.function.name());
        return Err(wrong(arguments, parameter, &what, written));
    }
    Ok(length)
}

/// The length by which windows are moved; none moves them by nothing.
pub(super) fn offset(
    arguments: &Arguments,
    unit: TimeUnit,
    context: &mut dyn RelationPlannerContext,
) -> Result<i64> {
    match arguments.get("offset") {
        None => Ok(0),
        Some(written) => read(arguments, "offset", written, unit, context),
    }
}

/// Size and slide (or step) of windows. The size is a multiple of the other, or of HOP at least as long.
pub(super) fn multiple(
    arguments: &Arguments,
    part: &str,
    unit: TimeUnit,
    context: &mut dyn RelationPlannerContext,
) -> Result<(i64, i64)> {
    let part_length = length(arguments, part, unit, context)?;
    let size = length(arguments, "size", unit, context)?;
    let (function, part) = (arguments.function.name(), part.to_uppercase());
    let whole = size % part_length == 0;
    let overlapping = arguments.function == WindowFunction::Hop && part_length <= size;
    if !whole && !overlapping {
        let message = format!("the SIZE of {function} must be a multiple of its {part}");
        let hint = format!("{function} takes {part} first, then SIZE");
        let error = PlannerError::invalid(message).with_hint(hint);
        return Err(carry(error.with_span(arguments.span)));
    }
    if size / part_length > MAX_WINDOWS {
        let error = PlannerError::not_supported(format!("{function} with so small a {part}"));
        let detail = format!("A row may be in {MAX_WINDOWS} windows at most.");
        return Err(carry(error.with_detail(detail).with_span(arguments.span)));
    }
    Ok((part_length, size))
}

fn wrong(
    arguments: &Arguments,
    parameter: &str,
    what: &str,
    at: &ast::Expr,
) -> datafusion_common::DataFusionError {
    let error = PlannerError::invalid(format!("{} {what}", parameter.to_uppercase()));
    carry(error.with_span(span_of(at.span())).with_span(arguments.span))
}

fn read(
    arguments: &Arguments,
    parameter: &str,
    written: &ast::Expr,
    unit: TimeUnit,
    context: &mut dyn RelationPlannerContext,
) -> Result<i64> {
    let function = arguments.function.name();
    let expr = context.sql_to_expr(written.clone(), &DFSchema::empty())?;
    let Some(interval) = constant_interval(expr)? else {
        let what = format!("of {function} is a constant interval, such as INTERVAL '10' MINUTES");
        return Err(wrong(arguments, parameter, &what, written));
    };
    if interval.months != 0 {
        let what = format!("{} of months or years in {function}", parameter.to_uppercase());
        let error = PlannerError::not_supported(what)
            .with_detail("Months differ in length.".to_string())
            .with_hint("group by date_trunc('month', time)".to_string())
            .with_span(span_of(written.span()))
            .with_span(arguments.span);
        return Err(carry(error));
    }
    let unit_ns = i128::from(per_second(TimeUnit::Nanosecond) / per_second(unit));
    let length = length_ns(interval);
    if length % unit_ns != 0 {
        return Err(wrong(arguments, parameter, "is finer than the times of its column", written));
    }
    i64::try_from(length / unit_ns)
        .map_err(|_| wrong(arguments, parameter, "is out of range", written))
}

/// The value of a constant interval; `None` if it is none.
pub(super) fn constant_interval(expr: Expr) -> Result<Option<IntervalMonthDayNano>> {
    let schema = Arc::new(DFSchema::empty());
    let context = SimplifyContext::builder().with_schema(Arc::clone(&schema)).build();
    let simplifier = ExprSimplifier::new(context);
    let Expr::Literal(value, _) = simplifier.simplify(simplifier.coerce(expr, &schema)?)? else {
        return Ok(None);
    };
    Ok(match value {
        ScalarValue::IntervalMonthDayNano(value) => value,
        ScalarValue::IntervalDayTime(Some(value)) => Some(IntervalMonthDayNano {
            months: 0,
            days: value.days,
            nanoseconds: i64::from(value.milliseconds) * 1_000_000,
        }),
        ScalarValue::IntervalYearMonth(Some(months)) => {
            Some(IntervalMonthDayNano { months, days: 0, nanoseconds: 0 })
        }
        _ => None,
    })
}
