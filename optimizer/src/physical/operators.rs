//! The physical operators and what each needs to know.
//!
//! Invariant: expressions name columns as `#n`; join keys, group keys, sort keys and window keys are plain columns
//! that the input carries, computed keys having been projected before.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::JoinType;
use datafusion_common::NullHandling;
use datafusion_expr::expr::{NullTreatment, Sort as SortExpr};
use datafusion_expr::{AggregateUDF, Expr, TableSource, WindowFrame, WindowFunctionDefinition};

use crate::physical::columns::ColumnId;
use crate::physical::row_windows::RowWindowsSpec;
use crate::properties::SortKey;
use crate::streaming::{Completion, Emission, Expiry};

/// One input of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first input.
    Left,
    /// The second input.
    Right,
}

impl Side {
    /// The other side.
    pub fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// Whether a join gives rows of its build side after the last probe row: those with, or without, a match.
pub fn emits_build_rows(join_type: JoinType, build: Side) -> bool {
    match join_type {
        JoinType::Inner => false,
        JoinType::Full => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            build == Side::Left
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            build == Side::Right
        }
    }
}

/// What a node does.
#[derive(Clone)]
pub enum PhysicalOp {
    /// Reads a table.
    Scan {
        /// The table; the lowering downcasts it.
        source: Arc<dyn TableSource>,
        /// Its name, for display.
        table: String,
        /// Output columns with their index in the source's schema.
        columns: Vec<(ColumnId, usize)>,
        /// Columns that only `filters` or `runtime_filters` read.
        filter_columns: Vec<(ColumnId, usize)>,
        /// Conjuncts; a row passes when all are true.
        filters: Vec<Expr>,
        /// Rows after which the scan may stop (counted after the filters).
        fetch: Option<usize>,
        /// Filters that hash joins above fill at run time.
        runtime_filters: Vec<RuntimeFilterUse>,
    },
    /// Reads the spool of a shared subplan.
    SharedScan {
        /// The `SharedNode`'s id.
        shared: u32,
        /// The column here, and the column of the shared plan.
        columns: Vec<(ColumnId, ColumnId)>,
    },
    /// Constant rows; each has one expression per column of `output`.
    Values {
        /// The rows.
        rows: Vec<Vec<Expr>>,
    },
    /// No row, or one row; columns (if any) are NULL.
    Empty {
        /// Whether there is one row.
        one_row: bool,
    },
    /// Keeps the rows for which the predicate is true.
    Filter {
        /// A boolean expression.
        predicate: Expr,
    },
    /// Computes and forwards columns: exactly `output`, in order.
    Project {
        /// Column and expression; `(#1, #1)` forwards.
        exprs: Vec<(ColumnId, Expr)>,
    },
    /// Hash join; the build side is read first.
    HashJoin {
        /// In terms of the inputs' order (left, right), whatever the build side is.
        join_type: JoinType,
        /// Which input is built.
        build: Side,
        /// Left and right key columns.
        on: Vec<(Expr, Expr)>,
        /// Condition on pairs that match by key; part of the join condition.
        filter: Option<Expr>,
        /// Whether NULL keys match NULL keys.
        null_equal: bool,
        /// `NOT IN` semantics of an anti join: a NULL key on the inner side removes all rows, an outer NULL key
        /// survives only an empty inner side.
        null_aware: bool,
        /// The boolean column of a mark join.
        mark: Option<ColumnId>,
        /// Whether build keys are known to be unique.
        build_unique: bool,
        /// Filters that the finished build publishes.
        runtime_filters: Vec<RuntimeFilterDef>,
        /// Build columns that stay behind, to be fetched by an aggregate above.
        late_columns: Option<LateColumns>,
    },
    /// Merge join of two inputs, each sorted by its keys in the order of `on`.
    SortMergeJoin {
        /// See `HashJoin`.
        join_type: JoinType,
        /// Left and right key columns.
        on: Vec<(Expr, Expr)>,
        /// Directions of the keys, which both inputs share (in terms of the left keys).
        keys: Vec<SortKey>,
        /// Condition on pairs that match by key.
        filter: Option<Expr>,
        /// Whether NULL keys match NULL keys.
        null_equal: bool,
        /// The boolean column of a mark join.
        mark: Option<ColumnId>,
    },
    /// Compares every pair; the build side is kept and re-read.
    NestedLoopJoin {
        /// See `HashJoin`.
        join_type: JoinType,
        /// Which input is kept.
        build: Side,
        /// The join condition; none means true. Keyed conditions appear here as equalities.
        filter: Option<Expr>,
        /// The boolean column of a mark join.
        mark: Option<ColumnId>,
    },
    /// Join of two streams: both sides are kept, and rows of either are matched with what is known of the other.
    StreamJoin {
        /// See `HashJoin`.
        join_type: JoinType,
        /// Left and right key columns; without any every pair is compared.
        on: Vec<(Expr, Expr)>,
        /// Condition on pairs that match by key.
        filter: Option<Expr>,
        /// Whether NULL keys match NULL keys.
        null_equal: bool,
        /// See `HashJoin`.
        null_aware: bool,
        /// The boolean column of a mark join.
        mark: Option<ColumnId>,
        /// When rows can match nothing more; at most one a side.
        expiry: Vec<Expiry>,
        /// Whether rows without a match leave once, when they expire, so that none is withdrawn.
        patient: bool,
        /// The side that is looked up as it is when a row of the other one comes: its changes give nothing.
        lookup: Option<Side>,
    },
    /// Aggregation by hashing.
    HashAggregate {
        /// Which part of the work.
        phase: AggregatePhase,
        /// Output column and key expression (a column). In the final phase it reads the partial phase's keys.
        group_by: Vec<(ColumnId, Expr)>,
        /// Grouping sets over `group_by`; never in a final phase, where the grouping id is one more key.
        grouping_sets: Option<GroupingSets>,
        /// The aggregates. A partial phase puts each state under the aggregate's output id.
        aggregates: Vec<AggregateCall>,
        /// Keys that are fetched from builds of joins below; only in a partial phase.
        late_keys: Vec<LateKeys>,
        /// When results leave; before the input ends only in a single phase.
        emission: Emission,
    },
    /// Aggregation of an input that is sorted (or grouped) by the keys.
    SortAggregate {
        /// Which part of the work.
        phase: AggregatePhase,
        /// See `HashAggregate`.
        group_by: Vec<(ColumnId, Expr)>,
        /// See `HashAggregate`.
        aggregates: Vec<AggregateCall>,
    },
    /// Sorts the rows of each subtask.
    Sort {
        /// The keys.
        keys: Vec<SortKey>,
        /// Keep only that many rows of each subtask.
        fetch: Option<usize>,
    },
    /// Keeps the first rows by an order, and emits them in that order.
    TopN {
        /// The keys.
        keys: Vec<SortKey>,
        /// Rows to leave out first.
        skip: usize,
        /// Rows to emit after those.
        fetch: usize,
    },
    /// Passes a range of rows of each subtask, in arrival order.
    Limit {
        /// Rows to leave out first.
        skip: usize,
        /// Rows to pass after those; none means all.
        fetch: Option<usize>,
    },
    /// Window functions; the input is partitioned by `partition_by` and each subtask is sorted by `partition_by`
    /// (any direction, NULLs together) and then by `order_by`.
    Window {
        /// Partition key columns.
        partition_by: Vec<Expr>,
        /// Order within a partition.
        order_by: Vec<SortKey>,
        /// The functions.
        functions: Vec<WindowCall>,
    },
    /// Window functions over a stream: partitions are kept, and their results told as changes.
    ChangelogWindow {
        /// Partition key columns.
        partition_by: Vec<Expr>,
        /// Order within a partition.
        order_by: Vec<SortKey>,
        /// The functions; may be none if `keep` is set.
        functions: Vec<WindowCall>,
        /// Only so many rows of a partition matter, in its order.
        keep: Option<usize>,
        /// When partitions are complete, which are forgotten then.
        closing: Option<Completion>,
    },
    /// Gives rows windows that rows make, or keeps the last rows of groups.
    RowWindows(RowWindowsSpec),
    /// Window functions over rows of a stream that event time completes; each row leaves once.
    EventTimeWindow {
        /// Partition key columns.
        partition_by: Vec<Expr>,
        /// Order within a partition.
        order_by: Vec<SortKey>,
        /// The functions; may be none.
        functions: Vec<WindowCall>,
        /// When rows are complete.
        completion: Completion,
        /// Only so many rows of a partition matter, in its order; of partitions that are complete as a whole.
        keep: Option<usize>,
    },
    /// The rows that are left of a changelog at its end.
    Fold,
    /// All rows of all inputs; `columns[i]` are the columns of input `i` in the order of `output`.
    Union {
        /// Per input, its columns.
        columns: Vec<Vec<ColumnId>>,
    },
    /// Expands lists and structs; exactly `output`, in order.
    Unnest {
        /// Where each output column comes from.
        columns: Vec<UnnestColumn>,
        /// What becomes of NULL and empty lists.
        null_handling: NullHandling,
    },
    /// Passes one row; none becomes one row of NULLs, several are a run-time error.
    AssertSingleRow,
    /// Fixpoint of a recursive query; inputs are the static term and the recursive term.
    RecursiveCte {
        /// The name of the common table expression.
        name: String,
        /// Which `WorkTableScan`s read its work table.
        work_table: u32,
        /// Whether rows that were seen are dropped (`UNION` instead of `UNION ALL`).
        distinct: bool,
        /// Columns of the static term, aligned with `output`.
        static_columns: Vec<ColumnId>,
        /// Columns of the recursive term, aligned with `output`.
        recursive_columns: Vec<ColumnId>,
    },
    /// Reads the rows the last superstep produced.
    WorkTableScan {
        /// The `RecursiveCte` it belongs to.
        work_table: u32,
        /// The column here, and its position in the `RecursiveCte`'s output.
        columns: Vec<(ColumnId, usize)>,
    },
}

/// Build columns that leave a join as the number of a build row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateColumns {
    /// The column of row numbers that leaves the join in their place.
    pub reference: ColumnId,
    /// The columns of the build side.
    pub columns: Vec<ColumnId>,
}

/// Grouping keys that a partial aggregate fetches from the build of a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateKeys {
    /// The join's [`LateColumns::reference`].
    pub reference: ColumnId,
    /// Positions among the keys, and the build column of each. Their expressions in `group_by` are the reference.
    pub keys: Vec<(usize, ColumnId)>,
}

/// Which part of an aggregation a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregatePhase {
    /// All of it: every group is in one subtask.
    Single,
    /// Rows to states, per subtask.
    Partial,
    /// States to results.
    Final,
}

/// Several groupings in one pass.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupingSets {
    /// Indices into the group keys that each set keeps; all others are NULL in its rows.
    pub sets: Vec<Vec<usize>>,
    /// The value of the id column for each set: bit `n − 1 − i` is set when key `i` of `n` is left out; a repeated
    /// set carries its ordinal in the bits above.
    pub ids: Vec<u64>,
    /// The unsigned integer column that tells the sets apart.
    pub id_column: ColumnId,
}

/// One aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateCall {
    /// The column of its result.
    pub output: ColumnId,
    /// The function.
    pub function: Arc<AggregateUDF>,
    /// Argument expressions.
    pub args: Vec<Expr>,
    /// Whether equal arguments count once.
    pub distinct: bool,
    /// Rows for which this is not true are left out.
    pub filter: Option<Expr>,
    /// The order in which rows are fed.
    pub order_by: Vec<SortExpr>,
    /// `IGNORE NULLS` or `RESPECT NULLS`.
    pub null_treatment: Option<NullTreatment>,
    /// The type of the result.
    pub data_type: DataType,
}

/// One window function.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowCall {
    /// The column of its result.
    pub output: ColumnId,
    /// The function: an aggregate or a window function.
    pub function: WindowFunctionDefinition,
    /// Argument expressions.
    pub args: Vec<Expr>,
    /// The frame.
    pub frame: WindowFrame,
    /// Rows for which this is not true are left out (aggregates only).
    pub filter: Option<Expr>,
    /// Whether equal arguments count once.
    pub distinct: bool,
    /// `IGNORE NULLS` or `RESPECT NULLS`.
    pub null_treatment: Option<NullTreatment>,
    /// The type of the result.
    pub data_type: DataType,
}

/// One output column of an unnest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnnestColumn {
    /// The output column.
    pub output: ColumnId,
    /// Where it comes from.
    pub source: UnnestSource,
}

/// Where an unnested column comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnnestSource {
    /// The input column, repeated for each produced row.
    Forward(ColumnId),
    /// The elements of a list column, opened `depth` times.
    List {
        /// The list column.
        input: ColumnId,
        /// How many levels of lists to open.
        depth: usize,
    },
    /// A field of a struct column.
    StructField {
        /// The struct column.
        input: ColumnId,
        /// The field's index.
        field: usize,
    },
}

/// A filter that a hash join publishes when its build is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeFilterDef {
    /// Unique within the plan.
    pub id: u32,
    /// Which of the join's keys it covers.
    pub key_index: usize,
}

/// A filter that a scan applies once it has been published; until then all rows pass.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeFilterUse {
    /// The `RuntimeFilterDef`'s id.
    pub filter_id: u32,
    /// The scan's expression to test: a row passes if the filter may contain its value; NULL never passes.
    pub key: Expr,
}

impl PhysicalOp {
    /// The relational operator, whatever strategy executes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Scan { .. } | Self::SharedScan { .. } | Self::WorkTableScan { .. } => "Scan",
            Self::Values { .. } | Self::Empty { .. } => "Values",
            Self::Filter { .. } => "Filter",
            Self::Project { .. } => "Project",
            Self::HashJoin { .. }
            | Self::SortMergeJoin { .. }
            | Self::NestedLoopJoin { .. }
            | Self::StreamJoin { .. } => "Join",
            Self::HashAggregate { .. } | Self::SortAggregate { .. } => "Aggregate",
            Self::Sort { .. } | Self::TopN { .. } => "Sort",
            Self::Limit { .. } => "Limit",
            Self::Window { .. }
            | Self::ChangelogWindow { .. }
            | Self::EventTimeWindow { .. }
            | Self::RowWindows(_) => "Window",
            Self::Fold => "Fold",
            Self::Union { .. } => "Union",
            Self::Unnest { .. } => "Unnest",
            Self::AssertSingleRow => "AssertSingleRow",
            Self::RecursiveCte { .. } => "RecursiveCte",
        }
    }

    /// The strategy's name as EXPLAIN shows it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scan { .. } => "Scan",
            Self::SharedScan { .. } => "SharedScan",
            Self::Values { .. } => "Values",
            Self::Empty { .. } => "Empty",
            Self::Filter { .. } => "Filter",
            Self::Project { .. } => "Project",
            Self::HashJoin { .. } => "HashJoin",
            Self::SortMergeJoin { .. } => "SortMergeJoin",
            Self::NestedLoopJoin { .. } => "NestedLoopJoin",
            Self::HashAggregate { .. } => "HashAggregate",
            Self::SortAggregate { .. } => "SortAggregate",
            Self::Sort { .. } => "Sort",
            Self::TopN { .. } => "TopN",
            Self::Limit { .. } => "Limit",
            Self::Window { .. } => "Window",
            Self::ChangelogWindow { .. } => "ChangelogWindow",
            Self::EventTimeWindow { .. } => "EventTimeWindow",
            Self::StreamJoin { .. } => "StreamJoin",
            Self::RowWindows(_) => "RowWindows",
            Self::Fold => "Fold",
            Self::Union { .. } => "Union",
            Self::Unnest { .. } => "Unnest",
            Self::AssertSingleRow => "AssertSingleRow",
            Self::RecursiveCte { .. } => "RecursiveCte",
            Self::WorkTableScan { .. } => "WorkTableScan",
        }
    }
}

/// Table sources are opaque, so that only the strategy is shown; `explain` shows the rest.
impl fmt::Debug for PhysicalOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
