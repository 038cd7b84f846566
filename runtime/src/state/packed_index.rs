//! Keys packed into one word each: an open-addressing table that compares keys inside its entries.
//!
//! Invariant: an entry holds the word and the row plus one; the table is at most half full, so that probes end. Rows
//! are not looked at, neither while probing nor when the table grows.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;

use super::index::{Batch, Fit};
use super::pack::{PackPlan, Word};
use crate::error::Result;
use crate::memory::{Reservation, SegmentArray};
use crate::rows::{NO_ROW, RowId, Selected};

/// Rows between two looks at the table's fill.
const CHUNK_ROWS: usize = 1024;
/// Tables beyond this many bytes are worth a prefetch.
const FAR_BYTES: usize = 256 << 10;

/// A table of packed keys.
#[derive(Debug)]
pub(super) struct PackedIndex<W: Word> {
    plan: PackPlan,
    entries: Option<SegmentArray<W::Entry>>,
    keys: usize,
    /// The row of the NULL key plus one, where words cannot tell it.
    null_slot: RowId,
    words: Vec<W>,
}

impl<W: Word> PackedIndex<W> {
    pub(super) fn new(plan: PackPlan) -> Self {
        Self { plan, entries: None, keys: 0, null_slot: 0, words: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.entries = None;
        self.keys = 0;
        self.null_slot = 0;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.as_ref().map_or(0, SegmentArray::bytes)
    }

    pub(super) fn find<const INSERT: bool>(
        &mut self,
        reservation: &Reservation,
        first: RowId,
        batch: &mut Batch<'_>,
    ) -> Result<Fit> {
        let mut words = std::mem::take(&mut self.words);
        let fits = self.plan.pack(batch.keys, batch.rows, &mut words)?;
        let found = if fits {
            self.find_words::<INSERT>(reservation, first, batch, &words)
        } else {
            Ok(())
        };
        self.words = words;
        found?;
        Ok(if fits { Fit::Yes } else { Fit::No })
    }

    fn find_words<const INSERT: bool>(
        &mut self,
        reservation: &Reservation,
        first: RowId,
        batch: &mut Batch<'_>,
        words: &[W],
    ) -> Result<()> {
        let nulls = self.plan.outside_nulls(batch.keys);
        batch.out.reserve(words.len());
        let mut start = 0;
        for chunk in words.chunks(CHUNK_ROWS) {
            self.reserve(reservation, if INSERT { chunk.len() } else { 0 })?;
            let next = first + 1 + batch.new.len() as RowId;
            match &nulls {
                None => self.find_chunk::<INSERT>(chunk, start, next, batch),
                Some(nulls) => self.find_nullable::<INSERT>(chunk, nulls, start, next, batch),
            }
            start += chunk.len();
        }
        Ok(())
    }

    fn find_chunk<const INSERT: bool>(
        &mut self,
        words: &[W],
        start: usize,
        mut next: RowId,
        batch: &mut Batch<'_>,
    ) {
        let new_before = batch.new.len();
        self.prefetch_chunk(words);
        let entries: &mut [W::Entry] = self.entries.as_deref_mut().unwrap_or_default();
        for (i, &word) in words.iter().enumerate() {
            let slot = probe::<W, INSERT>(entries, word, next);
            if INSERT && slot == next {
                next += 1;
                batch.new.push(batch.rows.row(start + i));
            }
            batch.out.push(slot.wrapping_sub(1));
        }
        self.keys += batch.new.len() - new_before;
    }

    /// Brings the places of all words near, where the table is larger than the near caches.
    fn prefetch_chunk(&self, words: &[W]) {
        if let Some(entries) = self.entries.as_ref().filter(|e| e.bytes() > FAR_BYTES) {
            let mask = entries.len() - 1;
            words.iter().for_each(|word| entries.prefetch(word.hash() as usize & mask));
        }
    }

    fn find_nullable<const INSERT: bool>(
        &mut self,
        words: &[W],
        nulls: &NullBuffer,
        start: usize,
        mut next: RowId,
        batch: &mut Batch<'_>,
    ) {
        let entries: &mut [W::Entry] = self.entries.as_deref_mut().unwrap_or_default();
        for (i, &word) in words.iter().enumerate() {
            let row = batch.rows.row(start + i);
            let slot = if nulls.is_valid(row as usize) {
                probe::<W, INSERT>(entries, word, next)
            } else {
                if INSERT && self.null_slot == 0 {
                    self.null_slot = next;
                }
                self.null_slot
            };
            if INSERT && slot == next {
                next += 1;
                self.keys += 1;
                batch.new.push(row);
            }
            batch.out.push(slot.wrapping_sub(1));
        }
    }

    pub(super) fn adopt(
        &mut self,
        reservation: &Reservation,
        keys: &[ArrayRef],
        ids: Range<RowId>,
    ) -> Result<Fit> {
        let (mut out, mut new) = (Vec::new(), Vec::new());
        let rows = Selected::All(ids.len());
        let mut batch = Batch { keys, hashes: None, rows, out: &mut out, new: &mut new };
        self.find::<true>(reservation, ids.start, &mut batch)
    }

    /// Makes room for `more` keys.
    fn reserve(&mut self, reservation: &Reservation, more: usize) -> Result<()> {
        let entries = self.entries.as_ref().map_or(0, |entries| entries.len());
        let needed = (self.keys + more) * 2;
        if needed <= entries {
            return Ok(());
        }
        let mut larger = SegmentArray::<W::Entry>::zeroed(reservation, needed.next_power_of_two())?;
        let mask = larger.len() - 1;
        for &entry in self.entries.iter().flat_map(|entries| entries.iter()) {
            if W::slot(entry) == 0 {
                continue;
            }
            let mut position = W::key(entry).hash() as usize & mask;
            while W::slot(larger[position]) != 0 {
                position = (position + 1) & mask;
            }
            larger[position] = entry;
        }
        self.entries = Some(larger);
        Ok(())
    }
}

/// The row plus one of a word. A word that is not in the table becomes `next` with `INSERT`, else it yields 0 (which
/// minus one is [`NO_ROW`]).
#[inline]
fn probe<W: Word, const INSERT: bool>(entries: &mut [W::Entry], word: W, next: RowId) -> RowId {
    const { assert!(NO_ROW == 0_u32.wrapping_sub(1)) };
    if entries.is_empty() {
        return 0;
    }
    let mask = entries.len() - 1;
    let mut position = word.hash() as usize & mask;
    loop {
        let entry = entries[position];
        let slot = W::slot(entry);
        if slot == 0 {
            if INSERT {
                entries[position] = word.entry(next);
                return next;
            }
            return 0;
        }
        if W::key(entry) == word {
            return slot;
        }
        position = (position + 1) & mask;
    }
}
