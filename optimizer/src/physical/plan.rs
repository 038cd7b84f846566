//! Nodes and channels of a physical plan.
//!
//! Invariant: every node's `output` lists, in order, the columns that leave it. Scans, joins, aggregates, filters and
//! windows may list fewer columns than they could produce: the lowering projects. `Sort`, `TopN`, `Limit` and
//! `AssertSingleRow` pass the columns of their input. The root is always a singleton.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cost::Cost;
use crate::input::ColumnBound;
use crate::physical::columns::{ColumnId, ColumnTable};
use crate::physical::operators::PhysicalOp;
use crate::properties::{Ordering, ProvidedProperties};

/// A complete plan for one query.
#[derive(Debug, Clone)]
pub struct PhysicalPlan {
    /// The last operator; it runs as one subtask.
    pub root: Arc<PhysicalNode>,
    /// All columns of the query by id.
    pub columns: Arc<ColumnTable>,
    /// The columns of the result in order with their names; names and ids may repeat.
    pub output: Vec<(ColumnId, String)>,
    /// Subplans read by several consumers through `PhysicalOp::SharedScan`, each before its first reader: a shared
    /// plan refers only to shared plans that stand before it.
    pub shared: Vec<SharedNode>,
    /// Things the user should hear of, such as a hint that could not be applied.
    pub warnings: Vec<String>,
    /// Positions in `output` of columns that tell the rows of the result apart at any time; `None` if none are known.
    pub key: Option<Vec<usize>>,
    /// What columns of the result are never below, of a query that runs as a stream; by positions in `output`.
    pub bounds: Vec<ColumnBound>,
    /// Whether it runs as a stream: scans make watermarks, and groups leave when they are complete.
    pub streaming: bool,
    /// Microseconds after which state that no watermark bounds is forgotten; 0 keeps it for ever.
    pub state_ttl_us: i64,
    /// How long incomplete buffers of a node's output wait, in microseconds, by the node's number: where hints say so.
    pub buffer_timeouts: BTreeMap<u32, i64>,
}

/// A subplan that is computed once and spooled for several readers.
#[derive(Debug, Clone)]
pub struct SharedNode {
    /// The number by which `SharedScan` refers to it.
    pub id: u32,
    /// The name of the common table expression.
    pub name: String,
    /// The subplan.
    pub root: Arc<PhysicalNode>,
    /// The columns that are spooled, in order: `root.output`.
    pub columns: Vec<ColumnId>,
    /// Blocking: the spool is complete before a reader starts. A stream without an end is read as it comes.
    pub mode: ExchangeMode,
    /// Why.
    pub reason: String,
}

/// One operator of the plan with its inputs.
#[derive(Debug, Clone)]
pub struct PhysicalNode {
    /// Unique within the plan, numbered from the root downwards.
    pub id: u32,
    /// What the node does.
    pub op: PhysicalOp,
    /// The inputs in the operator's order (joins: left, right).
    pub inputs: Vec<Channel>,
    /// The columns that leave the node, in order; may be empty when only the number of rows matters.
    pub output: Vec<ColumnId>,
    /// What is known of how the rows leave the node.
    pub provided: ProvidedProperties,
    /// How many rows and bytes leave the node, all subtasks together.
    pub estimates: Estimates,
    /// What the node itself costs, its input channels included.
    pub cost: Cost,
    /// What the node and everything below costs.
    pub cumulative: Cost,
    /// In how many subtasks the node runs.
    pub parallelism: Parallelism,
    /// Whether rows leave that withdraw others which left before.
    pub changes: bool,
}

/// How rows come from an input.
#[derive(Debug, Clone)]
pub struct Channel {
    /// The producer.
    pub node: Arc<PhysicalNode>,
    /// To which subtask a row goes.
    pub ship: ShipStrategy,
    /// Whether the consumer may start before the producer ends.
    pub mode: ExchangeMode,
    /// Why the exchange blocks, if it does.
    pub reason: Option<String>,
}

/// To which of the consumer's subtasks a row goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShipStrategy {
    /// Stays in its subtask; producer and consumer have the same parallelism.
    Forward,
    /// By the hash of these columns; equal keys meet, NULL keys too.
    Hash(Vec<ColumnId>),
    /// To every subtask; into a hash build it is one shared build.
    Broadcast,
    /// Evenly to any subtask.
    Rebalance,
    /// To the only subtask, in any order.
    Singleton,
    /// To the only subtask, merging the producers' orders into one.
    Merge(Ordering),
    /// By ranges of this order.
    Range(Ordering),
}

/// When the consumer may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeMode {
    /// While the producer runs.
    Pipelined,
    /// After the producer has ended.
    Blocking,
}

/// In how many subtasks a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallelism {
    /// One.
    Singleton,
    /// As many as the query has threads.
    Full,
}

/// Estimated output of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// Rows; at least 1 unless the input is known to be empty.
    pub rows: f64,
    /// Where the number comes from.
    pub provenance: Provenance,
    /// Bytes of all rows.
    pub bytes: f64,
}

/// Where an estimate comes from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    /// Counted.
    Exact,
    /// Derived from statistics.
    Stats,
    /// Measured on a sample.
    Sample,
    /// Given by the user.
    Hint,
    /// A constant of the optimizer.
    Default,
}

impl Provenance {
    /// The word shown by EXPLAIN.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Stats => "stats",
            Self::Sample => "sample",
            Self::Hint => "hint",
            Self::Default => "default",
        }
    }

    /// The provenance of a number computed from two others: the weaker one.
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}
