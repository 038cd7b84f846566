//! Numbers of rows: `row_number`, `rank` and `dense_rank` of rows whose predecessors are forgotten.
//!
//! For each partition it is known how many rows were forgotten, and how many groups of equal rows they were; what a
//! function says of the rows that are left counts from there. Invariant: rows are forgotten from the front of their
//! partition, groups as a whole.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::UInt64Type;
use arrow_schema::DataType;

use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::operators::window::WindowSpec;
use crate::rows::{RowId, Selected, StateSlot};
use crate::state::KeyedState;

/// The state of a partition that is its number of forgotten rows, and that of its groups.
const ROWS: usize = 0;
const GROUPS: usize = 1;

/// See the module.
pub(super) struct Numbers {
    forgotten: KeyedState,
    /// Columns of results that count rows.
    rows: Vec<usize>,
    /// Columns of results that count groups.
    groups: Vec<usize>,
    found: Vec<RowId>,
}

impl Numbers {
    /// The state for a window's functions; none if no function numbers rows.
    pub(super) fn of(
        window: &WindowSpec,
        key_types: &[DataType],
        reservation: &Reservation,
    ) -> Result<Option<Self>> {
        let (mut rows, mut groups) = (Vec::new(), Vec::new());
        let functions = window.functions.iter().enumerate().filter(|(_, f)| !f.aggregate);
        for (at, function) in functions {
            match function.function.as_str() {
                "row_number" | "rank" => rows.push(window.input.len() + at),
                "dense_rank" => groups.push(window.input.len() + at),
                _ => {}
            }
        }
        if rows.is_empty() && groups.is_empty() {
            return Ok(None);
        }
        let slots = [StateSlot::new(8, 8), StateSlot::new(8, 8)];
        let forgotten = KeyedState::new(key_types, &slots, reservation.share())?;
        Ok(Some(Numbers { forgotten, rows, groups, found: Vec::new() }))
    }

    /// Corrects the results of rows of some partitions: `keys` has a row for each, `lens` how many rows are theirs.
    pub(super) fn correct(
        &mut self,
        results: Batch,
        keys: &[ArrayRef],
        lens: &[usize],
    ) -> Result<Batch> {
        let all = Selected::All(lens.len());
        self.forgotten.lookup_or_insert(keys, None, all, &mut self.found, &mut Vec::new())?;
        let mut columns = results.columns().to_vec();
        for (slot, wanted) in [(ROWS, &self.rows), (GROUPS, &self.groups)] {
            for &column in wanted {
                let numbers = columns[column].as_primitive_opt::<UInt64Type>();
                let numbers = numbers.ok_or_else(|| {
                    Error::Internal("the number of a row that is no number".into())
                })?;
                let before = self.found.iter().zip(lens).flat_map(|(&partition, &rows)| {
                    std::iter::repeat_n(self.read(partition, slot), rows)
                });
                let corrected = numbers.values().iter().zip(before).map(|(n, before)| n + before);
                columns[column] = Arc::new(UInt64Array::from_iter_values(corrected));
            }
        }
        Ok(Batch::new(columns, results.num_rows()))
    }

    /// So many rows of each of the partitions that were corrected last are forgotten, the last of which are at these
    /// rows of the corrected results.
    pub(super) fn forget(&mut self, forgotten: &[usize], results: &Batch, starts: &[usize]) {
        let slots: Vec<usize> = self.forgotten.layout().states().iter().map(|s| s.offset).collect();
        let groups = self
            .groups
            .first()
            .and_then(|&at| results.column(at).as_primitive_opt::<UInt64Type>().cloned());
        let mut states = self.forgotten.states_mut();
        for ((&partition, &rows), start) in self.found.iter().zip(forgotten).zip(starts) {
            if rows == 0 {
                continue;
            }
            states.update(partition, slots[ROWS], |before: u64| before + rows as u64);
            if let Some(groups) = &groups {
                states.write(partition, slots[GROUPS], groups.value(start + rows - 1));
            }
        }
    }

    fn read(&self, partition: RowId, slot: usize) -> u64 {
        let store = self.forgotten.store();
        let (page, row) = store.layout().locate(partition);
        store.page_states(page).read(row, store.layout().states()[slot].offset)
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        self.forgotten.snapshot(out);
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.forgotten.restore(bytes)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.forgotten.clear();
    }
}
