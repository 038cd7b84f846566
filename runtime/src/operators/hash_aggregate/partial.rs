//! Partial aggregation: a table that fits the cache, handed over as row pages whenever it is full.
//!
//! Where the table hardly reduces its input, rows become states of one row each and skip it for a while. Invariant:
//! the rows of one [`Pages`] belong to one radix partition of the key's hash.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::levels::Levels;
use super::shape::Shape;
use super::table::{AggregateTable, read_pages, write_store};
use crate::aggregates::{AggregateStates, Groups};
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::{
    HASH_SEED, Pages, PartitionedRows, RowId, RowPage, RowStore, Selected, hash_columns,
};

/// Radix partitions of the hand-over; consumers own them in turn.
pub(super) const PARTITIONS: usize = 64;
/// Bytes of rows and buckets that a table may have before it is handed over.
const TABLE_BYTES: usize = 2 << 20;
/// The same for the tables of grouping sets in levels: what is derived from them is worth a cache miss.
const LEVELS_BYTES: usize = 32 << 20;
/// Bytes that a table's states may keep beside the rows.
const BESIDE_BYTES: usize = 16 << 20;
/// Bytes of rows that are gathered before they are sent.
const SEND_BYTES: usize = 4 << 20;
/// A table with more groups than this share of its input rows does not reduce.
const REDUCING_SHARE: f64 = 0.7;
/// Rows that skip the table before it is tried again, in groups of a full table.
const SKIP_TABLES: usize = 32;

/// The partial phase.
pub(super) struct Partial {
    shape: Arc<Shape>,
    /// One, or with levels one for each grouping set.
    tables: Vec<AggregateTable>,
    levels: Option<Levels>,
    /// Groups that fill the table.
    capacity: usize,
    /// States of rows on their way, in the hand-over's form.
    outgoing: AggregateStates,
    partitions: PartitionedRows,
    reservation: Reservation,
    rows_in: usize,
    skip_rows: usize,
    ready: VecDeque<Pages>,
    hashes: Vec<u64>,
}

impl Partial {
    /// An empty table and nothing to send.
    pub(super) fn new(shape: &Arc<Shape>, reservation: &Reservation) -> Result<Self> {
        let mut outgoing = shape.new_states(reservation)?;
        outgoing.bind(shape.handover.states(), shape.table.states());
        let levels = Levels::new(shape, reservation)?;
        let (tables, bytes) = match &levels {
            Some(levels) => (levels.len(), LEVELS_BYTES),
            None => (1, TABLE_BYTES),
        };
        Ok(Partial {
            shape: Arc::clone(shape),
            tables: (0..tables)
                .map(|_| AggregateTable::new(shape, reservation))
                .collect::<Result<_>>()?,
            levels,
            capacity: (bytes / (shape.table.row_bytes() + 16)).max(1024),
            outgoing,
            partitions: PartitionedRows::new(&shape.handover, reservation, PARTITIONS),
            reservation: reservation.share(),
            rows_in: 0,
            skip_rows: 0,
            ready: VecDeque::new(),
            hashes: Vec::new(),
        })
    }

    /// Takes a batch in: the key columns of a compact batch, and the columns of the aggregates' arguments.
    pub(super) fn update(
        &mut self,
        keys: &[ArrayRef],
        arguments: &[ArrayRef],
        rows: usize,
    ) -> Result<()> {
        let sets = self.shape.sets().map_or(1, |sets| sets.sets.len());
        for set in 0..sets {
            match &self.levels {
                Some(levels) if !levels.takes_rows(set) => {}
                Some(_) => {
                    let keys = self.shape.keys_in(set, keys, rows)?;
                    self.tables[set].update(&keys, arguments, rows)?;
                }
                None => {
                    let keys = self.shape.keys_in(set, keys, rows)?;
                    self.update_or_pass(&keys, arguments, rows)?;
                }
            }
        }
        if self.levels.is_some() && self.is_full() {
            self.hand_over()?;
        }
        if self.pending_bytes() > SEND_BYTES {
            self.send();
        }
        Ok(())
    }

    fn update_or_pass(
        &mut self,
        keys: &[ArrayRef],
        arguments: &[ArrayRef],
        rows: usize,
    ) -> Result<()> {
        if self.skip_rows > 0 {
            self.skip_rows = self.skip_rows.saturating_sub(rows);
            return self.pass(keys, arguments, rows);
        }
        self.tables[0].update(keys, arguments, rows)?;
        self.rows_in += rows;
        if self.is_full() {
            let share = self.tables[0].len() as f64 / self.rows_in.max(1) as f64;
            if share > REDUCING_SHARE && self.shape.carried.is_empty() {
                self.skip_rows = self.capacity * SKIP_TABLES;
            }
            self.hand_over()?;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let groups: usize = self.tables.iter().map(AggregateTable::len).sum();
        let beside: usize = self.tables.iter().map(AggregateTable::beside_bytes).sum();
        (self.shape.keys() > 0 && groups >= self.capacity) || beside > BESIDE_BYTES
    }

    fn pending_bytes(&self) -> usize {
        (0..PARTITIONS).map(|p| self.partitions.partition(p).len()).sum::<usize>()
            * self.shape.handover.row_bytes()
    }

    /// Makes each row a group of its own.
    fn pass(&mut self, keys: &[ArrayRef], arguments: &[ArrayRef], rows: usize) -> Result<()> {
        let mut store = RowStore::new(Arc::clone(&self.shape.handover), self.reservation.share());
        hash_columns(keys, Selected::All(rows), HASH_SEED, &mut self.hashes)?;
        let ids: Vec<RowId> = store.append(keys, Selected::All(rows))?.collect();
        store.write_hashes(ids.iter().copied().zip(self.hashes.iter().copied()));
        self.outgoing.update(&mut store.states_mut(), arguments, Groups::Many(&ids))?;
        self.partitions.append_store(&store)
    }

    /// Empties the tables.
    fn hand_over(&mut self) -> Result<()> {
        self.rows_in = 0;
        if let Some(levels) = &mut self.levels {
            levels.derive(&mut self.tables)?;
        }
        for table in 0..self.tables.len() {
            if self.tables[table].len() == 0 {
                continue;
            }
            if self.shape.carried.is_empty() {
                let pages = self.tables[table].take_partitions(PARTITIONS)?;
                self.send_pages(pages);
            } else {
                self.hand_over_carried(table)?;
                self.tables[table].clear()?;
            }
        }
        Ok(())
    }

    /// As [`Self::hand_over`] where rows get columns that the table does not have.
    fn hand_over_carried(&mut self, table: usize) -> Result<()> {
        let carried = self.tables[table].carry()?;
        let source = self.tables[table].store();
        let mut store = RowStore::new(Arc::clone(&self.shape.handover), self.reservation.share());
        for page in 0..source.num_pages() {
            let ids: Vec<RowId> = source.page_ids(page).collect();
            let mut columns = source.gather_all(0..self.shape.keys(), &ids)?;
            let first = ids.first().map_or(0, |&id| id as usize);
            columns.extend(carried.iter().map(|column| column.slice(first, ids.len())));
            let keys = &columns[..self.shape.keys()];
            hash_columns(keys, Selected::All(ids.len()), HASH_SEED, &mut self.hashes)?;
            if keys.is_empty() {
                // The only group of all belongs to the first partition.
                self.hashes.fill(0);
            }
            let new: Vec<RowId> = store.append(&columns, Selected::All(ids.len()))?.collect();
            store.write_hashes(new.iter().copied().zip(self.hashes.iter().copied()));
            self.outgoing.merge(&mut store.states_mut(), &source.page_states(page), &new)?;
        }
        self.partitions.append_store(&store)
    }

    /// Makes everything ready to be sent.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.hand_over()?;
        self.send();
        Ok(())
    }

    fn send(&mut self) {
        let empty = PartitionedRows::new(&self.shape.handover, &self.reservation, PARTITIONS);
        let full = std::mem::replace(&mut self.partitions, empty);
        self.send_pages(full.into_pages());
    }

    fn send_pages(&mut self, partitions: Vec<Vec<RowPage>>) {
        for (partition, pages) in partitions.into_iter().enumerate() {
            if !pages.is_empty() {
                let layout = self.shape.handover.clone();
                self.ready.push_back(Pages::new(layout, partition as u32, pages));
            }
        }
    }

    /// The next pages to be sent.
    pub(super) fn next_ready(&mut self) -> Option<Pages> {
        self.ready.pop_front()
    }

    /// Appends table and unsent rows to a snapshot.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.tables.iter_mut().try_for_each(|table| table.write_to(out))?;
        (0..PARTITIONS).for_each(|p| write_store(self.partitions.partition(p), out));
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.tables.iter_mut().try_for_each(|table| table.read_from(bytes))?;
        for _ in 0..PARTITIONS {
            let mut store =
                RowStore::new(Arc::clone(&self.shape.handover), self.reservation.share());
            store.append_pages(read_pages(&self.shape.handover, &self.reservation, bytes)?)?;
            self.partitions.append_store(&store)?;
        }
        Ok(())
    }
}
