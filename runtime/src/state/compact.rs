//! Leaving rows behind that are not needed any more.
//!
//! Invariant: the rows that stay keep their keys, states and order; only their ids change.

use super::keyed::KeyedState;
use crate::error::Result;
use crate::rows::{RowId, RowStore};

impl KeyedState {
    /// Keeps the given rows alone and returns the memory of the others; row `ids[i]` gets the id `i`.
    ///
    /// # Errors
    /// `ResourcesExhausted` when both copies do not fit for a moment; all rows are still there then.
    pub fn keep_only(&mut self, ids: &[RowId]) -> Result<()> {
        let mut kept = RowStore::new(self.store.layout().clone(), self.store.reservation().share());
        kept.append_rows(&self.store, ids)?;
        self.store = kept;
        self.stale = true;
        self.refresh()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Int64Type};

    use super::*;
    use crate::memory::MemoryManager;
    use crate::rows::{NO_ROW, Selected, StateSlot};

    #[test]
    fn kept_rows_are_found_under_their_new_ids_and_others_not_at_all() {
        let reservation = MemoryManager::unlimited().reserve("test");
        let types = [DataType::Int64, DataType::Utf8View];
        let mut state = KeyedState::new(&types, &[StateSlot::new(8, 8)], reservation).unwrap();
        let numbers = Int64Array::from_iter_values(0..50_000);
        let text =
            StringViewArray::from_iter_values((0..50_000).map(|i| format!("a longer text {i}")));
        let keys: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(text)];
        let (mut ids, mut new) = (Vec::new(), Vec::new());
        state.lookup_or_insert(&keys, None, Selected::All(50_000), &mut ids, &mut new).unwrap();
        let offset = state.layout().states()[0].offset;
        let mut states = state.states_mut();
        ids.iter().for_each(|&id| states.write(id, offset, u64::from(id) * 3));
        let kept: Vec<RowId> = (0..50_000).filter(|id| id % 7 == 3).collect();
        state.keep_only(&kept).unwrap();
        assert_eq!(state.len(), kept.len());
        state.lookup(&keys, None, Selected::All(50_000), &mut ids).unwrap();
        for (row, &id) in ids.iter().enumerate() {
            if row % 7 != 3 {
                assert_eq!(id, NO_ROW);
                continue;
            }
            assert_eq!(id as usize, row / 7);
            assert_eq!(state.states_mut().read::<u64>(id, offset), row as u64 * 3);
        }
        let found = state.gather_keys(&[1]).unwrap();
        assert_eq!(found[0].as_primitive::<Int64Type>().value(0), 10);
        assert_eq!(found[1].as_string_view().value(0), "a longer text 10");
    }
}
