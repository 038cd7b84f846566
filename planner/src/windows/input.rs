//! The rows that get windows: their plan, the column with their times, and how windows lie on it.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Column, Result};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion_sql::sqlparser::ast::{Spanned, TableFactor};

use super::arguments::Arguments;
use super::functions::TimeFunction;
use super::zones::alignment;
use crate::bind::carry;
use crate::error::PlannerError;
use crate::parse::span_of;
use crate::sql_text::sql_type_name;

pub(super) const START: &str = "window_start";
pub(super) const END: &str = "window_end";
const TIME: &str = "window_time";

/// How many columns windows add.
pub(super) const ADDED: usize = 3;

/// See the module.
pub(super) struct Input {
    pub(super) plan: LogicalPlan,
    /// The input's own columns.
    pub(super) columns: Vec<Column>,
    pub(super) time: Expr,
    pub(super) unit: TimeUnit,
    /// The zone whose local times windows begin at; none for TIMESTAMP, whose values are local times already.
    zone: Option<Option<String>>,
}

impl Input {
    /// Plans the data of a call and resolves its time column.
    pub(super) fn plan(
        arguments: &Arguments,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Self> {
        let subquery = Box::new(arguments.data.clone());
        let data = TableFactor::Derived { lateral: false, subquery, alias: None, sample: None };
        let plan = context.plan(data)?;
        let columns = plan.schema().columns();
        if let Some(taken) = columns.iter().find(|c| [START, END, TIME].contains(&c.name())) {
            let message = format!(
                "the data of {} has a column {} already",
                arguments.function.name(),
                taken.name()
            );
            let hint = "give it another name in a subquery: (SELECT window_start AS …)".to_string();
            return Err(carry(
                PlannerError::invalid(message).with_hint(hint).with_span(arguments.span),
            ));
        }
        let time = context.sql_to_expr(arguments.time.clone(), plan.schema())?;
        let (unit, zoned) = match time.get_type(plan.schema())? {
            DataType::Timestamp(unit, zone) => (unit, zone.is_some()),
            other => {
                let message = format!(
                    "the time column of {} must be a TIMESTAMP, not {}",
                    arguments.function.name(),
                    sql_type_name(&other)
                );
                let error =
                    PlannerError::invalid(message).with_span(span_of(arguments.time.span()));
                let hint = format!(
                    "cast it in a subquery: (SELECT CAST({} AS TIMESTAMP) AS …)",
                    arguments.time
                );
                return Err(carry(error.with_hint(hint)));
            }
        };
        let session = &context.context_provider().options().execution.time_zone;
        Ok(Input { plan, columns, time, unit, zone: zoned.then(|| session.clone()) })
    }

    /// Where windows of a length begin, as an offset from 1970.
    pub(super) fn origin(&self, arguments: &Arguments, length: i64, offset: i64) -> Result<i64> {
        let Some(zone) = &self.zone else { return Ok(offset % length) };
        match alignment(zone.as_deref(), length, self.unit) {
            Some(shift) => Ok((shift % length + offset % length) % length),
            None => {
                let zone = zone.as_deref().unwrap_or("UTC");
                let what = format!(
                    "{} with windows of this size in the zone {zone}",
                    arguments.function.name()
                );
                let error = PlannerError::not_supported(what)
                    .with_detail("Clocks are turned there, so that local days differ in length.".to_string())
                    .with_hint(format!(
                        "use windows of an hour at most, SET time_zone = 'UTC', or take local times: (SELECT {} AT TIME ZONE '{zone}' AS …)",
                        arguments.time
                    ))
                    .with_span(arguments.span);
                Err(carry(error))
            }
        }
    }

    /// The input's columns as expressions, followed by others.
    pub(super) fn and(&self, more: impl IntoIterator<Item = Expr>) -> Vec<Expr> {
        self.columns.iter().cloned().map(Expr::Column).chain(more).collect()
    }

    /// The result: the input's columns and the three of the windows.
    pub(super) fn finish(
        &self,
        plan: LogicalPlan,
        start: Expr,
        end: Expr,
        time: Expr,
    ) -> Result<LogicalPlan> {
        let windows = [start.alias(START), end.alias(END), time.alias(TIME)];
        LogicalPlanBuilder::from(plan).project(self.and(windows))?.build()
    }

    /// The result for windows of one size that begin at the column [`START`] of the plan.
    pub(super) fn of_size(&self, plan: LogicalPlan, size: i64) -> Result<LogicalPlan> {
        let start = Expr::Column(Column::new_unqualified(START));
        let end = TimeFunction::Shift.call(vec![start.clone()], &[size]);
        let time = TimeFunction::Shift.call(vec![start.clone()], &[size - 1]);
        self.finish(plan, start, end, time)
    }
}
