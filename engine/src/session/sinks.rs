//! Sinks into tables: jobs that fold the changes of a query's result into a table which statements change, too.
//!
//! Invariant: a sink has taken in what its inputs hold when it is created, and ends with DROP SINK, or with what it reads
//! or writes.

use serde_json::json;
use thalweg_planner::{CreateSink, suggest};
use thalweg_runtime::operators::sink::SinkSpec;

use datafusion_common::Constraint;
use parking_lot::Mutex;

use super::cancellation::CancellationToken;
use super::frame::Frame;
use super::jobs::{JobKind, Links, Run, Started};
use super::plan::{PlanUse, physical_plan};
use super::statement::{StatementContext, statement_text};
use super::views::{Live, absorb, refuse_volatile};
use super::write::{memory_table, refuse_append_only};
use crate::catalog::Table;
use crate::connectors::memory::FOLD_SINK;
use crate::error::{Error, Report, Result};

/// `CREATE SINK … INTO`.
pub(super) async fn create(cx: &StatementContext<'_>, create: CreateSink) -> Result<Frame> {
    let CreateSink { name, insert, if_not_exists, ignore_delete } = create;
    let jobs = &cx.session.inner.jobs;
    if jobs.sink(&name).is_some() {
        return match if_not_exists {
            true => Ok(Frame::empty()),
            false => {
                Err(Error::catalog(Report::new(format!("the sink \"{name}\" already exists"))))
            }
        };
    }
    let what = format!("CREATE SINK INTO \"{}\"", insert.table);
    let table = memory_table(insert.source.as_ref(), &what)?;
    let keys = table.constraints().into_iter().flat_map(|keys| keys.iter());
    let key = keys.into_iter().find_map(|key| match key {
        Constraint::PrimaryKey(columns) => Some(columns.clone()),
        Constraint::Unique(_) => None,
    });
    let mut settings = cx.settings.clone();
    settings.reset("execution.runtime_mode")?;
    let alone = jobs.commits.lock().await;
    let mut live = Live::of(&insert.input);
    let query = live.follow(&insert.input)?;
    if live.withdraws {
        refuse_volatile(&query)?;
        if !ignore_delete {
            refuse_append_only(table, &what)?;
        }
    }
    let plan = physical_plan(&query, &settings, PlanUse::VIEW)?;
    let mut options = table.sink_options();
    if let Some(options) = options.as_object_mut() {
        options.insert("key".into(), json!(key.unwrap_or_default()));
        options.insert("ignore_delete".into(), json!(ignore_delete));
    }
    let spec = SinkSpec { sink: FOLD_SINK.to_string(), options };
    let executor = &cx.session.inner.executor;
    let handle = executor.submit(&plan, spec, false, &settings, &CancellationToken::default())?;
    let reads = std::mem::take(&mut *cx.reads.lock());
    let started = Started {
        name,
        kind: JobKind::Sink,
        sql: statement_text(cx),
        since_us: executor.now_us(),
        runs: vec![Run { handle, plan, target: None }],
        links: Mutex::new(Links { view: None, reads }),
        subscriptions: live.subscriptions,
        endless: live.endless,
    };
    if let Err(error) = absorb(cx, &started).await {
        started.runs[0].handle.cancel();
        return Err(error);
    }
    jobs.add(cx.session, started);
    drop(alone);
    // What it has written is to be seen by views.
    super::commits::flushed(cx, Ok(Frame::empty())).await
}

/// `DROP SINK`.
pub(super) fn drop_sink(cx: &StatementContext<'_>, name: &str, if_exists: bool) -> Result<Frame> {
    let jobs = &cx.session.inner.jobs;
    match jobs.sink(name) {
        Some(job) => jobs.remove(&job),
        None if if_exists => {}
        None => {
            let all = jobs.all();
            let sinks = all.iter().filter(|job| job.started.kind == JobKind::Sink);
            let hint = suggest::did_you_mean(name, sinks.map(|job| job.started.name.as_str()));
            let report = Report::new(format!("the sink \"{name}\" does not exist"));
            return Err(Error::catalog(report.with_hint(hint)));
        }
    }
    Ok(Frame::empty())
}
