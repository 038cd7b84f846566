//! `late_rows('query or view')`: which table stands for the call.
//!
//! A number or name of a job, or the name of a materialized view, stands for the rows that came too late for it so far.
//! Everything else is a query, which is run as a stream for its late rows when these are read: with all columns of its
//! tables and without partial results, so that the rows are whole. Only queries are taken.

use std::sync::Arc;

use arrow::datatypes::Field;
use thalweg_planner::{JobName, PlannerOptions, QueryPlan, Statement, TableName};
use thalweg_runtime::graph::{JobGraph, VertexId};
use thalweg_runtime::operators::PortId;
use thalweg_runtime::operators::sink::SinkSpec;

use super::Session;
use super::cancellation::CancellationToken;
use super::inserts::is_endless;
use super::jobs::Job;
use super::plan::{PlanUse, physical_plan};
use crate::catalog::{Entry, Table};
use crate::connectors::blackhole;
use crate::connectors::late_rows::{LateFrom, LateInput, LateTable};
use crate::error::{Error, Report, Result};

/// The table of a call.
pub(super) fn table(session: &Session, text: &str) -> Result<Arc<dyn Table>> {
    let text = text.trim().trim_end_matches(';').trim_end();
    match job(session, text)? {
        Some(job) => Ok(of_job(&job)),
        None => of_query(session, text),
    }
}

/// The job that a text names, if it does.
fn job(session: &Session, text: &str) -> Result<Option<Arc<Job>>> {
    let jobs = &session.inner.jobs;
    if let Ok(number) = text.parse() {
        return jobs.get(number).map(Some);
    }
    let Some(name) = name_of(text) else { return Ok(None) };
    let catalog = session.catalog();
    if let Some(Entry::MaterializedView { .. }) = catalog.get(&name) {
        return Ok(catalog.key_of(&name).and_then(|key| jobs.of_view(&key)));
    }
    if catalog.get(&name).is_some() || name.schema.is_some() {
        return Ok(None);
    }
    Ok(jobs.named(&JobName::Name(name.table.to_string())).ok())
}

/// The name that a text is, if it is one, of at most two parts.
fn name_of(text: &str) -> Option<TableName> {
    let part = |part: &str| match part.strip_prefix('"').and_then(|part| part.strip_suffix('"')) {
        Some(quoted) => Some(quoted.to_string()).filter(|quoted| !quoted.contains('"')),
        None => {
            let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            (!part.is_empty() && part.chars().all(plain)).then(|| part.to_lowercase())
        }
    };
    let parts = text.split('.').map(part).collect::<Option<Vec<_>>>()?;
    match parts.as_slice() {
        [table] => Some(TableName::bare(table)),
        [schema, table] => Some(TableName::partial(schema, table)),
        _ => None,
    }
}

/// What was late for a job until the table is read.
fn of_job(job: &Job) -> Arc<dyn Table> {
    let runs = &job.started.runs;
    let mut inputs = Vec::new();
    for (run, graph) in runs.iter().enumerate() {
        for report in graph.handle.operators() {
            let place = (run, report.vertex, report.position);
            // What is computed may be all that there is: the job reads no other columns.
            inputs.extend(inputs_of(place, report.name, report.inputs, |_| true));
        }
    }
    let handles = runs.iter().map(|run| run.handle.clone()).collect();
    LateTable::new(&inputs, LateFrom::Jobs(handles), false)
}

/// What is late for a query that runs for it.
fn of_query(session: &Session, text: &str) -> Result<Arc<dyn Table>> {
    let mut settings = session.settings_now();
    settings.set("execution.runtime_mode", "streaming")?;
    settings.set("optimizer.two_phase_aggregate", "off")?;
    let sink = SinkSpec { sink: blackhole::CONNECTOR.to_string(), options: serde_json::json!({}) };
    let executor = session.inner.executor.clone();
    let prepared = |all_columns: bool| {
        let query = planned(session, text, all_columns)?;
        let wanted = PlanUse { all_columns, ..PlanUse::LATE_ROWS };
        let plan = physical_plan(&query, &settings, wanted)?;
        let graph = executor.graph(&plan, sink.clone(), true, &settings)?;
        Ok::<_, Error>((is_endless(&query)?, plan, inputs_of_graph(&graph)))
    };
    // A column that no operator can keep does not matter where nothing reads it.
    let (unbounded, plan, inputs) = prepared(true).or_else(|_| prepared(false))?;
    let begin = move || {
        let token = CancellationToken::default();
        let begun = executor.submit_for_late_rows(&plan, sink.clone(), &settings, &token);
        begun.map_err(|error| thalweg_runtime::Error::user(error.to_string()))
    };
    Ok(LateTable::new(&inputs, LateFrom::Query(Box::new(begin)), unbounded))
}

fn planned(session: &Session, text: &str, all_columns: bool) -> Result<QueryPlan> {
    let planner = session.planner();
    let options = PlannerOptions { all_columns, ..planner.options().clone() };
    let planner = planner.reconfigured(options);
    // A name that is no view's is one of a table, or of nothing, which the planner tells best.
    let sql = match name_of(text) {
        Some(name) => format!("SELECT * FROM {name}"),
        None => text.to_string(),
    };
    let whole: Arc<str> = Arc::from(sql.as_str());
    let (statements, error) = planner.parse_script(&sql);
    if let Some(error) = error {
        return Err(inside(Error::from_planner(error, &whole)));
    }
    let [statement] = statements.as_slice() else { return Err(no_query()) };
    let planned = session.with_catalog(|catalog| planner.plan(statement, catalog));
    match planned.map_err(|error| inside(Error::from_planner(error, &whole)))? {
        Statement::Query(query) => Ok(query),
        _ => Err(no_query()),
    }
}

fn no_query() -> Error {
    let report = Report::new("late_rows takes one query, or the name of a view or job");
    Error::Statement(Box::new(report.with_hint("SHOW JOBS lists all jobs.".to_string())))
}

/// An error of the query inside, whose place means nothing in the statement around it.
fn inside(error: Error) -> Error {
    let Some(report) = error.report() else { return error };
    let mut told = Report::new(format!("the query of late_rows: {}", report.message));
    told.detail.clone_from(&report.detail);
    told.hint.clone_from(&report.hint);
    Error::Statement(Box::new(told))
}

fn inputs_of_graph(graph: &JobGraph) -> Vec<LateInput> {
    let vertices = (0..).map(VertexId).zip(&graph.vertices);
    let links = vertices.flat_map(|(id, vertex)| {
        vertex.chain.iter().enumerate().map(move |(at, link)| ((0, id, at), link))
    });
    let inputs = links.flat_map(|(place, link)| {
        inputs_of(place, link.spec.name(), link.inputs.clone(), has_a_name)
    });
    inputs.collect()
}

/// Whether a column is called by a name, rather than by the expression that computes it from others.
fn has_a_name(field: &Field) -> bool {
    !field.name().contains('(')
}

fn inputs_of(
    (run, vertex, position): (usize, VertexId, usize),
    operator: &'static str,
    inputs: Vec<Vec<Field>>,
    is_told: impl Fn(&Field) -> bool,
) -> impl Iterator<Item = LateInput> {
    (0..).zip(inputs).map(move |(port, fields)| LateInput {
        place: (run, vertex, position, PortId(port)),
        operator: operator.to_string(),
        fields: fields.into_iter().map(|field| Some(field).filter(&is_told)).collect(),
    })
}
