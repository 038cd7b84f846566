//! The rows that groups have now: each with how often it occurs, so that rows can be taken out again.
//!
//! A hash table over (group, row) counts occurrences; the rows of a group are linked, so that they are found without
//! a look at other groups. Where order matters, they have places in the order of arrival, and where the order of equal
//! rows among others matters, too, every occurrence is an entry of its own; the last is the first to go. Invariant: an
//! entry is present while its count, or that of an occurrence its place, is not zero; the order of present rows stays
//! the same whatever else happens, so that what is computed from them twice is the same bit by bit. Entries that are not are dropped once they outnumber the others, so that memory follows the
//! rows there are.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, UInt32Array};
use arrow::datatypes::{DataType, Fields, Int64Type, UInt32Type};

use super::arguments::take_all;
use super::kept_rows::{GroupedRows, SortedRows, flatten, list_type};
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::rows::{NO_ROW, RowId, Selected, StateSlot, StatesMut};
use crate::state::KeyedState;

/// Entries and bytes below which nothing is dropped.
const COMPACT_ROWS_MIN: usize = 1024;
const COMPACT_BYTES_MIN: usize = 1 << 20;

/// What is kept of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// How often each occurs in each group; no more is asked for.
    Counts,
    /// The same, and the rows of a group can be listed.
    Rows,
    /// The same in the order in which they first came.
    RowsInOrder,
    /// Each occurrence, in the order in which they came.
    Occurrences,
}

impl Keep {
    fn has_places(self) -> bool {
        matches!(self, Keep::RowsInOrder | Keep::Occurrences)
    }
}

/// Rows by group.
#[derive(Debug)]
pub(crate) struct Multiset {
    /// Keys: the group, the row's columns, and in order the number of the occurrence among equal rows.
    entries: KeyedState,
    columns: usize,
    keep: Keep,
    /// Whether a row that is taken out may not be there.
    lenient: bool,
    /// The first entry of each group.
    heads: Vec<RowId>,
    present: usize,
    /// The place of the next row.
    next_place: u64,
    list: DataType,
    fields: Fields,
    slots: Vec<RowId>,
    new: Vec<u32>,
}

/// Where the parts of an entry's state lie; what is not kept has no meaning.
#[derive(Debug, Clone, Copy)]
struct At {
    count: usize,
    next: usize,
    place: usize,
}

impl At {
    fn is_present(self, keep: Keep, states: &StatesMut<'_>, id: RowId) -> bool {
        match keep {
            Keep::Counts | Keep::Rows | Keep::RowsInOrder => {
                states.read::<i64>(id, self.count) != 0
            }
            Keep::Occurrences => states.read::<u64>(id, self.place) != 0,
        }
    }
}

/// Entries of some groups.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// For each entry the number of its group among those asked for.
    pub(crate) groups: Vec<RowId>,
    /// The entries.
    pub(crate) ids: Vec<RowId>,
}

impl Multiset {
    /// No rows, of columns of the given types. If it is `lenient`, rows may be taken out that never came.
    ///
    /// # Errors
    /// `Unsupported` for types whose values cannot be found again.
    pub(crate) fn new(
        types: &[DataType],
        keep: Keep,
        lenient: bool,
        reservation: &Reservation,
    ) -> Result<Self> {
        let mut key = vec![DataType::UInt32];
        key.extend_from_slice(types);
        let mut slots = vec![StateSlot::new(8, 8)];
        if keep.has_places() {
            slots.push(StateSlot::new(8, 8));
        }
        if keep != Keep::Counts {
            slots.push(StateSlot::new(4, 4));
        }
        let mut listed = types.to_vec();
        match keep {
            Keep::Counts | Keep::Rows | Keep::RowsInOrder => listed.push(DataType::Int64),
            Keep::Occurrences => key.push(DataType::UInt32),
        }
        let (list, fields) = list_type(&listed);
        Ok(Multiset {
            entries: KeyedState::new(&key, &slots, reservation.share())?,
            columns: types.len(),
            keep,
            lenient,
            heads: Vec::new(),
            present: 0,
            next_place: 1,
            list,
            fields,
            slots: Vec::new(),
            new: Vec::new(),
        })
    }

    fn at(&self) -> At {
        let states = self.entries.layout().states();
        let offset = |slot: usize| states.get(slot).map_or(0, |field| field.offset);
        match self.keep {
            Keep::Counts => At { count: offset(0), next: 0, place: 0 },
            Keep::Rows => At { count: offset(0), next: offset(1), place: 0 },
            Keep::RowsInOrder | Keep::Occurrences => {
                At { count: offset(0), next: offset(2), place: offset(1) }
            }
        }
    }

    /// Groups below `groups` exist.
    pub(crate) fn reserve(&mut self, groups: usize) {
        if self.keep != Keep::Counts && groups > self.heads.len() {
            self.heads.resize(groups, NO_ROW);
        }
    }

    /// Takes rows in: each `times` times, or once. `appeared` gets the positions of those that the group did not have.
    ///
    /// # Errors
    /// `ResourcesExhausted`.
    pub(crate) fn insert(
        &mut self,
        groups: &[RowId],
        columns: &[ArrayRef],
        times: Option<&Int64Array>,
        appeared: &mut Vec<u32>,
    ) -> Result<()> {
        appeared.clear();
        if groups.is_empty() {
            return Ok(());
        }
        self.reserve(groups.iter().max().map_or(0, |&group| group as usize + 1));
        self.find_or_make(groups, columns, None)?;
        let (at, keep, first_place) = (self.at(), self.keep, self.next_place);
        let (mut again, mut numbers) = (Vec::new(), Vec::new());
        let slots = std::mem::take(&mut self.slots);
        let mut states = self.entries.states_mut();
        for (row, &slot) in slots.iter().enumerate() {
            let count: i64 = states.read(slot, at.count);
            states.write(slot, at.count, count + times.map_or(1, |times| times.value(row)));
            if count == 0 {
                appeared.push(row as u32);
                if keep.has_places() {
                    states.write(slot, at.place, first_place + row as u64);
                }
            } else if keep == Keep::Occurrences {
                again.push(row as u32);
                numbers.push(count as u32);
            }
        }
        self.slots = slots;
        self.present += appeared.len();
        self.next_place += groups.len() as u64;
        if again.is_empty() {
            return Ok(());
        }
        self.find_or_make_again(groups, columns, &again, numbers)?;
        let mut states = self.entries.states_mut();
        for (&row, &slot) in again.iter().zip(&self.slots) {
            states.write(slot, at.place, first_place + u64::from(row));
        }
        self.present += again.len();
        Ok(())
    }

    /// Takes rows out, each once. `vanished` gets the positions of those that the group has no more.
    ///
    /// # Errors
    /// `Internal` for rows that the groups do not have, unless it is lenient; `ResourcesExhausted`.
    pub(crate) fn remove(
        &mut self,
        groups: &[RowId],
        columns: &[ArrayRef],
        vanished: &mut Vec<u32>,
    ) -> Result<()> {
        vanished.clear();
        if groups.is_empty() {
            return Ok(());
        }
        let keys = self.keys(groups, columns, None);
        self.entries.lookup(&keys, None, Selected::All(groups.len()), &mut self.slots)?;
        let (at, keep) = (self.at(), self.keep);
        let (mut others, mut numbers) = (Vec::new(), Vec::new());
        let mut states = self.entries.states_mut();
        for (row, &slot) in self.slots.iter().enumerate() {
            let count: i64 = if slot == NO_ROW { 0 } else { states.read(slot, at.count) };
            if count <= 0 && self.lenient {
                continue;
            }
            if count <= 0 {
                return Err(Error::Internal(
                    "a row was withdrawn that an aggregate never had".into(),
                ));
            }
            states.write(slot, at.count, count - 1);
            if count == 1 {
                vanished.push(row as u32);
                if keep.has_places() {
                    states.write(slot, at.place, 0_u64);
                }
            } else if keep == Keep::Occurrences {
                others.push(row as u32);
                numbers.push(count as u32 - 1);
            }
        }
        self.present -= vanished.len();
        if !others.is_empty() {
            self.remove_occurrences(groups, columns, &others, numbers)?;
        }
        self.drop_absent()
    }

    /// Takes occurrences out that are not the first of their rows.
    fn remove_occurrences(
        &mut self,
        groups: &[RowId],
        columns: &[ArrayRef],
        rows: &[u32],
        numbers: Vec<u32>,
    ) -> Result<()> {
        let (groups, columns) = chosen(groups, columns, rows)?;
        let keys = self.keys(&groups, &columns, Some(numbers));
        self.entries.lookup(&keys, None, Selected::All(groups.len()), &mut self.slots)?;
        let at = self.at();
        let mut states = self.entries.states_mut();
        for &slot in &self.slots {
            if slot == NO_ROW {
                return Err(Error::Internal("an occurrence of a row was not kept".into()));
            }
            states.write(slot, at.place, 0_u64);
        }
        self.present -= rows.len();
        Ok(())
    }

    fn find_or_make_again(
        &mut self,
        groups: &[RowId],
        columns: &[ArrayRef],
        rows: &[u32],
        numbers: Vec<u32>,
    ) -> Result<()> {
        let (groups, columns) = chosen(groups, columns, rows)?;
        self.find_or_make(&groups, &columns, Some(numbers))
    }

    /// Puts the entry of each row into `slots` and links the new ones.
    fn find_or_make(
        &mut self,
        groups: &[RowId],
        columns: &[ArrayRef],
        numbers: Option<Vec<u32>>,
    ) -> Result<()> {
        let keys = self.keys(groups, columns, numbers);
        let rows = Selected::All(groups.len());
        let ids =
            self.entries.lookup_or_insert(&keys, None, rows, &mut self.slots, &mut self.new)?;
        if self.keep != Keep::Counts {
            let new = std::mem::take(&mut self.new);
            self.link(new.iter().map(|&row| groups[row as usize]).zip(ids));
            self.new = new;
        }
        Ok(())
    }

    fn link(&mut self, entries: impl Iterator<Item = (RowId, RowId)>) {
        let at = self.at();
        let mut states = self.entries.states_mut();
        for (group, id) in entries {
            states.write(id, at.next, std::mem::replace(&mut self.heads[group as usize], id));
        }
    }

    /// The key columns of rows; `numbers` are those of the occurrences, the first where there are none.
    fn keys(
        &self,
        groups: &[RowId],
        columns: &[ArrayRef],
        numbers: Option<Vec<u32>>,
    ) -> Vec<ArrayRef> {
        let mut keys: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(groups.to_vec()))];
        keys.extend_from_slice(columns);
        if self.keep == Keep::Occurrences {
            let numbers = numbers.unwrap_or_else(|| vec![0; groups.len()]);
            keys.push(Arc::new(UInt32Array::from(numbers)));
        }
        keys
    }

    /// Drops entries that are not present when they are the most.
    fn drop_absent(&mut self) -> Result<()> {
        let entries = self.entries.len();
        if self.present * 2 >= entries
            || (entries < COMPACT_ROWS_MIN && self.entries.memory_bytes() < COMPACT_BYTES_MIN)
        {
            return Ok(());
        }
        let ids = self.present_ids();
        self.entries.keep_only(&ids)?;
        if self.keep == Keep::Counts {
            return Ok(());
        }
        self.heads.fill(NO_ROW);
        for page in 0..self.entries.store().num_pages() {
            let ids: Vec<RowId> = self.entries.store().page_ids(page).collect();
            let groups = self.entries.store().gather(0, &ids)?;
            let groups = groups.as_primitive::<UInt32Type>();
            self.link(groups.values().iter().copied().zip(ids));
        }
        Ok(())
    }

    fn present_ids(&mut self) -> Vec<RowId> {
        let (at, keep) = (self.at(), self.keep);
        let mut ids: Vec<RowId> = self.entries.ids().collect();
        let states = self.entries.states_mut();
        ids.retain(|&id| at.is_present(keep, &states, id));
        ids
    }

    /// The entries of groups, by group and in order of arrival where that is kept. Each is listed as often as the row
    /// occurs, or, with `once`, one time.
    pub(crate) fn entries_of(&mut self, groups: &[RowId], once: bool) -> Entries {
        let (at, keep) = (self.at(), self.keep);
        let states = self.entries.states_mut();
        let mut found = Entries::default();
        for (number, &group) in groups.iter().enumerate() {
            let start = found.ids.len();
            let mut id = self.heads.get(group as usize).copied().unwrap_or(NO_ROW);
            while id != NO_ROW {
                let count: i64 = states.read(id, at.count);
                let times = match keep {
                    // Later occurrences have no count of their own.
                    Keep::Occurrences if !once => usize::from(at.is_present(keep, &states, id)),
                    Keep::Counts | Keep::Rows | Keep::RowsInOrder if !once => count as usize,
                    Keep::Counts | Keep::Rows | Keep::RowsInOrder | Keep::Occurrences => {
                        usize::from(count > 0)
                    }
                };
                found.ids.resize(found.ids.len() + times, id);
                id = states.read(id, at.next);
            }
            if keep.has_places() {
                // They are linked from the last to the first, but for those that went and came again.
                found.ids[start..].reverse();
                found.ids[start..].sort_by_key(|&id| states.read::<u64>(id, at.place));
            }
            found.groups.resize(found.ids.len(), number as RowId);
        }
        found
    }

    /// How often the rows of entries occur, where occurrences are no entries of their own.
    pub(crate) fn counts(&mut self, ids: &[RowId]) -> Vec<u64> {
        let at = self.at();
        let states = self.entries.states_mut();
        ids.iter().map(|&id| states.read::<i64>(id, at.count).max(0) as u64).collect()
    }

    /// The columns of entries.
    ///
    /// # Errors
    /// When strings do not fit one array of their type.
    pub(crate) fn gather(&self, ids: &[RowId]) -> Result<Vec<ArrayRef>> {
        self.entries.store().gather_all(1..=self.columns, ids)
    }

    /// The type of [`Self::lists`].
    pub(crate) fn list_type(&self) -> &DataType {
        &self.list
    }

    /// The rows of consecutive groups, one list a group.
    ///
    /// # Errors
    /// `ResourcesExhausted` when they do not fit one column.
    pub(crate) fn lists(&mut self, groups: std::ops::Range<RowId>) -> Result<ArrayRef> {
        let at = self.at();
        let mut ids = self.present_ids();
        let states = self.entries.states_mut();
        let times = (self.keep != Keep::Occurrences).then(|| {
            Int64Array::from_iter_values(ids.iter().map(|&id| states.read::<i64>(id, at.count)))
        });
        if self.keep.has_places() {
            ids.sort_unstable_by_key(|&id| states.read::<u64>(id, at.place));
        }
        let mut columns = self.entries.store().gather_all(0..=self.columns, &ids)?;
        let owners = columns.remove(0).as_primitive::<UInt32Type>().values().to_vec();
        columns.extend(times.map(|times| Arc::new(times) as ArrayRef));
        let bound = owners.iter().max().map_or(0, |&group| group as usize + 1);
        let total = bound.max(groups.end as usize);
        let sorted: SortedRows = GroupedRows { groups: owners, columns }.sort(total)?;
        sorted.lists(&self.fields, groups)
    }

    /// Takes rows in that [`Self::lists`] gave, list `i` for `groups[i]`.
    ///
    /// # Errors
    /// `ResourcesExhausted`; `Internal` for a column of another form.
    pub(crate) fn insert_lists(&mut self, lists: &ArrayRef, groups: &[RowId]) -> Result<()> {
        let mut rows = flatten(lists, groups)?;
        let times = match self.keep {
            Keep::Counts | Keep::Rows | Keep::RowsInOrder => rows.columns.pop(),
            Keep::Occurrences => None,
        };
        let times = times.as_ref().map(|times| times.as_primitive::<Int64Type>());
        self.insert(&rows.groups, &rows.columns, times, &mut Vec::new())
    }

    /// Forgets all rows and groups.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.heads.clear();
        (self.present, self.next_place) = (0, 1);
    }

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<RowId>()
    }

    /// Bytes that are charged already.
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.entries.memory_bytes()
    }
}

/// Some of the rows.
fn chosen(
    groups: &[RowId],
    columns: &[ArrayRef],
    rows: &[u32],
) -> Result<(Vec<RowId>, Vec<ArrayRef>)> {
    let groups = rows.iter().map(|&row| groups[row as usize]).collect();
    Ok((groups, take_all(columns, &UInt32Array::from(rows.to_vec()))?))
}
