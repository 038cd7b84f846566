//! Partial results on their way to the final phase, by radix partition of the key's hash.
//!
//! Invariant: rows are in the hand-over's form, and the rows of one [`Pages`] belong to one partition.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::shape::Shape;
use super::table::{AggregateTable, read_pages, write_store};
use crate::aggregates::AggregateStates;
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::{
    HASH_SEED, Pages, PartitionedRows, RowId, RowPage, RowStore, Selected, hash_columns,
};

/// Radix partitions of the hand-over; consumers own them in turn.
pub(super) const PARTITIONS: usize = 64;
/// Bytes of rows that are gathered before they are sent.
const SEND_BYTES: usize = 4 << 20;

/// Rows that wait to be sent.
pub(super) struct Outgoing {
    shape: Arc<Shape>,
    partitions: PartitionedRows,
    reservation: Reservation,
    ready: VecDeque<Pages>,
    hashes: Vec<u64>,
}

impl Outgoing {
    /// Nothing to send yet.
    pub(super) fn new(shape: &Arc<Shape>, reservation: &Reservation) -> Self {
        Outgoing {
            shape: Arc::clone(shape),
            partitions: PartitionedRows::new(&shape.handover, reservation, PARTITIONS),
            reservation: reservation.share(),
            ready: VecDeque::new(),
            hashes: Vec::new(),
        }
    }

    /// Takes rows of keys and carried columns; `fill` fills in their states.
    pub(super) fn add(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        fill: impl FnOnce(&mut RowStore, &[RowId]) -> Result<()>,
    ) -> Result<()> {
        let mut store = RowStore::new(Arc::clone(&self.shape.handover), self.reservation.share());
        let keys = &columns[..self.shape.keys()];
        hash_columns(keys, Selected::All(rows), HASH_SEED, &mut self.hashes)?;
        if keys.is_empty() {
            // The only group of all belongs to the first partition.
            self.hashes.fill(0);
        }
        let ids: Vec<RowId> = store.append(columns, Selected::All(rows))?.collect();
        store.write_hashes(ids.iter().copied().zip(self.hashes.iter().copied()));
        fill(&mut store, &ids)?;
        self.partitions.append_store(&store)
    }

    /// Takes all groups of a table over, with what is kept beside its rows; `states` merges its rows into those on their
    /// way.
    pub(super) fn add_table(
        &mut self,
        table: &mut AggregateTable,
        states: &mut AggregateStates,
    ) -> Result<()> {
        let carried = table.carry()?;
        let source = table.store();
        for page in 0..source.num_pages() {
            let ids: Vec<RowId> = source.page_ids(page).collect();
            let mut columns = source.gather_all(0..self.shape.keys(), &ids)?;
            let first = ids.first().map_or(0, |&id| id as usize);
            columns.extend(carried.iter().map(|column| column.slice(first, ids.len())));
            self.add(&columns, ids.len(), |store, new| {
                states.merge(&mut store.states_mut(), &source.page_states(page), new)
            })?;
        }
        Ok(())
    }

    /// Sends what waits if it is much.
    pub(super) fn send_if_much(&mut self) {
        let rows: usize = (0..PARTITIONS).map(|p| self.partitions.partition(p).len()).sum();
        if rows * self.shape.handover.row_bytes() > SEND_BYTES {
            self.send();
        }
    }

    /// Sends what waits.
    pub(super) fn send(&mut self) {
        let partitions = self.take_partitions();
        self.send_pages(partitions);
    }

    /// What waits, by partition.
    pub(super) fn take_partitions(&mut self) -> Vec<Vec<RowPage>> {
        let empty = PartitionedRows::new(&self.shape.handover, &self.reservation, PARTITIONS);
        std::mem::replace(&mut self.partitions, empty).into_pages()
    }

    /// Sends pages that are split already.
    pub(super) fn send_pages(&mut self, partitions: Vec<Vec<RowPage>>) {
        for (partition, pages) in partitions.into_iter().enumerate() {
            if !pages.is_empty() {
                let layout = self.shape.handover.clone();
                self.ready.push_back(Pages::new(layout, partition as u32, pages));
            }
        }
    }

    /// The next pages to leave the operator.
    pub(super) fn next_ready(&mut self) -> Option<Pages> {
        self.ready.pop_front()
    }

    /// States that may be merged from rows of `source` into rows on their way.
    pub(super) fn states_from(&self, source: &Shape) -> Result<AggregateStates> {
        let mut states = self.shape.new_states(&self.reservation)?;
        states.bind(self.shape.handover.states(), source.table.states());
        Ok(states)
    }

    /// Appends the waiting rows to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        (0..PARTITIONS).for_each(|p| write_store(self.partitions.partition(p), out));
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        for _ in 0..PARTITIONS {
            let mut store =
                RowStore::new(Arc::clone(&self.shape.handover), self.reservation.share());
            store.append_pages(read_pages(&self.shape.handover, &self.reservation, bytes)?)?;
            self.partitions.append_store(&store)?;
        }
        Ok(())
    }
}
