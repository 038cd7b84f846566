//! How rows are spread over the subtasks of a node.
//!
//! Invariant: rows with equal values in all `Hash` keys are in one subtask; a singleton satisfies every request for
//! co-location, a random spread none.

use std::collections::BTreeSet;
use std::fmt;

use crate::physical::ColumnId;
use crate::properties::ordering::Ordering;

/// The spread of rows over subtasks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Partitioning {
    /// Nothing is known.
    Random,
    /// By the hash of these columns, in this order.
    Hash(Vec<ColumnId>),
    /// By ranges of this order.
    Range(Ordering),
    /// Every subtask has all rows.
    Replicated,
    /// There is one subtask.
    Singleton,
}

impl Partitioning {
    /// Whether rows that agree on all `keys` are in one subtask. Being partitioned on a subset of the keys suffices.
    pub fn colocates(&self, keys: &BTreeSet<ColumnId>) -> bool {
        match self {
            Self::Random | Self::Replicated => false,
            Self::Hash(columns) => {
                !columns.is_empty() && columns.iter().all(|column| keys.contains(column))
            }
            Self::Range(ordering) => {
                !ordering.is_empty() && ordering.0.iter().all(|key| keys.contains(&key.column))
            }
            Self::Singleton => true,
        }
    }

    /// The same spread with columns replaced.
    pub fn map(&self, to: impl Fn(ColumnId) -> ColumnId) -> Self {
        match self {
            Self::Hash(columns) => Self::Hash(columns.iter().map(|&column| to(column)).collect()),
            Self::Range(ordering) => Self::Range(ordering.map(to)),
            Self::Random => Self::Random,
            Self::Replicated => Self::Replicated,
            Self::Singleton => Self::Singleton,
        }
    }

    /// The spread if all its columns satisfy `keep`, else random: a part of a partitioning promises nothing.
    pub fn retain(self, keep: impl Fn(ColumnId) -> bool) -> Self {
        let whole = match &self {
            Self::Hash(columns) => columns.iter().all(|&column| keep(column)),
            Self::Range(ordering) => ordering.0.iter().all(|key| keep(key.column)),
            Self::Random | Self::Replicated | Self::Singleton => true,
        };
        if whole { self } else { Self::Random }
    }
}

impl fmt::Display for Partitioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("RANDOM"),
            Self::Hash(columns) => {
                f.write_str("HASH(")?;
                for (i, column) in columns.iter().enumerate() {
                    write!(f, "{}{column}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Self::Range(ordering) => write!(f, "RANGE({ordering})"),
            Self::Replicated => f.write_str("REPLICATED"),
            Self::Singleton => f.write_str("SINGLETON"),
        }
    }
}
