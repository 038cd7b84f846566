//! What an operator asks of an input. A request is a set of acceptable properties.

use std::collections::BTreeSet;

use crate::physical::ColumnId;
use crate::properties::ordering::Ordering;

/// Acceptable spreads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedPartitioning {
    /// Every spread.
    Any,
    /// Rows that agree on all these columns meet, in whatever way.
    Keys(BTreeSet<ColumnId>),
    /// All rows in one subtask.
    Singleton,
}

/// Acceptable orders within a subtask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedLocal {
    /// Every order.
    Any,
    /// This order or a longer one.
    Ordering(Ordering),
    /// Equal values of these columns stand together.
    Grouping(BTreeSet<ColumnId>),
}
