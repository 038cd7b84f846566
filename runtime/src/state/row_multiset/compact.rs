//! Compaction: rows and keys that count no more give their place back.
//!
//! What is left is copied to new pages, so that a compaction costs as much as the rows that stay; it pays when they
//! are fewer than those that go. Invariant: chains keep their order, ids change.

use super::{RowMultiset, Rows};
use crate::error::Result;
use crate::rows::{NO_ROW, RowId, RowStore};

/// Rows below which nothing is compacted.
const COMPACT_ROWS_MIN: usize = 4096;

/// Where rows went: by old id the new one.
#[derive(Debug)]
pub struct MovedRows(Vec<RowId>);

impl MovedRows {
    /// By old id the new one, for the `kept` old ids in ascending order out of `bound`.
    fn new(kept: &[RowId], bound: usize) -> Self {
        let mut moved = vec![NO_ROW; bound];
        for (new, &old) in kept.iter().enumerate() {
            moved[old as usize] = new as RowId;
        }
        MovedRows(moved)
    }

    /// The new id of a row; none where it was forgotten.
    pub fn new_id(&self, id: RowId) -> Option<RowId> {
        self.0.get(id as usize).copied().filter(|&id| id != NO_ROW)
    }

    /// The new link for an old one: ids plus one, 0 stays.
    fn link(&self, link: u32) -> u32 {
        match link {
            0 => 0,
            link => self.new_id(link - 1).map_or(0, |id| id + 1),
        }
    }
}

/// What a compaction did.
#[derive(Debug, Default)]
pub struct Compacted {
    /// Where the rows went, if they moved.
    pub rows: Option<MovedRows>,
    /// Where the keys went, if they moved.
    pub keys: Option<MovedRows>,
}

impl Compacted {
    /// Whether rows or keys have new ids.
    pub fn happened(&self) -> bool {
        self.keys.is_some() || self.rows.is_some()
    }
}

impl RowMultiset {
    /// Frees the places of rows and keys that count no more, if they are more than those that do; then all ids are new
    /// ones. Called between batches alone.
    ///
    /// # Errors
    /// `ResourcesExhausted`: the rows that stay are copied.
    pub fn compact(&mut self) -> Result<Compacted> {
        let mut done = Compacted::default();
        let pays = |places: usize, live: usize| places >= COMPACT_ROWS_MIN && live * 2 < places;
        if pays(self.keys.len(), self.live_keys) {
            done.keys = Some(self.compact_keys()?);
        }
        if pays(self.store().len(), self.live) {
            done.rows = Some(self.compact_rows()?);
        }
        Ok(done)
    }

    fn compact_rows(&mut self) -> Result<MovedRows> {
        let mut kept = Vec::with_capacity(self.live);
        self.scan(0, usize::MAX, &mut kept);
        let moved = MovedRows::new(&kept, self.store().id_bound());
        match &mut self.rows {
            Rows::Appended(store) => *store = copied(store, &kept)?,
            Rows::Counted(state) => state.keep_only(&kept)?,
        }
        let slots = self.row_slots;
        let mut rows = self.rows.states_mut();
        for id in 0..kept.len() as RowId {
            rows.update(id, slots.next, |link| moved.link(link));
            rows.update(id, slots.before, |link| moved.link(link));
        }
        let ends = self.key_slots;
        let ids: Vec<RowId> = self.keys.ids().collect();
        let mut keys = self.keys.states_mut();
        for id in ids {
            keys.update(id, ends.head, |link| moved.link(link));
            keys.update(id, ends.tail, |link| moved.link(link));
        }
        Ok(moved)
    }

    fn compact_keys(&mut self) -> Result<MovedRows> {
        let head = self.key_slots.head;
        let kept: Vec<RowId> =
            self.keys.ids().filter(|&key| self.read_key::<u32>(key, head) != 0).collect();
        let moved = MovedRows::new(&kept, self.keys.store().id_bound());
        self.keys.keep_only(&kept)?;
        let mut live = Vec::with_capacity(self.live);
        self.scan(0, usize::MAX, &mut live);
        let slot = self.row_slots.key;
        let mut rows = self.rows.states_mut();
        for id in live {
            rows.update(id, slot, |link| moved.link(link));
        }
        Ok(moved)
    }
}

fn copied(store: &RowStore, kept: &[RowId]) -> Result<RowStore> {
    let mut copy = RowStore::new(store.layout().clone(), store.reservation().share());
    copy.append_rows(store, kept)?;
    Ok(copy)
}
