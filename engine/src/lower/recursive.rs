//! Recursive queries: an iteration whose body is the recursive term.
//!
//! Inside the body the side of a join that reads the work table is always the probe side: the other side is
//! built once and serves every superstep (the optimizer sees to it).

use thalweg_optimizer::physical::{ColumnId, PhysicalNode, PhysicalOp, Side, emits_build_rows};
use thalweg_runtime::expr::Expr;
use thalweg_runtime::graph::{self, EdgeRole, JobEdge, VertexId};
use thalweg_runtime::operators::iteration::{IterationHeadSpec, IterationTailSpec};
use thalweg_runtime::operators::project::ProjectSpec;
use thalweg_runtime::operators::{OperatorSpec, PortId};
use thalweg_runtime::{Error, Result};

use super::Lowering;
use super::fragment::Fragment;

/// Whether the work table is read in a plan or below it.
fn reads(node: &PhysicalNode, work_table: u32) -> bool {
    matches!(&node.op, PhysicalOp::WorkTableScan { work_table: read, .. } if *read == work_table)
        || node.inputs.iter().any(|input| reads(&input.node, work_table))
}

/// What a recursive term does with its own rows that only their end could complete. The work table has no end before
/// the iteration has: such an operator would keep rows back for ever, or give them only once.
fn fault(node: &PhysicalNode, work_table: u32) -> Option<&'static str> {
    const TWICE: &str =
        "reading the query itself twice, or in the inner part of a join or subquery,";
    if !reads(node, work_table) {
        return None;
    }
    let reads_input = |i: usize| reads(&node.inputs[i].node, work_table);
    let here = match &node.op {
        PhysicalOp::Sort { .. } | PhysicalOp::TopN { .. } | PhysicalOp::Limit { .. } => {
            Some("ORDER BY or LIMIT over the query itself")
        }
        PhysicalOp::Window { .. }
        | PhysicalOp::ChangelogWindow { .. }
        | PhysicalOp::RowWindows(_)
        | PhysicalOp::EventTimeWindow { .. } => Some("a window function over the query itself"),
        PhysicalOp::StreamJoin { .. } => Some(TWICE),
        PhysicalOp::AssertSingleRow => Some("a scalar subquery over the query itself"),
        PhysicalOp::RecursiveCte { .. } => Some("a recursive query over the query itself"),
        PhysicalOp::HashJoin { build, join_type, .. }
        | PhysicalOp::NestedLoopJoin { build, join_type, .. } => {
            let built = match build {
                Side::Left => 0,
                Side::Right => 1,
            };
            if reads_input(built) {
                Some(TWICE)
            } else if emits_build_rows(*join_type, *build) {
                Some("an outer join that keeps the rows of another table")
            } else {
                None
            }
        }
        PhysicalOp::SortMergeJoin { .. } => Some("a merge join of the query itself"),
        PhysicalOp::Scan { .. }
        | PhysicalOp::SharedScan { .. }
        | PhysicalOp::Values { .. }
        | PhysicalOp::Empty { .. }
        | PhysicalOp::Filter { .. }
        | PhysicalOp::Project { .. }
        | PhysicalOp::HashAggregate { .. }
        | PhysicalOp::SortAggregate { .. }
        | PhysicalOp::Fold
        | PhysicalOp::Union { .. }
        | PhysicalOp::Unnest { .. }
        | PhysicalOp::WorkTableScan { .. } => None,
    };
    here.or_else(|| node.inputs.iter().find_map(|input| fault(&input.node, work_table)))
}

/// The head of an iteration under construction.
pub struct WorkTable {
    head: VertexId,
    columns: Vec<ColumnId>,
}

impl Lowering<'_> {
    pub(super) fn recursive_cte(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let PhysicalOp::RecursiveCte {
            work_table,
            distinct,
            static_columns,
            recursive_columns,
            ..
        } = &node.op
        else {
            return Err(Error::Internal("not a recursive query".into()));
        };
        if let Some(fault) = fault(&node.inputs[1].node, *work_table) {
            return Err(Error::Unsupported(format!("{fault} in the recursive term of a query")));
        }
        let mut start = self.node(&node.inputs[0].node)?;
        start.project(static_columns, self.columns, node.id)?;
        let start = self.close(start, "initial set");
        let types = node.output.iter().map(|c| self.columns.get(*c).data_type.clone()).collect();
        let edge = (start, graph::ShipStrategy::Singleton, graph::ExchangeMode::Pipelined);
        let mut head = self.reading(vec![edge], 1, node.output.clone());
        let spec = IterationHeadSpec { types, distinct: *distinct };
        head.push(node.id, OperatorSpec::IterationHead(spec));
        let head = self.close(head, "iteration head");
        self.work_tables.insert(*work_table, WorkTable { head, columns: node.output.clone() });

        let mut body = self.node(&node.inputs[1].node)?;
        body.project(recursive_columns, self.columns, node.id)?;
        body.push(node.id, OperatorSpec::IterationTail(IterationTailSpec {}));
        let tail = self.close(body, "iteration tail");
        self.graph.edges.push(JobEdge {
            source: tail,
            target: head,
            port: PortId(1),
            ship: graph::ShipStrategy::Singleton,
            mode: graph::ExchangeMode::Pipelined,
            role: EdgeRole::Feedback,
        });
        self.work_tables.remove(work_table);

        let out = (head, graph::ShipStrategy::Forward, graph::ExchangeMode::Pipelined);
        let mut result = self.reading(vec![out], 1, node.output.clone());
        result = self.leave_iteration(result);
        // A chain has at least one operator; this one passes everything on.
        let columns: Vec<_> = (0..node.output.len()).map(Expr::Column).collect();
        let input = result.types(self.columns);
        result.push(node.id, OperatorSpec::Project(ProjectSpec { input, exprs: columns }));
        Ok(result)
    }

    pub(super) fn work_table_scan(
        &mut self,
        node: &PhysicalNode,
        work_table: u32,
        columns: &[(ColumnId, usize)],
    ) -> Result<Fragment> {
        let parallelism = self.parallelism(node);
        let table = self.work_tables.get(&work_table).ok_or_else(|| {
            Error::Unsupported("a recursive query read outside of its recursive term".into())
        })?;
        let ship = match parallelism {
            1 => graph::ShipStrategy::Forward,
            _ => graph::ShipStrategy::Rebalance,
        };
        let input = table.columns.iter().map(|c| self.columns.get(*c).data_type.clone()).collect();
        let exprs = columns.iter().map(|(_, index)| Expr::Column(*index)).collect();
        let edge = (table.head, ship, graph::ExchangeMode::Pipelined);
        let ids = columns.iter().map(|(id, _)| *id).collect();
        let mut fragment = self.reading(vec![edge], parallelism, ids);
        fragment.push(node.id, OperatorSpec::Project(ProjectSpec { input, exprs }));
        Ok(fragment)
    }
}
