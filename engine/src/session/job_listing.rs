//! SHOW JOBS and DESCRIBE JOB.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Schema};
use thalweg_runtime::job::OperatorReport;

use super::jobs::{Job, JobState};
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
    batch(vec![
        ("job", numbers(jobs.iter().map(|job| job.number))),
        ("name", text(&|job| job.started.name.clone())),
        ("kind", text(&|job| job.started.kind.name().to_string())),
        ("state", Arc::new(StringViewArray::from_iter_values(names))),
        ("since", Arc::new(TimestampMicrosecondArray::from_iter_values(since))),
        ("sql", text(&|job| job.started.sql.clone())),
        ("error", errors),
    ])
}

/// A row an operator, in the order of the job's graph.
pub(super) fn operators(job: &Job) -> Result<RecordBatch> {
    let reports: Vec<(usize, OperatorReport)> = job
        .started
        .runs
        .iter()
        .enumerate()
        .flat_map(|(n, run)| run.handle.operators().into_iter().map(move |report| (n, report)))
        .collect();
    let count = |of: &dyn Fn(&OperatorReport) -> &AtomicU64| {
        let read = |(_, report): &(usize, OperatorReport)| of(report).load(Ordering::Relaxed);
        reports.iter().map(read).collect::<Vec<u64>>()
    };
    let busy_ms = count(&|report| &report.metrics.busy_ns).into_iter().map(|ns| ns / 1_000_000);
    let vertex = |(n, report): &(usize, OperatorReport)| match job.started.runs.len() {
        1 => report.vertex.0.to_string(),
        _ => format!("{}.{}", n + 1, report.vertex.0),
    };
    let watermarks = reports.iter().map(|(_, report)| report.metrics.watermark());
    let watermarks: ArrayRef = Arc::new(watermarks.collect::<TimestampMicrosecondArray>());
    let names = reports.iter().map(|(_, report)| report.name);
    batch(vec![
        ("vertex", Arc::new(StringViewArray::from_iter_values(reports.iter().map(vertex)))),
        ("operator", Arc::new(StringViewArray::from_iter_values(names))),
        ("rows_in", numbers(count(&|report| &report.metrics.rows_in))),
        ("rows_out", numbers(count(&|report| &report.metrics.rows_out))),
        ("watermark", watermarks),
        ("late_rows", numbers(count(&|report| &report.metrics.late_rows))),
        ("busy_ms", numbers(busy_ms)),
    ])
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
