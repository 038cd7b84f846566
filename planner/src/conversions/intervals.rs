//! Conversions from and to intervals, and their products with numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion_common::{DFSchema, DataFusionError, Result};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{Expr, ExprSchemable, Operator, lit};
use datafusion_sql::sqlparser::ast::BinaryOperator;

use super::Conversion;
use crate::intervals::{length_ns, parse};
use crate::rewrite::{MIDNIGHT, is_date};

/// The type of interval lengths.
pub(super) const LENGTH: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

const DAY_NS: f64 = 86_400e9;
const MONTH_DAYS: f64 = 30.0;

fn failure(message: String) -> DataFusionError {
    DataFusionError::Execution(message)
}

fn whole(values: &ArrayRef) -> Result<IntervalMonthDayNanoArray> {
    let whole = cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    Ok(whole.as_primitive::<IntervalMonthDayNanoType>().clone())
}

/// Text as intervals.
pub(super) fn parse_all(text: &ArrayRef) -> Result<ArrayRef> {
    let text = cast(text, &DataType::Utf8)?;
    let intervals = text.as_string::<i32>().iter().map(|text| match text {
        None => Ok(None),
        Some(text) => parse(text)
            .map(Some)
            .ok_or_else(|| failure(format!("\"{text}\" is not the text of an interval"))),
    });
    Ok(Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// The numbers by which intervals are compared.
pub(super) fn lengths(values: &ArrayRef) -> Result<ArrayRef> {
    let lengths = whole(values)?.unary::<_, Decimal128Type>(length_ns);
    Ok(Arc::new(lengths.with_data_type(LENGTH)))
}

/// Products; fractions of months become days of 1/30 month, and those of days become hours.
pub(super) fn times(values: &ArrayRef, factors: &ArrayRef) -> Result<ArrayRef> {
    let (values, factors) = (whole(values)?, cast(factors, &DataType::Float64)?);
    let factors = factors.as_primitive::<Float64Type>();
    let products = values.iter().zip(factors).map(|(value, factor)| match (value, factor) {
        (Some(value), Some(factor)) => product(value, factor)
            .map(Some)
            .ok_or_else(|| failure("interval out of range".to_string())),
        _ => Ok(None),
    });
    Ok(Arc::new(products.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

fn product(value: IntervalMonthDayNano, factor: f64) -> Option<IntervalMonthDayNano> {
    let exact = factor.fract() == 0.0 && factor.abs() < 9e15;
    if exact {
        let factor = factor as i64;
        return Some(IntervalMonthDayNano {
            months: i32::try_from(i64::from(value.months).checked_mul(factor)?).ok()?,
            days: i32::try_from(i64::from(value.days).checked_mul(factor)?).ok()?,
            nanoseconds: value.nanoseconds.checked_mul(factor)?,
        });
    }
    let months = f64::from(value.months) * factor;
    let month_days = (months.fract() * MONTH_DAYS * 1e6).round() / 1e6;
    let days = f64::from(value.days) * factor;
    let rest = days.fract() + month_days.fract();
    // Microseconds are what results show and files hold; more digits would be noise of the factor.
    let micros = ((value.nanoseconds as f64 * factor + rest * DAY_NS) / 1e3).round();
    let within = |number: f64, limit: f64| number.abs() < limit;
    let fits =
        within(months, 2e9) && within(days.trunc() + month_days, 2e9) && within(micros, 9e15);
    fits.then(|| IntervalMonthDayNano {
        months: months.trunc() as i32,
        days: (days.trunc() + month_days.trunc()) as i32,
        nanoseconds: micros as i64 * 1_000,
    })
}

/// Plans `interval * number`, `number * interval` and `interval / number`; and makes timestamps of dates to which intervals
/// are added, or from which they are taken: an interval may end within a day.
#[derive(Debug)]
pub(crate) struct IntervalPlanner;

fn midnight(date: Expr) -> Expr {
    datafusion_expr::cast(date, MIDNIGHT)
}

impl ExprPlanner for IntervalPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        // What has no type yet gets one, or an error, in the analysis.
        let type_of = |side: &Expr| side.get_type(schema).unwrap_or(DataType::Null);
        let (a, b) = (type_of(&left), type_of(&right));
        let interval = |t: &DataType| matches!(t, DataType::Interval(_));
        let planned = match op {
            BinaryOperator::Multiply if interval(&a) && b.is_numeric() => {
                Conversion::IntervalTimes.call(vec![left, right])
            }
            BinaryOperator::Multiply if a.is_numeric() && interval(&b) => {
                Conversion::IntervalTimes.call(vec![right, left])
            }
            BinaryOperator::Divide if interval(&a) && b.is_numeric() => {
                let inverse = datafusion_expr::binary_expr(lit(1.0_f64), Operator::Divide, right);
                Conversion::IntervalTimes.call(vec![left, inverse])
            }
            BinaryOperator::Plus if is_date(&a) && interval(&b) => midnight(left) + right,
            BinaryOperator::Plus if interval(&a) && is_date(&b) => left + midnight(right),
            BinaryOperator::Minus if is_date(&a) && interval(&b) => midnight(left) - right,
            _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        Ok(PlannerResult::Planned(planned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano { months, days, nanoseconds }
    }

    #[test]
    fn fractions_of_a_product_go_into_the_next_smaller_part() {
        let hour = 3_600_000_000_000;
        assert_eq!(product(interval(1, 1, hour), 2.0), Some(interval(2, 2, 2 * hour)));
        assert_eq!(product(interval(1, 0, 0), 0.5), Some(interval(0, 15, 0)));
        assert_eq!(product(interval(0, 1, 0), 1.5), Some(interval(0, 1, 12 * hour)));
        assert_eq!(product(interval(i32::MAX, 0, 0), 2.0), None);
        assert_eq!(product(interval(0, 1, 0), f64::INFINITY), None);
    }
}
