//! Heads: of large partitions of which the first rows alone matter, a few more than those.
//!
//! Finding the first rows of a partition takes a look at all of its rows. A head has the first rows and some behind
//! them, so that this look is due again only after many of them have gone. Invariant: a row of the partition is in the
//! head exactly if it does not stand behind the head's bound, or there is no bound; between batches a head has at least the
//! rows that matter. Heads say nothing new: they are made when they are missed, and are in no snapshot.

use std::collections::BTreeMap;

use crate::rows::RowId;

/// Rows of a head when it is made: as many at least…
const HEAD_ROWS_MIN: usize = 32;
/// … and so many times those that matter. In large partitions they are the square root of the rows, so that looking at
/// all rows costs about as much a row that goes.
const HEAD_FACTOR: usize = 2;
/// Heads grow to so many times their size before they are cut, and partitions of fewer rows have none.
const GROWTH_FACTOR: usize = 2;

/// Where a row stands: its order key, and when it came.
pub(super) type Place = (Box<[u8]>, i64);

/// The first rows of a partition.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// The rows, in no order.
    pub(super) ids: Vec<RowId>,
    /// The place of the last row when the head was made; none if it has all rows.
    pub(super) bound: Option<Place>,
}

impl Head {
    fn holds(&self, key: &[u8], came: i64) -> bool {
        match &self.bound {
            None => true,
            Some((bound, last)) => key < &**bound || (key == &**bound && came <= *last),
        }
    }
}

/// The heads of large partitions.
#[derive(Debug)]
pub(super) struct Heads {
    heads: BTreeMap<RowId, Head>,
    /// The least number of rows of a head when it is made.
    rows: usize,
}

impl Heads {
    /// No heads, for partitions of which so many rows matter.
    pub(super) fn new(wanted: usize) -> Self {
        let rows = wanted.saturating_mul(HEAD_FACTOR).max(HEAD_ROWS_MIN);
        Heads { heads: BTreeMap::new(), rows }
    }

    /// Rows of the head of a partition of `total` rows when it is made.
    pub(super) fn rows(&self, total: i64) -> usize {
        self.rows.max(total.unsigned_abs().isqrt() as usize)
    }

    /// Rows beyond which the head of such a partition is cut, and up to which the partition has none.
    pub(super) fn rows_max(&self, total: i64) -> usize {
        self.rows(total).saturating_mul(GROWTH_FACTOR)
    }

    /// Whether the first rows of a partition may be others when a row with this order key comes or goes.
    pub(super) fn may_change(&self, partition: RowId, key: &[u8]) -> bool {
        match self.heads.get(&partition).map(|head| &head.bound) {
            Some(Some((bound, _))) => key <= &**bound,
            Some(None) | None => true,
        }
    }

    /// The head of a partition, if it has one.
    pub(super) fn get(&self, partition: RowId) -> Option<&Head> {
        self.heads.get(&partition)
    }

    /// Puts the head of a partition in place.
    pub(super) fn put(&mut self, partition: RowId, head: Head) {
        self.heads.insert(partition, head);
    }

    /// Forgets the head of a partition.
    pub(super) fn forget(&mut self, partition: RowId) {
        self.heads.remove(&partition);
    }

    /// A row came into a partition.
    pub(super) fn insert(&mut self, partition: RowId, id: RowId, key: &[u8], came: i64) {
        if let Some(head) = self.heads.get_mut(&partition).filter(|head| head.holds(key, came)) {
            head.ids.push(id);
        }
    }

    /// A row left a partition.
    pub(super) fn remove(&mut self, partition: RowId, id: RowId, key: &[u8], came: i64) {
        let head = self.heads.get_mut(&partition).filter(|head| head.holds(key, came));
        if let Some(head) = head
            && let Some(at) = head.ids.iter().position(|&row| row == id)
        {
            head.ids.swap_remove(at);
        }
    }

    /// Forgets all heads, as rows or partitions have new ids.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
    }
}
