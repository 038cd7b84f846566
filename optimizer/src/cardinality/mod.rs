//! Cardinality: how many rows leave an operator and how many distinct values a column has.
//!
//! Invariant: an estimate is never 0 unless the input is known to be empty, never more than what its inputs can give,
//! and carries its provenance. Column facts are kept once per column id; how many of a column's values are left among
//! fewer rows is computed from them.

mod columns;
mod defaults;
mod groups;
mod joins;
mod literals;
mod selectivity;

pub(crate) use columns::{ColumnEstimate, Estimator};
pub(crate) use joins::{JoinEstimate, KeyPart};
pub(crate) use selectivity::column_of;

use std::collections::BTreeSet;

use crate::physical::{ColumnId, Provenance};
use crate::properties::EquivalenceClasses;

/// What is known of the rows of a relation, whatever plan computes it.
#[derive(Debug, Clone)]
pub(crate) struct Logical {
    /// Estimated rows.
    pub rows: f64,
    /// Where the number comes from.
    pub provenance: Provenance,
    /// Columns that are equal in every row.
    pub classes: EquivalenceClasses,
    /// Column sets of which no two rows agree on all values (proven); the empty set means one row at most.
    pub unique: Vec<BTreeSet<ColumnId>>,
}

impl Logical {
    /// A relation of which only the size is known.
    pub fn new(rows: f64, provenance: Provenance) -> Self {
        Self { rows, provenance, classes: EquivalenceClasses::default(), unique: Vec::new() }
    }

    /// The same relation with fewer or more rows.
    pub fn with_rows(&self, rows: f64, provenance: Provenance) -> Self {
        Self { rows, provenance, ..self.clone() }
    }

    /// Whether no two rows agree on all `keys`.
    pub fn unique_on(&self, keys: &BTreeSet<ColumnId>) -> bool {
        let known = |set: &BTreeSet<ColumnId>| {
            let has = |column: &ColumnId| keys.iter().any(|&key| self.classes.same(key, *column));
            set.iter().all(has)
        };
        self.unique.iter().any(known)
    }
}
