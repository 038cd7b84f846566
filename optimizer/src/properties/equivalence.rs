//! Classes of columns that are equal in every row of a relation.
//!
//! Invariant: the representative of a class is its smallest id. Classes only grow on the way up a tree; members that
//! were dropped from the output stay as names for the others. Columns nulled together by an outer join stay equal in
//! the sense that NULL equals NULL, which is what grouping and partitioning need.

use std::collections::BTreeMap;

use crate::physical::ColumnId;

/// A partition of columns into classes of equal columns; a column that was never added is alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EquivalenceClasses {
    parent: BTreeMap<ColumnId, ColumnId>,
}

impl EquivalenceClasses {
    /// The representative of a column's class.
    pub fn canonical(&self, column: ColumnId) -> ColumnId {
        self.parent.get(&column).copied().unwrap_or(column)
    }

    /// Whether two columns are known to be equal.
    pub fn same(&self, a: ColumnId, b: ColumnId) -> bool {
        self.canonical(a) == self.canonical(b)
    }

    /// Notes that two columns are equal.
    pub fn unite(&mut self, a: ColumnId, b: ColumnId) {
        let (a, b) = (self.canonical(a), self.canonical(b));
        if a == b {
            return;
        }
        let (keep, drop) = (a.min(b), a.max(b));
        for representative in self.parent.values_mut() {
            if *representative == drop {
                *representative = keep;
            }
        }
        self.parent.insert(drop, keep);
        self.parent.insert(keep, keep);
    }

    /// Takes over the classes of another relation.
    pub fn merge(&mut self, other: &Self) {
        for (&column, &representative) in &other.parent {
            self.unite(column, representative);
        }
    }

    /// All columns that are equal to some other, by class.
    pub fn classes(&self) -> BTreeMap<ColumnId, Vec<ColumnId>> {
        let mut classes: BTreeMap<ColumnId, Vec<ColumnId>> = BTreeMap::new();
        for (&column, &representative) in &self.parent {
            classes.entry(representative).or_default().push(column);
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_merge_under_the_smallest_id() {
        let mut classes = EquivalenceClasses::default();
        classes.unite(ColumnId(5), ColumnId(3));
        classes.unite(ColumnId(9), ColumnId(7));
        classes.unite(ColumnId(7), ColumnId(5));
        assert_eq!(classes.canonical(ColumnId(9)), ColumnId(3));
        assert!(classes.same(ColumnId(7), ColumnId(3)));
        assert!(!classes.same(ColumnId(1), ColumnId(3)));
        assert_eq!(classes.classes().len(), 1);
    }
}
