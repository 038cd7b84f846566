//! What lowering says of a hash aggregate: plain data.

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::firing::FiringSpec;
use super::late_keys::LateKeysSpec;
use super::panes::ClosingSpec;
use crate::aggregates::AggregateSpec;
use crate::expr::Expr;

/// Which part of the work an aggregate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AggregatePhase {
    /// From rows to results.
    Single,
    /// From rows to pages of partial results.
    Partial,
    /// From pages of partial results to results.
    Final,
}

/// Several groupings of one input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupingSetsSpec {
    /// The keys of each set, as positions among all keys.
    pub sets: Vec<Vec<usize>>,
    /// The grouping id of each set.
    pub ids: Vec<u64>,
    /// The type of the column of grouping ids.
    pub id_type: DataType,
}

/// What to group by and what to compute.
///
/// Output columns: keys, then the grouping id if there are sets, then aggregates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HashAggregateSpec {
    /// The part of the work.
    pub phase: AggregatePhase,
    /// Types of the columns of the rows, in every phase.
    pub input: Vec<DataType>,
    /// The grouping keys.
    pub keys: Vec<Expr>,
    /// The keys' types.
    pub key_types: Vec<DataType>,
    /// Several groupings, if there are.
    pub grouping_sets: Option<GroupingSetsSpec>,
    /// The aggregates.
    pub aggregates: Vec<AggregateSpec>,
    /// Keys that are not evaluated but fetched from builds; only in the partial phase.
    pub late_keys: Vec<LateKeysSpec>,
    /// When results leave; changes only in the single phase, when groups close only without grouping sets.
    pub emission: Emission,
    /// Whether rows may be withdrawn that came before: states are then such that can forget.
    pub withdrawn: bool,
}

/// When the results of groups leave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Emission {
    /// When the input ends.
    AtEnd,
    /// When a key is behind the watermark, each group once.
    Closed(ClosingSpec),
    /// After each batch, as a change of what left before: the old result is deleted, the new one inserted.
    Changes,
    /// As the changes of each stretch of time.
    PeriodicChanges {
        /// Its length in microseconds.
        every_us: u64,
    },
    /// As changes until a key is behind the watermark, or after that.
    Fired(FiringSpec),
}

impl Emission {
    /// Whether groups leave that a watermark completes, so that rows may come too late for them.
    pub fn closes_groups(&self) -> bool {
        match self {
            Emission::Closed(_) | Emission::Fired(_) => true,
            Emission::AtEnd | Emission::Changes | Emission::PeriodicChanges { .. } => false,
        }
    }

    pub(super) fn closing(&self) -> Option<&ClosingSpec> {
        match self {
            Emission::Closed(closing) => Some(closing),
            Emission::AtEnd
            | Emission::Changes
            | Emission::PeriodicChanges { .. }
            | Emission::Fired(_) => None,
        }
    }
}
