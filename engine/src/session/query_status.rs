//! How a running query is doing, for whoever watches it.

use std::sync::atomic::Ordering;

use thalweg_optimizer::PhysicalPlan;
use thalweg_runtime::job::JobHandle;

use super::job_listing::{SCAN, SINK};
use super::watermark_holder::{self, Splits, instant};

/// How a running query is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct QueryStatus {
    /// Rows that its scans have delivered.
    pub(crate) rows_read: u64,
    /// How far event time has come at its result, as text.
    pub(crate) watermark: Option<String>,
    /// Rows that were dropped as late.
    pub(crate) late_rows: u64,
    /// The split that holds event time back, as text.
    pub(crate) held_back_by: Option<String>,
}

impl QueryStatus {
    /// Of a job that runs a plan.
    pub(super) fn of(job: &JobHandle, plan: &PhysicalPlan) -> Self {
        let reports = job.operators();
        let scans = reports.iter().filter(|report| report.name == SCAN);
        let read = scans.map(|report| report.metrics.rows_out.load(Ordering::Relaxed));
        let sink = reports.iter().find(|report| report.name == SINK);
        let watermark = sink.and_then(|report| report.metrics.watermark()).map(instant);
        let holder =
            sink.and_then(|report| Splits::of(job, plan).holder(&job.upstream(report.vertex)));
        QueryStatus {
            rows_read: read.sum(),
            watermark,
            late_rows: job.late_rows(),
            held_back_by: holder.map(|holder| watermark_holder::text(&holder)),
        }
    }
}
