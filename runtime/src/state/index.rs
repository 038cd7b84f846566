//! The index of keyed state: from keys to rows, in the form that suits the keys.
//!
//! One row without keys; a table addressed by a dense integer; a table of keys packed into one word; or salts and
//! slots with the keys compared in the rows. Invariant: an index that meets keys it cannot hold says so before it
//! changes anything, and the next more general form takes its place. Forms never go back.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::direct_index::DirectIndex;
use super::hashed_index::HashedIndex;
use super::int_key::is_int_key;
use super::pack::PackPlan;
use super::packed_index::PackedIndex;
use crate::error::Result;
use crate::rows::{NO_ROW, RowId, RowStore, Selected};

/// Whether an index can hold the keys of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    Yes,
    No,
}

/// A batch of keys to be found, and what was found.
pub(super) struct Batch<'a> {
    /// Key columns without dictionaries.
    pub(super) keys: &'a [ArrayRef],
    /// The hash of each row of the columns, where the caller had them.
    pub(super) hashes: Option<&'a [u64]>,
    pub(super) rows: Selected<'a>,
    /// The row of each selected key.
    pub(super) out: &'a mut Vec<RowId>,
    /// Positions of the rows whose keys are new, in the order of their new rows.
    pub(super) new: &'a mut Vec<u32>,
}

/// The forms of an index.
#[derive(Debug)]
pub(super) enum Index {
    Global,
    Direct(DirectIndex),
    Packed64(PackedIndex<u64>),
    Packed128(PackedIndex<u128>),
    Hashed(HashedIndex),
}

impl Index {
    /// The first form for keys of the given types.
    pub(super) fn new(types: &[DataType]) -> Self {
        match types {
            [] => Self::Global,
            [only] if is_int_key(only) => Self::Direct(DirectIndex::new(only)),
            _ => Self::packed(types),
        }
    }

    fn packed(types: &[DataType]) -> Self {
        match PackPlan::new(types, 8) {
            Some(plan) => Self::Packed64(PackedIndex::new(plan)),
            None => Self::packed_wide(types),
        }
    }

    fn packed_wide(types: &[DataType]) -> Self {
        match PackPlan::new(types, 16) {
            Some(plan) => Self::Packed128(PackedIndex::new(plan)),
            None => Self::Hashed(HashedIndex::default()),
        }
    }

    /// The next more general form, empty.
    pub(super) fn more_general(&self, types: &[DataType]) -> Self {
        match self {
            Self::Global | Self::Direct(_) => Self::packed(types),
            Self::Packed64(_) => Self::packed_wide(types),
            Self::Packed128(_) | Self::Hashed(_) => Self::Hashed(HashedIndex::default()),
        }
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Global => {}
            Self::Direct(index) => index.clear(),
            Self::Packed64(index) => index.clear(),
            Self::Packed128(index) => index.clear(),
            Self::Hashed(index) => index.clear(),
        }
    }

    /// Bytes of managed memory the index takes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Global => 0,
            Self::Direct(index) => index.memory_bytes(),
            Self::Packed64(index) => index.memory_bytes(),
            Self::Packed128(index) => index.memory_bytes(),
            Self::Hashed(index) => index.memory_bytes(),
        }
    }

    /// Finds the keys of a batch; with `INSERT`, new keys become new rows of the store, else they yield [`NO_ROW`].
    ///
    /// On an error, index and store may disagree: the caller truncates the store and rebuilds the index.
    pub(super) fn find<const INSERT: bool>(
        &mut self,
        store: &mut RowStore,
        batch: &mut Batch<'_>,
    ) -> Result<Fit> {
        if let Self::Hashed(index) = self {
            index.find::<INSERT>(store, batch)?;
            return Ok(Fit::Yes);
        }
        let first = store.next_id();
        let fit = match self {
            Self::Global => {
                find_global::<INSERT>(store, batch);
                Fit::Yes
            }
            Self::Direct(index) => index.find::<INSERT>(store.reservation(), first, batch)?,
            Self::Packed64(index) => index.find::<INSERT>(store.reservation(), first, batch)?,
            Self::Packed128(index) => index.find::<INSERT>(store.reservation(), first, batch)?,
            Self::Hashed(_) => Fit::Yes,
        };
        if fit == Fit::Yes && !batch.new.is_empty() {
            let appended = append_new(store, batch)?;
            debug_assert_eq!(appended.start, first, "new rows follow the rows there were");
        }
        Ok(fit)
    }

    /// Takes in rows of the store whose keys are not in the index and differ from each other.
    pub(super) fn adopt(
        &mut self,
        store: &mut RowStore,
        keys: &[ArrayRef],
        ids: Range<RowId>,
    ) -> Result<Fit> {
        match self {
            Self::Global => Ok(Fit::Yes),
            Self::Direct(index) => index.adopt(store.reservation(), keys, ids),
            Self::Packed64(index) => index.adopt(store.reservation(), keys, ids),
            Self::Packed128(index) => index.adopt(store.reservation(), keys, ids),
            Self::Hashed(index) => {
                index.adopt(store, keys, ids)?;
                Ok(Fit::Yes)
            }
        }
    }
}

fn append_new(store: &mut RowStore, batch: &Batch<'_>) -> Result<Range<RowId>> {
    let rows = Selected::Rows(batch.new);
    if batch.keys.is_empty() {
        store.append(&[], Selected::All(1))
    } else {
        store.append(batch.keys, rows)
    }
}

/// Without keys there is one row.
fn find_global<const INSERT: bool>(store: &RowStore, batch: &mut Batch<'_>) {
    let exists = !store.is_empty();
    let found = if exists || INSERT { 0 } else { NO_ROW };
    batch.out.resize(batch.rows.len(), found);
    if INSERT && !exists && !batch.rows.is_empty() {
        batch.new.push(batch.rows.row(0));
    }
}
