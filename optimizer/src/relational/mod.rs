//! The relational tree the search works on: a logical plan in terms of column ids.
//!
//! Invariant: a column that is merely renamed, reordered or forwarded keeps its id, so that projections exist only
//! where something is computed. Keys of joins, groups, orders and windows are plain columns. `output` lists distinct
//! ids. It holds no estimate and no property.

mod aggregates;
mod entry;
mod expressions;
mod nulls;
mod outer_joins;
mod prune;
mod row_windows;
mod sources;
mod windows;

pub(crate) use entry::filtered as add_conjuncts;

use std::sync::Arc;

use datafusion_common::{JoinType, NullHandling};
use datafusion_expr::{Expr, TableSource};

use crate::error::Result;
use crate::input::OptimizerInput;
use crate::physical::{
    AggregateCall, ColumnId, ColumnTable, GroupingSets, RowWindowsSpec, UnnestColumn, WindowCall,
};
use crate::properties::SortKey;
use crate::streaming::{Completion, Emission, Expiry, Flow};

/// One relational operator with its inputs.
#[derive(Clone)]
pub(crate) struct Rel {
    /// What it computes.
    pub op: RelOp,
    /// Its inputs (joins: left, right).
    pub inputs: Vec<Rel>,
    /// The columns operators above need, in order.
    pub output: Vec<ColumnId>,
    /// How its rows come, in queries that run as streams.
    pub flow: Flow,
}

/// What a relational operator computes.
#[derive(Clone)]
pub(crate) enum RelOp {
    /// Rows of a table that pass all filters; the filters may name columns that are not output.
    Scan {
        source: Arc<dyn TableSource>,
        table: String,
        columns: Vec<(ColumnId, usize)>,
        filters: Vec<Expr>,
        fetch: Option<usize>,
    },
    /// Rows of a shared plan.
    SharedScan { shared: u32, columns: Vec<(ColumnId, ColumnId)> },
    /// Rows of the last superstep.
    WorkTableScan { work_table: u32, columns: Vec<(ColumnId, usize)> },
    /// Constant rows; the expressions are aligned with `columns`.
    Values { columns: Vec<ColumnId>, rows: Vec<Vec<Expr>> },
    /// No row or one row of NULLs.
    Empty { one_row: bool, columns: Vec<ColumnId> },
    /// Conjuncts.
    Filter { conjuncts: Vec<Expr> },
    /// Adds computed columns; all others pass.
    Compute { exprs: Vec<(ColumnId, Expr)> },
    /// Joins two inputs.
    Join(JoinSpec),
    /// Groups and aggregates.
    Aggregate(AggregateSpec),
    /// Adds columns of window functions that share one window. Of each partition nobody wants more than the first `keep`
    /// rows, if that is set. Rows of a stream leave when they are complete, if it is known when.
    Window {
        partition_by: Vec<ColumnId>,
        order_by: Vec<SortKey>,
        functions: Vec<WindowCall>,
        keep: Option<usize>,
        completion: Option<Completion>,
    },
    /// Gives rows windows that rows make, or keeps the last rows of groups.
    RowWindows(RowWindowsSpec),
    /// Orders, and keeps the first rows if `fetch` is set.
    Sort { keys: Vec<SortKey>, fetch: Option<usize> },
    /// A range of rows.
    Limit { skip: usize, fetch: Option<usize> },
    /// All rows of all inputs; `columns[i]` are input `i`'s for each of `targets`.
    Union { targets: Vec<ColumnId>, columns: Vec<Vec<ColumnId>> },
    /// Opens lists and structs.
    Unnest { columns: Vec<UnnestColumn>, null_handling: NullHandling },
    /// One row, or an error.
    AssertSingleRow,
    /// The rows that are left of a changelog when it ends.
    Fold,
    /// Fixpoint of the second input over the first.
    RecursiveCte {
        name: String,
        work_table: u32,
        distinct: bool,
        targets: Vec<ColumnId>,
        static_columns: Vec<ColumnId>,
        recursive_columns: Vec<ColumnId>,
    },
}

/// A join in the written order of its inputs.
#[derive(Clone, Debug)]
pub(crate) struct JoinSpec {
    /// In terms of left and right.
    pub join_type: JoinType,
    /// Left and right key columns of equal type.
    pub on: Vec<(ColumnId, ColumnId)>,
    /// Further conjuncts of the condition.
    pub filter: Vec<Expr>,
    /// Whether NULL keys match.
    pub null_equal: bool,
    /// `NOT IN` semantics.
    pub null_aware: bool,
    /// The column a mark join adds.
    pub mark: Option<ColumnId>,
    /// When rows of two streams can match nothing more.
    pub expiry: Vec<Expiry>,
    /// Whether rows without a match leave once, when they expire, rather than at once.
    pub patient: bool,
    /// Whether the right side is looked up as it is when a left row comes.
    pub lookup: bool,
}

/// A grouping with its aggregates.
#[derive(Clone)]
pub(crate) struct AggregateSpec {
    /// Output column and key column; equal unless there are grouping sets.
    pub group_by: Vec<(ColumnId, ColumnId)>,
    /// Several groupings at once.
    pub grouping_sets: Option<GroupingSets>,
    /// The aggregates.
    pub aggregates: Vec<AggregateCall>,
    /// When results leave.
    pub emission: Emission,
}

/// A whole query in relational form.
pub(crate) struct RelQuery {
    /// The query.
    pub root: Rel,
    /// Result columns and names.
    pub output: Vec<(ColumnId, String)>,
    /// Shared plans, each before its readers.
    pub shared: Vec<RelShared>,
    /// All columns.
    pub columns: ColumnTable,
    /// Relations by the names that hints may use, with their columns; empty if there are no hints.
    pub named: Vec<(String, Vec<ColumnId>)>,
}

/// A shared plan in relational form.
pub(crate) struct RelShared {
    pub id: u32,
    pub name: String,
    pub root: Rel,
}

impl Rel {
    /// An operator whose output is everything it can produce; `prune` narrows it.
    pub fn new(op: RelOp, inputs: Vec<Rel>) -> Self {
        let flow = inputs.iter().fold(Flow::default(), |flow, input| flow.and(input.flow));
        let mut rel = Self { op, inputs, output: Vec::new(), flow };
        rel.output = rel.available();
        rel
    }

    /// All columns the operator can produce from its inputs' outputs, each once.
    pub fn available(&self) -> Vec<ColumnId> {
        let inherited = || self.inputs.iter().flat_map(|input| input.output.iter().copied());
        let columns: Vec<ColumnId> = match &self.op {
            RelOp::Scan { columns, .. } => columns.iter().map(|(id, _)| *id).collect(),
            RelOp::SharedScan { columns, .. } => columns.iter().map(|(id, _)| *id).collect(),
            RelOp::WorkTableScan { columns, .. } => columns.iter().map(|(id, _)| *id).collect(),
            RelOp::Values { columns, .. } | RelOp::Empty { columns, .. } => columns.clone(),
            RelOp::Filter { .. }
            | RelOp::Sort { .. }
            | RelOp::Limit { .. }
            | RelOp::Fold
            | RelOp::AssertSingleRow => inherited().collect(),
            RelOp::Compute { exprs } => {
                inherited().chain(exprs.iter().map(|(id, _)| *id)).collect()
            }
            RelOp::Join(spec) => self.join_columns(spec),
            RelOp::Aggregate(spec) => spec.output(),
            RelOp::Window { functions, .. } => {
                inherited().chain(functions.iter().map(|call| call.output)).collect()
            }
            RelOp::RowWindows(spec) => inherited().chain(spec.outputs.iter().copied()).collect(),
            RelOp::Union { targets, .. } | RelOp::RecursiveCte { targets, .. } => targets.clone(),
            RelOp::Unnest { columns, .. } => columns.iter().map(|column| column.output).collect(),
        };
        let mut seen = std::collections::BTreeSet::new();
        columns.into_iter().filter(|&id| seen.insert(id)).collect()
    }

    /// Whether the tree reads the work table of a recursive query around it, so that its rows change with every
    /// superstep.
    pub fn reads_work_table(&self) -> bool {
        if matches!(self.op, RelOp::WorkTableScan { .. }) {
            return true;
        }
        // The recursive term of an inner recursive query reads that query's own work table.
        let recursive = matches!(self.op, RelOp::RecursiveCte { .. });
        let inputs = if recursive { &self.inputs[..1] } else { &self.inputs[..] };
        inputs.iter().any(Self::reads_work_table)
    }

    fn join_columns(&self, spec: &JoinSpec) -> Vec<ColumnId> {
        let (left, right) = (&self.inputs[0].output, &self.inputs[1].output);
        let (with_left, with_right) = visible_sides(spec.join_type);
        let left = left.iter().copied().filter(|_| with_left);
        let right = right.iter().copied().filter(|_| with_right);
        left.chain(right).chain(spec.mark).collect()
    }
}

impl AggregateSpec {
    /// The columns the aggregation produces: keys, grouping id, aggregates.
    pub fn output(&self) -> Vec<ColumnId> {
        let keys = self.group_by.iter().map(|(id, _)| *id);
        let set_id = self.grouping_sets.iter().map(|sets| sets.id_column);
        keys.chain(set_id).chain(self.aggregates.iter().map(|call| call.output)).collect()
    }
}

/// Whether columns of the left and of the right input leave a join of that type.
pub(crate) fn visible_sides(join_type: JoinType) -> (bool, bool) {
    match join_type {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => (true, true),
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
    }
}

/// Brings a query into relational form, simplifies its outer joins and drops the columns nobody needs, unless
/// all are wanted.
pub(crate) fn bind(input: &OptimizerInput, all_columns: bool) -> Result<RelQuery> {
    let mut query = entry::bind_query(input)?;
    outer_joins::simplify_query(&mut query)?;
    prune::prune_query(&mut query, all_columns);
    Ok(query)
}
