//! Open addressing on hashes, for keys of any type.
//!
//! A slot holds the high half of its key's hash as a salt, and the first row of the key's chain. Where salts agree
//! the keys are compared with that row, a batch at a time. Invariant: a slot belongs to one key, so that a chain needs
//! no comparison beyond its first row.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;

use super::index::{Filling, LOOKAHEAD, LookupScratch, NewRows};
use super::slots::Slots;
use crate::error::Result;
use crate::memory::{Reservation, SegmentArray};
use crate::rows::{HASH_SEED, NO_ROW, Pairs, RowId, RowStore, Selected, hash_columns};

/// The slots.
#[derive(Debug)]
pub(super) struct Salted {
    slots: Slots,
    /// The salt in the high half, the first row plus one in the low half; 0 for an empty slot.
    words: SegmentArray<AtomicU64>,
    /// By key column, for comparisons.
    null_equal: Vec<bool>,
}

#[inline]
fn salt(hash: u64) -> u64 {
    hash & 0xffff_ffff_0000_0000
}

impl Salted {
    pub(super) fn new(
        keys: usize,
        null_equal: bool,
        (rows, parts): (usize, usize),
        reservation: &Reservation,
    ) -> Result<Self> {
        let slots = Slots::new(rows, parts);
        let words = SegmentArray::zeroed(reservation, slots.len())?;
        Ok(Salted { slots, words, null_equal: vec![null_equal; keys] })
    }

    fn nulls_are_equal(&self) -> bool {
        self.null_equal.first().copied().unwrap_or(true)
    }

    /// As [`Index::insert`](super::index::Index::insert).
    pub(super) fn insert(
        &self,
        rows: &NewRows<'_>,
        filling: &mut Filling,
        scratch: &mut LookupScratch,
    ) -> Result<()> {
        let len = rows.keys[0].len();
        hash_columns(rows.keys, Selected::All(len), HASH_SEED, &mut scratch.codes)?;
        let nulls = if self.nulls_are_equal() { None } else { any_null(rows.keys) };
        scratch.pending.clear();
        for (row, &hash) in scratch.codes.iter().enumerate() {
            let slot = self.slots.of_hash(hash);
            if self.slots.part_of(slot) == filling.part
                && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
            {
                scratch.pending.push((row as u32, slot as u32));
            }
        }
        while !scratch.pending.is_empty() {
            self.claim_or_propose(rows, filling, scratch)?;
            self.compare(rows.store, rows.keys, scratch)?;
            self.link_equal(rows, filling, scratch);
        }
        Ok(())
    }

    /// Takes empty slots for pending rows; those that meet their salt become pairs, and stay pending at that slot.
    fn claim_or_propose(
        &self,
        rows: &NewRows<'_>,
        filling: &mut Filling,
        scratch: &mut LookupScratch,
    ) -> Result<()> {
        let LookupScratch { codes, pending, rows: pair_rows, ids, .. } = scratch;
        let store = rows.store;
        pair_rows.clear();
        ids.clear();
        let mut kept = 0;
        for i in 0..pending.len() {
            if let Some(&(_, slot)) = pending.get(i + LOOKAHEAD) {
                self.words.prefetch(slot as usize);
            }
            let (row, slot) = pending[i];
            let (hash, mut slot) = (codes[row as usize], slot as usize);
            loop {
                let word = self.words[slot].load(Ordering::Relaxed);
                if word == 0 {
                    self.slots.check_room(filling.used)?;
                    filling.used += 1;
                    let id = rows.link(row as usize, 0, filling);
                    self.words[slot].store(salt(hash) | u64::from(id), Ordering::Relaxed);
                    break;
                }
                if salt(word) == salt(hash) {
                    pair_rows.push(row);
                    ids.push(word as u32 - 1);
                    store.prefetch(word as u32 - 1);
                    pending[kept] = (row, slot as u32);
                    kept += 1;
                    break;
                }
                slot = self.slots.after(slot);
            }
        }
        pending.truncate(kept);
        Ok(())
    }

    /// Lists the equal pairs in `matches`.
    fn compare(
        &self,
        store: &RowStore,
        keys: &[ArrayRef],
        scratch: &mut LookupScratch,
    ) -> Result<()> {
        let LookupScratch { rows, ids, matches, .. } = scratch;
        matches.clear();
        matches.extend(0..rows.len() as u32);
        store.compare(keys, Pairs { rows, ids }, &self.null_equal, matches)
    }

    /// Links the rows of equal pairs; the others go on to the next slot.
    fn link_equal(&self, rows: &NewRows<'_>, filling: &mut Filling, scratch: &mut LookupScratch) {
        let LookupScratch { pending, matches, .. } = scratch;
        self.settle(pending, matches, |row, slot| {
            let word = self.words[slot].load(Ordering::Relaxed);
            let id = rows.link(row as usize, word as u32, filling);
            self.words[slot].store(salt(word) | u64::from(id), Ordering::Relaxed);
        });
    }

    /// Calls `equal` for each pending row whose pair is among the matches, and moves the others on.
    #[inline]
    fn settle(
        &self,
        pending: &mut Vec<(u32, u32)>,
        matches: &[u32],
        mut equal: impl FnMut(u32, usize),
    ) {
        let (mut matched, mut kept) = (matches.iter().copied().peekable(), 0);
        for i in 0..pending.len() {
            let (row, slot) = pending[i];
            if matched.next_if_eq(&(i as u32)).is_some() {
                equal(row, slot as usize);
            } else {
                pending[kept] = (row, self.slots.after(slot as usize) as u32);
                kept += 1;
            }
        }
        pending.truncate(kept);
    }

    /// As [`Index::lookup`](super::index::Index::lookup).
    pub(super) fn lookup(
        &self,
        store: &RowStore,
        keys: &[ArrayRef],
        scratch: &mut LookupScratch,
        found: &mut Vec<RowId>,
    ) -> Result<()> {
        let len = keys[0].len();
        hash_columns(keys, Selected::All(len), HASH_SEED, &mut scratch.codes)?;
        found.resize(len, NO_ROW);
        scratch.pending.clear();
        scratch.pending.extend(
            (0_u32..)
                .zip(&scratch.codes)
                .map(|(row, &hash)| (row, self.slots.of_hash(hash) as u32)),
        );
        while !scratch.pending.is_empty() {
            self.propose(store, scratch);
            self.compare(store, keys, scratch)?;
            let LookupScratch { pending, matches, ids, .. } = &mut *scratch;
            for &pair in matches.iter() {
                let (row, _) = pending[pair as usize];
                found[row as usize] = ids[pair as usize];
            }
            self.settle(pending, matches, |_, _| {});
        }
        Ok(())
    }

    /// Pairs each pending row with the row of the slot that has its salt; a row that meets an empty slot is done.
    fn propose(&self, store: &RowStore, scratch: &mut LookupScratch) {
        let LookupScratch { codes, pending, rows, ids, .. } = scratch;
        rows.clear();
        ids.clear();
        let mut kept = 0;
        for i in 0..pending.len() {
            if let Some(&(_, slot)) = pending.get(i + LOOKAHEAD) {
                self.words.prefetch(slot as usize);
            }
            let (row, slot) = pending[i];
            let (hash, mut slot) = (codes[row as usize], slot as usize);
            loop {
                let word = self.words[slot].load(Ordering::Relaxed);
                if word == 0 {
                    break;
                }
                if salt(word) == salt(hash) {
                    rows.push(row);
                    ids.push(word as u32 - 1);
                    store.prefetch(word as u32 - 1);
                    pending[kept] = (row, slot as u32);
                    kept += 1;
                    break;
                }
                slot = self.slots.after(slot);
            }
        }
        pending.truncate(kept);
    }
}

/// Which rows have no NULL in any column; none if no row has one.
fn any_null(keys: &[ArrayRef]) -> Option<NullBuffer> {
    keys.iter()
        .fold(None, |nulls, key| NullBuffer::union(nulls.as_ref(), key.logical_nulls().as_ref()))
        .filter(|nulls| nulls.null_count() > 0)
}
