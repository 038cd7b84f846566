//! What the optimizer is given: the logical plan and the plans that several places of it read.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_expr::{Expr, LogicalPlan, TableSource};
use thalweg_planner::Emit;

use crate::physical::ColumnId;

/// Tells whether a table source stands for a shared plan, and for which.
pub type SharedIdOf = Arc<dyn Fn(&dyn TableSource) -> Option<u32> + Send + Sync>;

/// Tells what a table is to a query that runs as a stream; `None` for one that is merely read.
pub type StreamOf = Arc<dyn Fn(&dyn TableSource) -> Option<StreamInput> + Send + Sync>;

/// A table that rows go on coming from, or that tells when its rows happened.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamInput {
    /// Whether it has no end.
    pub unbounded: bool,
    /// Whether rows may be withdrawn that came before.
    pub changes: bool,
    /// The column that the table's watermark is about, by its position.
    pub event_time: Option<usize>,
    /// What columns are never below, where the table knows it without looking at its rows.
    pub bounds: Vec<ColumnBound>,
}

/// What no later value of a column of a table or result is below.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnBound {
    /// The position of the column.
    pub column: usize,
    /// An expression over the watermark.
    pub bound: Expr,
    /// The column that stands for the watermark in it.
    pub watermark: ColumnId,
    /// The type that the watermark has there: a timestamp.
    pub watermark_type: DataType,
}

/// A query to optimize.
#[derive(Clone)]
pub struct OptimizerInput {
    /// The query.
    pub plan: LogicalPlan,
    /// Plans it reads more than once, each before its first reader.
    pub shared: Vec<SharedInput>,
    /// Recognises a table scan that reads a shared plan.
    pub shared_id: SharedIdOf,
    /// What tables are to streams.
    pub stream_of: StreamOf,
    /// Join hints.
    pub hints: Vec<JoinHint>,
    /// When results leave of groups that a watermark closes; `None` for when they are closed.
    pub emit: Option<Emit>,
    /// Buffer timeouts of parts of the query.
    pub buffer_timeouts: Vec<TimeoutHint>,
    /// The names of the query's derived tables and common table expressions; needed only with `buffer_timeouts`.
    pub blocks: Vec<String>,
}

/// How long incomplete buffers of a part of the query wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeoutHint {
    /// The part.
    pub scope: TimeoutScope,
    /// Microseconds; 0 is at once, and −1 never.
    pub micros: i64,
}

/// A part of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeoutScope {
    /// Its outermost block.
    Query,
    /// The block of a derived table or a common table expression of that name.
    Block(String),
    /// The scan of a table, by its alias or its name.
    Table(String),
}

/// A hint that decides how one relation is joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinHint {
    /// How.
    pub strategy: HintedStrategy,
    /// The relation's alias, or its table's name; all relations of that name are meant.
    pub relation: String,
}

/// The strategies that hints name. The hinted relation is the build side, where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintedStrategy {
    /// A hash join whose build all subtasks share; without keys, a nested-loop join.
    Broadcast,
    /// A hash join of operands that are spread by the keys.
    ShuffleHash,
    /// A sort-merge join.
    ShuffleMerge,
    /// A nested-loop join.
    NestLoop,
}

impl HintedStrategy {
    /// All of them.
    pub const ALL: [HintedStrategy; 4] =
        [Self::Broadcast, Self::ShuffleHash, Self::ShuffleMerge, Self::NestLoop];

    /// The hint's name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Broadcast => "BROADCAST",
            Self::ShuffleHash => "SHUFFLE_HASH",
            Self::ShuffleMerge => "SHUFFLE_MERGE",
            Self::NestLoop => "NEST_LOOP",
        }
    }

    /// The strategy of that name; `None` if there is none.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name)
    }
}

/// A plan that is read at several places.
#[derive(Debug, Clone)]
pub struct SharedInput {
    /// Its number.
    pub id: u32,
    /// Its name in the query.
    pub name: String,
    /// The plan.
    pub plan: LogicalPlan,
}

impl OptimizerInput {
    /// A query that shares nothing.
    pub fn new(plan: LogicalPlan) -> Self {
        Self {
            plan,
            shared: Vec::new(),
            shared_id: Arc::new(|_| None),
            stream_of: Arc::new(|_| None),
            hints: Vec::new(),
            emit: None,
            buffer_timeouts: Vec::new(),
            blocks: Vec::new(),
        }
    }
}

impl fmt::Debug for OptimizerInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptimizerInput")
            .field("plan", &self.plan)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}
