//! Order of rows within a subtask.
//!
//! Invariant: an ordering never lists a column twice. Order implies grouping on its prefix.

use std::collections::BTreeSet;
use std::fmt;

use datafusion_expr::Expr;

use crate::physical::ColumnId;

/// One column of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// The column.
    pub column: ColumnId,
    /// Greatest first.
    pub descending: bool,
    /// NULLs before all values.
    pub nulls_first: bool,
}

impl SortKey {
    /// Ascending, NULLs last: the direction chosen where any will do.
    pub fn ascending(column: ColumnId) -> Self {
        Self { column, descending: false, nulls_first: false }
    }

    /// The column as an expression.
    pub fn expr(&self) -> Expr {
        self.column.expr()
    }
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.column, if self.descending { "DESC" } else { "ASC" })?;
        if self.nulls_first != self.descending {
            f.write_str(if self.nulls_first { " NULLS FIRST" } else { " NULLS LAST" })?;
        }
        Ok(())
    }
}

/// A lexicographic order; empty means none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ordering(pub Vec<SortKey>);

impl Ordering {
    /// An order by these keys, repeated columns dropped.
    pub fn new(keys: impl IntoIterator<Item = SortKey>) -> Self {
        let mut seen = BTreeSet::new();
        Self(keys.into_iter().filter(|key| seen.insert(key.column)).collect())
    }

    /// Whether there is no order.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether rows in this order are also in `wanted` order: `wanted` is a prefix.
    pub fn satisfies(&self, wanted: &Self) -> bool {
        self.0.starts_with(&wanted.0)
    }

    /// Whether equal values of `columns` (as a set) stand together: they are exactly a prefix.
    pub fn groups(&self, columns: &BTreeSet<ColumnId>) -> bool {
        self.0.len() >= columns.len()
            && self.0[..columns.len()].iter().all(|key| columns.contains(&key.column))
    }

    /// The longest prefix whose columns all satisfy `keep`.
    pub fn prefix(&self, keep: impl Fn(ColumnId) -> bool) -> Self {
        Self(self.0.iter().take_while(|key| keep(key.column)).copied().collect())
    }

    /// The same order with columns replaced, repeated ones dropped.
    pub fn map(&self, to: impl Fn(ColumnId) -> ColumnId) -> Self {
        Self::new(self.0.iter().map(|key| SortKey { column: to(key.column), ..*key }))
    }
}

impl fmt::Display for Ordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, key) in self.0.iter().enumerate() {
            write!(f, "{}{key}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
