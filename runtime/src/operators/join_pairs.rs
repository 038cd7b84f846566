//! Lists of pairs of probe and build rows.
//!
//! Invariant: both lists have one length. Pairs come in the order of the probe rows.

use crate::rows::{NO_ROW, RowId};

/// Pairs of probe and build rows.
#[derive(Debug, Default)]
pub(crate) struct PairList {
    /// Positions in the probe batch.
    pub(crate) rows: Vec<u32>,
    /// Build rows.
    pub(crate) ids: Vec<RowId>,
}

impl PairList {
    /// Forgets all pairs.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.ids.clear();
    }

    /// Number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a pair.
    pub(crate) fn push(&mut self, row: usize, id: RowId) {
        self.rows.push(row as u32);
        self.ids.push(id);
    }

    /// Keeps the pairs at these ascending positions.
    pub(crate) fn keep(&mut self, positions: &[u32]) {
        for (to, &from) in positions.iter().enumerate() {
            self.rows[to] = self.rows[from as usize];
            self.ids[to] = self.ids[from as usize];
        }
        self.rows.truncate(positions.len());
        self.ids.truncate(positions.len());
    }

    /// The pairs, and in the order of the probe rows those from `first` on that are done (`matched` ends with them)
    /// and have no match.
    pub(crate) fn with_unmatched(&self, matched: &[bool], first: usize) -> PairList {
        let mut merged = PairList::default();
        let mut next = 0;
        for (row, &has_match) in matched.iter().enumerate().skip(first) {
            if !has_match {
                merged.push(row, NO_ROW);
            }
            while next < self.len() && self.rows[next] as usize == row {
                merged.push(row, self.ids[next]);
                next += 1;
            }
        }
        // A row that goes on has pairs but is not done.
        merged.rows.extend_from_slice(&self.rows[next..]);
        merged.ids.extend_from_slice(&self.ids[next..]);
        merged
    }
}
