//! EXPLAIN: the physical plan as text or JSON, with what happened under ANALYZE.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use thalweg_optimizer::physical::{Actual, explain, explain_json};
use thalweg_optimizer::{PhysicalPlan, ResultUse};
use thalweg_planner::{ExplainFormat, ExplainOptions, Modification, QueryPlan, Statement};
use thalweg_runtime::job::JobHandle;

use super::frame::Frame;
use super::inserts;
use super::plan::{PlanUse, physical_plan, result_schema};
use super::statement::{StatementContext, run};
use super::verify;
use crate::catalog::texts;
use crate::error::{Error, Result};

/// The frame of EXPLAIN: one column, a row a line; the JSON form is one row.
pub(super) async fn frame(
    cx: &StatementContext<'_>,
    statement: Statement,
    options: ExplainOptions,
) -> Result<Frame> {
    let (query, sink) = explained(&statement)?;
    if options.verify {
        return verify::frame(cx, query).await;
    }
    let wanted = match &statement {
        _ if options.changelog_mode => PlanUse::VIEW,
        Statement::CreateMaterializedView(_) => PlanUse::VIEW,
        Statement::Query(query) => cx.query_use(query)?,
        _ => cx.plan_use(),
    };
    let plan = match &statement {
        Statement::Insert(insert)
            if !insert.overwrite && !options.changelog_mode && inserts::runs_into_sink(insert)? =>
        {
            inserts::planned(cx, insert)?
        }
        _ => shown_plan(cx, query, options, wanted)?,
    };
    let actual = match (options.analyze, &statement) {
        (false, _) => None,
        (true, Statement::Query(query)) => Some(measure(cx, query, &plan).await?),
        (true, _) => Some(carry_out(cx, statement).await?),
    };
    let batch = match options.format {
        ExplainFormat::Text => {
            lines(sink.as_deref(), &explain(&plan, options.verbose, actual.as_ref()))
        }
        ExplainFormat::Json => {
            let mut plan = explain_json(&plan, actual.as_ref());
            if let (Some(sink), Some(root)) = (sink, plan.as_object_mut()) {
                root.insert("sink".to_string(), sink.into());
            }
            texts(["plan"], &[[format!("{plan:#}").as_str()]])
        }
    };
    batch.map(Frame::of_text)
}

/// The plan of a query. One that goes on changing can be shown, though its rows cannot be told in some formats.
fn shown_plan(
    cx: &StatementContext<'_>,
    query: &QueryPlan,
    options: ExplainOptions,
    wanted: PlanUse,
) -> Result<PhysicalPlan> {
    if options.changelog_mode {
        let mut settings = cx.settings.clone();
        settings.set("execution.runtime_mode", "streaming")?;
        return physical_plan(query, &settings, wanted);
    }
    let planned = physical_plan(query, &cx.settings, wanted);
    if planned.is_err() && !options.analyze && inserts::is_endless(query)? {
        let changes = PlanUse { result: ResultUse::Changelog, ..wanted };
        return physical_plan(query, &cx.settings, changes).or(planned);
    }
    planned
}

/// The query inside a statement, and what the statement does with its rows if it writes them.
fn explained(statement: &Statement) -> Result<(&QueryPlan, Option<String>)> {
    let what = match statement {
        Statement::Query(query) => return Ok((query, None)),
        Statement::Insert(insert) => {
            let verb = if insert.overwrite { "overwrite" } else { "into" };
            return Ok((&insert.input, Some(format!("Insert {verb} {}", insert.table))));
        }
        Statement::Copy(copy) => {
            return Ok((&copy.input, Some(format!("Copy to '{}'", copy.path))));
        }
        Statement::Modify(modify) => {
            let sink = match modify.kind {
                Modification::Delete => format!("Delete from {}: the rows that stay", modify.table),
                Modification::Update => {
                    format!("Update {}: the rows that it has then", modify.table)
                }
            };
            return Ok((&modify.input, Some(sink)));
        }
        Statement::CopyFrom(_) => "COPY … FROM",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::CreateFunction { .. } => "CREATE FUNCTION",
        Statement::DropFunction { .. } => "DROP FUNCTION",
        Statement::CreateTable(create) => match &create.query {
            Some(query) => return Ok((query, Some(format!("Create table {}", create.name)))),
            None => "CREATE TABLE",
        },
        Statement::Explain { .. } => "EXPLAIN",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::CreateMaterializedView(create) => {
            let sink = format!("Materialized view {}", create.name);
            return Ok((&create.query, Some(sink)));
        }
        Statement::StatementSet(_) => "STATEMENT SET",
        Statement::Flush => "FLUSH",
        Statement::StopJob(_) => "STOP JOB",
        Statement::CreateSink(_) => "CREATE SINK",
        Statement::DropSink { .. } => "DROP SINK",
        Statement::Rename { .. } => "ALTER … RENAME TO",
        Statement::CreateExternalTable(_) => "CREATE EXTERNAL TABLE",
        Statement::CreateSchema { .. } => "CREATE SCHEMA",
        Statement::Set { .. } => "SET",
        Statement::Reset { .. } => "RESET",
        Statement::Show(_) => "SHOW",
        Statement::Describe(_) => "DESCRIBE",
        Statement::Drop { .. } => "DROP",
        Statement::Prepare { .. } => "PREPARE",
        Statement::Execute { .. } => "EXECUTE",
        Statement::Deallocate { .. } => "DEALLOCATE",
    };
    Err(Error::unsupported(format!("EXPLAIN {what}")))
}

/// A row a line; the plan stands below what its rows go into.
fn lines(sink: Option<&str>, plan: &str) -> Result<RecordBatch> {
    let indent = if sink.is_some() { "  " } else { "" };
    let below = plan.lines().map(|line| format!("{indent}{line}"));
    let all: Vec<String> = sink.map(str::to_string).into_iter().chain(below).collect();
    let rows: Vec<[&str; 1]> = all.iter().map(|line| [line.as_str()]).collect();
    texts(["plan"], &rows)
}

/// Carries out a statement that writes, as if it were not explained, and tells what each node of its query's plan did.
/// A statement that had nothing to do, such as a CREATE TABLE IF NOT EXISTS, has run no plan.
async fn carry_out(
    cx: &StatementContext<'_>,
    statement: Statement,
) -> Result<HashMap<u32, Actual>> {
    // A statement inside EXPLAIN is no EXPLAIN, so that this ends.
    Box::pin(run(cx, statement)).await?;
    let job = cx.last_job.lock().take();
    Ok(job.map(|job| actuals(&job)).unwrap_or_default())
}

/// Runs the query, throws its rows away, and tells what each plan node did.
async fn measure(
    cx: &StatementContext<'_>,
    query: &QueryPlan,
    plan: &PhysicalPlan,
) -> Result<HashMap<u32, Actual>> {
    let executor = &cx.session.inner.executor;
    let mut execution =
        executor.start(plan, result_schema(query), None, &cx.settings, &cx.token)?;
    while let Some(batch) = poll_fn(|context| execution.poll_batch(context)).await {
        batch?;
    }
    Ok(actuals(execution.job()))
}

/// Operators whose rows go elsewhere than to the next operator.
const WITHOUT_OUTPUT: [&str; 4] = ["HashJoinBuild", "IterationTail", "NestedLoopBuild", "Sink"];

/// The counters of each plan node. Of several operators that come from one node, the last one's rows are the node's.
fn actuals(job: &JobHandle) -> HashMap<u32, Actual> {
    let mut nodes: HashMap<u32, (usize, Actual)> = HashMap::new();
    for report in job.operators() {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let metrics = &report.metrics;
        let (position, actual) = nodes.entry(report.plan_node).or_default();
        if *position <= report.position && !WITHOUT_OUTPUT.contains(&report.name) {
            *position = report.position;
            actual.rows = read(&metrics.rows_out);
        }
        actual.seconds += read(&metrics.busy_ns) as f64 / 1e9;
        actual.peak_bytes += read(&metrics.peak_bytes);
        actual.spilled_bytes += read(&metrics.spilled_bytes);
        actual.late_rows += read(&metrics.late_rows);
    }
    nodes.into_iter().map(|(node, (_, actual))| (node, actual)).collect()
}
