//! Late keys: grouping keys that stay behind in the build they come from.
//!
//! Where a partial aggregate groups by columns that a hash join below it takes from its build side, the join emits
//! the number of a build row instead of these columns, and the aggregate fetches them for its groups, not for its
//! rows. Wide text keys are then neither copied nor hashed for each row. Invariant: a column stays behind only if
//! nothing between the join and the aggregate, the aggregates' arguments included, looks at its value, and all of
//! that happens in one subtask.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_expr::Expr;

use crate::physical::{
    AggregatePhase, Channel, ColumnId, ColumnTable, ExchangeMode, LateColumns, LateKeys,
    PhysicalNode, PhysicalOp, ShipStrategy, Side, emits_build_rows,
};

/// Rows a build row must meet before it pays to compare all build rows with each other first.
const LEAST_ROWS_A_BUILD_ROW: f64 = 2.0;

/// Lets joins keep grouping keys behind, everywhere in a plan.
pub(super) fn assign(node: &Arc<PhysicalNode>, columns: &mut ColumnTable) -> Arc<PhysicalNode> {
    let mut node = node.as_ref().clone();
    if let Some(changed) = late_aggregate(&node, columns) {
        node = changed;
    }
    for channel in &mut node.inputs {
        channel.node = assign(&channel.node, columns);
    }
    Arc::new(node)
}

/// The partial aggregate with all keys late that can be.
fn late_aggregate(node: &PhysicalNode, columns: &mut ColumnTable) -> Option<PhysicalNode> {
    let PhysicalOp::HashAggregate {
        phase: AggregatePhase::Partial,
        group_by,
        aggregates,
        late_keys,
        ..
    } = &node.op
    else {
        return None;
    };
    if !late_keys.is_empty() || aggregates.iter().any(|c| c.distinct || !c.order_by.is_empty()) {
        return None;
    }
    let mut walk = Walk {
        keys: group_by.iter().filter_map(|(_, key)| ColumnId::from_expr(key)).collect(),
        used: BTreeSet::new(),
        columns,
        found: Vec::new(),
    };
    for call in aggregates {
        call.args.iter().chain(&call.filter).for_each(|e| ColumnId::collect(e, &mut walk.used));
    }
    let input = walk.channel(&node.inputs[0])?;
    let found = walk.found;
    let mut changed = node.clone();
    changed.inputs = vec![input];
    let PhysicalOp::HashAggregate { group_by, late_keys, .. } = &mut changed.op else {
        return None;
    };
    for late in found {
        let mut keys = Vec::new();
        for (position, (_, key)) in group_by.iter_mut().enumerate() {
            let column = ColumnId::from_expr(key).filter(|id| late.columns.contains(id));
            if let Some(column) = column {
                keys.push((position, column));
                *key = late.reference.expr();
            }
        }
        late_keys.push(LateKeys { reference: late.reference, keys });
    }
    Some(changed)
}

/// The way from an aggregate down to the joins that feed it without an exchange.
struct Walk<'a> {
    /// The grouping keys that may still be found in a build.
    keys: BTreeSet<ColumnId>,
    /// Columns whose values something above the present node looks at.
    used: BTreeSet<ColumnId>,
    columns: &'a mut ColumnTable,
    found: Vec<LateColumns>,
}

impl Walk<'_> {
    /// The input with its late columns replaced, if there are any.
    fn channel(&mut self, channel: &Channel) -> Option<Channel> {
        let stays =
            channel.ship == ShipStrategy::Forward && channel.mode == ExchangeMode::Pipelined;
        if !stays {
            return None;
        }
        let node = Arc::new(self.node(&channel.node)?);
        Some(Channel { node, ..channel.clone() })
    }

    fn node(&mut self, node: &PhysicalNode) -> Option<PhysicalNode> {
        match &node.op {
            PhysicalOp::Filter { predicate } => {
                ColumnId::collect(predicate, &mut self.used);
                self.passing(node, 0)
            }
            PhysicalOp::Project { exprs } => {
                for (id, expr) in exprs {
                    if ColumnId::from_expr(expr) != Some(*id) {
                        // What has another name above is another column there.
                        self.keys.remove(id);
                        ColumnId::collect(expr, &mut self.used);
                    }
                }
                self.passing(node, 0)
            }
            PhysicalOp::HashJoin { .. } => self.join(node),
            PhysicalOp::Scan { .. }
            | PhysicalOp::SharedScan { .. }
            | PhysicalOp::Values { .. }
            | PhysicalOp::Empty { .. }
            | PhysicalOp::SortMergeJoin { .. }
            | PhysicalOp::NestedLoopJoin { .. }
            | PhysicalOp::HashAggregate { .. }
            | PhysicalOp::SortAggregate { .. }
            | PhysicalOp::Sort { .. }
            | PhysicalOp::TopN { .. }
            | PhysicalOp::Limit { .. }
            | PhysicalOp::Window { .. }
            | PhysicalOp::Union { .. }
            | PhysicalOp::Unnest { .. }
            | PhysicalOp::AssertSingleRow
            | PhysicalOp::StreamJoin { .. }
            | PhysicalOp::ChangelogWindow { .. }
            | PhysicalOp::RowWindows(_)
            | PhysicalOp::EventTimeWindow { .. }
            | PhysicalOp::Fold
            | PhysicalOp::RecursiveCte { .. }
            | PhysicalOp::WorkTableScan { .. } => None,
        }
    }

    /// A node whose input, changed, still makes the rest of what it made.
    fn passing(&mut self, node: &PhysicalNode, input: usize) -> Option<PhysicalNode> {
        let before = self.found.len();
        let channel = self.channel(&node.inputs[input])?;
        let mut changed = node.clone();
        changed.inputs[input] = channel;
        self.found[before..].iter().for_each(|late| replace(&mut changed, late));
        Some(changed)
    }

    fn join(&mut self, node: &PhysicalNode) -> Option<PhysicalNode> {
        let PhysicalOp::HashJoin { join_type, build, on, filter, .. } = &node.op else {
            return None;
        };
        if emits_build_rows(*join_type, *build) {
            return None;
        }
        let (build_input, probe_input) = match build {
            Side::Left => (0, 1),
            Side::Right => (1, 0),
        };
        let late = self.behind(node, &node.inputs[build_input].node);
        // The join itself looks at its build rows where they are; what comes from below must be there as values.
        on.iter()
            .map(|(left, right)| if *build == Side::Left { right } else { left })
            .chain(filter)
            .for_each(|e| ColumnId::collect(e, &mut self.used));
        let mut changed = self.passing(node, probe_input).unwrap_or_else(|| node.clone());
        if let Some(late) = late {
            if let PhysicalOp::HashJoin { late_columns, .. } = &mut changed.op {
                *late_columns = Some(late.clone());
            }
            replace(&mut changed, &late);
            self.found.push(late);
        } else if self.found.is_empty() {
            return None;
        }
        Some(changed)
    }

    /// The keys that a join can keep behind, if it pays.
    fn behind(&mut self, join: &PhysicalNode, build: &PhysicalNode) -> Option<LateColumns> {
        let free = |id: &&ColumnId| {
            self.keys.contains(id) && !self.used.contains(id) && join.output.contains(id)
        };
        let mut columns: Vec<ColumnId> = build.output.iter().filter(free).copied().collect();
        columns.dedup();
        let wide = |id: &ColumnId| is_wide(&self.columns.get(*id).data_type);
        let saves = columns.len() > 1 || columns.iter().any(wide);
        let repeats = join.estimates.rows >= LEAST_ROWS_A_BUILD_ROW * build.estimates.rows.max(1.0);
        if !saves || !repeats {
            return None;
        }
        let reference = self.columns.add("build row", DataType::UInt32, false);
        Some(LateColumns { reference, columns })
    }
}

/// Whether a value is better fetched for a group than carried for a row.
fn is_wide(data_type: &DataType) -> bool {
    data_type.primitive_width().is_none_or(|bytes| bytes > 8)
}

/// Replaces late columns in what leaves a node by the reference to their row.
fn replace(node: &mut PhysicalNode, late: &LateColumns) {
    node.output.retain(|id| !late.columns.contains(id));
    node.output.push(late.reference);
    if let PhysicalOp::Project { exprs } = &mut node.op {
        let forwards = |(id, expr): &(ColumnId, Expr)| {
            late.columns.contains(id) && ColumnId::from_expr(expr) == Some(*id)
        };
        exprs.retain(|entry| !forwards(entry));
        exprs.push((late.reference, late.reference.expr()));
    }
}
