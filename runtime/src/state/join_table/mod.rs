//! The join table: rows of a build side, found by key.
//!
//! The rows lie in a [`RowStore`] whose first fields are the keys. Rows with equal keys form a chain; the index leads
//! from a key to the first row of its chain. A table is made over complete rows, filled in parts by as many threads
//! as there are parts, and read only from then on; what may change afterwards are the flags that tell which rows have
//! found a match. Invariant: every row is in the chain of its key, except rows with a NULL key where NULL equals
//! nothing, which are in none.

mod index;
mod key_code;
mod salted;
mod slots;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

pub use index::LookupScratch;
pub use key_code::KeySpan;
pub(crate) use key_code::{KeyCoder, NO_CODE};

use self::index::{Filling, Index, NewRows};
use crate::error::Result;
use crate::memory::{Reservation, SegmentArray};
use crate::rows::{NO_ROW, RowId, RowStore};

/// Rows below which one thread fills the table.
const PARALLEL_ROWS_MIN: usize = 1 << 16;
/// The greatest number of parts.
const PARTS_MAX: usize = 16;

/// What a table is made for.
#[derive(Debug, Clone)]
pub struct JoinTableOptions {
    /// Number of key columns, the first fields of the store; at least one.
    pub keys: usize,
    /// Whether NULL equals NULL.
    pub null_equal: bool,
    /// Whether rows have flags.
    pub tracks_matches: bool,
    /// How many threads will fill the table.
    pub threads: usize,
}

/// Rows of a build side by key.
#[derive(Debug)]
pub struct JoinTable {
    store: RowStore,
    options: JoinTableOptions,
    parts: usize,
    index: Index,
    chains: SegmentArray<AtomicU32>,
    duplicates: AtomicBool,
    matched: Option<SegmentArray<AtomicU8>>,
}

impl JoinTable {
    /// A table over the rows of `store`, of which nothing is found before [`Self::fill`] has run for each part.
    /// `spans` are the ranges of the keys, one a key column.
    ///
    /// # Errors
    /// `ResourcesExhausted` when the table does not fit the budget.
    pub fn new(
        store: RowStore,
        spans: &[KeySpan],
        options: JoinTableOptions,
        reservation: &Reservation,
    ) -> Result<Self> {
        let rows = store.len();
        let types: Vec<DataType> =
            (0..options.keys).map(|key| store.layout().output_type(key).clone()).collect();
        let parts = match rows {
            0..PARALLEL_ROWS_MIN => 1,
            _ => options.threads.next_power_of_two().min(PARTS_MAX),
        };
        let index = Index::new(&types, spans, options.null_equal, (rows, parts), reservation)?;
        let ids = store.id_bound();
        let chains = SegmentArray::zeroed(reservation, ids)?;
        let matched =
            options.tracks_matches.then(|| SegmentArray::zeroed(reservation, ids)).transpose()?;
        let duplicates = AtomicBool::new(false);
        Ok(Self { store, options, parts, index, chains, duplicates, matched })
    }

    /// How many calls of [`Self::fill`] complete the table; they may run at the same time.
    pub fn num_parts(&self) -> usize {
        self.parts
    }

    /// Fills one part. `check` is asked once a page whether to go on.
    ///
    /// # Errors
    /// What `check` says, or `Internal` for keys the rows module cannot hash.
    pub fn fill(&self, part: usize, check: impl Fn() -> Result<()>) -> Result<()> {
        let mut filling = Filling { part, used: 0, duplicates: false };
        let mut scratch = LookupScratch::default();
        for page in 0..self.store.num_pages() {
            check()?;
            let keys = self.page_keys(page, 0..self.options.keys)?;
            let first = self.store.page_ids(page).start;
            let rows = NewRows { store: &self.store, keys: &keys, first, chains: &self.chains };
            self.index.insert(&rows, &mut filling, &mut scratch)?;
        }
        if filling.duplicates {
            self.duplicates.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Key columns of the rows of a page.
    ///
    /// # Errors
    /// As [`RowStore::gather`].
    pub fn page_keys(
        &self,
        page: usize,
        keys: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<ArrayRef>> {
        let ids: Vec<RowId> = self.store.page_ids(page).collect();
        self.store.gather_all(keys, &ids)
    }

    /// The rows.
    pub fn store(&self) -> &RowStore {
        &self.store
    }

    /// What the table was made for.
    pub fn options(&self) -> &JoinTableOptions {
        &self.options
    }

    /// Whether no key has more than one row.
    pub fn is_unique(&self) -> bool {
        !self.duplicates.load(Ordering::Relaxed)
    }

    /// For each row of `keys` the first row with an equal key, or [`NO_ROW`]. `found` is overwritten.
    ///
    /// # Errors
    /// `Internal` for keys of types that do not fit the table's.
    pub fn lookup(
        &self,
        keys: &[ArrayRef],
        scratch: &mut LookupScratch,
        found: &mut Vec<RowId>,
    ) -> Result<()> {
        self.index.lookup(&self.store, keys, scratch, found)
    }

    /// The next row with the same key, or [`NO_ROW`].
    #[inline]
    pub fn next(&self, id: RowId) -> RowId {
        self.chains[id as usize].load(Ordering::Relaxed).wrapping_sub(1)
    }

    fn flags(&self) -> &[AtomicU8] {
        self.matched.as_deref().expect("whoever sets or reads flags asked for them at the start")
    }

    /// Flags a row as matched.
    #[inline]
    pub fn set_matched(&self, id: RowId) {
        // Looking first keeps the line shared between threads.
        let flag = &self.flags()[id as usize];
        if flag.load(Ordering::Relaxed) == 0 {
            flag.store(1, Ordering::Relaxed);
        }
    }

    /// Flags all rows of the chains that begin with `heads` ([`NO_ROW`] begins none).
    pub fn set_chains_matched(&self, heads: &[RowId]) {
        let flags = self.flags();
        for &head in heads.iter().filter(|&&head| head != NO_ROW) {
            // Chains are flagged whole, the first row first.
            let mut id = head;
            if flags[head as usize].load(Ordering::Relaxed) != 0 {
                continue;
            }
            while id != NO_ROW {
                flags[id as usize].store(1, Ordering::Relaxed);
                id = self.next(id);
            }
        }
    }

    /// Whether a row is flagged as matched.
    #[inline]
    pub fn is_matched(&self, id: RowId) -> bool {
        self.flags()[id as usize].load(Ordering::Relaxed) != 0
    }

    /// The flags by row id, one byte a row, for a snapshot.
    pub fn matched_flags(&self) -> Vec<u8> {
        self.flags().iter().map(|flag| flag.load(Ordering::Relaxed)).collect()
    }

    /// Takes flags of [`Self::matched_flags`] over, in addition to those that are set.
    pub fn restore_matched_flags(&self, flags: &[u8]) {
        for (flag, _) in self.flags().iter().zip(flags).filter(|&(_, &set)| set != 0) {
            flag.store(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
