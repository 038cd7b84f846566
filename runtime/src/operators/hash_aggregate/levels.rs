//! Grouping sets in levels: a set whose keys are all in another set is computed from that set's groups.
//!
//! Rows go only into the tables of sets that have no such parent; the others are derived, each from its smallest
//! parent, when the groups are wanted. A rollup so touches every row once and every further level only its groups.
//! Invariant: parents come before children in `order`. Only for states that live in rows alone.

use std::sync::Arc;

use arrow::array::ArrayRef;

use super::HashAggregate;
use super::shape::Shape;
use super::table::AggregateTable;
use crate::aggregates::AggregateStates;
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::RowId;

/// Which grouping set is derived from which. A table for each set, at the set's position.
pub(super) struct Levels {
    shape: Arc<Shape>,
    parents: Vec<Option<usize>>,
    /// Parents first.
    order: Vec<usize>,
    /// Merges states of one table into another of the same layout.
    states: AggregateStates,
}

impl Levels {
    /// The levels of an aggregation, if there are grouping sets of which one can be derived from another.
    pub(super) fn new(shape: &Arc<Shape>, reservation: &Reservation) -> Result<Option<Self>> {
        let Some(sets) = shape.sets() else { return Ok(None) };
        let parents = parents_of(&sets.sets);
        if !shape.carried.is_empty() || parents.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut order: Vec<usize> = (0..parents.len()).collect();
        order.sort_by_key(|&set| (std::cmp::Reverse(sets.sets[set].len()), set));
        let mut states = shape.new_states(reservation)?;
        states.bind(shape.table.states(), shape.table.states());
        Ok(Some(Levels { shape: Arc::clone(shape), parents, order, states }))
    }

    /// Number of grouping sets.
    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether rows go into the set's table.
    pub(super) fn takes_rows(&self, set: usize) -> bool {
        self.parents[set].is_none()
    }

    /// Fills the tables of all derived sets; they must be empty.
    pub(super) fn derive(&mut self, tables: &mut [AggregateTable]) -> Result<()> {
        for &child in &self.order {
            let Some(parent) = self.parents[child] else { continue };
            let [source, target] = tables
                .get_disjoint_mut([parent, child])
                .expect("a set is not its own parent, and has a table");
            let store = source.store();
            for page in 0..store.num_pages() {
                let ids: Vec<RowId> = store.page_ids(page).collect();
                let keys: Vec<ArrayRef> = store.gather_all(0..self.shape.keys(), &ids)?;
                let keys = self.shape.keys_in(child, &keys, ids.len())?;
                target.merge_states(
                    &keys,
                    &mut self.states,
                    &store.page_states(page),
                    ids.len(),
                )?;
            }
        }
        Ok(())
    }
}

impl HashAggregate {
    /// Fills the tables of the sets that took no rows.
    pub(super) fn derive_levels(&mut self) -> Result<()> {
        let Some(mut levels) = self.levels.take() else { return Ok(()) };
        let mut tables = Vec::with_capacity(levels.len());
        for set in 0..levels.len() {
            self.table(set)?;
            tables.extend(self.tables[set].take());
        }
        let derived = levels.derive(&mut tables);
        self.tables = tables.into_iter().map(Some).collect();
        self.levels = Some(levels);
        derived
    }
}

/// For each set the smallest other set that has all its keys; of two equal sets the first is the other's parent.
fn parents_of(sets: &[Vec<usize>]) -> Vec<Option<usize>> {
    let has_all = |of: usize, set: usize| sets[set].iter().all(|key| sets[of].contains(key));
    let above = |of: usize, set: usize| {
        of != set && has_all(of, set) && (sets[of].len() > sets[set].len() || of < set)
    };
    (0..sets.len())
        .map(|set| {
            (0..sets.len()).filter(|&of| above(of, set)).min_by_key(|&of| (sets[of].len(), of))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parents_of;

    #[test]
    fn a_rollup_is_a_chain_and_a_cube_takes_the_smallest_parent() {
        let rollup = [vec![0, 1, 2], vec![0, 1], vec![0], vec![]];
        assert_eq!(parents_of(&rollup), vec![None, Some(0), Some(1), Some(2)]);
        let cube = [vec![0, 1], vec![0], vec![1], vec![]];
        assert_eq!(parents_of(&cube), vec![None, Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn sets_without_a_common_parent_take_rows_and_equal_sets_share() {
        let sets = [vec![0], vec![1], vec![0]];
        assert_eq!(parents_of(&sets), vec![None, None, Some(0)]);
    }
}
