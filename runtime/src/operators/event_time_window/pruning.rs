//! Pruning: of the partitions that wait only the first rows stay that are wanted.
//!
//! Rows are looked through when there are twice as many as were left the last time, so that each row costs the same
//! whatever there is. Invariant: a row that is dropped stands behind as many rows of its partition as are wanted.

use super::ordered::OrderedWindow;
use crate::batch::Batch;
use crate::error::Result;

/// Rows below which nothing is looked through.
const ROWS_MIN: usize = 8192;

/// See the module.
pub(super) struct Pruning {
    wanted: usize,
    /// Rows at which they are looked through.
    due: usize,
}

impl Pruning {
    /// For so many rows of a partition.
    pub(super) fn new(wanted: usize) -> Self {
        Pruning { wanted, due: ROWS_MIN }
    }

    /// Whether it is time to look through so many rows.
    pub(super) fn is_due(&self, rows: usize) -> bool {
        rows >= self.due
    }

    /// The rows of a compact batch that stay.
    pub(super) fn first_rows(&self, rows: Batch, window: &OrderedWindow) -> Result<Batch> {
        window.first_rows(rows, self.wanted)
    }

    /// So many rows were left.
    pub(super) fn note(&mut self, rows: usize) {
        self.due = (2 * rows).max(ROWS_MIN);
    }
}
