//! Rows that leave the state because they can match nothing more.
//!
//! Where unmatched rows are deferred, those that never found a match are emitted now, an output batch at a time; then
//! all expired rows are forgotten. At the end of the inputs nothing can match any more. Invariant: every row of a
//! tracked side is emitted with a match or here, once.

use super::listed::Listed;
use super::shape::{MATCHES, Shape};
use super::states::States;
use super::work::{Kept, other_alone};
use crate::batch::Batch;
use crate::error::Result;
use crate::rows::RowId;

/// The rows of a side that leave.
pub(super) struct Sweep {
    side: usize,
    expired: Vec<RowId>,
    /// Rows that are looked at.
    next: usize,
}

impl Sweep {
    /// The rows of a side that have expired.
    pub(super) fn of_expired(shape: &Shape, states: &mut States, side: usize) -> Self {
        Sweep { side, expired: states.take_expired(shape, side), next: 0 }
    }

    /// All rows of a side.
    pub(super) fn of_all(states: &States, side: usize) -> Self {
        let mut expired = Vec::new();
        states.rows[side].scan(0, usize::MAX, &mut expired);
        Sweep { side, expired, next: 0 }
    }

    /// The next rows that never found a match; none when all are out.
    pub(super) fn next(
        &mut self,
        shape: &Shape,
        states: &States,
        rows_max: usize,
    ) -> Result<Option<Batch>> {
        if !shape.deferred || !shape.tracked[self.side] || !shape.alone.wants(false) {
            return Ok(None);
        }
        let rows = &states.rows[self.side];
        let mut ids = Vec::new();
        while self.next < self.expired.len() && ids.len() < rows_max {
            let id = self.expired[self.next];
            if rows.number(id, MATCHES) == 0 {
                ids.push(id);
            }
            self.next += 1;
        }
        if ids.is_empty() {
            return Ok(None);
        }
        let codes = vec![Listed::code(false, false); ids.len()];
        other_alone(shape, 1 - self.side, &Kept(rows.store()), &codes, &ids).map(Some)
    }

    /// Forgets the rows.
    pub(super) fn finish(self, states: &mut States) -> Result<()> {
        states.rows[self.side].remove(&self.expired);
        states.compact(self.side)
    }
}
