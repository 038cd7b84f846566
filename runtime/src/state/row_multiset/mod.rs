//! The rows of one input as a multiset, by key: what operators over changelogs keep.
//!
//! Rows lie in paged rows. The rows of a key form a chain in the order of their arrival; a map of the keys leads to its
//! ends. An input whose rows are never withdrawn is appended as it comes; otherwise equal rows share one row with a
//! count, and an index over whole rows finds what is withdrawn. Everything works on batches. Invariant: a row is in the
//! chain of its key exactly while its count is above zero; between batches, the previous number of rows of each key is
//! the present one. Rows that count no more keep their place until [`RowMultiset::compact`]. NULL is a key like any
//! other: whoever wants it to match nothing leaves such rows out.

mod chain;
mod compact;
mod snapshot;
#[cfg(test)]
mod tests;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use self::chain::KeySlots;
pub use self::chain::PairCursor;
pub use self::compact::{Compacted, MovedRows};
use super::keyed::KeyedState;
use crate::element::RowKind;
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::rows::{RowId, RowLayout, RowStore, Selected, StateSlot, StatesMut};

/// What a multiset keeps.
#[derive(Debug, Clone)]
pub struct RowMultisetOptions<'a> {
    /// Types of the rows' fields.
    pub types: &'a [DataType],
    /// The fields that make the key; none: all rows have one key.
    pub keys: &'a [usize],
    /// Whether rows may be withdrawn. Equal rows are one row with a count then.
    pub withdrawn: bool,
    /// Whether rows that are withdrawn may have been forgotten before: then nothing is withdrawn. Else it is an error.
    pub forgetful: bool,
    /// Numbers of 64 bits that the owner keeps beside each row.
    pub slots: usize,
    /// The operator's name, for errors.
    pub operator: &'static str,
}

/// Where a row's own states are.
#[derive(Debug, Clone, Copy)]
struct RowSlots {
    /// The next row of the key plus one, 0 at the end.
    next: usize,
    /// The row before plus one.
    before: usize,
    /// The row's key plus one; 0 while the row does not count.
    key: usize,
    /// The row's place among the changes of the batch in hand plus one; where rows may be withdrawn.
    place: usize,
    /// How often the row is there; where rows may be withdrawn.
    count: usize,
    /// The first of the owner's numbers.
    first: usize,
}

#[derive(Debug)]
enum Rows {
    /// Rows in the order of their coming.
    Appended(RowStore),
    /// One row for all that are equal.
    Counted(Box<KeyedState>),
}

impl Rows {
    fn store(&self) -> &RowStore {
        match self {
            Rows::Appended(store) => store,
            Rows::Counted(state) => state.store(),
        }
    }

    fn states_mut(&mut self) -> StatesMut<'_> {
        match self {
            Rows::Appended(store) => store.states_mut(),
            Rows::Counted(state) => state.states_mut(),
        }
    }
}

/// What a batch changed: one entry a row whose count changed, all lists of one length.
#[derive(Debug, Default)]
pub struct RowChanges {
    /// A position in the batch with the row's values.
    pub positions: Vec<u32>,
    /// The rows.
    pub ids: Vec<RowId>,
    /// Their keys.
    pub keys: Vec<RowId>,
    /// How much more often they are there, never 0.
    pub deltas: Vec<i64>,
}

impl RowChanges {
    /// Number of changed rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn clear(&mut self) {
        self.positions.clear();
        self.ids.clear();
        self.keys.clear();
        self.deltas.clear();
    }

    /// Leaves out the rows that came and went in the batch.
    fn drop_unchanged(&mut self) {
        let mut kept = 0;
        for i in 0..self.ids.len() {
            self.positions[kept] = self.positions[i];
            self.ids[kept] = self.ids[i];
            self.deltas[kept] = self.deltas[i];
            kept += usize::from(self.deltas[i] != 0);
        }
        self.positions.truncate(kept);
        self.ids.truncate(kept);
        self.deltas.truncate(kept);
    }
}

/// The rows of one input, by key.
#[derive(Debug)]
pub struct RowMultiset {
    rows: Rows,
    keys: KeyedState,
    key_fields: Vec<usize>,
    row_slots: RowSlots,
    key_slots: KeySlots,
    /// Rows that count, equal ones once.
    live: usize,
    /// Keys with rows.
    live_keys: usize,
    forgetful: bool,
    operator: &'static str,
    /// Scratch: the row of each row of a batch, and which of them are new.
    found: Vec<RowId>,
    new: Vec<u32>,
}

impl RowMultiset {
    /// An empty multiset, charged to the reservation's holder.
    ///
    /// # Errors
    /// `Unsupported` for types that cannot be kept in rows.
    pub fn new(options: &RowMultisetOptions<'_>, reservation: &Reservation) -> Result<Self> {
        let types = options.types;
        let mut slots = vec![StateSlot::new(4, 4); 4];
        if options.withdrawn {
            slots.push(StateSlot::new(8, 8));
        }
        let first = slots.len();
        slots.extend((0..options.slots).map(|_| StateSlot::new(8, 8)));
        let rows = match options.withdrawn {
            true => Rows::Counted(Box::new(KeyedState::new(types, &slots, reservation.share())?)),
            false => {
                Rows::Appended(RowStore::new(RowLayout::new(types, &slots)?, reservation.share()))
            }
        };
        let places: Vec<usize> =
            rows.store().layout().states().iter().map(|slot| slot.offset).collect();
        let row_slots = RowSlots {
            next: places[0],
            before: places[1],
            key: places[2],
            place: places[3],
            count: places.get(4).copied().unwrap_or_default(),
            first: places.get(first).copied().unwrap_or_default(),
        };
        let key_types: Vec<DataType> = options.keys.iter().map(|&i| types[i].clone()).collect();
        let keys = KeyedState::new(&key_types, &KeySlots::slots(), reservation.share())?;
        let key_slots = KeySlots::of(keys.layout());
        Ok(RowMultiset {
            rows,
            keys,
            key_fields: options.keys.to_vec(),
            row_slots,
            key_slots,
            live: 0,
            live_keys: 0,
            forgetful: options.forgetful,
            operator: options.operator,
            found: Vec::new(),
            new: Vec::new(),
        })
    }

    /// The rows; ids stay valid until [`Self::compact`], also of rows that count no more.
    pub fn store(&self) -> &RowStore {
        self.rows.store()
    }

    /// Rows that count, equal ones once where rows may be withdrawn.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Bytes of managed memory.
    pub fn memory_bytes(&self) -> usize {
        let index = match &self.rows {
            Rows::Appended(store) => store.memory_bytes(),
            Rows::Counted(state) => state.memory_bytes(),
        };
        index + self.keys.memory_bytes()
    }

    /// Inserts and deletes the rows of a batch, one column a field; no kinds means inserts. `changes` is overwritten.
    /// Afterwards the previous number of rows of each changed key is the one before; call [`Self::settle`] when it is
    /// not needed any more.
    ///
    /// # Errors
    /// `ResourcesExhausted`; `Internal` when a row is withdrawn that was never there. The multiset is not to be used
    /// after an error.
    pub fn apply(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        kinds: Option<&[RowKind]>,
        changes: &mut RowChanges,
    ) -> Result<()> {
        changes.clear();
        match &mut self.rows {
            Rows::Appended(store) => {
                if kinds.is_some_and(|kinds| kinds.iter().any(|&kind| kind != RowKind::Insert)) {
                    return Err(self.never_there());
                }
                changes.ids.extend(store.append(columns, Selected::All(rows))?);
                changes.positions.extend(0..rows as u32);
                changes.deltas.resize(rows, 1);
            }
            Rows::Counted(_) => self.count_changes(columns, rows, kinds, changes)?,
        }
        let keys: Vec<ArrayRef> = self.key_fields.iter().map(|&i| columns[i].clone()).collect();
        let selected = match changes.len() == rows {
            true => Selected::All(rows),
            false => Selected::Rows(&changes.positions),
        };
        self.keys.lookup_or_insert(&keys, None, selected, &mut changes.keys, &mut self.new)?;
        match self.rows {
            Rows::Appended(_) => self.link_appended(changes),
            Rows::Counted(_) => self.link_counted(changes)?,
        }
        Ok(())
    }

    /// Finds the rows and sums up how their counts change.
    fn count_changes(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        kinds: Option<&[RowKind]>,
        changes: &mut RowChanges,
    ) -> Result<()> {
        let Rows::Counted(state) = &mut self.rows else { return Ok(()) };
        let selected = Selected::All(rows);
        state.lookup_or_insert(columns, None, selected, &mut self.found, &mut self.new)?;
        let place = self.row_slots.place;
        let mut states = state.states_mut();
        for (row, &id) in self.found.iter().enumerate() {
            let delta = match kinds.map(|kinds| kinds[row]) {
                None | Some(RowKind::Insert) => 1,
                Some(RowKind::Delete) => -1,
                Some(RowKind::Upsert) => return Err(upsert(self.operator)),
            };
            let at: u32 = states.read(id, place);
            if at == 0 {
                changes.positions.push(row as u32);
                changes.ids.push(id);
                changes.deltas.push(delta);
                states.write(id, place, changes.ids.len() as u32);
            } else {
                changes.deltas[at as usize - 1] += delta;
            }
        }
        for &id in &changes.ids {
            states.write(id, place, 0_u32);
        }
        if self.forgetful {
            let count = self.row_slots.count;
            for (&id, delta) in changes.ids.iter().zip(&mut changes.deltas) {
                *delta = (*delta).max(-states.read::<i64>(id, count));
            }
        }
        changes.drop_unchanged();
        Ok(())
    }

    /// Forgets what the numbers of rows of these keys were before.
    pub fn settle(&mut self, keys: &[RowId]) {
        let slots = self.key_slots;
        let mut states = self.keys.states_mut();
        for &key in keys {
            let total: i64 = states.read(key, slots.total);
            states.write(key, slots.previous, total);
        }
    }

    /// The key of each row of the key columns, [`NO_ROW`](crate::rows::NO_ROW) where there is none. `out` is
    /// overwritten.
    ///
    /// # Errors
    /// `Internal` for columns of other types.
    pub fn find_keys(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
        out: &mut Vec<RowId>,
    ) -> Result<()> {
        self.keys.lookup(keys, None, Selected::All(rows), out)
    }

    /// How often a row is there.
    #[inline]
    pub fn count(&self, id: RowId) -> i64 {
        match &self.rows {
            Rows::Appended(_) => 1,
            Rows::Counted(_) => self.read(id, self.row_slots.count),
        }
    }

    /// The owner's number `slot` beside a row.
    #[inline]
    pub fn number(&self, id: RowId, slot: usize) -> i64 {
        self.read(id, self.row_slots.first + 8 * slot)
    }

    /// Sets the owner's number `slot` beside a row.
    #[inline]
    pub fn set_number(&mut self, id: RowId, slot: usize, value: i64) {
        let offset = self.row_slots.first + 8 * slot;
        self.rows.states_mut().write(id, offset, value);
    }

    /// Forgets everything and returns the memory.
    pub fn clear(&mut self) {
        match &mut self.rows {
            Rows::Appended(store) => store.clear(),
            Rows::Counted(state) => state.clear(),
        }
        self.keys.clear();
        (self.live, self.live_keys) = (0, 0);
    }

    fn never_there(&self) -> Error {
        Error::Internal(format!("{}: a withdrawn row was never there", self.operator))
    }
}

/// The error for a kind of row that none of these operators takes.
fn upsert(operator: &str) -> Error {
    Error::Internal(format!("{operator}: rows that replace those of their key cannot be taken"))
}
