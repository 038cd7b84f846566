//! Rows to be emitted, each so many times, cut into batches.
//!
//! Invariant: all lists have one length; the first `at` entries have left, and the next one `done` times.

use crate::rows::RowId;

/// Which rows entries stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Entries {
    /// A row of the batch and a row of the other side.
    #[default]
    Pairs,
    /// A row of the batch alone; the id is the number 1 where it has a match.
    Own,
    /// A row of the other side alone; the row is its [`code`](Listed::code).
    Other,
}

/// Rows to be emitted.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// What the entries are.
    pub(super) entries: Entries,
    /// A position in the batch, or a code.
    pub(super) rows: Vec<u32>,
    /// A row of the other side, or whether there is a match.
    pub(super) ids: Vec<RowId>,
    /// How often each entry leaves.
    times: Vec<i64>,
    /// Whether every entry leaves once.
    single: bool,
    at: usize,
    done: i64,
}

/// Entries in an output batch.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// As in [`Listed`].
    pub(super) rows: Vec<u32>,
    /// As in [`Listed`].
    pub(super) ids: Vec<RowId>,
}

/// In a code: the row is withdrawn.
const DELETED: u32 = 1;
/// In a code: the row's mark is true.
const MARKED: u32 = 2;

impl Listed {
    /// The code of a row that comes or goes, with its mark.
    pub(super) fn code(deleted: bool, mark: bool) -> u32 {
        u32::from(deleted) * DELETED + u32::from(mark) * MARKED
    }

    /// Whether a code says that the row is withdrawn.
    pub(super) fn is_deleted(code: u32) -> bool {
        code & DELETED != 0
    }

    /// Whether a code says that the row's mark is true.
    pub(super) fn is_marked(code: u32) -> bool {
        code & MARKED != 0
    }

    /// Empties the list for entries of this kind.
    pub(super) fn begin(&mut self, entries: Entries) {
        self.entries = entries;
        self.rows.clear();
        self.ids.clear();
        self.times.clear();
        self.single = true;
        (self.at, self.done) = (0, 0);
    }

    /// Adds an entry.
    #[inline]
    pub(super) fn push(&mut self, row: u32, id: RowId, times: i64) {
        self.rows.push(row);
        self.ids.push(id);
        self.times.push(times);
        self.single &= times == 1;
    }

    /// Says how often each of the entries leaves that were put into the lists directly.
    pub(super) fn count(&mut self, times: impl Fn(u32, RowId) -> i64) {
        for (&row, &id) in self.rows.iter().zip(&self.ids) {
            let times = times(row, id);
            self.single &= times == 1;
            self.times.push(times);
        }
    }

    /// Keeps the entries at these ascending positions, of lists without times.
    pub(super) fn keep(&mut self, positions: &[u32]) {
        for (to, &from) in positions.iter().enumerate() {
            self.rows[to] = self.rows[from as usize];
            self.ids[to] = self.ids[from as usize];
        }
        self.rows.truncate(positions.len());
        self.ids.truncate(positions.len());
    }

    /// Moves the next entries, at most `max`, to `cut`; whether there were any.
    pub(super) fn next(&mut self, max: usize, cut: &mut Cut) -> bool {
        cut.rows.clear();
        cut.ids.clear();
        if self.single && self.at == 0 && self.rows.len() <= max {
            std::mem::swap(&mut self.rows, &mut cut.rows);
            std::mem::swap(&mut self.ids, &mut cut.ids);
            self.begin(self.entries);
            return !cut.rows.is_empty();
        }
        while self.at < self.times.len() && cut.rows.len() < max {
            let left = self.times[self.at] - self.done;
            let now = left.min((max - cut.rows.len()) as i64);
            let length = cut.rows.len() + now as usize;
            cut.rows.resize(length, self.rows[self.at]);
            cut.ids.resize(length, self.ids[self.at]);
            self.done += now;
            if now == left {
                self.at += 1;
                self.done = 0;
            }
        }
        !cut.rows.is_empty()
    }
}
