//! Groups with the states of their aggregates: the table of one aggregation, or of one partition of it.
//!
//! Invariant: the states know exactly the rows of the store; a group's id is its number by arrival.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow_schema::DataType;

use super::shape::Shape;
use crate::aggregates::{AggregateStates, FEW_GROUPS, FewCounts, Groups};
use crate::error::Result;
use crate::memory::Reservation;
use crate::operators::StateSnapshot;
use crate::operators::contract::restore_batches;
use crate::rows::{PageStates, RowId, RowPage, RowStore, Selected, take_array, take_bytes};
use crate::state::KeyedState;

/// Groups and their states.
pub(super) struct AggregateTable {
    shape: Arc<Shape>,
    groups: KeyedState,
    states: AggregateStates,
    /// Charged for what the states keep on the heap.
    heap: Reservation,
    hashes: Vec<u64>,
    new: Vec<u32>,
    slots: Vec<RowId>,
    counts: FewCounts,
}

impl AggregateTable {
    /// A table without groups; without keys, with its only one.
    pub(super) fn new(shape: &Arc<Shape>, reservation: &Reservation) -> Result<Self> {
        let mut states = shape.new_states(reservation)?;
        states.bind(shape.table.states(), shape.handover.states());
        let groups = KeyedState::new(&shape.key_types, &shape.states, reservation.share())?;
        let mut this = AggregateTable {
            shape: Arc::clone(shape),
            groups,
            states,
            heap: reservation.share(),
            hashes: Vec::new(),
            new: Vec::new(),
            slots: Vec::new(),
            counts: [0; FEW_GROUPS],
        };
        this.make_global_group()?;
        Ok(this)
    }

    fn make_global_group(&mut self) -> Result<()> {
        if self.shape.keys() == 0 {
            self.find(&[], None, 1)?;
        }
        Ok(())
    }

    /// Puts the group of each row into `slots`.
    fn find(&mut self, keys: &[ArrayRef], hashes: Option<&[u64]>, rows: usize) -> Result<()> {
        let rows = Selected::All(rows);
        self.groups.lookup_or_insert(keys, hashes, rows, &mut self.slots, &mut self.new)?;
        self.states.reserve(self.groups.len());
        Ok(())
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups.store().len()
    }

    /// The rows of the groups.
    pub(super) fn store(&self) -> &RowStore {
        self.groups.store()
    }

    /// All groups as pages by partition; the table is empty afterwards. Nothing is kept beside the rows.
    pub(super) fn take_partitions(&mut self, partitions: usize) -> Result<Vec<Vec<RowPage>>> {
        let pages = self.groups.take_partitions(partitions)?;
        self.make_global_group()?;
        Ok(pages)
    }

    /// Bytes that the states keep beside the rows.
    pub(super) fn beside_bytes(&self) -> usize {
        self.states.memory_bytes() + self.states.reserved_bytes()
    }

    /// Takes rows in: one column for each key, and the columns of the aggregates' arguments.
    pub(super) fn update(
        &mut self,
        keys: &[ArrayRef],
        arguments: &[ArrayRef],
        rows: usize,
    ) -> Result<()> {
        let groups = if keys.is_empty() {
            Groups::One { id: 0, rows }
        } else {
            self.find(keys, None, rows)?;
            Groups::of(&self.slots, self.groups.len(), &mut self.counts)
        };
        self.states.update(&mut self.groups.states_mut(), arguments, groups)?;
        self.charge_heap()
    }

    /// Makes sure that the group of one row of keys exists.
    pub(super) fn insert_group(&mut self, keys: &[ArrayRef]) -> Result<()> {
        self.find(keys, None, 1)
    }

    fn charge_heap(&mut self) -> Result<()> {
        self.heap.try_resize(self.states.memory_bytes())
    }

    /// Takes partial results in, as another table handed them over.
    pub(super) fn merge(&mut self, pages: Vec<RowPage>) -> Result<()> {
        let mut incoming = RowStore::new(Arc::clone(&self.shape.handover), self.heap.share());
        incoming.append_pages(pages)?;
        let (keys, fields) = (self.shape.keys(), self.shape.handover.num_fields());
        for page in 0..incoming.num_pages() {
            let ids: Vec<RowId> = incoming.page_ids(page).collect();
            let columns = incoming.gather_all(0..keys, &ids)?;
            let mut hashes = std::mem::take(&mut self.hashes);
            hashes.clear();
            hashes.extend(ids.iter().map(|&id| incoming.read_hash(id)));
            self.find(&columns, Some(&hashes), ids.len())?;
            self.hashes = hashes;
            let mut states = self.groups.states_mut();
            self.states.merge(&mut states, &incoming.page_states(page), &self.slots)?;
            if fields > keys {
                let carried = incoming.gather_all(keys..fields, &ids)?;
                self.states.merge_carried(&mut states, &carried, &self.slots)?;
            }
        }
        self.charge_heap()
    }

    /// Merges states of another table of the same layout into the groups of these keys; `states` is bound to that
    /// layout on both sides.
    pub(super) fn merge_states(
        &mut self,
        keys: &[ArrayRef],
        states: &mut AggregateStates,
        incoming: &PageStates<'_>,
        rows: usize,
    ) -> Result<()> {
        self.find(keys, None, rows)?;
        states.merge(&mut self.groups.states_mut(), incoming, &self.slots)
    }

    /// No rows follow.
    pub(super) fn finish(&mut self) {
        self.states.finish();
    }

    /// The result rows of some groups: keys, then aggregates.
    pub(super) fn results(&mut self, groups: Range<RowId>) -> Result<Vec<ArrayRef>> {
        let ids: Vec<RowId> = groups.collect();
        let keys = self.groups.store().gather_all(0..self.shape.keys(), &ids)?;
        let mut columns = self.shape.output_keys(keys)?;
        columns.extend(self.states.finalize(&mut self.groups.states_mut(), &ids)?);
        Ok(columns)
    }

    /// The columns that are kept beside the rows, for all groups.
    pub(super) fn carry(&mut self) -> Result<Vec<ArrayRef>> {
        let groups = self.len() as RowId;
        let columns = self.states.carry(0..groups)?;
        self.charge_heap()?;
        Ok(columns)
    }

    /// Forgets all groups; without keys the only one begins anew.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.groups.clear();
        self.states.clear()?;
        self.heap.try_resize(0)?;
        self.make_global_group()
    }

    /// Appends the table to a snapshot.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.groups.snapshot(out);
        let carried = self.carry()?;
        let batches = match carried.is_empty() || self.len() == 0 {
            true => Vec::new(),
            false => vec![crate::Batch::new(carried, self.len())],
        };
        let carried = StateSnapshot::of_batches(&batches, self.carried_types())?;
        out.extend_from_slice(&(carried.bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(&carried.bytes);
        Ok(())
    }

    fn carried_types(&self) -> &[DataType] {
        &self.shape.carried
    }

    /// Takes over what [`Self::write_to`] wrote, into a new table.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.groups.restore(bytes)?;
        let len = u64::from_le_bytes(take_array(bytes)?) as usize;
        let carried = StateSnapshot { bytes: take_bytes(bytes, len)?.to_vec() };
        let groups: Vec<RowId> = (0..self.len() as RowId).collect();
        self.states.reserve(groups.len());
        for batch in restore_batches(&carried)? {
            self.states.restore_carried(&mut self.groups.states_mut(), batch.columns(), &groups)?;
        }
        self.charge_heap()
    }
}

/// Appends the pages of a store: their number, then each.
pub(super) fn write_store(store: &RowStore, out: &mut Vec<u8>) {
    out.extend_from_slice(&(store.num_pages() as u32).to_le_bytes());
    store.pages().iter().for_each(|page| page.write_to(store.layout(), out));
}

/// The pages that [`write_store`] wrote.
pub(super) fn read_pages(
    layout: &crate::rows::RowLayout,
    reservation: &Reservation,
    bytes: &mut &[u8],
) -> Result<Vec<RowPage>> {
    let pages = u32::from_le_bytes(take_array(bytes)?);
    (0..pages).map(|_| RowPage::read_from(layout, reservation, bytes)).collect()
}
