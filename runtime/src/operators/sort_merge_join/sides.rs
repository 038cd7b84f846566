//! The batches in hand of a sort-merge join's sides.
//!
//! Invariant: a build batch holds the keys before `available` with all their rows; the rows after it, all of one key,
//! wait for the next batch, which may have more of them.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;

use crate::batch::{Batch, concat};
use crate::error::Result;
use crate::operators::sort_key_spec::SortKeyColumns;
use crate::rows::{SortKeyEncoder, SortKeys};

/// The keys of one side, compiled.
pub(super) struct SideKeys {
    columns: SortKeyColumns,
    encoder: SortKeyEncoder,
    /// Whether NULL equals nothing.
    nulls_differ: bool,
}

impl SideKeys {
    pub(super) fn new(columns: SortKeyColumns, encoder: SortKeyEncoder, null_equal: bool) -> Self {
        SideKeys { columns, encoder, nulls_differ: !null_equal }
    }

    fn of(&self, batch: &Batch) -> Result<Keys> {
        let columns = self.columns.evaluate(batch)?;
        let nulls = if self.nulls_differ { any_null(&columns) } else { None };
        let keys = self.encoder.encode(&columns)?;
        Ok(Keys { keys, nulls, prefix_decides: self.encoder.prefix_decides() })
    }
}

/// Which rows have no NULL in any column; none if no row has one.
fn any_null(columns: &[ArrayRef]) -> Option<NullBuffer> {
    columns
        .iter()
        .fold(None, |nulls, key| NullBuffer::union(nulls.as_ref(), key.logical_nulls().as_ref()))
        .filter(|nulls| nulls.null_count() > 0)
}

/// The keys of a batch.
pub(super) struct Keys {
    keys: SortKeys,
    nulls: Option<NullBuffer>,
    prefix_decides: bool,
}

impl Keys {
    /// How row `i` compares with row `j` of the other side, in the order of the inputs.
    #[inline]
    pub(super) fn compare(&self, i: usize, other: &Keys, j: usize) -> Ordering {
        let order = self.keys.prefix(i).cmp(&other.keys.prefix(j));
        if order != Ordering::Equal || self.prefix_decides {
            return order;
        }
        self.keys.key(i).cmp(other.keys.key(j))
    }

    /// Whether row `i` has a NULL that equals nothing.
    #[inline]
    pub(super) fn is_unmatchable(&self, i: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(i))
    }
}

/// The probe batch in hand.
pub(super) struct Left {
    pub(super) batch: Batch,
    pub(super) keys: Keys,
    /// The row that is joined next; those before are done.
    pub(super) row: usize,
    /// How many rows of the group at hand it is joined with.
    pub(super) offset: usize,
    /// The first row that is done but not emitted.
    pub(super) emitted: usize,
    /// By row, whether it has a match.
    pub(super) matched: Vec<bool>,
}

impl Left {
    pub(super) fn new(batch: Batch, keys: &SideKeys) -> Result<Self> {
        let matched = vec![false; batch.num_rows()];
        Ok(Left { keys: keys.of(&batch)?, batch, row: 0, offset: 0, emitted: 0, matched })
    }

    pub(super) fn is_done(&self) -> bool {
        self.row >= self.matched.len()
    }
}

/// The build batch in hand.
pub(super) struct Right {
    pub(super) batch: Batch,
    pub(super) keys: Keys,
    /// The first row of the group at hand; those before are done.
    pub(super) row: usize,
    /// The end of that group, where it is known.
    group_end: usize,
    /// Rows whose keys are here with all their rows.
    pub(super) available: usize,
    /// By row, whether it has a match.
    pub(super) matched: Vec<bool>,
}

impl Right {
    pub(super) fn is_done(&self) -> bool {
        self.row >= self.available
    }

    /// The end of the group at hand.
    pub(super) fn group_end(&mut self) -> usize {
        if self.group_end <= self.row {
            let mut end = self.row + 1;
            while end < self.available && self.keys.compare(end, &self.keys, self.row).is_eq() {
                end += 1;
            }
            self.group_end = end;
        }
        self.group_end
    }

    /// Leaves the group at hand behind.
    pub(super) fn skip_group(&mut self) {
        self.row = self.group_end();
    }

    /// The rows that wait for the next batch; none if there are none.
    pub(super) fn into_rest(self) -> Option<Batch> {
        let rest = self.matched.len() - self.available;
        (rest > 0).then(|| self.batch.slice(self.available, rest))
    }
}

/// Build rows of one key, whose last row has not come.
#[derive(Default)]
pub(super) struct Carried {
    batches: Vec<Batch>,
}

impl Carried {
    /// The batches.
    pub(super) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.batches.iter().map(Batch::data_bytes).sum()
    }

    pub(super) fn keep(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    pub(super) fn clear(&mut self) {
        self.batches.clear();
    }

    /// Takes the next batch; gives the build batch to go on with unless the key at its end may have begun earlier.
    pub(super) fn extend(&mut self, batch: Batch, keys: &SideKeys) -> Result<Option<Right>> {
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let new = keys.of(&batch)?;
        let last = batch.num_rows() - 1;
        // Only the last batch carried is looked at: all of them have one key.
        let same_as_carried = match self.batches.last() {
            Some(carried) => {
                let carried = keys.of(&carried.slice(carried.num_rows() - 1, 1))?;
                new.compare(last, &carried, 0).is_eq()
            }
            None => new.compare(last, &new, 0).is_eq(),
        };
        self.batches.push(batch);
        if same_as_carried {
            return Ok(None);
        }
        let mut right = self.whole(keys)?;
        let (mut low, mut high) = (0, right.available - 1);
        while low < high {
            let middle = low.midpoint(high);
            if right.keys.compare(middle, &right.keys, right.available - 1).is_eq() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        right.available = low;
        Ok(Some(right))
    }

    /// What is carried, when nothing more comes.
    pub(super) fn finish(&mut self, keys: &SideKeys) -> Result<Option<Right>> {
        if self.batches.is_empty() { Ok(None) } else { self.whole(keys).map(Some) }
    }

    fn whole(&mut self, keys: &SideKeys) -> Result<Right> {
        let batch = match self.batches.len() {
            1 => self.batches.remove(0),
            _ => concat(&std::mem::take(&mut self.batches))?,
        };
        let rows = batch.num_rows();
        Ok(Right {
            keys: keys.of(&batch)?,
            row: 0,
            group_end: 0,
            available: rows,
            matched: vec![false; rows],
            batch,
        })
    }
}
