//! The rows that get windows: their plan, the column with their times, and its type.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion_sql::sqlparser::ast::{self, Spanned, TableFactor};

use super::arguments::Arguments;
use super::row_windows::NUMBER;
use super::{EventTimes, TIME_ZONE, WindowFunction};
use crate::bind::carry;
use crate::error::PlannerError;
use crate::parse::span_of;
use crate::sql_text::sql_type_name;

/// The column with the first time of a window.
pub(crate) const START: &str = "window_start";
/// The column with the first time after a window.
pub(crate) const END: &str = "window_end";
/// The column with the last time of a window.
pub(crate) const TIME: &str = "window_time";

/// See the module.
pub(super) struct Input {
    pub(super) plan: LogicalPlan,
    /// The input's own columns.
    pub(super) columns: Vec<Column>,
    pub(super) time: Expr,
    pub(super) unit: TimeUnit,
    /// The names of the columns that windows add.
    pub(super) added: &'static [&'static str],
    /// The zone whose local times windows begin at; none for TIMESTAMP, whose values are local times already.
    pub(super) zone: Option<String>,
}

impl Input {
    /// Plans the data of a call and resolves its time column.
    pub(super) fn plan(
        arguments: &Arguments,
        event_times: &EventTimes,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Self> {
        let subquery = Box::new(arguments.data.clone());
        let data = TableFactor::Derived { lateral: false, subquery, alias: None, sample: None };
        let plan = context.plan(data)?;
        let columns = plan.schema().columns();
        if let Some(taken) =
            columns.iter().find(|c| taken_by(arguments.function).contains(&c.name()))
        {
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
        let time = match &arguments.time {
            Some(time) => context.sql_to_expr(time.clone(), plan.schema())?,
            None => Expr::Column(event_times.the_one_of(&plan).map_err(|wrong| {
                let name = arguments.function.name();
                let error = PlannerError::invalid(format!("{name} has no time: {wrong}"));
                let hint =
                    format!("write {name}(time, …), or declare WATERMARK FOR time in CREATE TABLE");
                carry(error.with_hint(hint).with_span(arguments.span))
            })?),
        };
        let data_type = time.get_type(plan.schema())?;
        let DataType::Timestamp(unit, zone) = &data_type else {
            return Err(no_timestamp(arguments, &data_type));
        };
        let (unit, zoned) = (*unit, zone.is_some());
        let zone = match (arguments.get(TIME_ZONE), zoned) {
            (Some(written), true) => Some(zone_of(arguments, written, context)?),
            (Some(written), false) => {
                zone_of(arguments, written, context)?;
                return Err(no_zone(arguments));
            }
            (None, true) => {
                let session = context.context_provider().options().execution.time_zone.as_deref();
                Some(session.unwrap_or("UTC").to_string())
            }
            (None, false) => None,
        };
        let added: &[&str] = if arguments.plain { &[START, END] } else { &[START, END, TIME] };
        Ok(Input { plan, columns, time, unit, added, zone })
    }

    /// The input's columns as expressions, followed by others.
    pub(super) fn and(&self, more: impl IntoIterator<Item = Expr>) -> Vec<Expr> {
        self.columns.iter().cloned().map(Expr::Column).chain(more).collect()
    }

    /// The result: the input's columns and those of the windows.
    pub(super) fn finish(&self, plan: LogicalPlan, windows: [Expr; 3]) -> Result<LogicalPlan> {
        let windows = windows.into_iter().zip(self.added).map(|(expr, name)| expr.alias(*name));
        LogicalPlanBuilder::from(plan).project(self.and(windows.collect::<Vec<_>>()))?.build()
    }
}

/// The names of the columns that a function adds.
fn taken_by(function: WindowFunction) -> &'static [&'static str] {
    match function.is_of_rows() {
        true => &[START, END, TIME, NUMBER],
        false => &[START, END, TIME],
    }
}

/// The zone that an argument names.
fn zone_of(
    arguments: &Arguments,
    written: &ast::Expr,
    context: &mut dyn RelationPlannerContext,
) -> Result<String> {
    let value = context.sql_to_expr(written.clone(), &DFSchema::empty())?;
    if let Expr::Literal(value, _) = &value
        && let Some(Some(zone)) = value.try_as_str()
    {
        return Ok(zone.to_string());
    }
    let message = format!("TIME_ZONE of {} is a text", arguments.function.name());
    let hint = "write TIME_ZONE => 'Europe/Berlin'".to_string();
    Err(carry(PlannerError::invalid(message).with_hint(hint).with_span(span_of(written.span()))))
}

fn no_zone(arguments: &Arguments) -> datafusion_common::DataFusionError {
    let name = arguments.function.name();
    let time = arguments.time.as_ref().map_or("ts".to_string(), ToString::to_string);
    let error = PlannerError::invalid(format!("{name} over TIMESTAMP takes no time zone"))
        .with_detail("Such times are readings of a clock already; no zone says whose.".to_string())
        .with_hint(format!(
            "make them points in time in a subquery, say of readings in UTC: (SELECT {time} AT TIME ZONE 'UTC' AS …)"
        ))
        .with_span(arguments.span);
    carry(error)
}

fn no_timestamp(arguments: &Arguments, data_type: &DataType) -> datafusion_common::DataFusionError {
    let message = format!(
        "the time column of {} must be a TIMESTAMP, not {}",
        arguments.function.name(),
        sql_type_name(data_type)
    );
    let error = PlannerError::invalid(message);
    carry(match &arguments.time {
        None => error.with_span(arguments.span),
        Some(time) => error
            .with_span(span_of(time.span()))
            .with_hint(format!("cast it in a subquery: (SELECT CAST({time} AS TIMESTAMP) AS …)")),
    })
}
