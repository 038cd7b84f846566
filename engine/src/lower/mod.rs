//! Lowering: a physical plan becomes a job graph.
//!
//! Here and nowhere else columns lose their ids and get positions. Nodes that are joined by a forward channel
//! share a vertex; every other channel ends a vertex and becomes an edge. A join's build side ends in a vertex
//! of its own that fills a shared build.

mod aggregate;
mod expr;
mod fragment;
mod join;
mod meeting;
mod recursive;
mod row_windows;
mod scan;
mod set;
mod sort;
mod stream_join;
mod table;
mod window;

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::datatypes::Field;
use thalweg_optimizer::physical::{
    Channel, ColumnId, ColumnTable, PhysicalNode, PhysicalOp, PhysicalPlan,
};
use thalweg_runtime::Result;
use thalweg_runtime::graph::JobGraph;
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::sink::SinkSpec;

pub use expr::Scope;
use fragment::{Fragment, Spool, exchange_mode};

/// What lowering needs to know beside the plan.
#[derive(Debug, Clone)]
pub struct LowerOptions {
    /// Subtasks of a vertex that runs at full parallelism.
    pub threads: usize,
    /// Rows a batch has at most.
    pub batch_rows: usize,
    /// Where the result goes.
    pub sink: SinkSpec,
    /// Whether the query is continuous: its sources tell the time by their watermarks.
    pub streaming: bool,
    /// Whether the sink may run in as many subtasks as the plan's root.
    pub parallel_sink: bool,
}

/// Lowers a plan with a sink behind it.
pub fn lower(plan: &PhysicalPlan, options: &LowerOptions) -> Result<JobGraph> {
    let mut lowering = Lowering {
        graph: JobGraph::default(),
        columns: &plan.columns,
        buffer_timeouts: &plan.buffer_timeouts,
        options,
        spools: HashMap::new(),
        next_shared: 0,
        work_tables: HashMap::new(),
        meeting: meeting::meeting_nodes(plan),
        late: HashMap::new(),
    };
    for shared in &plan.shared {
        let mut fragment = lowering.node(&shared.root)?;
        fragment.project(&shared.columns, &plan.columns, shared.root.id)?;
        let columns = fragment.columns.clone();
        let parallelism = fragment.parallelism;
        let mode = exchange_mode(shared.mode);
        let vertex = lowering.close(fragment, &format!("shared {}", shared.name));
        lowering.spools.insert(shared.id, Spool { vertex, columns, parallelism, mode });
    }
    let mut fragment = lowering.node(&plan.root)?;
    let output: Vec<ColumnId> = plan.output.iter().map(|(id, _)| *id).collect();
    fragment.project(&output, &plan.columns, plan.root.id)?;
    if fragment.parallelism > 1 && !options.parallel_sink {
        fragment = lowering.gather(fragment);
    }
    fragment.push(plan.root.id, OperatorSpec::Sink(options.sink.clone()));
    lowering.close(fragment, "result");
    Ok(lowering.graph)
}

/// The graph under construction.
struct Lowering<'a> {
    graph: JobGraph,
    columns: &'a ColumnTable,
    /// By plan node, in microseconds.
    buffer_timeouts: &'a BTreeMap<u32, i64>,
    options: &'a LowerOptions,
    spools: HashMap<u32, Spool>,
    next_shared: u32,
    work_tables: HashMap<u32, recursive::WorkTable>,
    /// Nodes whose rows must be where the keys of their siblings are.
    meeting: HashSet<u32>,
    /// Builds with late columns, by the column of references.
    late: HashMap<ColumnId, join::LateSource>,
}

impl<'a> Lowering<'a> {
    /// An open fragment whose output columns are at least the node's, by id.
    fn node(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let mut fragment = match &node.op {
            PhysicalOp::Scan { .. } => self.scan(node),
            PhysicalOp::SharedScan { shared, columns } => self.shared_scan(node, *shared, columns),
            PhysicalOp::Values { rows } => self.values(node, rows),
            PhysicalOp::Empty { one_row } => self.empty(node, *one_row),
            PhysicalOp::Filter { predicate } => self.filter(node, predicate),
            PhysicalOp::Project { exprs } => self.project(node, exprs),
            PhysicalOp::HashJoin { .. } => self.hash_join(node),
            PhysicalOp::SortMergeJoin { .. } => self.sort_merge_join(node),
            PhysicalOp::NestedLoopJoin { .. } => self.nested_loop_join(node),
            PhysicalOp::StreamJoin { .. } => self.stream_join(node),
            PhysicalOp::RowWindows(windows) => self.row_windows(node, windows),
            PhysicalOp::Fold => self.fold(node),
            PhysicalOp::ChangelogWindow { .. } => self.changelog_window(node),
            PhysicalOp::EventTimeWindow { .. } => self.event_time_window(node),
            PhysicalOp::HashAggregate { .. } => self.hash_aggregate(node),
            PhysicalOp::SortAggregate { .. } => self.sort_aggregate(node),
            PhysicalOp::Sort { keys, fetch } => self.sort(node, keys, *fetch),
            PhysicalOp::TopN { keys, skip, fetch } => self.top_n(node, keys, *skip, *fetch),
            PhysicalOp::Limit { skip, fetch } => self.limit(node, *skip, *fetch),
            PhysicalOp::Window { partition_by, order_by, functions } => {
                self.window(node, partition_by, order_by, functions)
            }
            PhysicalOp::Union { columns } => self.union(node, columns),
            PhysicalOp::Unnest { columns, null_handling } => {
                self.unnest(node, columns, null_handling)
            }
            PhysicalOp::AssertSingleRow => self.assert_single_row(node),
            PhysicalOp::RecursiveCte { .. } => self.recursive_cte(node),
            PhysicalOp::WorkTableScan { work_table, columns } => {
                self.work_table_scan(node, *work_table, columns)
            }
        }?;
        fragment.project(&node.output, self.columns, node.id)?;
        Ok(fragment)
    }

    /// The only input of a node, shipped as its channel says.
    fn input(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        self.channel(&node.inputs[0], node)
    }

    /// A channel's producer, continued in the consumer's fragment.
    fn channel(&mut self, channel: &Channel, consumer: &PhysicalNode) -> Result<Fragment> {
        let producer = self.node(&channel.node)?;
        self.ship(producer, channel, consumer)
    }

    /// Columns by name, for those who look at rows of them.
    fn fields(&self, columns: &[ColumnId]) -> Vec<Field> {
        let field = |id: &ColumnId| {
            let column = self.columns.get(*id);
            Field::new(&column.name, column.data_type.clone(), true)
        };
        columns.iter().map(field).collect()
    }

    fn scope<'s>(&'s self, columns: &'s [ColumnId]) -> Result<Scope<'s>> {
        Scope::new(columns, self.columns)
    }
}
