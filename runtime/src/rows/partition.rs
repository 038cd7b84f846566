//! Rows split by bits of their hash.
//!
//! Invariant: partition `p` of `2^n` holds exactly the rows whose hash has `p` in the `n` bits below bit 48, bits
//! that hash tables use neither as salt nor as bucket.

use std::sync::Arc;

use arrow::array::ArrayRef;

use super::layout::{RowId, RowLayout};
use super::page::RowPage;
use super::selected::Selected;
use super::store::RowStore;
use crate::error::Result;
use crate::memory::Reservation;

/// The highest number of partitions.
pub(crate) const MAX_PARTITIONS: usize = 256;

/// The partition, out of `partitions` (a power of two up to 256), of a row by its hash.
#[inline]
pub fn partition_of(hash: u64, partitions: usize) -> usize {
    debug_assert!(partitions.is_power_of_two() && partitions <= MAX_PARTITIONS);
    (hash >> 40) as usize & (partitions - 1)
}

/// Rows in a number of stores, chosen by hash.
#[derive(Debug)]
pub struct PartitionedRows {
    partitions: Vec<RowStore>,
    /// Positions of the rows of each partition, kept between batches for their room.
    chosen: Vec<Vec<u32>>,
}

impl PartitionedRows {
    /// `partitions` (a power of two up to 256) empty stores of one layout and one holder.
    pub fn new(layout: &Arc<RowLayout>, reservation: &Reservation, partitions: usize) -> Self {
        assert!(partitions.is_power_of_two() && partitions <= MAX_PARTITIONS, "{partitions}");
        let store = || RowStore::new(Arc::clone(layout), reservation.share());
        Self {
            partitions: (0..partitions).map(|_| store()).collect(),
            chosen: vec![Vec::new(); partitions],
        }
    }

    /// Number of partitions.
    pub fn num_partitions(&self) -> usize {
        self.partitions.len()
    }

    /// The rows of a partition.
    pub fn partition(&self, index: usize) -> &RowStore {
        &self.partitions[index]
    }

    /// Rows in all partitions.
    pub fn len(&self) -> usize {
        self.partitions.iter().map(RowStore::len).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the selected rows of `columns` to the partitions of their hashes (`hashes[row]`), and stores the
    /// hashes where the layout has room for them.
    ///
    /// # Errors
    /// As [`RowStore::append`]; rows of some partitions may be appended then.
    pub fn append(
        &mut self,
        columns: &[ArrayRef],
        hashes: &[u64],
        rows: Selected<'_>,
    ) -> Result<()> {
        self.choose((0..rows.len()).map(|i| rows.row(i)), |row| hashes[row as usize]);
        for (store, chosen) in self.partitions.iter_mut().zip(&self.chosen) {
            if chosen.is_empty() {
                continue;
            }
            let ids = store.append(columns, Selected::Rows(chosen))?;
            if store.layout().has_hash() {
                store.write_hashes(ids.zip(chosen.iter().map(|&row| hashes[row as usize])));
            }
        }
        Ok(())
    }

    /// Copies all rows of `source`, whose layout holds hashes, to their partitions.
    ///
    /// # Errors
    /// As [`RowStore::append_rows`]; rows of some partitions may be copied then.
    pub fn append_store(&mut self, source: &RowStore) -> Result<()> {
        for page in 0..source.num_pages() {
            self.choose(source.page_ids(page), |id| source.read_hash(id as RowId));
            for (store, chosen) in self.partitions.iter_mut().zip(&self.chosen) {
                store.append_rows(source, chosen)?;
            }
        }
        Ok(())
    }

    fn choose(&mut self, rows: impl Iterator<Item = u32>, hash: impl Fn(u32) -> u64) {
        let partitions = self.partitions.len();
        self.chosen.iter_mut().for_each(Vec::clear);
        for row in rows {
            self.chosen[partition_of(hash(row), partitions)].push(row);
        }
    }

    /// The pages of each partition.
    pub fn into_pages(self) -> Vec<Vec<RowPage>> {
        self.partitions.into_iter().map(|mut store| store.take_pages()).collect()
    }
}
