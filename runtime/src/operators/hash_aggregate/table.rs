//! Groups with the states of their aggregates: the table of one aggregation, or of one partition of it.
//!
//! Where rows may be withdrawn, groups that have lost all their rows give no results, and make room when they are the
//! most. Invariant: the states know exactly the rows of the store; a group's id is its number by arrival among those
//! that are there.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::take_arrays;
use arrow_schema::DataType;

use super::shape::Shape;
use crate::aggregates::{AggregateStates, FEW_GROUPS, FewCounts, Groups, StateUse};
use crate::batch::BATCH_BYTES_MAX;
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::operators::StateSnapshot;
use crate::operators::contract::restore_batches;
use crate::rows::{PageStates, RowId, RowPage, RowStore, Selected, take_array, take_bytes};
use crate::state::KeyedState;

/// Groups below which none is dropped.
const COMPACT_GROUPS_MIN: usize = 1024;
/// Bytes below which no room is looked for.
const COMPACT_BYTES_MIN: usize = 1 << 20;

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
    /// Groups that give results also without rows.
    standing: Vec<RowId>,
    /// Rows withdrawn since groups without rows were looked for.
    withdrawn: usize,
    /// Bytes of the groups when they were last copied together.
    compact_bytes: usize,
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
            standing: Vec::new(),
            withdrawn: 0,
            compact_bytes: 0,
        };
        this.make_global_group()?;
        Ok(this)
    }

    fn make_global_group(&mut self) -> Result<()> {
        if self.shape.keys() == 0 {
            self.insert_group(&[])?;
        }
        Ok(())
    }

    /// Puts the group of each row into `slots`.
    fn find(
        &mut self,
        keys: &[ArrayRef],
        hashes: Option<&[u64]>,
        rows: usize,
    ) -> Result<Range<RowId>> {
        let rows = Selected::All(rows);
        let new =
            self.groups.lookup_or_insert(keys, hashes, rows, &mut self.slots, &mut self.new)?;
        self.states.reserve(self.groups.len());
        Ok(new)
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

    /// Makes sure that the group of one row of keys exists, and that it gives results even without rows.
    pub(super) fn insert_group(&mut self, keys: &[ArrayRef]) -> Result<()> {
        self.find(keys, None, 1)?;
        if !self.standing.contains(&self.slots[0]) {
            self.standing.push(self.slots[0]);
        }
        Ok(())
    }

    /// Finds the groups of rows, one column for each key; gives the ids of those that are new. [`Self::located`] has
    /// the groups then.
    pub(super) fn locate(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Range<RowId>> {
        self.find(keys, None, rows)
    }

    /// The groups that [`Self::locate`] found, one a row.
    pub(super) fn located(&self) -> &[RowId] {
        &self.slots
    }

    /// Takes the rows in that were located, and then those out that `deletes` tells.
    pub(super) fn apply_located(
        &mut self,
        arguments: &[ArrayRef],
        deletes: Option<&BooleanArray>,
    ) -> Result<()> {
        let Some(deletes) = deletes else {
            let groups =
                groups_of(self.shape.keys(), &self.slots, self.groups.len(), &mut self.counts);
            self.states.update(&mut self.groups.states_mut(), arguments, groups)?;
            return self.charge_heap();
        };
        for withdrawn in [false, true] {
            let rows =
                (0..deletes.len() as u32).filter(|&row| deletes.value(row as usize) == withdrawn);
            let rows = match withdrawn && self.shape.use_of == StateUse::Forgotten {
                true => UInt32Array::from(self.rows_there(rows)),
                false => UInt32Array::from_iter_values(rows),
            };
            if rows.is_empty() {
                continue;
            }
            let arguments = take_arrays(arguments, &rows, None)?;
            let ids: Vec<RowId> =
                rows.values().iter().map(|&row| self.slots[row as usize]).collect();
            let groups = groups_of(self.shape.keys(), &ids, self.groups.len(), &mut self.counts);
            let mut states = self.groups.states_mut();
            if !withdrawn {
                self.states.update(&mut states, &arguments, groups)?;
                continue;
            }
            self.states.retract(&mut states, &arguments, groups)?;
            if ids.iter().any(|&id| self.states.count_rows(&states, id) < 0) {
                return Err(Error::Internal("a row was withdrawn that no group had".into()));
            }
            self.withdrawn += ids.len();
        }
        self.charge_heap()
    }

    /// Of rows that are withdrawn, no more of a group than it has: the others were forgotten.
    fn rows_there(&mut self, withdrawn: impl Iterator<Item = u32>) -> Vec<u32> {
        let states = self.groups.states_mut();
        let groups = self.slots.iter().max().map_or(0, |&group| group as usize + 1);
        let mut left: Vec<Option<i64>> = vec![None; groups];
        withdrawn
            .filter(|&row| {
                let group = self.slots[row as usize];
                let left = left[group as usize]
                    .get_or_insert_with(|| self.states.count_rows(&states, group));
                *left -= 1;
                *left >= 0
            })
            .collect()
    }

    /// Takes rows in, and then those out that `deletes` tells: one column for each key, and the columns of the
    /// aggregates' arguments. Ids change when groups are dropped.
    pub(super) fn change(
        &mut self,
        keys: &[ArrayRef],
        arguments: &[ArrayRef],
        deletes: &BooleanArray,
    ) -> Result<()> {
        self.locate(keys, deletes.len())?;
        self.apply_located(arguments, Some(deletes))?;
        self.compact()?;
        Ok(())
    }

    /// Keeps those groups that give results: that have rows, or stand without.
    pub(super) fn retain_present(&mut self, groups: &mut Vec<RowId>) {
        if self.states.counts_rows() {
            let states = self.groups.states_mut();
            groups.retain(|group| {
                self.states.count_rows(&states, *group) > 0 || self.standing.contains(group)
            });
        }
    }

    /// Makes room: drops groups without rows when they are the most, and bytes of strings that others have replaced.
    /// Tells whether ids have changed. A look at all groups is paid by as many withdrawn rows.
    pub(super) fn compact(&mut self) -> Result<bool> {
        if self.len() < COMPACT_GROUPS_MIN || self.withdrawn * 2 < self.len() {
            self.drop_replaced_strings()?;
            return Ok(false);
        }
        self.withdrawn = 0;
        let mut present: Vec<RowId> = (0..self.len() as RowId).collect();
        self.retain_present(&mut present);
        if present.len() * 2 >= self.len() {
            return Ok(false);
        }
        self.keep(&present)?;
        Ok(true)
    }

    /// Drops groups that are to be forgotten, but none that gives results without rows; gives the ids that those which
    /// stay had before, in their order.
    pub(super) fn forget(&mut self, is_forgotten: impl Fn(RowId) -> bool) -> Result<Vec<RowId>> {
        let standing = &self.standing;
        let stays = |group: &RowId| standing.contains(group) || !is_forgotten(*group);
        let kept: Vec<RowId> = (0..self.len() as RowId).filter(stays).collect();
        self.keep(&kept)?;
        Ok(kept)
    }

    /// Drops all groups but some, whose ids are their places from now on.
    fn keep(&mut self, present: &[RowId]) -> Result<()> {
        let carried = self.carry()?;
        let carried = take_arrays(&carried, &UInt32Array::from(present.to_vec()), None)?;
        self.groups.keep_only(present)?;
        for group in &mut self.standing {
            *group = present.partition_point(|old| old < group) as RowId;
        }
        self.states.clear()?;
        let groups: Vec<RowId> = (0..present.len() as RowId).collect();
        self.states.reserve(groups.len());
        if !carried.is_empty() {
            self.states.restore_carried(&mut self.groups.states_mut(), &carried, &groups)?;
        }
        self.charge_heap()
    }

    /// Copies the groups together when they have come to twice their bytes, of which some may be of strings that longer
    /// ones have replaced: a row's new string takes the old one's place only if it fits there.
    pub(super) fn drop_replaced_strings(&mut self) -> Result<()> {
        if !self.shape.states.iter().any(|slot| slot.bytes) {
            return Ok(());
        }
        let bytes = self.groups.store().memory_bytes();
        if bytes < 2 * self.compact_bytes.max(COMPACT_BYTES_MIN) {
            return Ok(());
        }
        let all: Vec<RowId> = self.groups.ids().collect();
        self.groups.keep_only(&all)?;
        self.compact_bytes = self.groups.store().memory_bytes();
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

    /// Merges another table of the same aggregation, which stays as it is.
    pub(super) fn merge_table(&mut self, other: &mut AggregateTable) -> Result<()> {
        let carried = other.carry()?;
        let shape = Arc::clone(&self.shape);
        self.states.bind(shape.table.states(), shape.table.states());
        let merged = self.merge_groups(other.groups.store(), &carried);
        self.states.bind(shape.table.states(), shape.handover.states());
        merged?;
        self.charge_heap()
    }

    fn merge_groups(&mut self, source: &RowStore, carried: &[ArrayRef]) -> Result<()> {
        for page in 0..source.num_pages() {
            let ids: Vec<RowId> = source.page_ids(page).collect();
            let Some(first) = ids.first().map(|&id| id as usize) else { continue };
            let keys = source.gather_all(0..self.shape.keys(), &ids)?;
            self.find(&keys, None, ids.len())?;
            let mut states = self.groups.states_mut();
            self.states.merge(&mut states, &source.page_states(page), &self.slots)?;
            if !carried.is_empty() {
                let carried: Vec<ArrayRef> =
                    carried.iter().map(|column| column.slice(first, ids.len())).collect();
                self.states.merge_carried(&mut states, &carried, &self.slots)?;
            }
        }
        Ok(())
    }

    /// No rows follow.
    pub(super) fn finish(&mut self) {
        self.states.finish();
    }

    /// The result rows of those of some groups that give results, with their number: keys, then aggregates.
    pub(super) fn results(&mut self, groups: Range<RowId>) -> Result<(Vec<ArrayRef>, usize)> {
        let mut ids: Vec<RowId> = groups.collect();
        self.retain_present(&mut ids);
        let mut columns = self.output_keys(&ids)?;
        columns.extend(self.finalize(&ids)?);
        Ok((columns, ids.len()))
    }

    /// The keys of groups as they are emitted.
    pub(super) fn output_keys(&self, ids: &[RowId]) -> Result<Vec<ArrayRef>> {
        let keys = self.groups.store().gather_all(0..self.shape.keys(), ids)?;
        self.shape.output_keys(keys)
    }

    /// The aggregates' results for groups.
    pub(super) fn finalize(&mut self, ids: &[RowId]) -> Result<Vec<ArrayRef>> {
        self.states.finalize(&mut self.groups.states_mut(), ids)
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
        self.standing.clear();
        self.withdrawn = 0;
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

/// The groups of rows, all of one where there are no keys.
fn groups_of<'a>(
    keys: usize,
    ids: &'a [RowId],
    bound: usize,
    counts: &'a mut FewCounts,
) -> Groups<'a> {
    match keys {
        0 => Groups::One { id: 0, rows: ids.len() },
        _ => Groups::of(ids, bound, counts),
    }
}

/// The groups of the next batch of results: as many as its bounds in rows and bytes allow.
pub(super) fn result_rows(table: &AggregateTable, batch_rows: usize, next: usize) -> Range<RowId> {
    let bytes = (table.store().memory_bytes() + table.beside_bytes()) / table.len().max(1);
    let rows = (BATCH_BYTES_MAX / bytes.max(1)).clamp(64.min(batch_rows), batch_rows);
    let end = table.len().min(next + rows);
    next as RowId..end as RowId
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
