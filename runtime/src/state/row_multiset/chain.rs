//! Chains: the rows of a key in the order of their arrival.
//!
//! Links are row ids plus one, 0 at either end. Invariant: the total of a key is the sum of the counts of its rows.

use super::{RowChanges, RowMultiset, Rows};
use crate::error::Result;
use crate::memory::Plain;
use crate::rows::{NO_ROW, RowId, RowLayout, StateSlot};

/// Where the states of a key are.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeySlots {
    /// The first row plus one.
    pub(super) head: usize,
    /// The last row plus one.
    pub(super) tail: usize,
    /// Rows of the key, equal ones as often as they are there.
    pub(super) total: usize,
    /// The same before the batch in hand.
    pub(super) previous: usize,
}

impl KeySlots {
    pub(super) fn slots() -> [StateSlot; 4] {
        [StateSlot::new(4, 4), StateSlot::new(4, 4), StateSlot::new(8, 8), StateSlot::new(8, 8)]
    }

    pub(super) fn of(layout: &RowLayout) -> Self {
        let at = |i: usize| layout.states()[i].offset;
        KeySlots { head: at(0), tail: at(1), total: at(2), previous: at(3) }
    }
}

/// How far the pairs of a batch with the rows of their keys are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairCursor {
    /// The position in the batch.
    position: usize,
    /// The next row plus one; 0 where the chain is still to be begun.
    link: u32,
}

impl PairCursor {
    /// Whether all pairs of a batch of so many rows are listed.
    pub fn is_done(&self, rows: usize) -> bool {
        self.position >= rows
    }

    /// Positions in the batch whose pairs are all listed.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl RowMultiset {
    /// Appends pairs of a position in `keys` and a row of that key ([`NO_ROW`] has none), by position and then by
    /// arrival, until the lists are `max` long or the keys are done.
    pub fn pairs(
        &self,
        keys: &[RowId],
        cursor: &mut PairCursor,
        max: usize,
        positions: &mut Vec<u32>,
        ids: &mut Vec<RowId>,
    ) {
        while cursor.position < keys.len() {
            let key = keys[cursor.position];
            let mut link = match (cursor.link, key) {
                (0, NO_ROW) => 0,
                (0, key) => self.read_key(key, self.key_slots.head),
                (link, _) => link,
            };
            while link != 0 {
                if ids.len() >= max {
                    cursor.link = link;
                    return;
                }
                positions.push(cursor.position as u32);
                ids.push(link - 1);
                link = self.read(link - 1, self.row_slots.next);
            }
            cursor.link = 0;
            cursor.position += 1;
        }
    }

    /// Rows of a key, equal ones as often as they are there.
    #[inline]
    pub fn total(&self, key: RowId) -> i64 {
        self.read_key(key, self.key_slots.total)
    }

    /// The same before the changes since the key was settled.
    #[inline]
    pub fn previous(&self, key: RowId) -> i64 {
        self.read_key(key, self.key_slots.previous)
    }

    /// Appends up to `max` rows that count, from the id `from` on in the order of ids; returns the id to go on with.
    pub fn scan(&self, from: RowId, max: usize, ids: &mut Vec<RowId>) -> RowId {
        let store = self.store();
        let mut taken = 0;
        let first = store.layout().locate(from).0;
        for page in first..store.num_pages() {
            let present = store.page_ids(page);
            for id in present.start.max(from)..present.end {
                if taken == max {
                    return id;
                }
                if self.read::<u32>(id, self.row_slots.key) != 0 {
                    ids.push(id);
                    taken += 1;
                }
            }
        }
        store.id_bound() as RowId
    }

    /// The key of a row; [`NO_ROW`] for one that counts no more.
    #[inline]
    pub fn key_of(&self, id: RowId) -> RowId {
        match self.read::<u32>(id, self.row_slots.key) {
            0 => NO_ROW,
            key => key - 1,
        }
    }

    /// Takes rows away that count, however often they are there.
    pub fn remove(&mut self, ids: &[RowId]) {
        for &id in ids {
            let key = self.read::<u32>(id, self.row_slots.key);
            if key == 0 {
                continue;
            }
            let (key, count) = (key - 1, self.count(id));
            self.unlink(id, key);
            self.add_total(key, -count);
            if let Rows::Counted(state) = &mut self.rows {
                state.states_mut().write(id, self.row_slots.count, 0_i64);
            }
            self.settle(&[key]);
        }
    }

    pub(super) fn link_appended(&mut self, changes: &RowChanges) {
        for (&id, &key) in changes.ids.iter().zip(&changes.keys) {
            self.link(id, key);
            self.add_total(key, 1);
        }
    }

    pub(super) fn link_counted(&mut self, changes: &RowChanges) -> Result<()> {
        let slot = self.row_slots.count;
        for ((&id, &key), &delta) in changes.ids.iter().zip(&changes.keys).zip(&changes.deltas) {
            let before: i64 = self.read(id, slot);
            let after = before + delta;
            if after < 0 {
                return Err(self.never_there());
            }
            self.rows.states_mut().write(id, slot, after);
            self.add_total(key, delta);
            match (before, after) {
                (0, _) => self.link(id, key),
                (_, 0) => self.unlink(id, key),
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts a row at the end of its key's chain.
    #[inline]
    fn link(&mut self, id: RowId, key: RowId) {
        let (slots, ends) = (self.row_slots, self.key_slots);
        let mut keys = self.keys.states_mut();
        let tail: u32 = keys.read(key, ends.tail);
        keys.write(key, ends.tail, id + 1);
        if tail == 0 {
            keys.write(key, ends.head, id + 1);
            self.live_keys += 1;
        }
        let mut rows = self.rows.states_mut();
        if tail != 0 {
            rows.write(tail - 1, slots.next, id + 1);
        }
        rows.write(id, slots.before, tail);
        rows.write(id, slots.next, 0_u32);
        rows.write(id, slots.key, key + 1);
        self.live += 1;
    }

    /// Takes a row out of its key's chain.
    fn unlink(&mut self, id: RowId, key: RowId) {
        let (slots, ends) = (self.row_slots, self.key_slots);
        let mut rows = self.rows.states_mut();
        let (before, next): (u32, u32) = (rows.read(id, slots.before), rows.read(id, slots.next));
        rows.write(id, slots.key, 0_u32);
        if before != 0 {
            rows.write(before - 1, slots.next, next);
        }
        if next != 0 {
            rows.write(next - 1, slots.before, before);
        }
        let mut keys = self.keys.states_mut();
        if before == 0 {
            keys.write(key, ends.head, next);
        }
        if next == 0 {
            keys.write(key, ends.tail, before);
        }
        self.live -= 1;
        self.live_keys -= usize::from(before == 0 && next == 0);
    }

    #[inline]
    fn add_total(&mut self, key: RowId, delta: i64) {
        let total = self.key_slots.total;
        self.keys.states_mut().update(key, total, |rows: i64| rows + delta);
    }

    #[inline]
    pub(super) fn read<T: Plain + Copy>(&self, id: RowId, offset: usize) -> T {
        let store = self.rows.store();
        let (page, row) = store.layout().locate(id);
        store.page_states(page).read(row, offset)
    }

    #[inline]
    pub(super) fn read_key<T: Plain + Copy>(&self, key: RowId, offset: usize) -> T {
        let store = self.keys.store();
        let (page, row) = store.layout().locate(key);
        store.page_states(page).read(row, offset)
    }
}
