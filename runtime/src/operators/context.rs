//! What an operator may reach while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::Waker;

use super::PortId;
use crate::batch::Batch;
use crate::element::Watermark;
use crate::error::{Error, Result};
use crate::job::{JobContext, LateBatch};

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
    /// Rows that operators keep for later ones at this moment, as far as they count them.
    pub state_rows: AtomicU64,
    /// Bytes of these rows and what is kept with them.
    pub state_bytes: AtomicU64,
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
    /// The operator's place in the vertex's chain, from 0.
    pub position: usize,
    /// How many subtasks the vertex has.
    pub parallelism: usize,
    /// The last watermark that this subtask of the operator has seen.
    pub watermark: Option<Watermark>,
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

    /// Counts rows of an input that are dropped since everything they belong to has left, and keeps them where the job
    /// keeps such rows.
    ///
    /// # Errors
    /// `ResourcesExhausted` where all late rows are to be kept and the memory budget has no room for them.
    pub fn drop_late(&self, port: PortId, late: Vec<Batch>) -> Result<()> {
        for rows in late {
            let count = rows.num_rows() as u64;
            self.job.late_rows.keep(LateBatch {
                vertex: self.vertex,
                position: self.position,
                port,
                watermark_us: self.watermark.map(|Watermark(at)| at),
                rows,
            })?;
            // Whoever sees the number finds the rows.
            OperatorMetrics::add(&self.metrics.late_rows, count);
        }
        Ok(())
    }

    /// Counts rows that are dropped likewise, and of which only the number is left.
    pub fn drop_unseen(&self, rows: u64) {
        OperatorMetrics::add(&self.metrics.late_rows, rows);
        self.job.late_rows.forget(rows);
    }
}
