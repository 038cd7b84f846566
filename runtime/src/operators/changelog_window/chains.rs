//! The first rows of partitions as chains in order.
//!
//! Links are row ids plus one, 0 at either end; beside each row is its order key. Invariant: a chain ascends by order
//! key, and rows with equal keys stand as they came; rows that have left a chain keep their place until
//! [`Chains::compact`].

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::ArrayRef;
use arrow_schema::DataType;

use crate::error::Result;
use crate::memory::{Plain, Reservation};
use crate::rows::{RowId, RowLayout, RowStore, Selected, StateSlot, key_prefix};
use crate::state::{KeyedState, read_store, write_store};

/// Rows below which nothing is compacted.
const COMPACT_ROWS_MIN: usize = 4096;

/// A row, and where it stands in its partition from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The row.
    pub(super) id: RowId,
    /// Its number.
    pub(super) number: u32,
}

#[derive(Debug, Clone, Copy)]
struct RowSlots {
    next: usize,
    before: usize,
    /// The partition plus one; 0 once the row has left it.
    partition: usize,
    key: usize,
}

#[derive(Debug, Clone, Copy)]
struct PartitionSlots {
    head: usize,
    last: usize,
    rows: usize,
    /// The partition's number among those of the batch in hand plus one.
    touched: usize,
    /// The first bytes of the last row's key; of a full partition.
    bound: usize,
}

/// A partition that the batch in hand changes, and its rows before among all such rows.
#[derive(Debug)]
struct Touched {
    partition: RowId,
    before: Range<usize>,
}

/// The chains of all partitions.
#[derive(Debug)]
pub(super) struct Chains {
    partitions: KeyedState,
    rows: RowStore,
    row_slots: RowSlots,
    slots: PartitionSlots,
    wanted: usize,
    prefix_decides: bool,
    /// Rows in chains.
    live: usize,
    touched: Vec<Touched>,
    before: Vec<RowId>,
    after: Vec<RowId>,
}

impl Chains {
    /// No partitions, of which so many rows are wanted; also says whether the first bytes of keys decide.
    pub(super) fn new(
        types: &[DataType],
        key_types: &[DataType],
        (wanted, prefix_decides): (usize, bool),
        reservation: &Reservation,
    ) -> Result<Self> {
        let link = StateSlot::new(4, 4);
        let layout = RowLayout::new(types, &[link, link, link, StateSlot::byte_string()])?;
        let at = |i: usize| layout.states()[i].offset;
        let row_slots = RowSlots { next: at(0), before: at(1), partition: at(2), key: at(3) };
        let states = [link, link, link, link, StateSlot::new(16, 16)];
        let partitions = KeyedState::new(key_types, &states, reservation.share())?;
        let at = |i: usize| partitions.layout().states()[i].offset;
        let slots =
            PartitionSlots { head: at(0), last: at(1), rows: at(2), touched: at(3), bound: at(4) };
        Ok(Chains {
            rows: RowStore::new(layout, reservation.share()),
            partitions,
            row_slots,
            slots,
            wanted: wanted.min(u32::MAX as usize),
            prefix_decides,
            live: 0,
            touched: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
        })
    }

    /// The partition of each row of the keys, new ones included.
    pub(super) fn find(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
        out: &mut Vec<RowId>,
        new: &mut Vec<u32>,
    ) -> Result<()> {
        self.partitions.lookup_or_insert(keys, None, Selected::All(rows), out, new)?;
        Ok(())
    }

    /// Whether a partition has all the rows that are wanted.
    #[inline]
    pub(super) fn is_full(&self, partition: RowId) -> bool {
        self.of_partition::<u32>(partition, self.slots.rows) as usize >= self.wanted
    }

    /// Whether a row with this order key stands before the last one of its partition, or the partition is not full.
    #[inline]
    pub(super) fn may_enter(&self, partition: RowId, prefix: u128, key: &[u8]) -> bool {
        if !self.is_full(partition) {
            return true;
        }
        match prefix.cmp(&self.of_partition::<u128>(partition, self.slots.bound)) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal if self.prefix_decides => false,
            Ordering::Equal => {
                let last: u32 = self.of_partition(partition, self.slots.last);
                key < self.key(last - 1)
            }
        }
    }

    /// Keeps of the candidates the first one of each partition, where one row a partition is wanted.
    pub(super) fn keep_best(
        &mut self,
        partitions: &[RowId],
        compare: impl Fn(u32, u32) -> Ordering,
        candidates: &mut Vec<u32>,
    ) {
        let slot = self.slots.touched;
        let mut states = self.partitions.states_mut();
        let mut best: Vec<u32> = Vec::with_capacity(candidates.len());
        for &row in candidates.iter() {
            let partition = partitions[row as usize];
            match states.read::<u32>(partition, slot) {
                0 => {
                    best.push(row);
                    states.write(partition, slot, best.len() as u32);
                }
                at => {
                    let first = &mut best[at as usize - 1];
                    if compare(row, *first) == Ordering::Less {
                        *first = row;
                    }
                }
            }
        }
        for &row in &best {
            states.write(partitions[row as usize], slot, 0_u32);
        }
        *candidates = best;
    }

    /// Stores rows that are to be inserted.
    pub(super) fn append(
        &mut self,
        columns: &[ArrayRef],
        rows: Selected<'_>,
    ) -> Result<Range<RowId>> {
        self.rows.append(columns, rows)
    }

    /// Puts a stored row into its partition's chain if it still stands before the last one; what is too much leaves.
    pub(super) fn insert(&mut self, partition: RowId, id: RowId, key: &[u8]) -> Result<()> {
        if !self.may_enter(partition, key_prefix(key), key) {
            return Ok(());
        }
        self.touch(partition);
        self.rows.states_mut().set_bytes(id, self.row_slots.key, key)?;
        let (mut before, mut next) = (0, self.of_partition::<u32>(partition, self.slots.head));
        while next != 0 && self.key(next - 1) <= key {
            (before, next) = (next, self.of_row(next - 1, self.row_slots.next));
        }
        self.link((before, next), id, partition);
        if self.of_partition::<u32>(partition, self.slots.rows) as usize > self.wanted {
            self.drop_last(partition);
        }
        if self.is_full(partition) {
            let last: u32 = self.of_partition(partition, self.slots.last);
            let bound = key_prefix(self.key(last - 1));
            self.partitions.states_mut().write(partition, self.slots.bound, bound);
        }
        Ok(())
    }

    /// Remembers the rows of a partition before the batch.
    fn touch(&mut self, partition: RowId) {
        if self.of_partition::<u32>(partition, self.slots.touched) != 0 {
            return;
        }
        let start = self.before.len();
        let mut before = std::mem::take(&mut self.before);
        self.list(partition, &mut before);
        self.before = before;
        self.touched.push(Touched { partition, before: start..self.before.len() });
        let number = self.touched.len() as u32;
        self.partitions.states_mut().write(partition, self.slots.touched, number);
    }

    fn list(&self, partition: RowId, out: &mut Vec<RowId>) {
        let mut link: u32 = self.of_partition(partition, self.slots.head);
        while link != 0 {
            out.push(link - 1);
            link = self.of_row(link - 1, self.row_slots.next);
        }
    }

    fn link(&mut self, (before, next): (u32, u32), id: RowId, partition: RowId) {
        let (slots, of_partition) = (self.row_slots, self.slots);
        let mut rows = self.rows.states_mut();
        rows.write(id, slots.before, before);
        rows.write(id, slots.next, next);
        rows.write(id, slots.partition, partition + 1);
        let mut partitions = self.partitions.states_mut();
        match before {
            0 => partitions.write(partition, of_partition.head, id + 1),
            before => rows.write(before - 1, slots.next, id + 1),
        }
        match next {
            0 => partitions.write(partition, of_partition.last, id + 1),
            next => rows.write(next - 1, slots.before, id + 1),
        }
        partitions.update(partition, of_partition.rows, |rows: u32| rows + 1);
        self.live += 1;
    }

    fn drop_last(&mut self, partition: RowId) {
        let slots = self.row_slots;
        let last: u32 = self.of_partition(partition, self.slots.last);
        let mut rows = self.rows.states_mut();
        let before: u32 = rows.read(last - 1, slots.before);
        rows.write(last - 1, slots.partition, 0_u32);
        let mut partitions = self.partitions.states_mut();
        match before {
            0 => partitions.write(partition, self.slots.head, 0_u32),
            before => rows.write(before - 1, slots.next, 0_u32),
        }
        partitions.write(partition, self.slots.last, before);
        partitions.update(partition, self.slots.rows, |rows: u32| rows - 1);
        self.live -= 1;
    }

    /// Lists what the batch changed: the places that are no more, and then those that are new. Where numbers come out, a
    /// row whose number changes is in both. Returns how many are no more.
    pub(super) fn take_changes(&mut self, numbered: bool, out: &mut Vec<Place>) -> usize {
        let mut came: Vec<Place> = Vec::new();
        let mut after = std::mem::take(&mut self.after);
        for Touched { partition, before } in &self.touched {
            after.clear();
            self.list(*partition, &mut after);
            let before = &self.before[before.clone()];
            if numbered {
                list_moved(before, &after, out);
                list_moved(&after, before, &mut came);
            } else {
                self.list_others(before, &after, (out, &mut came));
            }
        }
        self.after = after;
        let mut partitions = self.partitions.states_mut();
        for touched in self.touched.drain(..) {
            partitions.write(touched.partition, self.slots.touched, 0_u32);
        }
        self.before.clear();
        let gone = out.len();
        out.append(&mut came);
        gone
    }

    /// Lists the rows that are in one of two chains alone. Rows that stay keep their order in both.
    fn list_others(
        &self,
        before: &[RowId],
        after: &[RowId],
        (gone, came): (&mut Vec<Place>, &mut Vec<Place>),
    ) {
        let place = |id: RowId| Place { id, number: 0 };
        let is_there = |id: RowId| self.of_row::<u32>(id, self.row_slots.partition) != 0;
        gone.extend(before.iter().filter(|&&id| !is_there(id)).map(|&id| place(id)));
        let mut stayed = before.iter().filter(|&&id| is_there(id)).peekable();
        for &id in after {
            if stayed.next_if(|&&stays| stays == id).is_none() {
                came.push(place(id));
            }
        }
    }

    /// The columns of some rows.
    pub(super) fn gather(&self, ids: &[RowId]) -> Result<Vec<ArrayRef>> {
        self.rows.gather_all(0..self.rows.layout().num_fields(), ids)
    }

    /// Rows of all partitions.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// How many partitions there are; their ids are the numbers below.
    pub(super) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// A key of all partitions.
    pub(super) fn partition_key(&self, key: usize) -> Result<ArrayRef> {
        let ids: Vec<RowId> = self.partitions.ids().collect();
        self.partitions.store().gather(key, &ids)
    }

    /// Keeps some partitions alone, given in order; partition `kept[i]` gets the id `i`. Called between batches alone.
    pub(super) fn keep_only(&mut self, kept: &[RowId]) -> Result<()> {
        let slot = self.row_slots.partition;
        self.partitions.keep_only(kept)?;
        let ids: Vec<RowId> = self.rows.ids().collect();
        let mut rows = self.rows.states_mut();
        for id in ids {
            let partition: u32 = rows.read(id, slot);
            if partition == 0 {
                continue;
            }
            let stays = kept.binary_search(&(partition - 1));
            self.live -= usize::from(stays.is_err());
            rows.write(id, slot, stays.map_or(0, |new| new as u32 + 1));
        }
        self.compact()
    }

    /// Frees the places of rows that have left, if they are more than those that are there.
    pub(super) fn compact(&mut self) -> Result<()> {
        let places = self.rows.len();
        if places < COMPACT_ROWS_MIN || self.live * 2 >= places {
            return Ok(());
        }
        let slots = self.row_slots;
        let kept: Vec<RowId> =
            self.rows.ids().filter(|&id| self.of_row::<u32>(id, slots.partition) != 0).collect();
        let mut new_links = vec![0_u32; self.rows.id_bound() + 1];
        for (new, &old) in (1..).zip(&kept) {
            new_links[old as usize + 1] = new;
        }
        let moved = |link: u32| new_links[link as usize];
        let mut copy = RowStore::new(self.rows.layout().clone(), self.rows.reservation().share());
        copy.append_rows(&self.rows, &kept)?;
        self.rows = copy;
        let mut rows = self.rows.states_mut();
        let mut partitions = self.partitions.states_mut();
        for id in 0..kept.len() as RowId {
            rows.update(id, slots.next, moved);
            rows.update(id, slots.before, moved);
            let partition = rows.read::<u32>(id, slots.partition) - 1;
            if rows.read::<u32>(id, slots.before) == 0 {
                partitions.write(partition, self.slots.head, id + 1);
            }
            if rows.read::<u32>(id, slots.next) == 0 {
                partitions.write(partition, self.slots.last, id + 1);
            }
        }
        Ok(())
    }

    #[inline]
    fn key(&self, id: RowId) -> &[u8] {
        let (page, row) = self.rows.layout().locate(id);
        self.rows.page_states(page).bytes(row, self.row_slots.key)
    }

    #[inline]
    fn of_row<T: Plain + Copy>(&self, id: RowId, offset: usize) -> T {
        let (page, row) = self.rows.layout().locate(id);
        self.rows.page_states(page).read(row, offset)
    }

    #[inline]
    fn of_partition<T: Plain + Copy>(&self, partition: RowId, offset: usize) -> T {
        let store = self.partitions.store();
        let (page, row) = store.layout().locate(partition);
        store.page_states(page).read(row, offset)
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        self.partitions.snapshot(out);
        write_store(&self.rows, out);
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.clear();
        self.partitions.restore(bytes)?;
        read_store(&mut self.rows, bytes)?;
        let slot = self.row_slots.partition;
        self.live = self.rows.ids().filter(|&id| self.of_row::<u32>(id, slot) != 0).count();
        Ok(())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.partitions.clear();
        self.rows.clear();
        self.live = 0;
        self.touched.clear();
        self.before.clear();
    }
}

/// Lists the places of a chain that have another row, or none, in another chain.
fn list_moved(chain: &[RowId], other: &[RowId], out: &mut Vec<Place>) {
    for (number, (i, &id)) in (1..).zip(chain.iter().enumerate()) {
        if other.get(i) != Some(&id) {
            out.push(Place { id, number });
        }
    }
}
