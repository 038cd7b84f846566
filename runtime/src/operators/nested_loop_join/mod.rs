//! Nested loop join: every probe row beside every build row, with or without a condition.
//!
//! The build operator keeps its input as batches, charged at their real size; all probe subtasks read them. Pairs are
//! made a batch at a time, whichever side is large. A build side of one row, as scalar subqueries have, is spread to
//! columns of a constant once, of which each probe batch gets a slice. Neither side does anything at a watermark but
//! hand on what it has gathered. The build side must be bounded, and insert-only.

mod build;
mod probe;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, Ordering};

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

pub use build::NestedLoopBuild;
pub use probe::NestedLoopProbe;

use super::join_kind::{JoinColumn, JoinKind};
use crate::batch::Batch;
use crate::expr::Expr;
use crate::memory::{Reservation, SegmentArray};
use crate::rows::RowId;
use crate::shared::{SharedBuild, WorkQueue};

/// What the build operator keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NestedLoopBuildSpec {
    /// The shared build's id in the job.
    pub shared: u32,
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// Whether build rows come out at the end (see [`JoinKind::tracks_matches`]).
    pub tracks_matches: bool,
    /// Subtasks of the probe vertex.
    pub probes: usize,
}

/// What the probe operator does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NestedLoopProbeSpec {
    /// The shared build's id in the job.
    pub shared: u32,
    /// What to emit.
    pub kind: JoinKind,
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// Types of the build side's columns.
    pub build: Vec<DataType>,
    /// The condition over the probe side's columns, then the build side's; all pairs match without one.
    pub filter: Option<Expr>,
    /// The output's columns.
    pub output: Vec<JoinColumn>,
}

/// What one build subtask contributes: batches without selection, and their charge.
struct Contribution {
    batches: Vec<Batch>,
    reservation: Reservation,
}

/// The complete build side.
struct LoopBuild {
    /// Batches of at least one row.
    batches: Vec<Batch>,
    /// The number of each batch's first row among all rows.
    starts: Vec<usize>,
    rows: usize,
    /// By row, whether it has a match.
    matched: Option<SegmentArray<AtomicU8>>,
    /// Batches to emit at the end.
    emitting: WorkQueue,
    /// Holds the charge of the batches.
    _reservations: Vec<Reservation>,
}

type SharedLoopBuild = SharedBuild<Contribution, LoopBuild>;

impl LoopBuild {
    fn flags(&self, batch: usize) -> &[AtomicU8] {
        let all = self.matched.as_deref().unwrap_or(&[]);
        let start = self.starts[batch].min(all.len());
        let end = (start + self.batches[batch].num_rows()).min(all.len());
        &all[start..end]
    }

    /// Flags rows of a batch as matched.
    fn set_matched(&self, batch: usize, ids: impl Iterator<Item = RowId>) {
        let flags = self.flags(batch);
        for id in ids {
            let flag = &flags[id as usize];
            if flag.load(Ordering::Relaxed) == 0 {
                flag.store(1, Ordering::Relaxed);
            }
        }
    }

    fn row_bytes(&self) -> usize {
        let bytes: usize = self.batches.iter().map(Batch::data_bytes).sum();
        bytes / self.rows.max(1)
    }
}
