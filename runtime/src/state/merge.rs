//! Handing state over: rows leave as radix-partitioned pages and are merged into another task's state.
//!
//! Invariant: pages of one call come from one state, so that their keys differ from each other, and their rows carry
//! their hashes.

use super::index::Fit;
use super::keyed::KeyedState;
use crate::error::{Error, Result};
use crate::rows::{
    HASH_SEED, PageStates, PartitionedRows, RowId, RowPage, RowStore, Selected, StatesMut,
    hash_columns,
};

/// Rows of a page that meet rows of the state with equal keys.
#[derive(Debug)]
pub struct Matches<'a> {
    /// The states to be updated.
    pub target: StatesMut<'a>,
    /// The states to be merged in.
    pub source: PageStates<'a>,
    /// Rows of the source page.
    pub rows: &'a [u32],
    /// The row of the target for each of `rows`.
    pub ids: &'a [RowId],
}

impl KeyedState {
    /// All rows as pages, by radix partition of their keys' hashes (a power of two up to 256); the state is empty
    /// afterwards.
    ///
    /// # Errors
    /// `ResourcesExhausted`; the state is unchanged then.
    pub fn take_partitions(&mut self, partitions: usize) -> Result<Vec<Vec<RowPage>>> {
        self.write_all_hashes()?;
        if partitions == 1 || self.key_types.is_empty() {
            let mut parts: Vec<Vec<RowPage>> = Vec::new();
            parts.resize_with(partitions, Vec::new);
            parts[0] = self.store.take_pages();
            self.clear();
            return Ok(parts);
        }
        let mut parts =
            PartitionedRows::new(self.store.layout(), self.store.reservation(), partitions);
        parts.append_store(&self.store)?;
        self.clear();
        Ok(parts.into_pages())
    }

    fn write_all_hashes(&mut self) -> Result<()> {
        let mut hashes = Vec::new();
        for page in 0..self.store.num_pages() {
            let ids = self.store.page_ids(page);
            let listed: Vec<RowId> = ids.clone().collect();
            let keys = self.gather_keys(&listed)?;
            hash_columns(&keys, Selected::All(listed.len()), HASH_SEED, &mut hashes)?;
            self.store.write_hashes(ids.zip(hashes.iter().copied()));
        }
        Ok(())
    }

    /// Merges pages that [`Self::take_partitions`] of *one* other state with the same keys and states has yielded.
    /// States of new keys are taken over; for keys that exist, `combine` merges the states.
    ///
    /// # Errors
    /// `ResourcesExhausted` or an error of `combine`; rows of some pages may be merged then.
    pub fn merge_pages(
        &mut self,
        pages: Vec<RowPage>,
        mut combine: impl FnMut(Matches<'_>) -> Result<()>,
    ) -> Result<()> {
        self.refresh()?;
        if self.is_empty() {
            let pages = self.store.append_pages(pages)?;
            if self.adopt_pages(pages)? == Fit::No {
                self.stale = true;
                self.refresh()?;
            }
            return Ok(());
        }
        let mut scratch =
            RowStore::new(self.store.layout().clone(), self.store.reservation().share());
        for page in pages {
            scratch.clear();
            if scratch.append_pages(vec![page])?.is_empty() {
                continue;
            }
            self.merge_page(&scratch, &mut combine)?;
        }
        Ok(())
    }

    fn merge_page(
        &mut self,
        source: &RowStore,
        combine: &mut impl FnMut(Matches<'_>) -> Result<()>,
    ) -> Result<()> {
        let listed: Vec<RowId> = source.ids().collect();
        let keys = source.gather_all(0..self.key_types.len(), &listed)?;
        let hashes: Vec<u64> = listed.iter().map(|&id| source.read_hash(id)).collect();
        let (mut ids, mut new) = (Vec::new(), Vec::new());
        let rows = Selected::All(listed.len());
        let first_new = self.lookup_or_insert(&keys, Some(&hashes), rows, &mut ids, &mut new)?;
        if new.len() != first_new.len() {
            return Err(Error::Internal("one page had a key twice".into()));
        }
        let page = source.page_states(0);
        let mut target = self.store.states_mut();
        let mut matched: Vec<u32> = Vec::with_capacity(listed.len() - new.len());
        let mut matched_ids: Vec<RowId> = Vec::with_capacity(listed.len() - new.len());
        for (row, &id) in ids.iter().enumerate() {
            if first_new.contains(&id) {
                target.copy_states(id, &page, row)?;
            } else {
                matched.push(row as u32);
                matched_ids.push(id);
            }
        }
        if matched.is_empty() {
            return Ok(());
        }
        combine(Matches { target, source: page, rows: &matched, ids: &matched_ids })
    }
}
