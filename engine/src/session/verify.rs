//! EXPLAIN (VERIFY): runs a query as a batch and as a stream, under several settings, and compares the answers.
//!
//! The batch answer with one thread is what the others are compared with, as a multiset of rows; doubles may differ in
//! their last digits, since sums depend on the order of their terms. Every input must have an end.

use std::future::poll_fn;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use thalweg_planner::QueryPlan;

use super::frame::Frame;
use super::plan::{PlanUse, physical_plan, result_schema};
use super::statement::StatementContext;
use crate::catalog::texts;
use crate::error::{Error, Report, Result};
use crate::settings::Settings;

/// What a run is made with: mode, threads, rows of a batch.
const RUNS: [(&str, &str, &str); 6] = [
    ("streaming", "1", "1"),
    ("streaming", "1", "8192"),
    ("streaming", "2", "7"),
    ("streaming", "3", "1024"),
    ("streaming", "8", "64"),
    ("batch", "8", "8192"),
];

/// How far two doubles may differ, relative to the greater one.
const TOLERANCE: f64 = 1e-9;

/// The frame of EXPLAIN (VERIFY): one line a run. A run with another answer is an error that shows the first
/// difference.
pub(super) async fn frame(cx: &StatementContext<'_>, query: &QueryPlan) -> Result<Frame> {
    let expected = answer(cx, query, ("batch", "1", "8192")).await?;
    let mut lines = vec![format!("batch, 1 thread, batches of 8192: {} rows", expected.len())];
    for run in RUNS {
        let found = answer(cx, query, run).await?;
        let (mode, threads, rows) = run;
        let name = format!("{mode}, {threads} threads, batches of {rows}");
        if let Some(difference) = difference(&expected, &found) {
            let report = Report::new(format!("the answer of the run ({name}) differs"))
                .with_detail(difference);
            return Err(Error::Statement(Box::new(report)));
        }
        lines.push(format!("{name}: {} rows, equal", found.len()));
    }
    let rows: Vec<[&str; 1]> = lines.iter().map(|line| [line.as_str()]).collect();
    texts(["verified"], &rows).map(Frame::of_text)
}

/// A value that can be compared with tolerance.
#[derive(Debug, Clone)]
enum Cell {
    Number(f64),
    Text(String),
}

type Row = Vec<Cell>;

/// The rows under some settings, in an order that depends on their values alone.
async fn answer(
    cx: &StatementContext<'_>,
    query: &QueryPlan,
    (mode, threads, rows): (&str, &str, &str),
) -> Result<Vec<Row>> {
    let mut settings: Settings = cx.settings.clone();
    settings.set("execution.runtime_mode", mode)?;
    settings.set("threads", threads)?;
    settings.set("batch_size", rows)?;
    let plan = physical_plan(query, &settings, PlanUse::default())?;
    let executor = &cx.session.inner.executor;
    let mut execution = executor.start(&plan, result_schema(query), None, &settings, &cx.token)?;
    let mut all = Vec::new();
    while let Some(batch) = poll_fn(|context| execution.poll_batch(context)).await {
        all.extend(cells(&batch?)?);
    }
    all.sort_by_cached_key(|row| row.iter().map(Cell::sort_key).collect::<Vec<_>>());
    Ok(all)
}

impl Cell {
    fn sort_key(&self) -> String {
        match self {
            Cell::Number(number) => format!("{number:.6e}"),
            Cell::Text(text) => text.clone(),
        }
    }

    fn agrees_with(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Number(a), Cell::Number(b)) => {
                a == b
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
            }
            (Cell::Text(a), Cell::Text(b)) => a == b,
            (Cell::Number(_), Cell::Text(_)) | (Cell::Text(_), Cell::Number(_)) => false,
        }
    }
}

fn cells(batch: &RecordBatch) -> Result<Vec<Row>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows: Vec<Row> = vec![Vec::new(); batch.num_rows()];
    for column in batch.columns() {
        let doubles = match column.data_type() {
            DataType::Float64 => Some(column.as_primitive::<Float64Type>()),
            _ => None,
        };
        let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
        for (at, row) in rows.iter_mut().enumerate() {
            row.push(match doubles {
                Some(doubles) if doubles.is_valid(at) => Cell::Number(doubles.value(at)),
                _ => Cell::Text(formatter.value(at).to_string()),
            });
        }
    }
    Ok(rows)
}

/// Where two answers differ, for a person.
fn difference(expected: &[Row], found: &[Row]) -> Option<String> {
    let equal = |(a, b): (&Row, &Row)| a.iter().zip(b).all(|(a, b)| a.agrees_with(b));
    let text = |row: Option<&Row>| match row {
        Some(row) => row.iter().map(Cell::sort_key).collect::<Vec<_>>().join(", "),
        None => "no row".to_string(),
    };
    let place = expected.iter().zip(found).position(|pair| !equal(pair));
    let place = place
        .or_else(|| (expected.len() != found.len()).then(|| expected.len().min(found.len())))?;
    Some(format!(
        "{} rows instead of {}; first difference in row {} in the order of values: ({}) instead of ({})",
        found.len(),
        expected.len(),
        place + 1,
        text(found.get(place)),
        text(expected.get(place))
    ))
}
