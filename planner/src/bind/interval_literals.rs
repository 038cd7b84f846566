//! Interval constants in words the library reads, and AT TIME ZONE as a call.
//!
//! The library reads fewer forms than PostgreSQL and turns the sign of `- INTERVAL '1 day 1 hour'` for its first part
//! only. Constants that are read here become `n months n days n nanoseconds`; others are left to the library.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion_sql::sqlparser::ast::{Expr, Interval, UnaryOperator, Value};

use super::text_casts::call;
use crate::intervals::parse;

/// Rewrites the expression, if it is one of those; what is inside has been rewritten before.
pub(super) fn rewrite_interval(expr: &mut Expr) {
    match expr {
        Expr::Interval(interval) => {
            if let Some(value) = constant(interval) {
                *interval = literal(value);
            }
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } => {
            if let Expr::Interval(interval) = operand.as_ref()
                && let Some(value) = constant(interval).and_then(negated)
            {
                *expr = Expr::Interval(literal(value));
            }
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            let args = vec![time_zone.as_ref().clone(), timestamp.as_ref().clone()];
            *expr = call("timezone", args);
        }
        _ => {}
    }
}

fn constant(interval: &Interval) -> Option<IntervalMonthDayNano> {
    let Interval {
        value,
        leading_field,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    } = interval
    else {
        return None;
    };
    let Expr::Value(value) = value.as_ref() else { return None };
    let text = match &value.value {
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.as_str(),
        Value::Number(number, _) => number.as_str(),
        _ => return None,
    };
    match leading_field {
        None => parse(text),
        Some(unit) => parse(&format!("{text} {unit}")),
    }
}

fn negated(value: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano {
        months: value.months.checked_neg()?,
        days: value.days.checked_neg()?,
        nanoseconds: value.nanoseconds.checked_neg()?,
    })
}

fn literal(value: IntervalMonthDayNano) -> Interval {
    let parts = [
        (i64::from(value.months), "months"),
        (i64::from(value.days), "days"),
        (value.nanoseconds, "nanoseconds"),
    ];
    let words = parts.into_iter().filter(|(number, _)| *number != 0);
    let words: Vec<String> = words.map(|(number, unit)| format!("{number} {unit}")).collect();
    let text = if words.is_empty() { "0 days".to_string() } else { words.join(" ") };
    Interval {
        value: Box::new(Expr::value(Value::SingleQuotedString(text))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }
}
