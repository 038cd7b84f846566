//! What an operator may reach while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::Waker;

use crate::error::{Error, Result};
use crate::job::JobContext;

/// Counters of one operator over all its subtasks, read by EXPLAIN ANALYZE and the progress line.
#[derive(Debug, Default)]
pub struct OperatorMetrics {
    /// Rows that came in.
    pub rows_in: AtomicU64,
    /// Rows that went out.
    pub rows_out: AtomicU64,
    /// Nanoseconds spent in the operator's own steps, summed over subtasks.
    pub busy_ns: AtomicU64,
    /// Greatest number of bytes reserved at a time, summed over subtasks.
    pub peak_bytes: AtomicU64,
    /// Rows that were dropped because everything they belong to had left.
    pub late_rows: AtomicU64,
    /// Bytes written to spill files.
    pub spilled_bytes: AtomicU64,
    /// The last watermark that some subtask has seen; 0 before the first.
    watermark_us: AtomicI64,
}

impl OperatorMetrics {
    /// Takes note that event time has come to a watermark.
    pub fn see_watermark(&self, at_us: i64) {
        self.watermark_us.fetch_max(at_us, Ordering::Relaxed);
    }

    /// The last watermark, in microseconds, if there was one.
    pub fn watermark(&self) -> Option<i64> {
        Some(self.watermark_us.load(Ordering::Relaxed)).filter(|&at| at != 0)
    }

    /// Adds to a counter; counters are statistics, so no order is implied.
    pub fn add(counter: &AtomicU64, value: u64) {
        counter.fetch_add(value, Ordering::Relaxed);
    }
}

/// What an operator may reach: its place in the job, the job's shared things, and the task's waker.
pub struct OperatorContext<'a> {
    /// Which subtask of the vertex this is, from 0.
    pub subtask: usize,
    /// Which vertex of the graph.
    pub vertex: crate::graph::VertexId,
    /// How many subtasks the vertex has.
    pub parallelism: usize,
    /// Things of the whole job: memory, environment, shared builds, runtime filters, connectors.
    pub job: &'a Arc<JobContext>,
    /// Wakes this task; register it before answering [`super::Output::Wait`].
    pub waker: &'a Waker,
    /// The operator's counters.
    pub metrics: &'a Arc<OperatorMetrics>,
    /// Set when the job is cancelled; long loops inside a step look at it.
    pub cancelled: &'a AtomicBool,
}

impl OperatorContext<'_> {
    /// `Err(Cancelled)` once the job is cancelled.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}
