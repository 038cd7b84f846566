//! `KEEP LAST n ROWS` and `KEEP LAST INTERVAL i`: only the last rows of each group are aggregated.
//!
//! A step below the grouping leaves the others out. The rows of a group are in the order of the event time, or of the
//! time that the query's windows are over. Invariant: a query has one grouping then, by windows.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result};
use datafusion_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};

use super::calendar_functions::CalendarFunction;
use super::event_time::EventTimes;
use super::functions::TimeFunction;
use super::row_windows::{RowWindowKind, RowWindows};
use crate::bind::carry;
use crate::error::PlannerError;
use crate::statement::Keep;

/// Puts the step below the only grouping of a plan.
pub(crate) fn keep_last(plan: LogicalPlan, keep: Keep, times: &EventTimes) -> Result<LogicalPlan> {
    let mut groupings = 0;
    plan.apply(|node| {
        groupings += usize::from(matches!(node, LogicalPlan::Aggregate(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if groupings != 1 {
        let error = PlannerError::not_supported("KEEP LAST in a query that has not one grouping")
            .with_hint("group by windows, in a query with one GROUP BY".to_string());
        return Err(carry(error));
    }
    let kept = plan.transform_down(|node| match node {
        LogicalPlan::Aggregate(aggregate) => {
            Ok(Transformed::yes(LogicalPlan::Aggregate(over_last(aggregate, keep, times)?)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(kept.data)
}

fn over_last(aggregate: Aggregate, keep: Keep, times: &EventTimes) -> Result<Aggregate> {
    let input = aggregate.input.as_ref();
    let time = match times.of(input).as_slice() {
        [at] => Some(Expr::Column(input.schema().columns()[*at].clone())),
        _ => time_of_windows(input)?,
    };
    let grouping_sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    let Some(time) = time.filter(|_| !grouping_sets && !aggregate.group_expr.is_empty()) else {
        let error = PlannerError::not_supported("KEEP LAST over a grouping without windows")
            .with_hint("group by windows of a time column".to_string());
        return Err(carry(error));
    };
    let kind = match keep {
        Keep::Rows(rows) => RowWindowKind::LastRows { rows },
        Keep::Interval { micros } => {
            let per_second = match time.get_type(input.schema())? {
                arrow::datatypes::DataType::Timestamp(unit, _) => super::lengths::per_second(unit),
                _ => 1_000_000,
            };
            let length = i128::from(micros) * i128::from(per_second) / 1_000_000;
            RowWindowKind::LastInterval { length: i64::try_from(length).unwrap_or(i64::MAX) }
        }
    };
    let keys = aggregate.group_expr.iter().map(|key| key.clone().unalias()).collect();
    let input = aggregate.input.as_ref().clone();
    let kept = RowWindows::new(input, kind, keys, time, None, false)?.into_plan();
    Aggregate::try_new(Arc::new(kept), aggregate.group_expr, aggregate.aggr_expr)
}

/// The column that windows below are computed of, by its name.
fn time_of_windows(input: &LogicalPlan) -> Result<Option<Expr>> {
    let mut found: Option<Column> = None;
    input.apply(|node| {
        if let LogicalPlan::Projection(projection) = node {
            for expr in &projection.expr {
                expr.apply(|part| {
                    if let Expr::ScalarFunction(call) = part
                        && (TimeFunction::assigns(call.func.name())
                            || CalendarFunction::assigns(call.func.name()))
                        && let Some(Expr::Column(time)) = call.args.first()
                    {
                        found.get_or_insert_with(|| time.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Some(time) = found else { return Ok(None) };
    let named: Vec<Column> =
        input.schema().columns().into_iter().filter(|column| column.name == time.name).collect();
    Ok(match named.as_slice() {
        [column] => Some(Expr::Column(column.clone())),
        _ => None,
    })
}
