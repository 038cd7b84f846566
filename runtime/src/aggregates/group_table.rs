//! The hash table from group keys to rows.
//!
//! Groups are rows of one store, numbered by their arrival: ids are dense from 0. A bucket holds 32 bits of the hash
//! and the id, so that most misses are seen, and the table grows, without a look at the rows. Invariant: the store
//! has every key once; NULL equals NULL.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::error::{Error, Result};
use crate::memory::{Reservation, SegmentArray};
use crate::rows::{Pairs, RowId, RowLayout, RowPage, RowStore, Selected, StatesMut};

const MIN_BUCKETS: usize = 1024;

/// Groups by key.
#[derive(Debug)]
pub(crate) struct GroupTable {
    store: RowStore,
    keys: usize,
    null_equal: Vec<bool>,
    buckets: SegmentArray<u64>,
    scratch: Scratch,
}

/// Lists kept between batches for their room.
#[derive(Debug, Default)]
struct Scratch {
    /// Rows that have no group yet.
    pending: Vec<u32>,
    /// The bucket to go on with, for each row of the batch.
    positions: Vec<u32>,
    /// Rows that begin a group.
    new: Vec<u32>,
    /// Rows to compare with groups.
    rows: Vec<u32>,
    ids: Vec<RowId>,
    matches: Vec<u32>,
}

impl GroupTable {
    /// An empty table; the first `keys` fields of the layout, which has room for hashes, are the key.
    pub(crate) fn new(
        layout: &Arc<RowLayout>,
        keys: usize,
        reservation: &Reservation,
    ) -> Result<Self> {
        Ok(GroupTable {
            store: RowStore::new(Arc::clone(layout), reservation.share()),
            keys,
            null_equal: vec![true; keys],
            buckets: SegmentArray::zeroed(reservation, MIN_BUCKETS)?,
            scratch: Scratch::default(),
        })
    }

    /// Number of groups; ids are below.
    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }

    /// Bytes of managed memory the table takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.store.memory_bytes() + self.buckets.bytes()
    }

    /// The rows of the groups.
    pub(crate) fn store(&self) -> &RowStore {
        &self.store
    }

    /// The states of the groups.
    pub(crate) fn states_mut(&mut self) -> StatesMut<'_> {
        self.store.states_mut()
    }

    /// Puts the group of every row of the batch into `slots`; new groups are made, with states of zeros. `hashes`
    /// has the hash of each row. With `new`, the rows that began a group are added to it.
    pub(crate) fn lookup_or_insert(
        &mut self,
        keys: &[ArrayRef],
        hashes: &[u64],
        slots: &mut Vec<RowId>,
        mut new: Option<&mut Vec<u32>>,
    ) -> Result<()> {
        debug_assert_eq!(keys.len(), self.keys);
        slots.clear();
        slots.resize(hashes.len(), 0);
        self.make_room(hashes.len())?;
        let mask = self.buckets.len() - 1;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.pending.clear();
        scratch.pending.extend(0..hashes.len() as u32);
        scratch.positions.clear();
        scratch.positions.extend(hashes.iter().map(|&hash| (hash as usize & mask) as u32));
        while !scratch.pending.is_empty() {
            self.probe(hashes, slots, &mut scratch);
            if !scratch.new.is_empty() {
                self.append(keys, hashes, &scratch.new)?;
                if let Some(new) = new.as_deref_mut() {
                    new.extend_from_slice(&scratch.new);
                }
            }
            self.compare(keys, slots, &mut scratch)?;
        }
        self.scratch = scratch;
        Ok(())
    }

    /// Sends every pending row to the next bucket that may be its group's: a free one, which it takes, or one with
    /// equal hash bits, to be compared.
    fn probe(&mut self, hashes: &[u64], slots: &mut [RowId], scratch: &mut Scratch) {
        let Scratch { pending, positions, new, rows, ids, .. } = scratch;
        let mask = self.buckets.len() - 1;
        let buckets: &mut [u64] = &mut self.buckets;
        let mut next_id = self.store.len() as RowId;
        new.clear();
        rows.clear();
        ids.clear();
        for &row in pending.iter() {
            let tag = hashes[row as usize] << 32;
            let mut position = positions[row as usize] as usize;
            loop {
                let bucket = buckets[position & mask];
                if bucket == 0 {
                    buckets[position & mask] = tag | u64::from(next_id + 1);
                    slots[row as usize] = next_id;
                    new.push(row);
                    next_id += 1;
                    break;
                }
                if bucket & !u64::from(u32::MAX) == tag {
                    positions[row as usize] = position as u32;
                    rows.push(row);
                    ids.push(bucket as u32 - 1);
                    break;
                }
                position += 1;
            }
        }
    }

    /// Adds the rows that took a bucket; their ids follow those before.
    fn append(&mut self, keys: &[ArrayRef], hashes: &[u64], new: &[u32]) -> Result<()> {
        let first = self.store.len() as RowId;
        let ids = self.store.append(keys, Selected::Rows(new))?;
        if ids.start != first {
            return Err(Error::Internal("groups are numbered without gaps".into()));
        }
        self.store.write_hashes(ids.zip(new.iter().map(|&row| hashes[row as usize])));
        Ok(())
    }

    /// Compares rows with the groups of their buckets; those that differ stay pending.
    fn compare(
        &mut self,
        keys: &[ArrayRef],
        slots: &mut [RowId],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Scratch { pending, positions, rows, ids, matches, .. } = scratch;
        pending.clear();
        if rows.is_empty() {
            return Ok(());
        }
        matches.clear();
        matches.extend(0..rows.len() as u32);
        self.store.compare(keys, Pairs { rows, ids }, &self.null_equal, matches)?;
        if matches.len() == rows.len() {
            rows.iter().zip(ids).for_each(|(&row, &mut id)| slots[row as usize] = id);
            return Ok(());
        }
        let mut matched = matches.iter().copied().peekable();
        for (pair, &row) in rows.iter().enumerate() {
            if matched.next_if_eq(&(pair as u32)).is_some() {
                slots[row as usize] = ids[pair];
            } else {
                positions[row as usize] += 1;
                pending.push(row);
            }
        }
        Ok(())
    }

    /// Makes the table large enough for `more` groups at half of its buckets.
    fn make_room(&mut self, more: usize) -> Result<()> {
        let wanted = ((self.len() + more) * 2).next_power_of_two();
        if wanted <= self.buckets.len() {
            return Ok(());
        }
        let buckets = wanted.max(MIN_BUCKETS);
        if u32::try_from(buckets).is_err() {
            return Err(Error::ResourcesExhausted {
                message: "one aggregation holds more than a billion groups".into(),
            });
        }
        let mut grown = SegmentArray::<u64>::zeroed(self.store.reservation(), buckets)?;
        let mask = buckets - 1;
        for &bucket in self.buckets.iter().filter(|bucket| **bucket != 0) {
            insert(&mut grown, mask, bucket);
        }
        self.buckets = grown;
        Ok(())
    }

    /// Forgets all groups; the table keeps its size.
    pub(crate) fn clear(&mut self) {
        self.store.clear();
        self.buckets.fill(0);
    }

    /// Takes over pages of groups with their hashes, as a snapshot had them; the table must be empty.
    pub(crate) fn restore(&mut self, pages: Vec<RowPage>) -> Result<()> {
        self.store.append_pages(pages)?;
        self.make_room(0)?;
        let mask = self.buckets.len() - 1;
        for id in 0..self.store.len() as RowId {
            let hash = self.store.read_hash(id);
            insert(&mut self.buckets, mask, hash << 32 | u64::from(id + 1));
        }
        Ok(())
    }
}

/// Puts a bucket's content where its hash bits say.
fn insert(buckets: &mut [u64], mask: usize, bucket: u64) {
    let mut position = (bucket >> 32) as usize & mask;
    while buckets[position] != 0 {
        position = (position + 1) & mask;
    }
    buckets[position] = bucket;
}
