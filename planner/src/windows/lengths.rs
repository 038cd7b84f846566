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
pub(super) const MAX_WINDOWS: i64 = 2_000;

const DAY_SECONDS: i64 = 86_400;

/// How many units a second has.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A length in months, or in units of the times' type; both only where windows are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Length {
    pub(super) months: i64,
    pub(super) units: i64,
}

impl Length {
    /// So many of them, one after the other.
    pub(super) fn times(self, count: i64) -> Self {
        Length {
            months: self.months.saturating_mul(count),
            units: self.units.saturating_mul(count),
        }
    }

    /// Whether it is no longer than nothing.
    pub(super) fn is_nothing(self) -> bool {
        self.months < 0 || self.units < 0 || (self.months == 0 && self.units == 0)
    }

    /// The length in units where it is the same at all times.
    pub(super) fn fixed(self) -> Option<i64> {
        (self.months == 0).then_some(self.units)
    }

    /// The length in units with months of so many days.
    fn with_months(self, days: i64, unit: TimeUnit) -> i64 {
        let month = days * DAY_SECONDS * per_second(unit);
        self.months.saturating_mul(month).saturating_add(self.units)
    }
}

/// A length that must be there and longer than nothing.
pub(super) fn length(
    arguments: &Arguments,
    parameter: &str,
    unit: TimeUnit,
    context: &mut dyn RelationPlannerContext,
) -> Result<Length> {
    let written = arguments.get(parameter).ok_or_else(|| arguments.missing(parameter))?;
    let length = read(arguments, parameter, written, unit, context)?;
    if length.is_nothing() {
        let what = format!("of {} must be longer than nothing", arguments.function.name());
        return Err(wrong(arguments, parameter, &what, written));
    }
    if length.months != 0 && length.units != 0 {
        let what = format!("of {} is in months or in days and parts", arguments.function.name());
        return Err(wrong(arguments, parameter, &what, written));
    }
    Ok(length)
}

/// A length that is the same at all times.
pub(super) fn fixed_length(
    arguments: &Arguments,
    parameter: &str,
    unit: TimeUnit,
    context: &mut dyn RelationPlannerContext,
) -> Result<i64> {
    if let Some(units) = length(arguments, parameter, unit, context)?.fixed() {
        return Ok(units);
    }
    let name = parameter.to_uppercase();
    let what = format!("{name} of months or years in {}", arguments.function.name());
    let error = PlannerError::not_supported(what)
        .with_detail("Months differ in length.".to_string())
        .with_hint("write it in days".to_string())
        .with_span(arguments.get(parameter).and_then(|written| span_of(written.span())))
        .with_span(arguments.span);
    Err(carry(error))
}

/// The length by which windows of a length are moved; none moves them by nothing.
pub(super) fn offset(
    arguments: &Arguments,
    windows: Length,
    unit: TimeUnit,
    context: &mut dyn RelationPlannerContext,
) -> Result<Length> {
    let Some(written) = arguments.get("offset") else { return Ok(Length::default()) };
    let offset = read(arguments, "offset", written, unit, context)?;
    if offset.months != 0 && windows.months == 0 {
        let what = format!("of {} is in months only where windows are", arguments.function.name());
        return Err(wrong(arguments, "offset", &what, written));
    }
    Ok(offset)
}

/// Size and slide (or step) of windows. The size is a multiple of the other, or of HOP at least as long.
pub(super) fn multiple(
    arguments: &Arguments,
    part: &str,
    unit: TimeUnit,
    context: &mut dyn RelationPlannerContext,
) -> Result<(Length, Length)> {
    let part_length = length(arguments, part, unit, context)?;
    let size = length(arguments, "size", unit, context)?;
    let (function, part) = (arguments.function.name(), part.to_uppercase());
    let overlapping = arguments.function == WindowFunction::Hop
        && part_length.with_months(31, unit) <= size.with_months(28, unit);
    if !is_multiple(size, part_length, unit) && !overlapping {
        let message = format!("the SIZE of {function} must be a multiple of its {part}");
        let hint = format!("{function} takes {part} first, then SIZE");
        let error = PlannerError::invalid(message).with_hint(hint);
        return Err(carry(error.with_span(arguments.span)));
    }
    if size.with_months(31, unit) / part_length.with_months(28, unit) > MAX_WINDOWS {
        let error = PlannerError::not_supported(format!("{function} with so small a {part}"));
        let detail = format!("A row may be in {MAX_WINDOWS} windows at most.");
        return Err(carry(error.with_detail(detail).with_span(arguments.span)));
    }
    Ok((part_length, size))
}

/// Whether a size is made of whole parts, wherever it begins.
fn is_multiple(size: Length, part: Length, unit: TimeUnit) -> bool {
    match (size.months, part.months) {
        (0, 0) => size.units % part.units == 0,
        (0, _) => false,
        // Months are whole days.
        (_, 0) => (DAY_SECONDS * per_second(unit)) % part.units == 0,
        (size, part) => size % part == 0,
    }
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
) -> Result<Length> {
    let function = arguments.function.name();
    let expr = context.sql_to_expr(written.clone(), &DFSchema::empty())?;
    let Some(interval) = constant_interval(expr)? else {
        let what = format!("of {function} is a constant interval, such as INTERVAL '10' MINUTES");
        return Err(wrong(arguments, parameter, &what, written));
    };
    let unit_ns = i128::from(per_second(TimeUnit::Nanosecond) / per_second(unit));
    let months = i64::from(interval.months);
    let length = length_ns(IntervalMonthDayNano { months: 0, ..interval });
    if length % unit_ns != 0 {
        return Err(wrong(arguments, parameter, "is finer than the times of its column", written));
    }
    let units = i64::try_from(length / unit_ns)
        .map_err(|_| wrong(arguments, parameter, "is out of range", written))?;
    Ok(Length { months, units })
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
