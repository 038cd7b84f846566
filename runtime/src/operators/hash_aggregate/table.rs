//! Groups with the states of their aggregates: the table of one aggregation, or of one partition of it.
//!
//! Invariant: the states know exactly the rows of the store; a group's id is its number by arrival.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow_schema::DataType;

use super::shape::Shape;
use crate::aggregates::group_table::GroupTable;
use crate::aggregates::{AggregateStates, FEW_GROUPS, FewCounts, Groups};
use crate::error::Result;
use crate::memory::Reservation;
use crate::operators::StateSnapshot;
use crate::operators::contract::restore_batches;
use crate::rows::{
    HASH_SEED, PageStates, RowId, RowPage, RowStore, Selected, StatesMut, hash_columns,
};

/// The hash of the only group of an aggregation without keys.
const GLOBAL_HASH: u64 = 0;

/// How a row finds its group.
enum Lookup {
    /// There are no keys: the one group is row 0.
    Global(RowStore),
    Keyed(GroupTable),
}

impl Lookup {
    fn store(&self) -> &RowStore {
        match self {
            Lookup::Global(store) => store,
            Lookup::Keyed(table) => table.store(),
        }
    }

    fn states_mut(&mut self) -> StatesMut<'_> {
        match self {
            Lookup::Global(store) => store.states_mut(),
            Lookup::Keyed(table) => table.states_mut(),
        }
    }
}

/// Groups and their states.
pub(super) struct AggregateTable {
    shape: Arc<Shape>,
    lookup: Lookup,
    states: AggregateStates,
    /// Charged for what the states keep on the heap.
    heap: Reservation,
    hashes: Vec<u64>,
    slots: Vec<RowId>,
    counts: FewCounts,
}

impl AggregateTable {
    /// A table without groups; without keys, with its only one.
    pub(super) fn new(shape: &Arc<Shape>, reservation: &Reservation) -> Result<Self> {
        let mut states = shape.states(reservation)?;
        states.bind(shape.table.states(), shape.handover.states());
        let lookup = match shape.keys() {
            0 => Lookup::Global(RowStore::new(Arc::clone(&shape.table), reservation.share())),
            keys => Lookup::Keyed(GroupTable::new(&shape.table, keys, reservation)?),
        };
        let mut this = AggregateTable {
            shape: Arc::clone(shape),
            lookup,
            states,
            heap: reservation.share(),
            hashes: Vec::new(),
            slots: Vec::new(),
            counts: [0; FEW_GROUPS],
        };
        this.make_global_group()?;
        Ok(this)
    }

    fn make_global_group(&mut self) -> Result<()> {
        if let Lookup::Global(store) = &mut self.lookup {
            let ids = store.append(&[], Selected::All(1))?;
            store.write_hashes(ids.map(|id| (id, GLOBAL_HASH)));
            self.states.reserve(1);
        }
        Ok(())
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.lookup.store().len()
    }

    /// The rows of the groups.
    pub(super) fn store(&self) -> &RowStore {
        self.lookup.store()
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
        let groups = match &mut self.lookup {
            Lookup::Global(_) => Groups::One { id: 0, rows },
            Lookup::Keyed(table) => {
                hash_columns(keys, Selected::All(rows), HASH_SEED, &mut self.hashes)?;
                table.lookup_or_insert(keys, &self.hashes, &mut self.slots, None)?;
                Groups::of(&self.slots, table.len(), &mut self.counts)
            }
        };
        self.states.reserve(self.lookup.store().len());
        self.states.update(&mut self.lookup.states_mut(), arguments, groups)?;
        self.charge_heap()
    }

    /// Makes sure that a group exists.
    pub(super) fn insert_group(&mut self, keys: &[ArrayRef], hashes: &[u64]) -> Result<()> {
        if let Lookup::Keyed(table) = &mut self.lookup {
            table.lookup_or_insert(keys, hashes, &mut self.slots, None)?;
            self.states.reserve(table.len());
        }
        Ok(())
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
            match &mut self.lookup {
                Lookup::Global(_) => {
                    self.slots.clear();
                    self.slots.resize(ids.len(), 0);
                }
                Lookup::Keyed(table) => {
                    let columns = incoming.gather_all(0..keys, &ids)?;
                    self.hashes.clear();
                    self.hashes.extend(ids.iter().map(|&id| incoming.read_hash(id)));
                    table.lookup_or_insert(&columns, &self.hashes, &mut self.slots, None)?;
                }
            }
            self.states.reserve(self.lookup.store().len());
            let source = PageStates::new(&self.shape.handover, &incoming.pages[page]);
            let mut states = self.lookup.states_mut();
            self.states.merge(&mut states, &source, &self.slots)?;
            if fields > keys {
                let carried = incoming.gather_all(keys..fields, &ids)?;
                self.states.merge_carried(&mut states, &carried, &self.slots)?;
            }
        }
        self.charge_heap()
    }

    /// No rows follow.
    pub(super) fn finish(&mut self) {
        self.states.finish();
    }

    /// The result rows of some groups: keys, then aggregates.
    pub(super) fn results(&mut self, groups: Range<RowId>) -> Result<Vec<ArrayRef>> {
        let ids: Vec<RowId> = groups.collect();
        let mut columns = self.lookup.store().gather_all(0..self.shape.keys(), &ids)?;
        for (column, wanted) in columns.iter_mut().zip(&self.shape.key_types) {
            if column.data_type() != wanted {
                *column = cast(column, wanted)?;
            }
        }
        columns.extend(self.states.finalize(&mut self.lookup.states_mut(), &ids)?);
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
        match &mut self.lookup {
            Lookup::Global(store) => store.clear(),
            Lookup::Keyed(table) => table.clear(),
        }
        self.states.clear()?;
        self.heap.try_resize(0)?;
        self.make_global_group()
    }

    /// Appends the table to a snapshot.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        write_store(self.lookup.store(), out);
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
        let pages = read_pages(&self.shape.table, &self.heap, bytes)?;
        match &mut self.lookup {
            Lookup::Global(store) => {
                store.clear();
                store.append_pages(pages)?;
            }
            Lookup::Keyed(table) => table.restore(pages)?,
        }
        let len = u64::from_le_bytes(take_array(bytes)?) as usize;
        let carried = StateSnapshot { bytes: take(bytes, len)?.to_vec() };
        let groups: Vec<RowId> = (0..self.len() as RowId).collect();
        self.states.reserve(groups.len());
        for batch in restore_batches(&carried)? {
            self.states.restore_carried(&mut self.lookup.states_mut(), batch.columns(), &groups)?;
        }
        self.charge_heap()
    }
}

/// Appends the pages of a store: their number, then each.
pub(super) fn write_store(store: &RowStore, out: &mut Vec<u8>) {
    out.extend_from_slice(&(store.num_pages() as u32).to_le_bytes());
    store.pages.iter().for_each(|page| page.write_to(store.layout(), out));
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

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(count).ok_or_else(|| {
        crate::Error::Internal("the snapshot of an aggregate is cut short".into())
    })?;
    *bytes = rest;
    Ok(front)
}

/// Some bytes from the front of a snapshot.
pub(super) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let mut array = [0; N];
    array.copy_from_slice(take(bytes, N)?);
    Ok(array)
}
