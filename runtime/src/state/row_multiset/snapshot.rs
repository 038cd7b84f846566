//! A multiset as bytes, and back.
//!
//! Invariant: the restored multiset has the same rows, counts, chains, numbers and ids.

use super::{RowMultiset, Rows};
use crate::error::Result;
use crate::rows::take_array;
use crate::state::snapshot::{read_store, write_store};

impl RowMultiset {
    /// Appends everything to `out`; called between batches alone.
    pub fn snapshot(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.live as u64).to_le_bytes());
        out.extend_from_slice(&(self.live_keys as u64).to_le_bytes());
        match &self.rows {
            Rows::Appended(store) => write_store(store, out),
            Rows::Counted(state) => state.snapshot(out),
        }
        self.keys.snapshot(out);
    }

    /// Replaces the content by that of a snapshot at the front of `bytes`, which moves on behind it.
    ///
    /// # Errors
    /// `ResourcesExhausted`; `Internal` for bytes that are no snapshot of such a multiset. It is empty then.
    pub fn restore(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.clear();
        let live = u64::from_le_bytes(take_array(bytes)?) as usize;
        let live_keys = u64::from_le_bytes(take_array(bytes)?) as usize;
        let read = match &mut self.rows {
            Rows::Appended(store) => read_store(store, bytes),
            Rows::Counted(state) => state.restore(bytes),
        };
        if let Err(error) = read.and_then(|()| self.keys.restore(bytes)) {
            self.clear();
            return Err(error);
        }
        (self.live, self.live_keys) = (live, live_keys);
        Ok(())
    }
}
