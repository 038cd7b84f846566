//! Properties some operator above could use: they keep a candidate alive that is not the cheapest.
//!
//! Invariant: an interesting property never forces anything; it is a reason not to prune.

use std::collections::BTreeSet;

use crate::physical::ColumnId;
use crate::properties::ordering::Ordering;
use crate::properties::partitioning::Partitioning;
use crate::properties::provided::ProvidedProperties;

/// The set of properties that operators above a node could use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterestingProperties {
    /// Key sets on which someone would like rows to meet.
    pub partitionings: Vec<BTreeSet<ColumnId>>,
    /// Orders someone would like.
    pub orderings: Vec<Ordering>,
    /// Column sets someone would like to find together.
    pub groupings: Vec<BTreeSet<ColumnId>>,
}

impl InterestingProperties {
    /// Adds a key set.
    pub fn want_partitioning(&mut self, keys: BTreeSet<ColumnId>) {
        if !keys.is_empty() && !self.partitionings.contains(&keys) {
            self.partitionings.push(keys);
        }
    }

    /// Adds an order.
    pub fn want_ordering(&mut self, ordering: Ordering) {
        if !ordering.is_empty() && !self.orderings.contains(&ordering) {
            self.orderings.push(ordering);
        }
    }

    /// Adds a grouping.
    pub fn want_grouping(&mut self, columns: BTreeSet<ColumnId>) {
        if !columns.is_empty() && !self.groupings.contains(&columns) {
            self.groupings.push(columns);
        }
    }

    /// The wishes that can be carried to an input which has only some of the columns, ids replaced on the way. A
    /// partitioning wish keeps the columns that exist (a subset of the keys suffices), an order its longest prefix.
    pub fn map(&self, to: impl Fn(ColumnId) -> Option<ColumnId>) -> Self {
        let mut mapped = Self::default();
        for keys in &self.partitionings {
            mapped.want_partitioning(keys.iter().filter_map(|&key| to(key)).collect());
        }
        for ordering in &self.orderings {
            let prefix = ordering.prefix(|column| to(column).is_some());
            mapped.want_ordering(prefix.map(|column| to(column).unwrap_or(column)));
        }
        for columns in &self.groupings {
            if columns.iter().all(|&column| to(column).is_some()) {
                mapped.want_grouping(columns.iter().filter_map(|&column| to(column)).collect());
            }
        }
        mapped
    }

    /// Drops what nobody wants from a promise, so that candidates that differ in nothing useful compare as equal.
    pub fn filter(&self, provided: ProvidedProperties) -> ProvidedProperties {
        let wanted = match &provided.partitioning {
            Partitioning::Hash(_) | Partitioning::Range(_) => {
                self.partitionings.iter().any(|keys| provided.partitioning.colocates(keys))
            }
            Partitioning::Random | Partitioning::Replicated | Partitioning::Singleton => true,
        };
        let partitioning = if wanted { provided.partitioning } else { Partitioning::Random };
        let ordering = self.useful_prefix(&provided.ordering);
        ProvidedProperties { partitioning, ordering, unique: provided.unique }
    }

    fn useful_prefix(&self, ordering: &Ordering) -> Ordering {
        let common = |wanted: &Ordering| {
            ordering.0.iter().zip(&wanted.0).take_while(|(a, b)| a == b).count()
        };
        let ordered = self.orderings.iter().map(common).max().unwrap_or(0);
        let grouped = self
            .groupings
            .iter()
            .filter(|set| ordering.groups(set))
            .map(BTreeSet::len)
            .max()
            .unwrap_or(0);
        Ordering(ordering.0[..ordered.max(grouped)].to_vec())
    }
}
