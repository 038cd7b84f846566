//! Keys of any type: an open-addressing table of hash bits and rows, keys compared in the rows.
//!
//! A batch is worked in rounds: each pending key probes to an empty entry (and becomes a new row) or to one with its
//! hash bits (and becomes a candidate); new rows are appended together, candidates are compared column by column, and
//! those that differ go on in the next round. Invariant: an entry is the low half of the hash above the row plus one,
//! so that the table grows without a look at the rows; it is at most half full; every row has its hash stored.

use std::ops::Range;

use arrow::array::ArrayRef;

use super::index::Batch;
use crate::error::Result;
use crate::memory::{Reservation, SegmentArray};
use crate::rows::{HASH_SEED, NO_ROW, Pairs, RowId, RowStore, Selected, hash_columns};

/// Rows between two looks at the table's fill.
const CHUNK_ROWS: usize = 1024;
/// Tables beyond this many bytes are worth a prefetch.
const FAR_BYTES: usize = 256 << 10;

/// A table of hash bits and rows.
#[derive(Debug, Default)]
pub(super) struct HashedIndex {
    entries: Option<SegmentArray<u64>>,
    keys: usize,
    hashes: Vec<u64>,
    work: Work,
}

/// What a round works on, kept between batches for its room.
#[derive(Debug, Default)]
struct Work {
    /// Keys without a row yet: number in the chunk.
    pending: Vec<u32>,
    /// Where in the table each key of the chunk goes on.
    positions: Vec<u32>,
    candidates: Vec<u32>,
    rows: Vec<u32>,
    ids: Vec<RowId>,
    matches: Vec<u32>,
}

impl HashedIndex {
    pub(super) fn clear(&mut self) {
        self.entries = None;
        self.keys = 0;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.as_ref().map_or(0, SegmentArray::bytes)
    }

    pub(super) fn find<const INSERT: bool>(
        &mut self,
        store: &mut RowStore,
        batch: &mut Batch<'_>,
    ) -> Result<()> {
        let mut own = std::mem::take(&mut self.hashes);
        let hashes = match batch.hashes {
            Some(hashes) => hashes,
            None => {
                hash_columns(batch.keys, batch.rows, HASH_SEED, &mut own)?;
                &own
            }
        };
        let found = self.find_hashed::<INSERT>(store, batch, hashes);
        self.hashes = own;
        found
    }

    fn find_hashed<const INSERT: bool>(
        &mut self,
        store: &mut RowStore,
        batch: &mut Batch<'_>,
        hashes: &[u64],
    ) -> Result<()> {
        batch.out.resize(batch.rows.len(), NO_ROW);
        let mut start = 0;
        while start < batch.rows.len() {
            let end = (start + CHUNK_ROWS).min(batch.rows.len());
            self.reserve(store.reservation(), if INSERT { end - start } else { 0 })?;
            if self.entries.is_some() {
                self.find_chunk::<INSERT>(store, batch, hashes, start..end)?;
            }
            start = end;
        }
        Ok(())
    }

    fn find_chunk<const INSERT: bool>(
        &mut self,
        store: &mut RowStore,
        batch: &mut Batch<'_>,
        hashes: &[u64],
        chunk: Range<usize>,
    ) -> Result<()> {
        let null_equal = vec![true; batch.keys.len()];
        let mask = self.entries.as_ref().map_or(0, |entries| entries.len() - 1);
        let positions =
            chunk.clone().map(|i| hashes[batch.rows.row(i) as usize] as u32 & mask as u32);
        self.work.positions.clear();
        self.work.positions.extend(positions);
        self.work.pending.clear();
        self.work.pending.extend(0..chunk.len() as u32);
        if let Some(entries) = self.entries.as_ref().filter(|entries| entries.bytes() > FAR_BYTES) {
            self.work.positions.iter().for_each(|&position| entries.prefetch(position as usize));
        }
        while !self.work.pending.is_empty() {
            let new_before = batch.new.len();
            self.probe_pending::<INSERT>(store.next_id(), batch, hashes, chunk.start);
            let new = &batch.new[new_before..];
            if !new.is_empty() {
                let ids = store.append(batch.keys, Selected::Rows(new))?;
                store.write_hashes(ids.zip(new.iter().map(|&row| hashes[row as usize])));
                self.keys += new.len();
            }
            let work = &mut self.work;
            if store.memory_bytes_at_least(FAR_BYTES) {
                work.ids.iter().for_each(|&id| store.prefetch(id));
            }
            work.matches.clear();
            work.matches.extend(0..work.candidates.len() as u32);
            let pairs = Pairs { rows: &work.rows, ids: &work.ids };
            store.compare(batch.keys, pairs, &null_equal, &mut work.matches)?;
            work.settle(&mut batch.out[chunk.start..], mask as u32);
        }
        Ok(())
    }

    /// Brings each pending key to an empty entry or to one with its hash bits.
    fn probe_pending<const INSERT: bool>(
        &mut self,
        first: RowId,
        batch: &mut Batch<'_>,
        hashes: &[u64],
        start: usize,
    ) {
        let entries: &mut [u64] = self.entries.as_deref_mut().unwrap_or_default();
        let mask = entries.len() - 1;
        let work = &mut self.work;
        work.candidates.clear();
        work.rows.clear();
        work.ids.clear();
        let mut next = first;
        for &number in &work.pending {
            let row = batch.rows.row(start + number as usize);
            let tag = hashes[row as usize] << 32;
            let mut position = work.positions[number as usize] as usize;
            loop {
                let entry = entries[position];
                if entry == 0 {
                    if INSERT {
                        entries[position] = tag | (u64::from(next) + 1);
                        batch.out[start + number as usize] = next;
                        batch.new.push(row);
                        next += 1;
                    }
                    break;
                }
                if (entry ^ tag) >> 32 == 0 {
                    work.candidates.push(number);
                    work.rows.push(row);
                    work.ids.push(entry as RowId - 1);
                    break;
                }
                position = (position + 1) & mask;
            }
            work.positions[number as usize] = position as u32;
        }
    }

    pub(super) fn adopt(
        &mut self,
        store: &mut RowStore,
        keys: &[ArrayRef],
        ids: Range<RowId>,
    ) -> Result<()> {
        let mut hashes = std::mem::take(&mut self.hashes);
        hash_columns(keys, Selected::All(ids.len()), HASH_SEED, &mut hashes)?;
        self.reserve(store.reservation(), ids.len())?;
        store.write_hashes(ids.clone().zip(hashes.iter().copied()));
        let entries: &mut [u64] = self.entries.as_deref_mut().unwrap_or_default();
        ids.clone()
            .zip(&hashes)
            .for_each(|(id, hash)| insert(entries, hash << 32 | (u64::from(id) + 1)));
        self.keys += ids.len();
        self.hashes = hashes;
        Ok(())
    }

    /// Makes room for `more` keys.
    fn reserve(&mut self, reservation: &Reservation, more: usize) -> Result<()> {
        let entries = self.entries.as_ref().map_or(0, |entries| entries.len());
        let needed = (self.keys + more) * 2;
        if needed <= entries {
            return Ok(());
        }
        let mut larger = SegmentArray::<u64>::zeroed(reservation, needed.next_power_of_two())?;
        for &entry in self.entries.iter().flat_map(|entries| entries.iter()) {
            if entry != 0 {
                insert(&mut larger, entry);
            }
        }
        self.entries = Some(larger);
        Ok(())
    }
}

/// Puts an entry whose key is not in the table at the first empty place for it.
#[inline]
fn insert(entries: &mut [u64], entry: u64) {
    let mask = entries.len() - 1;
    let mut position = (entry >> 32) as usize & mask;
    while entries[position] != 0 {
        position = (position + 1) & mask;
    }
    entries[position] = entry;
}

impl Work {
    /// Candidates that match have their row; the others are pending at their next entry.
    fn settle(&mut self, out: &mut [RowId], mask: u32) {
        self.pending.clear();
        let mut matches = self.matches.iter().copied().peekable();
        for (i, &number) in self.candidates.iter().enumerate() {
            if matches.next_if_eq(&(i as u32)).is_some() {
                out[number as usize] = self.ids[i];
            } else {
                let position = &mut self.positions[number as usize];
                *position = (*position + 1) & mask;
                self.pending.push(number);
            }
        }
    }
}
