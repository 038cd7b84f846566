//! INSERTs that run as jobs: in the background, and several as one statement set.
//!
//! Invariant: of a statement set all go well or the first failure ends the others. Rows that a sink has taken in at a commit
//! stay. Where the rows have no end, a user who has had enough loses none that came before: see [`commits::settle`].

use std::sync::Arc;

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_expr::LogicalPlan;
use futures::future::{Either, select, try_join_all};
use parking_lot::Mutex;
use thalweg_optimizer::PhysicalPlan;
use thalweg_planner::{Insert, QueryPlan};
use thalweg_runtime::job::JobHandle;
use thalweg_runtime::operators::sink::SinkSpec;

use super::cancellation::CancellationToken;
use super::commits;
use super::frame::Frame;
use super::jobs::{JobKind, Run, Started, Target};
use super::plan::{PlanUse, declared_keys, physical_plan};
use super::sink_kinds::{UPSERT_KEY, fitted, primary_key};
use super::statement::{StatementContext, statement_text};
use super::write::{memory_table, of_columns, tell_key};
use crate::catalog::{EngineTable, SinkKind, Table, TableSink};
use crate::connectors::RowCounter;
use crate::connectors::memory::CONNECTOR as MEMORY_SINK;
use crate::error::{Error, Result};

/// An INSERT that is ready to start.
struct Prepared {
    plan: PhysicalPlan,
    sink: TableSink,
    counter: RowCounter,
    /// What is to hear that rows were written; tables in memory know.
    target: Option<Arc<dyn Table>>,
}

/// Whether an INSERT is to go on in the background: the session wants that, and the input has no end.
pub(super) fn goes_on(cx: &StatementContext<'_>, insert: &Insert) -> Result<bool> {
    Ok(cx.session.inner.jobs.in_background() && !insert.overwrite && is_endless(&insert.input)?)
}

/// Starts an INSERT in the background.
pub(super) fn start(cx: &StatementContext<'_>, insert: &Insert) -> Result<Frame> {
    let name = format!("insert_into_{}", insert.table.table);
    start_all(cx, JobKind::Insert, name, std::slice::from_ref(insert))
}

/// `EXECUTE STATEMENT SET`.
pub(super) async fn statement_set(cx: &StatementContext<'_>, inserts: &[Insert]) -> Result<Frame> {
    let endless = inserts.iter().map(|insert| is_endless(&insert.input));
    let endless = endless.collect::<Result<Vec<_>>>()?.contains(&true);
    if endless && cx.session.inner.jobs.in_background() {
        return start_all(cx, JobKind::StatementSet, "statement_set".to_string(), inserts);
    }
    let prepared = prepare_all(cx, inserts)?;
    let executor = &cx.session.inner.executor;
    let mut handles = Vec::with_capacity(prepared.len());
    let token = own_token(cx, endless);
    let submit = |p: &Prepared| {
        executor.submit(&p.plan, p.sink.spec.clone(), p.sink.parallel, &cx.settings, &token)
    };
    let mut failed = None;
    for insert in &prepared {
        match submit(insert) {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if failed.is_none() {
        failed = ended(cx, &handles, endless).await.err();
    }
    if let Some(error) = failed {
        handles.iter().for_each(|handle| handle.cancel());
        for handle in &handles {
            // The first failure is the one that counts.
            let _ = handle.ended().await;
        }
        let _ = note_written(&prepared);
        return Err(error);
    }
    note_written(&prepared)?;
    *cx.last_job.lock() = handles.pop();
    Ok(Frame::written(prepared.iter().map(|insert| insert.counter.rows()).sum()))
}

fn start_all(
    cx: &StatementContext<'_>,
    kind: JobKind,
    name: String,
    inserts: &[Insert],
) -> Result<Frame> {
    let executor = &cx.session.inner.executor;
    let mut runs = Vec::with_capacity(inserts.len());
    // Dropping those that have started ends them, should another one not start.
    for insert in prepare_all(cx, inserts)? {
        let Prepared { plan, sink, target, counter } = insert;
        let token = CancellationToken::default();
        let handle = executor.submit(&plan, sink.spec, sink.parallel, &cx.settings, &token)?;
        runs.push(Run { handle, plan, target: target.map(|table| Target::new(table, counter)) });
    }
    let started = Started {
        name,
        kind,
        sql: statement_text(cx),
        since_us: executor.now_us(),
        runs,
        links: Mutex::default(),
        subscriptions: Vec::new(),
        endless: true,
    };
    cx.session.inner.jobs.add(cx.session, started);
    Ok(Frame::empty())
}

fn prepare_all(cx: &StatementContext<'_>, inserts: &[Insert]) -> Result<Vec<Prepared>> {
    inserts.iter().map(|insert| prepare(cx, insert)).collect()
}

/// The sink of a table in memory: with a primary key rows may take the place of others.
fn memory_sink(insert: &Insert) -> Result<TableSink> {
    let Insert { table: name, source, .. } = insert;
    let memory = memory_table(source.as_ref(), &format!("INSERT INTO \"{name}\""))?;
    let mut options = memory.sink_options();
    let table = EngineTable::of(source.as_ref()).map(|engine| engine.table.as_ref());
    let key = table.and_then(primary_key).filter(|_| !memory.is_append_only());
    let kind = if key.is_some() { SinkKind::Upsert } else { SinkKind::Append };
    if let (Some(key), Some(options)) = (key, options.as_object_mut()) {
        options.insert(UPSERT_KEY.to_string(), key.into());
    }
    let spec = SinkSpec { sink: MEMORY_SINK.to_string(), options };
    Ok(TableSink { spec, parallel: false, kind })
}

/// Runs an INSERT to its end.
pub(super) async fn run(cx: &StatementContext<'_>, insert: &Insert) -> Result<Frame> {
    let prepared = prepare(cx, insert)?;
    let Prepared { plan, sink, counter, .. } = &prepared;
    let endless = is_endless(&insert.input)?;
    let token = own_token(cx, endless);
    let executor = &cx.session.inner.executor;
    let job = executor.submit(plan, sink.spec.clone(), sink.parallel, &cx.settings, &token)?;
    let result = ended(cx, std::slice::from_ref(&job), endless).await;
    let noted = note_written(std::slice::from_ref(&prepared));
    result.and(noted)?;
    *cx.last_job.lock() = Some(job);
    Ok(Frame::written(counter.rows()))
}

/// The token of jobs that a statement runs: the statement's, unless they are to settle before they end.
fn own_token(cx: &StatementContext<'_>, endless: bool) -> CancellationToken {
    if endless { CancellationToken::default() } else { cx.token.clone() }
}

/// Waits until jobs have ended. Those without an end commit from time to time; when the statement is cancelled, they show
/// first what has come so far.
async fn ended(cx: &StatementContext<'_>, handles: &[Arc<JobHandle>], endless: bool) -> Result<()> {
    let mut all = try_join_all(handles.iter().map(|handle| handle.ended()));
    if !endless {
        return Ok(all.await.map(drop)?);
    }
    let interval = cx.settings.view_commit_interval();
    loop {
        let pause = cx.session.inner.executor.after(interval);
        let stops = std::pin::pin!(cx.token.cancelled());
        match select(all, select(stops, std::pin::pin!(pause))).await {
            Either::Left((result, _)) => return Ok(result.map(drop)?),
            Either::Right((Either::Left(_), rest)) => {
                commits::settle(cx.session, handles).await;
                handles.iter().for_each(|handle| handle.cancel());
                // That they were cancelled is known.
                let _ = rest.await;
                return Err(Error::Cancelled);
            }
            Either::Right((Either::Right(_), rest)) => {
                for handle in handles {
                    // Nobody waits for it; while one is under way it is that one.
                    handle.ask_barrier();
                }
                all = rest;
            }
        }
    }
}

/// The tables look for rows that were written.
fn note_written(prepared: &[Prepared]) -> Result<()> {
    prepared.iter().filter_map(|p| p.target.as_ref()).try_for_each(|table| table.written())
}

/// Whether an INSERT runs into a sink, rather than into a table that takes all rows at the end.
pub(super) fn runs_into_sink(insert: &Insert) -> Result<bool> {
    let Some(engine) = EngineTable::of(insert.source.as_ref()) else { return Ok(false) };
    let by_key = primary_key(engine.table.as_ref()).is_some();
    Ok(engine.table.sink().is_some() || (by_key && is_endless(&insert.input)?))
}

/// The plan of an INSERT for EXPLAIN; fails if the sink cannot take the rows.
pub(super) fn planned(cx: &StatementContext<'_>, insert: &Insert) -> Result<PhysicalPlan> {
    Ok(prepare(cx, insert)?.plan)
}

fn prepare(cx: &StatementContext<'_>, insert: &Insert) -> Result<Prepared> {
    let Insert { table: name, source, input, overwrite, on_conflict } = insert;
    if *overwrite {
        return Err(Error::unsupported("INSERT OVERWRITE in a statement set"));
    }
    let table = EngineTable::of(source.as_ref()).map(|engine| &engine.table);
    let sunk = table.and_then(|table| Some((table.clone(), table.sink()?)));
    let (target, mut sink) = match sunk {
        Some((table, sink)) => {
            let sink = of_columns(sink, table.as_ref(), input);
            (Some(table), sink)
        }
        None => (None, memory_sink(insert)?),
    };
    let counter = RowCounter::new();
    if let Some(options) = sink.spec.options.as_object_mut() {
        options.insert("counter".to_string(), counter.id().into());
        options.insert("run".to_string(), cx.session.inner.executor.random_u64().into());
        options.insert("endless".to_string(), is_endless(input)?.into());
    }
    let plan = physical_plan(input, &cx.settings, PlanUse::of_sink(&sink))?;
    tell_key(&mut sink, &plan);
    let sink = match table {
        Some(table) => {
            fitted(sink, &plan, || declared_keys(input), (name, table.as_ref()), *on_conflict)?
        }
        None => sink,
    };
    Ok(Prepared { plan, sink, counter, target })
}

/// Whether a query reads a table that has no end.
pub(super) fn is_endless(query: &QueryPlan) -> Result<bool> {
    let mut endless = false;
    for plan in std::iter::once(&query.plan).chain(query.shared.iter().map(|s| &s.plan)) {
        let looked = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                let table = EngineTable::of(scan.source.as_ref());
                endless |= table.is_some_and(|engine| engine.table.is_unbounded());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        looked.map_err(thalweg_runtime::Error::from)?;
    }
    Ok(endless)
}
