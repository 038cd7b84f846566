//! `GAP_FILL(t, time, length, …)`: the rows of a table and, between each row and the next in time, one row for each length.
//!
//! What the added rows hold is said by column: `LOCF(c)` repeats the last row's value, `INTERPOLATE(c)` lies on the line to
//! the next row's, `PARTITION_BY(k)` is the key whose rows are filled by themselves, and all others are NULL, as
//! `KEEPNULL(c)` says aloud. It is lowered to LEAD, UNNEST and projections. Invariant: every row of the table is there as
//! it is, also one without a time, and no row is added before the first or after the last of a key.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Column, Result, ScalarValue, TableReference};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{
    Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit, when,
};
use datafusion_functions_window::lead_lag::lead;
use datafusion_sql::sqlparser::ast::{
    self, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart,
    Spanned, TableFactor, TableFunctionArgs,
};

use super::functions::TimeFunction;
use super::lengths::{constant_interval, per_second};
use super::table_of_first;
use crate::bind::carry;
use crate::error::PlannerError;
use crate::intervals::length_ns;
use crate::parse::span_of;
use crate::sql_text::sql_type_name;

const USAGE: &str = "write GAP_FILL(t, time, INTERVAL '1' MINUTE [, LOCF(c) | INTERPOLATE(c) | KEEPNULL(c)]… [, PARTITION_BY(k)])";

/// Names of columns within the plan; no user can mean them.
const TIMES: &str = "\u{1}times";
const NEXT: &str = "\u{1}next";

/// How the rows that are added get a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    Null,
    Last,
    Line,
    Key,
}

impl Fill {
    fn called(name: &ObjectName) -> Option<Self> {
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return None };
        Some(match ident.value.to_ascii_lowercase().as_str() {
            "keepnull" => Fill::Null,
            "locf" => Fill::Last,
            "interpolate" => Fill::Line,
            "partition_by" => Fill::Key,
            _ => return None,
        })
    }
}

/// Whether a name in FROM means the function.
pub(crate) fn is_gap_fill(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(ident)]
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("gap_fill"))
}

/// The plan of a call in FROM.
pub(crate) fn plan(
    name: &ObjectName,
    args: &TableFunctionArgs,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let place = name.0.first().and_then(|part| part.as_ident());
    let wrong = |what: String| {
        let error = PlannerError::invalid(what).with_hint(USAGE.to_string());
        carry(error.with_span(place.and_then(|ident| span_of(ident.span))))
    };
    let mut values = Vec::with_capacity(args.args.len());
    for arg in &args.args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => values.push(value.clone()),
            other => return Err(wrong(format!("GAP_FILL does not take the argument {other}"))),
        }
    }
    let [data, time, length, fills @ ..] = values.as_slice() else {
        return Err(wrong("GAP_FILL needs a table, its time and a length".to_string()));
    };
    let input = context.plan(data_of(data).ok_or_else(|| {
        wrong("GAP_FILL takes a table or a query as its first argument".to_string())
    })?)?;
    let time = column(time, &input, context)?;
    let step = step_of(length, &time, &input, context)?;
    let fills = fills_of(fills, &input, context)?;
    if let Some((other, _)) = fills.iter().find(|(filled, _)| *filled == time) {
        return Err(wrong(format!("the time {} is filled by its length", other.name())));
    }
    filled(input, &time, step, &fills)
}

/// The relation that the first argument names.
fn data_of(value: &ast::Expr) -> Option<TableFactor> {
    let table = |idents: Vec<ast::Ident>| TableFactor::Table {
        name: ObjectName::from(idents),
        alias: None,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
    match value {
        ast::Expr::Identifier(name) => Some(table(vec![name.clone()])),
        ast::Expr::CompoundIdentifier(names) => Some(table(names.clone())),
        ast::Expr::Subquery(query) => Some(TableFactor::Derived {
            lateral: false,
            subquery: query.clone(),
            alias: None,
            sample: None,
        }),
        ast::Expr::Nested(inner) => data_of(inner),
        _ => None,
    }
}

fn column(
    written: &ast::Expr,
    input: &LogicalPlan,
    context: &mut dyn RelationPlannerContext,
) -> Result<Column> {
    match context.sql_to_expr(written.clone(), input.schema())? {
        Expr::Column(column) => Ok(column),
        _ => {
            let error = PlannerError::invalid(format!("GAP_FILL takes columns, not {written}"));
            Err(carry(error.with_span(span_of(written.span())).with_hint(USAGE.to_string())))
        }
    }
}

/// The length in units of the time's type.
fn step_of(
    written: &ast::Expr,
    time: &Column,
    input: &LogicalPlan,
    context: &mut dyn RelationPlannerContext,
) -> Result<i64> {
    let fail = |what: String| {
        let span = span_of(written.span());
        carry(PlannerError::invalid(what).with_span(span).with_hint(USAGE.to_string()))
    };
    let data_type = Expr::Column(time.clone()).get_type(input.schema())?;
    let DataType::Timestamp(unit, _) = data_type else {
        let found = sql_type_name(&data_type);
        return Err(fail(format!("the time of GAP_FILL must be a TIMESTAMP, not {found}")));
    };
    let expr = context.sql_to_expr(written.clone(), input.schema())?;
    let interval = constant_interval(expr)?
        .ok_or_else(|| fail("the length of GAP_FILL is a constant interval".to_string()))?;
    if interval.months != 0 {
        return Err(fail("GAP_FILL takes no months or years, which differ in length".to_string()));
    }
    let unit_ns = i128::from(per_second(TimeUnit::Nanosecond) / per_second(unit));
    let length = length_ns(interval);
    if length <= 0 || length % unit_ns != 0 {
        let what =
            "the length of GAP_FILL must be a whole number of units of its time, and positive";
        return Err(fail(what.to_string()));
    }
    i64::try_from(length / unit_ns)
        .map_err(|_| fail("the length of GAP_FILL is out of range".to_string()))
}

/// The columns that are filled otherwise than with NULL.
fn fills_of(
    written: &[ast::Expr],
    input: &LogicalPlan,
    context: &mut dyn RelationPlannerContext,
) -> Result<Vec<(Column, Fill)>> {
    let mut fills: Vec<(Column, Fill)> = Vec::new();
    for call in written {
        let fail = |what: String| {
            let span = span_of(call.span());
            carry(PlannerError::invalid(what).with_span(span).with_hint(USAGE.to_string()))
        };
        let found = match call {
            ast::Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) => {
                Fill::called(name).map(|fill| (fill, &list.args))
            }
            _ => None,
        };
        let Some((fill, args)) = found else {
            return Err(fail(format!("GAP_FILL knows no way to fill {call}")));
        };
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
                return Err(fail(format!("GAP_FILL does not take the argument {arg}")));
            };
            let column = column(arg, input, context)?;
            if fills.iter().any(|(known, _)| *known == column) {
                return Err(fail(format!("{} is filled in two ways", column.name())));
            }
            let data_type = Expr::Column(column.clone()).get_type(input.schema())?;
            if fill == Fill::Line && !data_type.is_numeric() {
                let found = sql_type_name(&data_type);
                return Err(fail(format!("INTERPOLATE takes a number, not {found}")));
            }
            fills.push((column, fill));
        }
    }
    Ok(fills)
}

/// The name of the column with the next row's value of the `at`-th column.
fn next_of(at: usize) -> Column {
    Column::new_unqualified(format!("{NEXT}{at}"))
}

fn filled(
    input: LogicalPlan,
    time: &Column,
    step: i64,
    fills: &[(Column, Fill)],
) -> Result<LogicalPlan> {
    let columns = input.schema().columns();
    let fill_of = |column: &Column| {
        let found = fills.iter().find(|(filled, _)| filled == column);
        found.map_or(Fill::Null, |(_, fill)| *fill)
    };
    let keys: Vec<Expr> = fills
        .iter()
        .filter(|(_, fill)| *fill == Fill::Key)
        .map(|(key, _)| Expr::Column(key.clone()))
        .collect();
    let needed = |column: &Column| column == time || fill_of(column) == Fill::Line;
    let mut calls = Vec::new();
    let mut kept: Vec<Expr> = columns.iter().cloned().map(Expr::Column).collect();
    for (at, column) in columns.iter().enumerate().filter(|(_, column)| needed(column)) {
        let call = lead(Expr::Column(column.clone()), Some(1), None)
            .partition_by(keys.clone())
            .order_by(vec![Expr::Column(time.clone()).sort(true, false)])
            .build()?;
        let result = Column::new_unqualified(call.schema_name().to_string());
        kept.push(Expr::Column(result).alias(next_of(at).name()));
        calls.push(call);
    }
    let relation = table_of_first(&input, columns.len());
    let relation = relation.unwrap_or_else(|| TableReference::bare("gap_fill"));
    let time_at = columns.iter().position(|column| column == time).unwrap_or_default();
    let now = Expr::Column(time.clone());
    let next = Expr::Column(next_of(time_at));
    let plan = LogicalPlanBuilder::from(input).window(calls)?.project(kept.clone())?.build()?;
    let times = TimeFunction::GapTimes.call(vec![now.clone(), next.clone()], &[step]);
    let mut with_times: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    with_times.push(times.alias(TIMES));
    let plan = LogicalPlanBuilder::from(plan)
        .project(with_times)?
        .unnest_column(Column::new_unqualified(TIMES))?
        .build()?;

    let at_time = Expr::Column(Column::new_unqualified(TIMES));
    let is_added = at_time.clone().gt(now.clone());
    let mut result = Vec::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        let own = Expr::Column(column.clone());
        let data_type = own.get_type(plan.schema())?;
        let value = match fill_of(column) {
            _ if column == time => at_time.clone(),
            Fill::Last | Fill::Key => own,
            Fill::Null => {
                when(is_added.clone(), cast(lit(ScalarValue::Null), data_type)).otherwise(own)?
            }
            Fill::Line => {
                let share = TimeFunction::GapShare
                    .call(vec![at_time.clone(), now.clone(), next.clone()], &[]);
                let from = cast(own.clone(), DataType::Float64);
                let to = cast(Expr::Column(next_of(at)), DataType::Float64);
                let between = from.clone() + (to - from) * share;
                when(is_added.clone(), cast(between, data_type)).otherwise(own)?
            }
        };
        result.push(value.alias(column.name()));
    }
    LogicalPlanBuilder::from(plan).project(result)?.alias(relation)?.build()
}
