//! Where dates meet timestamps.
//!
//! 1. A date that is compared with a timestamp, or is an alternative to one, becomes a timestamp of microseconds: the
//!    library would take nanoseconds, which end in 2262.
//! 2. A column of dates that is compared with a constant timestamp is compared with a date instead, so that files and
//!    pages are skipped by their dates, as `d < date '2000-01-01' + interval '1' year` lets one expect.
//!
//! Invariant: both say the same of every date that a timestamp can hold.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Cast, InList};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use super::typed::rewrite_expressions;

const DAY_SECONDS: i64 = 86_400;

/// What a date is as a timestamp.
pub(crate) const MIDNIGHT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Whether the type is one of dates.
pub(crate) fn is_date(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64)
}

/// Makes timestamps of the dates among expressions with their types, if some are timestamps; whether there was
/// something to do.
pub(super) fn meet(exprs: &mut [(&mut Expr, DataType)]) -> bool {
    let local = |t: &DataType| matches!(t, DataType::Timestamp(_, None));
    if !exprs.iter().any(|(_, t)| local(t)) || !exprs.iter().any(|(_, t)| is_date(t)) {
        return false;
    }
    for (expr, data_type) in exprs {
        if is_date(data_type) {
            **expr = cast(std::mem::take(*expr), MIDNIGHT);
        }
    }
    true
}

/// The rule for comparisons with constants.
#[derive(Debug)]
pub(super) struct DateComparisons;

impl OptimizerRule for DateComparisons {
    fn name(&self) -> &str {
        "date_comparisons"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        rewrite_expressions(plan, |expr, schema| Ok(by_date(expr, schema)))
    }
}

fn by_date(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let rewritten = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (date(left, schema), right) {
            (Some(column), constant) => comparison(column, *op, constant),
            (None, column) => {
                date(column, schema).and_then(|column| comparison(column, op.swap()?, left))
            }
        },
        Expr::InList(InList { expr, list, negated }) => date(expr, schema).and_then(|column| {
            let list = list.iter().map(|item| match day(item)? {
                (day, true) => Some(literal(day)),
                _ => None,
            });
            let list = list.collect::<Option<Vec<_>>>()?;
            let expr = Box::new(column.clone());
            Some(Expr::InList(InList { expr, list, negated: *negated }))
        }),
        _ => None,
    };
    match rewritten {
        Some(rewritten) => Transformed::yes(rewritten),
        None => Transformed::no(expr),
    }
}

/// The date that an expression makes a timestamp of.
fn date<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<&'a Expr> {
    let Expr::Cast(Cast { expr, field }) = expr else { return None };
    let local = matches!(field.data_type(), DataType::Timestamp(_, None));
    (local && expr.get_type(schema).ok()? == DataType::Date32).then_some(expr)
}

/// The day of a constant timestamp, and whether the day begins there.
fn day(constant: &Expr) -> Option<(i32, bool)> {
    let Expr::Literal(value, _) = constant else { return None };
    let (ticks, per_second) = match value {
        ScalarValue::TimestampSecond(Some(ticks), None) => (*ticks, 1),
        ScalarValue::TimestampMillisecond(Some(ticks), None) => (*ticks, 1_000),
        ScalarValue::TimestampMicrosecond(Some(ticks), None) => (*ticks, 1_000_000),
        ScalarValue::TimestampNanosecond(Some(ticks), None) => (*ticks, 1_000_000_000),
        _ => return None,
    };
    let per_day = DAY_SECONDS * per_second;
    let day = i32::try_from(ticks.div_euclid(per_day)).ok()?;
    Some((day, ticks.rem_euclid(per_day) == 0))
}

fn literal(day: i32) -> Expr {
    Expr::Literal(ScalarValue::Date32(Some(day)), None)
}

/// The comparison of a date with the day of a constant; a time within the day lies after the day's date and before the
/// next.
fn comparison(column: &Expr, op: Operator, constant: &Expr) -> Option<Expr> {
    use Operator as O;
    let (day, midnight) = day(constant)?;
    let op = match op {
        O::LtEq | O::Gt => op,
        O::Lt | O::GtEq if midnight => op,
        O::Lt => O::LtEq,
        O::GtEq => O::Gt,
        O::Eq | O::NotEq | O::IsDistinctFrom | O::IsNotDistinctFrom if midnight => op,
        _ => return None,
    };
    Some(datafusion_expr::binary_expr(column.clone(), op, literal(day)))
}

#[cfg(test)]
mod tests {
    use datafusion_expr::{col, lit};

    use super::*;

    fn at(micros: i64) -> Expr {
        lit(ScalarValue::TimestampMicrosecond(Some(micros), None))
    }

    #[test]
    fn a_time_within_a_day_lies_between_two_dates() {
        let day_us = DAY_SECONDS * 1_000_000;
        let d = col("d");
        for (op, within, wanted) in [
            (Operator::Lt, false, Some(Operator::Lt)),
            (Operator::Lt, true, Some(Operator::LtEq)),
            (Operator::LtEq, true, Some(Operator::LtEq)),
            (Operator::Gt, true, Some(Operator::Gt)),
            (Operator::GtEq, false, Some(Operator::GtEq)),
            (Operator::GtEq, true, Some(Operator::Gt)),
            (Operator::Eq, false, Some(Operator::Eq)),
            (Operator::Eq, true, None),
            (Operator::Plus, false, None),
        ] {
            for day in [-3_i64, 0, 20_000] {
                let constant = at(day * day_us + i64::from(within));
                let wanted = wanted
                    .map(|op| datafusion_expr::binary_expr(d.clone(), op, literal(day as i32)));
                assert_eq!(comparison(&d, op, &constant), wanted, "{op} {within} {day}");
            }
        }
    }
}
