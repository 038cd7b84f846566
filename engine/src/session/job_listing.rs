//! SHOW JOBS and DESCRIBE JOB.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, Schema};
use thalweg_runtime::job::OperatorReport;

use super::jobs::{Job, JobState, Run};
use super::watermark_holder::{self, Splits};
use crate::error::{Error, Result};

/// A row a job.
pub(super) fn listing(jobs: &[Arc<Job>]) -> Result<RecordBatch> {
    let states: Vec<JobState> = jobs.iter().map(|job| job.state()).collect();
    let text = |of: &dyn Fn(&Job) -> String| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(jobs.iter().map(|job| of(job))))
    };
    let errors = states.iter().map(|state| match state {
        JobState::Failed(error) => Some(Error::from(error.clone()).to_string()),
        JobState::Running | JobState::Finished | JobState::Stopped => None,
    });
    let errors: ArrayRef = Arc::new(errors.collect::<StringViewArray>());
    let names = states.iter().map(JobState::name);
    let since = jobs.iter().map(|job| job.started.since_us);
    let totals: Vec<Totals> = jobs.iter().map(|job| Totals::of(job)).collect();
    let watermarks = totals.iter().map(|totals| totals.watermark_us);
    batch(vec![
        ("job", numbers(jobs.iter().map(|job| job.number))),
        ("name", text(&|job| job.started.name.clone())),
        ("kind", text(&|job| job.started.kind.name().to_string())),
        ("state", Arc::new(StringViewArray::from_iter_values(names))),
        ("since", Arc::new(TimestampMicrosecondArray::from_iter_values(since))),
        ("rows_in", numbers(totals.iter().map(|totals| totals.rows_in))),
        ("rows_out", numbers(totals.iter().map(|totals| totals.rows_out))),
        ("late_rows", numbers(totals.iter().map(|totals| totals.late_rows))),
        ("watermark", Arc::new(watermarks.collect::<TimestampMicrosecondArray>())),
        ("sql", text(&|job| job.started.sql.clone())),
        ("error", errors),
    ])
}

/// What a job has done as a whole.
struct Totals {
    /// Rows that scans delivered.
    rows_in: u64,
    /// Rows, or changes of rows, that came to the sinks.
    rows_out: u64,
    late_rows: u64,
    /// How far event time has come at the sinks, the least of several.
    watermark_us: Option<i64>,
}

impl Totals {
    fn of(job: &Job) -> Self {
        let runs = job.started.runs.iter();
        let reports: Vec<OperatorReport> = runs.flat_map(|run| run.handle.operators()).collect();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let is = |report: &&OperatorReport, name: &str| report.name == name;
        let scans = reports.iter().filter(|report| is(report, SCAN));
        let sinks = || reports.iter().filter(|report| is(report, SINK));
        Totals {
            rows_in: scans.map(|report| read(&report.metrics.rows_out)).sum(),
            rows_out: sinks().map(|report| read(&report.metrics.rows_in)).sum(),
            late_rows: reports.iter().map(|report| read(&report.metrics.late_rows)).sum(),
            watermark_us: sinks().filter_map(|report| report.metrics.watermark()).min(),
        }
    }
}

/// The operator that reads a table.
pub(super) const SCAN: &str = "Scan";

/// The operator that gives rows to whoever they are for.
pub(super) const SINK: &str = "Sink";

/// An operator of a job, with its run and the shares of its time.
struct Described {
    run: usize,
    report: OperatorReport,
    shares: Option<Shares>,
    watermark_us: Option<i64>,
    lag_ms: Option<i64>,
    held_by: Option<String>,
}

/// What an operator's tasks did, in percent of their time. What is left is that of the other operators of the chain, and
/// the time in which they waited for a thread.
#[derive(Debug, Clone, Copy)]
struct Shares {
    busy: f64,
    idle: f64,
    blocked: f64,
}

/// A row an operator, in the order of the job's graph.
pub(super) fn operators(job: &Job) -> Result<RecordBatch> {
    let runs = job.started.runs.iter().enumerate();
    let described: Vec<Described> = runs.flat_map(|(at, run)| described(job, at, run)).collect();
    let count = |of: &dyn Fn(&OperatorReport) -> &AtomicU64| {
        let read = |row: &Described| of(&row.report).load(Ordering::Relaxed);
        numbers(described.iter().map(read))
    };
    let busy = |row: &Described| row.report.metrics.busy_ns.load(Ordering::Relaxed) / 1_000_000;
    let share = |of: &dyn Fn(&Shares) -> f64| -> ArrayRef {
        let rounded = |share: f64| (share * 10.0).round() / 10.0;
        let shares = described.iter().map(|row| row.shares.as_ref().map(|s| rounded(of(s))));
        Arc::new(shares.collect::<Float64Array>())
    };
    let vertex = |row: &Described| match job.started.runs.len() {
        1 => row.report.vertex.0.to_string(),
        _ => format!("{}.{}", row.run + 1, row.report.vertex.0),
    };
    let watermarks = described.iter().map(|row| row.watermark_us);
    let lags = described.iter().map(|row| row.lag_ms);
    let held = described.iter().map(|row| row.held_by.as_deref());
    let names = described.iter().map(|row| row.report.name);
    batch(vec![
        ("vertex", Arc::new(StringViewArray::from_iter_values(described.iter().map(vertex)))),
        ("operator", Arc::new(StringViewArray::from_iter_values(names))),
        ("rows_in", count(&|report| &report.metrics.rows_in)),
        ("rows_out", count(&|report| &report.metrics.rows_out)),
        ("watermark", Arc::new(watermarks.collect::<TimestampMicrosecondArray>())),
        ("lag_ms", Arc::new(lags.collect::<Int64Array>())),
        ("late_rows", count(&|report| &report.metrics.late_rows)),
        ("state_rows", count(&|report| &report.metrics.state_rows)),
        ("state_bytes", count(&|report| &report.metrics.state_bytes)),
        ("busy_ms", numbers(described.iter().map(busy))),
        ("busy_pct", share(&|shares| shares.busy)),
        ("idle_pct", share(&|shares| shares.idle)),
        ("blocked_pct", share(&|shares| shares.blocked)),
        // Last, where it is seen on narrow terminals, too.
        ("held_back_by", Arc::new(held.collect::<StringViewArray>())),
    ])
}

fn described(job: &Job, at: usize, run: &Run) -> Vec<Described> {
    let splits = Splits::of(&run.handle, &run.plan);
    let now_us = run.handle.now_us();
    let before = job.loads_before(at);
    let reports = run.handle.operators();
    let rows = reports.into_iter().enumerate().map(|(nth, report)| {
        let watermark_us = match report.name {
            SCAN => splits.watermark_of(report.vertex).or(report.metrics.watermark()),
            _ => report.metrics.watermark(),
        };
        let load = OperatorLoad::of(&report);
        let shares = load.since(before.get(nth)).shares();
        let upstream = run.handle.upstream(report.vertex);
        Described {
            run: at,
            shares,
            watermark_us,
            lag_ms: watermark_us.map(|at| now_us.saturating_sub(at).div_euclid(1_000)),
            held_by: splits.holder(&upstream).map(|holder| watermark_holder::text(&holder)),
            report,
        }
    });
    rows.collect()
}

/// The time that an operator has worked, and that its tasks have spent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OperatorLoad {
    busy_ns: u64,
    spent: thalweg_runtime::task::TimeSpent,
}

impl OperatorLoad {
    /// Up to now.
    pub(super) fn of(report: &OperatorReport) -> Self {
        let busy_ns = report.metrics.busy_ns.load(Ordering::Relaxed);
        OperatorLoad { busy_ns, spent: report.spent }
    }

    fn since(self, before: Option<&OperatorLoad>) -> Self {
        let before = before.copied().unwrap_or_default();
        OperatorLoad {
            busy_ns: self.busy_ns.saturating_sub(before.busy_ns),
            spent: self.spent.since(before.spent),
        }
    }

    /// `None` before any time has passed.
    fn shares(self) -> Option<Shares> {
        let all = self.spent.all_ns as f64;
        let percent = |part: u64| (100.0 * part as f64 / all).min(100.0);
        (all > 0.0).then(|| Shares {
            busy: percent(self.busy_ns),
            idle: percent(self.spent.idle_ns),
            blocked: percent(self.spent.blocked_ns),
        })
    }
}

fn numbers(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    let signed = |value| i64::try_from(value).unwrap_or(i64::MAX);
    Arc::new(Int64Array::from_iter_values(values.into_iter().map(signed)))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let field =
        |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), arrays)?)
}
