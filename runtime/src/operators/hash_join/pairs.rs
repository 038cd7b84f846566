//! Walking the chains of a probe batch, a bounded number of pairs at a time.
//!
//! Invariant: pairs come in the order of the probe rows, and a walk goes on exactly where it stopped, also in the
//! middle of a chain: one probe row may match any number of build rows without more than a batch being there at once.

use crate::operators::join_pairs::PairList;
use crate::rows::{NO_ROW, RowId};
use crate::state::JoinTable;

/// Where the walk over a probe batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The probe row.
    pub(super) row: usize,
    /// Its next build row; [`NO_ROW`] before its first.
    id: RowId,
}

impl Default for Cursor {
    fn default() -> Self {
        Cursor { row: 0, id: NO_ROW }
    }
}

impl Cursor {
    /// Whether all rows are done.
    pub(super) fn is_done(&self, heads: &[RowId]) -> bool {
        self.row >= heads.len()
    }

    /// Writes the pairs that come next, of rows whose keys are unique in the table. At most `max` probe rows are
    /// looked at.
    pub(super) fn walk_unique(&mut self, heads: &[RowId], max: usize, pairs: &mut PairList) {
        let end = heads.len().min(self.row + max);
        let looked_at = &heads[self.row..end];
        pairs.rows.resize(looked_at.len(), 0);
        pairs.ids.resize(looked_at.len(), 0);
        let mut found = 0;
        for (row, &id) in (self.row as u32..).zip(looked_at) {
            // Written always and counted when wanted: whether a row matches is hard to predict.
            pairs.rows[found] = row;
            pairs.ids[found] = id;
            found += usize::from(id != NO_ROW);
        }
        pairs.rows.truncate(found);
        pairs.ids.truncate(found);
        self.row = end;
    }

    /// Writes the pairs that come next: at most `max`, where a probe row without a match counts as one, and is
    /// written with [`NO_ROW`] if `keep` says so.
    pub(super) fn walk(
        &mut self,
        table: &JoinTable,
        heads: &[RowId],
        (max, keep): (usize, bool),
        pairs: &mut PairList,
    ) {
        pairs.clear();
        let mut spent = 0;
        while self.row < heads.len() && spent < max {
            let mut id = if self.id == NO_ROW { heads[self.row] } else { self.id };
            self.id = NO_ROW;
            if id == NO_ROW {
                if keep {
                    pairs.push(self.row, NO_ROW);
                }
                // Rows that yield nothing cost next to nothing, but somebody may have to emit them later.
                spent += 1;
            }
            while id != NO_ROW {
                if spent == max {
                    self.id = id;
                    return;
                }
                pairs.push(self.row, id);
                spent += 1;
                id = table.next(id);
            }
            self.row += 1;
        }
    }
}

/// Probe rows that still look for their first match, and the build rows they look at next.
#[derive(Debug, Default)]
pub(super) struct Searches {
    active: PairList,
}

impl Searches {
    /// One search for each probe row that has a chain.
    pub(super) fn start(&mut self, heads: &[RowId]) {
        self.active.clear();
        for (row, &head) in heads.iter().enumerate().filter(|&(_, &head)| head != NO_ROW) {
            self.active.push(row, head);
        }
    }

    /// Writes the next candidates, about `max`: few of each search as long as there are many. Searches at the end
    /// of their chain, and those of rows that `matched` tells of, end.
    pub(super) fn candidates(
        &mut self,
        table: &JoinTable,
        max: usize,
        matched: &[bool],
        pairs: &mut PairList,
    ) {
        pairs.clear();
        let each = (max / self.active.len().max(1)).max(1);
        let mut kept = 0;
        for i in 0..self.active.len() {
            let (row, mut id) = (self.active.rows[i] as usize, self.active.ids[i]);
            if matched[row] {
                continue;
            }
            for _ in 0..each {
                if id == NO_ROW || pairs.len() >= max {
                    break;
                }
                pairs.push(row, id);
                id = table.next(id);
            }
            self.active.rows[kept] = row as u32;
            self.active.ids[kept] = id;
            // A search whose chain ends here is over, whatever its last candidates come to.
            kept += usize::from(id != NO_ROW);
        }
        self.active.rows.truncate(kept);
        self.active.ids.truncate(kept);
    }
}
