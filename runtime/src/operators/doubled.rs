//! When it pays to look through all that is kept: once there is twice as much as was left the last time.
//!
//! So each row is looked at a bounded number of times, however many there are.

/// Below so many nothing is looked through.
const MIN: usize = 8192;

/// See the module.
#[derive(Debug)]
pub(super) struct Doubled {
    due: usize,
}

impl Default for Doubled {
    /// Nothing was looked through.
    fn default() -> Self {
        Doubled { due: MIN }
    }
}

impl Doubled {
    /// Whether there are so many that it is time.
    pub(super) fn is_due(&self, kept: usize) -> bool {
        kept >= self.due
    }

    /// So many were left.
    pub(super) fn note(&mut self, left: usize) {
        self.due = left.saturating_mul(2).max(MIN);
    }
}
