//! Which group each row of a batch belongs to.
//!
//! Aggregates run one loop a batch; how they find a row's state depends on how many groups there can be. Invariant:
//! every id names a row of the store whose states are updated.

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{FilterBuilder, FilterPredicate};

use crate::error::Result;
use crate::rows::RowId;

/// Groups up to this number are first collected beside the rows, where their states stay in the nearest cache.
pub(crate) const FEW_GROUPS: usize = 64;

/// Rows of each of few groups in one batch.
pub(crate) type FewCounts = [u64; FEW_GROUPS];

/// The groups of a batch's rows.
#[derive(Debug, Clone, Copy)]
pub enum Groups<'a> {
    /// All rows belong to one group.
    One {
        /// The group.
        id: RowId,
        /// Number of rows.
        rows: usize,
    },
    /// All ids are below `FEW_GROUPS`.
    Few {
        /// One group a row.
        ids: &'a [RowId],
        /// Rows of each group.
        counts: &'a FewCounts,
    },
    /// One group a row.
    Many(&'a [RowId]),
}

impl<'a> Groups<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Groups::One { rows, .. } => *rows,
            Groups::Few { ids, .. } | Groups::Many(ids) => ids.len(),
        }
    }

    /// The groups of `ids`, counted if they are few; `bound` is above every id.
    pub fn of(ids: &'a [RowId], bound: usize, counts: &'a mut FewCounts) -> Self {
        if bound > FEW_GROUPS || ids.len() < FEW_GROUPS {
            return Groups::Many(ids);
        }
        counts.fill(0);
        for &id in ids {
            counts[id as usize % FEW_GROUPS] += 1;
        }
        Groups::Few { ids, counts }
    }

    /// The group of one row.
    #[inline]
    pub fn id(&self, row: usize) -> RowId {
        match self {
            Groups::One { id, .. } => *id,
            Groups::Few { ids, .. } | Groups::Many(ids) => ids[row],
        }
    }

    /// One id a row, for those who keep them.
    pub fn to_ids(self) -> Vec<RowId> {
        match self {
            Groups::One { id, rows } => vec![id; rows],
            Groups::Few { ids, .. } | Groups::Many(ids) => ids.to_vec(),
        }
    }

    /// Calls `f(row, group)` for every row that is not NULL.
    #[inline]
    pub fn for_each_valid(&self, nulls: Option<&NullBuffer>, mut f: impl FnMut(usize, RowId)) {
        match (self, nulls.filter(|nulls| nulls.null_count() > 0)) {
            (Groups::One { id, rows }, None) => (0..*rows).for_each(|row| f(row, *id)),
            (Groups::One { id, .. }, Some(nulls)) => {
                nulls.valid_indices().for_each(|row| f(row, *id))
            }
            (Groups::Few { ids, .. } | Groups::Many(ids), None) => {
                ids.iter().enumerate().for_each(|(row, &id)| f(row, id));
            }
            (Groups::Few { ids, .. } | Groups::Many(ids), Some(nulls)) => {
                nulls.valid_indices().for_each(|row| f(row, ids[row]));
            }
        }
    }

    /// As [`Self::for_each_valid`] with a function that may fail.
    pub fn try_for_each_valid(
        &self,
        nulls: Option<&NullBuffer>,
        mut f: impl FnMut(usize, RowId) -> Result<()>,
    ) -> Result<()> {
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => (0..self.rows()).try_for_each(|row| f(row, self.id(row))),
            Some(nulls) => nulls.valid_indices().try_for_each(|row| f(row, self.id(row))),
        }
    }
}

/// The rows that pass an aggregate's FILTER.
pub(crate) struct Filtered {
    predicate: FilterPredicate,
    ids: Option<Vec<RowId>>,
    rows: usize,
}

impl Filtered {
    /// The rows of `groups` for which `mask` is true; NULL counts as false.
    pub(crate) fn new(mask: &BooleanArray, groups: Groups<'_>) -> Self {
        let predicate = FilterBuilder::new(mask).optimize().build();
        let rows = predicate.count();
        let pass = |ids: &[RowId]| -> Vec<RowId> {
            let mut kept = Vec::with_capacity(rows);
            for (row, &id) in ids.iter().enumerate() {
                if mask.is_valid(row) && mask.value(row) {
                    kept.push(id);
                }
            }
            kept
        };
        let ids = match groups {
            Groups::One { .. } => None,
            Groups::Few { ids, .. } | Groups::Many(ids) => Some(pass(ids)),
        };
        Filtered { predicate, ids, rows }
    }

    /// The groups of the rows that pass; `all` are those that the filter was made with.
    pub(crate) fn groups<'s>(&'s self, all: Groups<'_>) -> Groups<'s> {
        match (&self.ids, all) {
            (Some(ids), _) => Groups::Many(ids),
            (None, other) => Groups::One { id: other.id(0), rows: self.rows },
        }
    }

    /// Whether no row passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The values of the rows that pass.
    pub(crate) fn apply(&self, array: &ArrayRef) -> Result<ArrayRef> {
        Ok(self.predicate.filter(array)?)
    }
}

/// The NULLs of an array, if it has any.
pub(crate) fn nulls_of(array: &dyn Array) -> Option<NullBuffer> {
    array.logical_nulls().filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_groups_are_counted_and_filtered() {
        let ids: Vec<RowId> = (0..200).map(|i| i % 3).collect();
        let mut counts = [0; FEW_GROUPS];
        let groups = Groups::of(&ids, 3, &mut counts);
        let Groups::Few { counts, .. } = groups else { panic!("three groups are few") };
        assert_eq!(counts[..4], [67, 67, 66, 0]);
        let mask = BooleanArray::from_iter((0..200).map(|i| (i % 50 != 1).then_some(i % 2 == 0)));
        let filtered = Filtered::new(&mask, groups);
        assert_eq!(filtered.groups(groups).rows(), 100);
        assert_eq!(filtered.groups(groups).id(1), 2);
    }
}
