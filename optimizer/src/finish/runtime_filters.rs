//! Runtime filters: a finished build tells the scans below the probe side which keys can match at all.
//!
//! Invariant: a filter is defined only where the join drops (or ignores) probe rows without a partner, and it travels
//! down only through operators that would drop the same rows later anyway. NULL keys never pass, so that joins which
//! match NULLs define none.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::JoinType;
use datafusion_expr::Expr;

use crate::cardinality::Estimator;
use crate::physical::{
    AggregatePhase, Channel, ColumnId, ColumnTable, PhysicalNode, PhysicalOp, RuntimeFilterDef,
    RuntimeFilterUse, Side, UnnestSource,
};

/// A filter is worth its price if it is expected to drop at least this share of the probe rows.
pub(crate) const LEAST_DROPPED_SHARE: f64 = 0.1;
/// Builds with more rows publish no filter: it would be larger than the caches.
const MOST_BUILD_ROWS: f64 = 20_000_000.0;

/// A filter on its way down: its id and the column it tests here.
type Travelling = (u32, ColumnId);

/// State of the pass.
pub(super) struct RuntimeFilters<'a> {
    estimator: &'a Estimator,
    columns: &'a ColumnTable,
    next_id: u32,
}

impl<'a> RuntimeFilters<'a> {
    pub fn new(estimator: &'a Estimator, columns: &'a ColumnTable) -> Self {
        Self { estimator, columns, next_id: 0 }
    }

    /// Defines filters at joins and attaches them to scans; those that reach no scan vanish.
    pub fn assign(&mut self, node: &Arc<PhysicalNode>) -> Arc<PhysicalNode> {
        self.rewrite(node, &[]).0
    }

    /// Rewrites a subtree into which filters travel; also tells which filters reached a scan.
    fn rewrite(
        &mut self,
        node: &Arc<PhysicalNode>,
        arriving: &[Travelling],
    ) -> (Arc<PhysicalNode>, Vec<u32>) {
        let mut rewritten = node.as_ref().clone();
        let mut used = attach(&mut rewritten.op, arriving);
        let defined = self.definitions(node);
        let inputs = node.inputs.iter().enumerate().map(|(index, channel)| {
            let mut below = passed_down(node, index, arriving);
            below.extend(
                defined
                    .iter()
                    .filter(|made| made.input == index)
                    .map(|made| (made.id, made.column)),
            );
            let (child, reached) = self.rewrite(&channel.node, &below);
            used.extend(reached);
            Channel { node: child, ..channel.clone() }
        });
        rewritten.inputs = inputs.collect();
        if let PhysicalOp::HashJoin { runtime_filters, .. } = &mut rewritten.op {
            let reached = defined.iter().filter(|made| used.contains(&made.id));
            *runtime_filters =
                reached.map(|made| RuntimeFilterDef { id: made.id, key_index: made.key }).collect();
        }
        (Arc::new(rewritten), used)
    }

    /// The filters a node could publish.
    fn definitions(&mut self, node: &PhysicalNode) -> Vec<Definition> {
        let PhysicalOp::HashJoin {
            join_type, build, on, null_equal: false, null_aware: false, ..
        } = &node.op
        else {
            return Vec::new();
        };
        if !drops_unmatched(*join_type, *build) {
            return Vec::new();
        }
        let mut definitions = Vec::new();
        for (key, (left, right)) in on.iter().enumerate() {
            let (built, probed, input) = match build {
                Side::Left => (left, right, 1),
                Side::Right => (right, left, 0),
            };
            let (Some(built), Some(column)) =
                (ColumnId::from_expr(built), ColumnId::from_expr(probed))
            else {
                continue;
            };
            if self.pays(node, built, column, input) {
                let id = self.next_id;
                self.next_id += 1;
                definitions.push(Definition { id, key, input, column });
            }
        }
        definitions
    }

    fn pays(&self, node: &PhysicalNode, built: ColumnId, probed: ColumnId, probe: usize) -> bool {
        let build_rows = node.inputs[1 - probe].node.estimates.rows;
        let probe_rows = node.inputs[probe].node.estimates.rows;
        let here = self.estimator.distinct(built, build_rows);
        let there = self.estimator.distinct(probed, probe_rows);
        let dropped = 1.0 - (here / there.max(1.0)).min(1.0);
        filterable(&self.columns.get(built).data_type)
            && build_rows <= MOST_BUILD_ROWS
            && dropped >= LEAST_DROPPED_SHARE
    }
}

/// A filter a join could publish.
struct Definition {
    id: u32,
    key: usize,
    input: usize,
    column: ColumnId,
}

/// Whether probe rows without a partner leave no trace in the result.
pub(crate) fn drops_unmatched(join_type: JoinType, build: Side) -> bool {
    match join_type {
        JoinType::Inner => true,
        JoinType::LeftSemi => true,
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => build == Side::Left,
        JoinType::RightSemi => true,
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => build == Side::Right,
        JoinType::Full => false,
    }
}

fn filterable(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_temporal()
        || matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Decimal128(..)
        )
}

/// Attaches the arriving filters to a scan that has their column; the ids of those attached.
fn attach(op: &mut PhysicalOp, arriving: &[Travelling]) -> Vec<u32> {
    let PhysicalOp::Scan { columns, filter_columns, runtime_filters, fetch: None, .. } = op else {
        return Vec::new();
    };
    let mut attached = Vec::new();
    for &(filter_id, column) in arriving {
        if columns.iter().chain(filter_columns.iter()).any(|(id, _)| *id == column) {
            runtime_filters.push(RuntimeFilterUse { filter_id, key: column.expr() });
            attached.push(filter_id);
        }
    }
    attached
}

/// The filters that may go on to an input, under the input's names.
fn passed_down(node: &PhysicalNode, input: usize, arriving: &[Travelling]) -> Vec<Travelling> {
    let keep =
        |column: ColumnId| node.inputs[input].node.output.contains(&column).then_some(column);
    let each = |map: &dyn Fn(ColumnId) -> Option<ColumnId>| {
        arriving.iter().filter_map(|&(id, column)| map(column).map(|column| (id, column))).collect()
    };
    match &node.op {
        PhysicalOp::Filter { .. } | PhysicalOp::Sort { fetch: None, .. } => each(&keep),
        PhysicalOp::Project { exprs } => each(&|column| {
            let (_, expr) = exprs.iter().find(|(id, _)| *id == column)?;
            ColumnId::from_expr(expr).and_then(keep)
        }),
        PhysicalOp::HashJoin { join_type, on, .. } => {
            each(&|column| through_join(*join_type, input, column, on, &keep))
        }
        PhysicalOp::SortMergeJoin { join_type, on, .. } => {
            each(&|column| through_join(*join_type, input, column, on, &keep))
        }
        PhysicalOp::NestedLoopJoin { join_type, .. } => {
            each(&|column| through_join(*join_type, input, column, &[], &keep))
        }
        PhysicalOp::HashAggregate { phase, group_by, grouping_sets: None, .. }
        | PhysicalOp::SortAggregate { phase, group_by, .. } => {
            each(&|column| through_groups(*phase, group_by, column).and_then(keep))
        }
        PhysicalOp::Window { partition_by, .. } => {
            each(&|column| partition_by.contains(&column.expr()).then_some(column).and_then(keep))
        }
        PhysicalOp::Union { columns } => each(&|column| {
            let position = node.output.iter().position(|&output| output == column)?;
            columns[input].get(position).copied().and_then(keep)
        }),
        PhysicalOp::Unnest { columns, .. } => each(&|column| {
            let forwarded = |source: &UnnestSource| *source == UnnestSource::Forward(column);
            columns.iter().any(|entry| forwarded(&entry.source)).then_some(column).and_then(keep)
        }),
        PhysicalOp::HashAggregate { .. }
        | PhysicalOp::Sort { .. }
        | PhysicalOp::TopN { .. }
        | PhysicalOp::Limit { .. }
        | PhysicalOp::AssertSingleRow
        | PhysicalOp::StreamJoin { .. }
        | PhysicalOp::ChangelogWindow { .. }
        | PhysicalOp::RowWindows(_)
        | PhysicalOp::EventTimeWindow { .. }
        | PhysicalOp::Fold
        | PhysicalOp::RecursiveCte { .. }
        | PhysicalOp::Scan { .. }
        | PhysicalOp::SharedScan { .. }
        | PhysicalOp::Values { .. }
        | PhysicalOp::Empty { .. }
        | PhysicalOp::WorkTableScan { .. } => Vec::new(),
    }
}

/// A filter goes to the preserved side of a join; past an inner join also to the other side's equal key.
fn through_join(
    join_type: JoinType,
    input: usize,
    column: ColumnId,
    on: &[(Expr, Expr)],
    keep: &dyn Fn(ColumnId) -> Option<ColumnId>,
) -> Option<ColumnId> {
    match join_type {
        JoinType::Inner => keep(column).or_else(|| {
            let equal = on.iter().find_map(|(left, right)| {
                let (own, other) = if input == 0 { (left, right) } else { (right, left) };
                (ColumnId::from_expr(other) == Some(column))
                    .then(|| ColumnId::from_expr(own))
                    .flatten()
            });
            equal.and_then(keep)
        }),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
            if input == 0 =>
        {
            keep(column)
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
            if input == 1 =>
        {
            keep(column)
        }
        JoinType::Left
        | JoinType::Right
        | JoinType::Full
        | JoinType::LeftSemi
        | JoinType::RightSemi
        | JoinType::LeftAnti
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => None,
    }
}

/// A key is filtered before the grouping as after it: whole groups vanish.
fn through_groups(
    phase: AggregatePhase,
    group_by: &[(ColumnId, Expr)],
    column: ColumnId,
) -> Option<ColumnId> {
    match phase {
        AggregatePhase::Single | AggregatePhase::Partial | AggregatePhase::Final => {
            let (_, key) = group_by.iter().find(|(output, _)| *output == column)?;
            ColumnId::from_expr(key)
        }
    }
}
