//! Pruning: of the partitions that wait only the first rows stay that are wanted.
//!
//! Invariant: a row that is dropped stands behind as many rows of its partition as are wanted.

use super::ordered::OrderedWindow;
use crate::batch::Batch;
use crate::error::Result;
use crate::operators::doubled::Doubled;

/// See the module.
pub(super) struct Pruning {
    wanted: usize,
    /// When rows are looked through.
    pub(super) search: Doubled,
}

impl Pruning {
    /// For so many rows of a partition.
    pub(super) fn new(wanted: usize) -> Self {
        Pruning { wanted, search: Doubled::default() }
    }

    /// The rows of a compact batch that stay.
    pub(super) fn first_rows(&self, rows: Batch, window: &OrderedWindow) -> Result<Batch> {
        window.first_rows(rows, self.wanted)
    }
}
