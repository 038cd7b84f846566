//! The difference of two multisets of rows, by value.
//!
//! Invariant: what comes out turns the one multiset into the other and withdraws nothing that stays; rows that leave
//! come before rows that come.

use arrow_schema::DataType;

use crate::batch::Batch;
use crate::element::RowKind;
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::{RowId, Selected, StateSlot};
use crate::state::KeyedState;

/// Rows that are more or less often in one multiset than in the other.
pub(super) struct Difference {
    rows: KeyedState,
    delta: usize,
    /// The rows to be emitted, each as often as it is, and how many of them are withdrawn.
    listed: Vec<RowId>,
    withdrawn: usize,
    next: usize,
    found: Vec<RowId>,
    new: Vec<u32>,
}

impl Difference {
    /// No difference yet, of rows of the given types.
    pub(super) fn new(types: &[DataType], reservation: &Reservation) -> Result<Self> {
        let rows = KeyedState::new(types, &[StateSlot::new(8, 8)], reservation.share())?;
        Ok(Difference {
            delta: rows.layout().states()[0].offset,
            rows,
            listed: Vec::new(),
            withdrawn: 0,
            next: 0,
            found: Vec::new(),
            new: Vec::new(),
        })
    }

    /// Adds rows that were there before (`by` is −1) or are there now (1).
    pub(super) fn add(&mut self, batch: &Batch, by: i64) -> Result<()> {
        let rows = Selected::All(batch.num_rows());
        let (found, new) = (&mut self.found, &mut self.new);
        self.rows.lookup_or_insert(batch.columns(), None, rows, found, new)?;
        let delta = self.delta;
        self.rows.states_mut().update_each(found, delta, |_, rows: i64| rows + by);
        Ok(())
    }

    /// Says that everything was added, which is then to be emitted.
    pub(super) fn close(&mut self) {
        self.listed.clear();
        self.next = 0;
        let ids: Vec<RowId> = self.rows.ids().collect();
        let states = self.rows.states_mut();
        let deltas: Vec<i64> = ids.iter().map(|&id| states.read(id, self.delta)).collect();
        for sign in [-1, 1] {
            for (&id, &delta) in ids.iter().zip(&deltas) {
                let times = (delta * sign).max(0) as usize;
                self.listed.resize(self.listed.len() + times, id);
            }
            if sign < 0 {
                self.withdrawn = self.listed.len();
            }
        }
    }

    /// The next rows of the difference, at most `max`; when there are none, everything is forgotten.
    pub(super) fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        let ids = &self.listed[self.next..self.listed.len().min(self.next + max)];
        if ids.is_empty() {
            self.clear();
            return Ok(None);
        }
        let columns = self.rows.gather_keys(ids)?;
        let deleted = self.withdrawn.saturating_sub(self.next).min(ids.len());
        let batch = Batch::new(columns, ids.len());
        let kinds = (0..ids.len())
            .map(|i| if i < deleted { RowKind::Delete } else { RowKind::Insert })
            .collect();
        self.next += ids.len();
        Ok(Some(if deleted > 0 { batch.with_kinds(kinds) } else { batch }))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.listed.clear();
        (self.withdrawn, self.next) = (0, 0);
    }
}
