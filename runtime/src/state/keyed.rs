//! Keyed state: keys to rows with aggregate states, a batch at a time.
//!
//! A row has the key columns, a hash and the state slots. The index over the keys takes the form that suits them
//! (see [`index`](super::index)). Invariant: each key has one row; ids stay valid until the state is cleared or its
//! pages are taken. After a failed call the state is as it was before it.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use super::index::{Batch, Fit, Index};
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::rows::{FieldKind, RowId, RowLayout, RowStore, Selected, StateSlot, StatesMut, unpack};

/// A map from keys to rows with states.
#[derive(Debug)]
pub struct KeyedState {
    pub(super) store: RowStore,
    pub(super) key_types: Vec<DataType>,
    pub(super) index: Index,
    /// Whether the index does not show the store's rows and is to be rebuilt before it is used.
    pub(super) stale: bool,
}

impl KeyedState {
    /// Empty state for keys of the given types (none: one global row) with the given states in each row.
    ///
    /// # Errors
    /// `Unsupported` for types that cannot be keys.
    pub fn new(
        key_types: &[DataType],
        states: &[StateSlot],
        reservation: Reservation,
    ) -> Result<Self> {
        let layout = RowLayout::with_hash(key_types, states)?;
        let key_types: Vec<DataType> =
            (0..key_types.len()).map(|i| layout.output_type(i).clone()).collect();
        let index = Index::new(&key_types);
        Ok(Self { store: RowStore::new(layout, reservation), key_types, index, stale: false })
    }

    /// The rows; field `i` is key column `i`.
    pub fn store(&self) -> &RowStore {
        &self.store
    }

    /// The shape of the rows: where the states are.
    pub fn layout(&self) -> &RowLayout {
        self.store.layout()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Bytes of managed memory: rows and index.
    pub fn memory_bytes(&self) -> usize {
        self.store.memory_bytes() + self.index.memory_bytes()
    }

    /// Access to the states of all rows.
    pub fn states_mut(&mut self) -> StatesMut<'_> {
        self.store.states_mut()
    }

    /// Finds the row of each selected key, making new rows (with zeroed states) for new keys.
    ///
    /// `out` gets one row id for each selected row. `new` gets the positions, in the columns, of the rows that
    /// brought a new key; the returned range has their row ids in the same order. `hashes`, if given, are those of
    /// [`hash_columns`](crate::rows::hash_columns) with [`HASH_SEED`](crate::rows::HASH_SEED), by row of the columns;
    /// most key types do not need them.
    ///
    /// # Errors
    /// `ResourcesExhausted`, and the state is as before.
    pub fn lookup_or_insert(
        &mut self,
        keys: &[ArrayRef],
        hashes: Option<&[u64]>,
        rows: Selected<'_>,
        out: &mut Vec<RowId>,
        new: &mut Vec<u32>,
    ) -> Result<Range<RowId>> {
        let keys = self.checked_keys(keys)?;
        self.refresh()?;
        let first = self.store.next_id();
        let found = self.find_fitting::<true>(&keys, hashes, rows, out, new);
        if let Err(error) = found {
            self.store.truncate(first);
            self.stale = true;
            return Err(error);
        }
        Ok(first..first + new.len() as RowId)
    }

    /// Finds the row of each selected key; [`NO_ROW`](crate::rows::NO_ROW) where there is none. Otherwise as
    /// [`Self::lookup_or_insert`].
    ///
    /// # Errors
    /// `ResourcesExhausted` when the index has to change its form for these keys.
    pub fn lookup(
        &mut self,
        keys: &[ArrayRef],
        hashes: Option<&[u64]>,
        rows: Selected<'_>,
        out: &mut Vec<RowId>,
    ) -> Result<()> {
        let keys = self.checked_keys(keys)?;
        self.refresh()?;
        self.find_fitting::<false>(&keys, hashes, rows, out, &mut Vec::new())
    }

    fn find_fitting<const INSERT: bool>(
        &mut self,
        keys: &[ArrayRef],
        hashes: Option<&[u64]>,
        rows: Selected<'_>,
        out: &mut Vec<RowId>,
        new: &mut Vec<u32>,
    ) -> Result<()> {
        loop {
            out.clear();
            new.clear();
            let mut batch = Batch { keys, hashes, rows, out: &mut *out, new: &mut *new };
            if self.index.find::<INSERT>(&mut self.store, &mut batch)? == Fit::Yes {
                return Ok(());
            }
            self.generalise()?;
        }
    }

    fn checked_keys(&self, keys: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let keys: Vec<ArrayRef> = keys.iter().map(unpack).collect::<Result<_>>()?;
        let kinds = |types: &mut dyn Iterator<Item = &DataType>| -> Vec<FieldKind> {
            types.map(FieldKind::of).collect()
        };
        if kinds(&mut keys.iter().map(|key| key.data_type())) != kinds(&mut self.key_types.iter()) {
            let given: Vec<&DataType> = keys.iter().map(|key| key.data_type()).collect();
            return Err(Error::Internal(format!(
                "state with keys {:?} was given keys {given:?}",
                self.key_types
            )));
        }
        Ok(keys)
    }

    /// Replaces the index by the next more general form with the same keys.
    fn generalise(&mut self) -> Result<()> {
        self.index = self.index.more_general(&self.key_types);
        self.stale = true;
        self.refresh()
    }

    /// Rebuilds a stale index from the rows.
    pub(super) fn refresh(&mut self) -> Result<()> {
        while self.stale {
            self.index.clear();
            if self.adopt_pages(0..self.store.num_pages())? == Fit::Yes {
                self.stale = false;
            } else {
                self.index = self.index.more_general(&self.key_types);
            }
        }
        Ok(())
    }

    /// Takes the keys of pages into the index; they are not in it and differ from each other.
    pub(super) fn adopt_pages(&mut self, pages: Range<usize>) -> Result<Fit> {
        for page in pages {
            let ids = self.store.page_ids(page);
            let listed: Vec<RowId> = ids.clone().collect();
            let keys = self.gather_keys(&listed)?;
            if self.index.adopt(&mut self.store, &keys, ids)? == Fit::No {
                return Ok(Fit::No);
            }
        }
        Ok(Fit::Yes)
    }

    /// The keys of the given rows, one array a key column.
    ///
    /// # Errors
    /// When strings do not fit one array of their type.
    pub fn gather_keys(&self, ids: &[RowId]) -> Result<Vec<ArrayRef>> {
        self.store.gather_all(0..self.key_types.len(), ids)
    }

    /// The ids of all rows, in the order of their making.
    pub fn ids(&self) -> impl Iterator<Item = RowId> + '_ {
        self.store.ids()
    }

    /// Forgets all keys and returns their memory.
    pub fn clear(&mut self) {
        self.store.clear();
        self.index.clear();
        self.stale = false;
    }
}
