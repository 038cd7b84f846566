//! What a plan promises of its rows.
//!
//! Invariant: columns stand for their equivalence class (the smallest id); callers canonicalise requests likewise.

use std::collections::BTreeSet;

use crate::physical::ColumnId;
use crate::properties::ordering::Ordering;
use crate::properties::partitioning::Partitioning;
use crate::properties::requested::{RequestedLocal, RequestedPartitioning};

/// Global and local properties of the rows that leave a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvidedProperties {
    /// The spread over subtasks.
    pub partitioning: Partitioning,
    /// The order within each subtask.
    pub ordering: Ordering,
    /// Column sets of which no two rows agree on all values; proven, never estimated.
    pub unique: Vec<BTreeSet<ColumnId>>,
}

impl ProvidedProperties {
    /// One subtask, no order.
    pub fn singleton() -> Self {
        Self {
            partitioning: Partitioning::Singleton,
            ordering: Ordering::default(),
            unique: Vec::new(),
        }
    }

    /// Any subtask, no order.
    pub fn random() -> Self {
        Self {
            partitioning: Partitioning::Random,
            ordering: Ordering::default(),
            unique: Vec::new(),
        }
    }

    /// Whether the request for a spread is met. A proven unique set inside the wanted keys suffices, because then no
    /// two rows have to meet.
    pub fn meets_partitioning(&self, request: &RequestedPartitioning) -> bool {
        match request {
            RequestedPartitioning::Any => true,
            RequestedPartitioning::Singleton => self.partitioning == Partitioning::Singleton,
            RequestedPartitioning::Keys(keys) => {
                self.partitioning.colocates(keys)
                    || self.unique.iter().any(|set| set.is_subset(keys))
            }
        }
    }

    /// Whether the request for an order is met.
    pub fn meets_local(&self, request: &RequestedLocal) -> bool {
        match request {
            RequestedLocal::Any => true,
            RequestedLocal::Ordering(wanted) => self.ordering.satisfies(wanted),
            RequestedLocal::Grouping(columns) => {
                self.ordering.groups(columns)
                    || self.unique.iter().any(|set| set.is_subset(columns))
            }
        }
    }

    /// The same promise with columns replaced.
    pub fn map(&self, to: impl Fn(ColumnId) -> ColumnId + Copy) -> Self {
        Self {
            partitioning: self.partitioning.map(to),
            ordering: self.ordering.map(to),
            unique: self
                .unique
                .iter()
                .map(|set| set.iter().map(|&column| to(column)).collect())
                .collect(),
        }
    }

    /// The promise without its order, as after an exchange or a hash operator.
    pub fn without_order(mut self) -> Self {
        self.ordering = Ordering::default();
        self
    }

    /// The promise without uniqueness, as after a join that may repeat rows.
    pub fn without_unique(mut self) -> Self {
        self.unique.clear();
        self
    }
}
