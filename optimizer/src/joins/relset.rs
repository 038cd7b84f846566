//! Sets of relations of one join block, as bits.

use std::fmt;

/// At most this many relations are in one block.
pub(crate) const MAX_RELATIONS: usize = 60;

/// A set of relations; relation `i` is bit `i`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct RelSet(pub u64);

impl RelSet {
    pub const EMPTY: Self = Self(0);

    pub fn single(index: usize) -> Self {
        Self(1 << index)
    }

    /// The first `n` relations.
    pub fn first(n: usize) -> Self {
        Self(if n >= 64 { u64::MAX } else { (1 << n) - 1 })
    }

    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn intersect(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The relation with the smallest index, as a set.
    pub fn lowest(self) -> Self {
        Self(self.0 & self.0.wrapping_neg())
    }

    /// Indices in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = usize> + Clone {
        (0..64).filter(move |i| self.0 & (1 << i) != 0)
    }

    /// All non-empty subsets, smaller bit patterns first.
    pub fn subsets(self) -> impl Iterator<Item = Self> {
        let mut current = 0_u64;
        std::iter::from_fn(move || {
            current = current.wrapping_sub(self.0) & self.0;
            (current != 0).then_some(Self(current))
        })
    }
}

impl fmt::Debug for RelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
