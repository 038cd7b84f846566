//! Fragments: chains of operators that have not yet become a vertex, and the edges between them.

use arrow::datatypes::{DataType, Field};
use thalweg_optimizer::physical::{
    Channel, ColumnId, ColumnTable, ExchangeMode, Parallelism, PhysicalNode, ShipStrategy,
};
use thalweg_runtime::expr::Expr;
use thalweg_runtime::graph::{self, ChainedOperator, JobEdge, JobVertex, VertexId};
use thalweg_runtime::job::BufferTimeout;
use thalweg_runtime::operators::merge::MergeSpec;
use thalweg_runtime::operators::project::ProjectSpec;
use thalweg_runtime::operators::{OperatorSpec, PortId};
use thalweg_runtime::{Error, Result};

use super::{Lowering, Scope};

/// An edge whose consumer is not a vertex yet.
pub struct OpenEdge {
    source: VertexId,
    port: PortId,
    ship: graph::ShipStrategy,
    mode: graph::ExchangeMode,
    role: graph::EdgeRole,
}

/// A chain that is still growing.
pub struct Fragment {
    chain: Vec<ChainedOperator>,
    edges: Vec<OpenEdge>,
    /// Subtasks it will run in.
    pub parallelism: usize,
    /// The columns that leave the chain, by position; ids may repeat.
    pub columns: Vec<ColumnId>,
}

/// A vertex that several consumers read.
pub struct Spool {
    /// The vertex.
    pub vertex: VertexId,
    /// Its output columns.
    pub columns: Vec<ColumnId>,
    /// Its subtasks.
    pub parallelism: usize,
    /// When its readers see the rows.
    pub mode: graph::ExchangeMode,
}

impl Fragment {
    /// A chain that starts with a source.
    pub fn source(parallelism: usize, columns: Vec<ColumnId>) -> Self {
        Fragment { chain: Vec::new(), edges: Vec::new(), parallelism, columns }
    }

    /// Appends an operator that was lowered from a plan node.
    pub fn push(&mut self, plan_node: u32, spec: OperatorSpec) {
        self.push_timed(plan_node, spec, Vec::new());
    }

    /// Appends an operator that drops rows which come too late, with the columns of its inputs, by which they are shown.
    pub fn push_timed(&mut self, plan_node: u32, spec: OperatorSpec, inputs: Vec<Vec<Field>>) {
        let operator_id = operator_id(plan_node, self.chain.len(), spec.name());
        self.chain.push(ChainedOperator { operator_id, plan_node, spec, inputs });
    }

    /// Appends a projection to `wanted`, unless that is what leaves the chain already.
    pub fn project(
        &mut self,
        wanted: &[ColumnId],
        table: &ColumnTable,
        plan_node: u32,
    ) -> Result<()> {
        if self.columns == wanted {
            return Ok(());
        }
        let scope = Scope::new(&self.columns, table)?;
        let exprs = wanted
            .iter()
            .map(|c| scope.position(*c).map(Expr::Column))
            .collect::<Result<Vec<_>>>()?;
        let spec = ProjectSpec { input: scope.types(), exprs };
        self.columns = wanted.to_vec();
        self.push(plan_node, OperatorSpec::Project(spec));
        Ok(())
    }

    /// Types of the columns that leave the chain.
    pub fn types(&self, table: &ColumnTable) -> Vec<DataType> {
        self.columns.iter().map(|c| table.get(*c).data_type.clone()).collect()
    }
}

/// An id that depends on the plan alone, so that state outlives a process.
fn operator_id(plan_node: u32, position: usize, name: &str) -> u64 {
    // FNV-1a: stable by definition, and this is no place where collisions could be provoked.
    let text = format!("{plan_node}/{position}/{name}");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Lowering<'_> {
    /// Subtasks of a node.
    pub fn parallelism(&self, node: &PhysicalNode) -> usize {
        match node.parallelism {
            Parallelism::Singleton => 1,
            Parallelism::Full => self.options.threads,
        }
    }

    /// Ends a fragment: it becomes a vertex.
    pub fn close(&mut self, fragment: Fragment, name: &str) -> VertexId {
        let operators: Vec<_> = fragment.chain.iter().map(|c| c.spec.name()).collect();
        // The buffers are those of the last operator; where it has no timeout, one further up the chain may have.
        let timeouts =
            fragment.chain.iter().rev().map(|link| self.buffer_timeouts.get(&link.plan_node));
        let buffer_timeout =
            timeouts.flatten().next().map(|micros| BufferTimeout::of_micros(*micros));
        let vertex = self.graph.add_vertex(JobVertex {
            name: format!("{name}: {}", operators.join(" → ")),
            parallelism: fragment.parallelism,
            chain: fragment.chain,
            buffer_timeout,
        });
        for edge in fragment.edges {
            let OpenEdge { source, port, ship, mode, role } = edge;
            self.graph.edges.push(JobEdge { source, target: vertex, port, ship, mode, role });
        }
        vertex
    }

    /// A fragment that reads vertices; port i is `inputs[i]`.
    pub fn reading(
        &self,
        inputs: Vec<(VertexId, graph::ShipStrategy, graph::ExchangeMode)>,
        parallelism: usize,
        columns: Vec<ColumnId>,
    ) -> Fragment {
        let edges = inputs
            .into_iter()
            .enumerate()
            .map(|(port, (source, ship, mode))| OpenEdge {
                source,
                port: PortId(port as u16),
                ship,
                mode,
                role: graph::EdgeRole::Data,
            })
            .collect();
        Fragment { chain: Vec::new(), edges, parallelism, columns }
    }

    /// A fragment that reads several others, port i the i-th. One that holds no operator becomes no vertex: its edges go
    /// on to the port.
    pub fn meeting(
        &mut self,
        inputs: Vec<(Fragment, graph::ExchangeMode)>,
        name: &str,
        parallelism: usize,
        columns: Vec<ColumnId>,
    ) -> Fragment {
        let mut edges = Vec::new();
        for (port, (fragment, mode)) in inputs.into_iter().enumerate() {
            let port = PortId(port as u16);
            if fragment.chain.is_empty() {
                edges.extend(fragment.edges.into_iter().map(|edge| OpenEdge { port, ..edge }));
                continue;
            }
            let source = self.close(fragment, name);
            let (ship, role) = (graph::ShipStrategy::Forward, graph::EdgeRole::Data);
            edges.push(OpenEdge { source, port, ship, mode, role });
        }
        Fragment { chain: Vec::new(), edges, parallelism, columns }
    }

    /// Marks the edges of a fragment that has just begun as leaving an iteration.
    pub fn leave_iteration(&self, mut fragment: Fragment) -> Fragment {
        fragment.edges.iter_mut().for_each(|e| e.role = graph::EdgeRole::Exit);
        fragment
    }

    /// All rows of a fragment in one subtask, in any order. The new fragment is still empty.
    pub fn gather(&mut self, fragment: Fragment) -> Fragment {
        let columns = fragment.columns.clone();
        let vertex = self.close(fragment, "gather");
        let edge = (vertex, graph::ShipStrategy::Singleton, graph::ExchangeMode::Pipelined);
        self.reading(vec![edge], 1, columns)
    }

    /// Continues a producer in its consumer's fragment, through an exchange where one is needed.
    pub fn ship(
        &mut self,
        producer: Fragment,
        channel: &Channel,
        consumer: &PhysicalNode,
    ) -> Result<Fragment> {
        let parallelism = self.parallelism(consumer);
        let mode = exchange_mode(channel.mode);
        let blocking = channel.mode == ExchangeMode::Blocking;
        let stays = producer.parallelism == parallelism && !blocking;
        let columns = producer.columns.clone();
        let ship = match &channel.ship {
            ShipStrategy::Forward if stays => return Ok(producer),
            ShipStrategy::Forward if producer.parallelism == parallelism => {
                graph::ShipStrategy::Forward
            }
            ShipStrategy::Forward => {
                return Err(Error::Internal(format!(
                    "a forward channel from {} to {} subtasks",
                    producer.parallelism, parallelism
                )));
            }
            ShipStrategy::Hash(_) | ShipStrategy::Rebalance | ShipStrategy::Singleton
                if stays && parallelism == 1 =>
            {
                return Ok(producer);
            }
            ShipStrategy::Hash(keys) => {
                let mut scope = self.scope(&columns)?;
                let keys: Vec<_> = keys.iter().map(|k| k.expr()).collect();
                let keys = scope.lower_all(&keys)?;
                graph::ShipStrategy::Hash { keys, types: scope.types() }
            }
            ShipStrategy::Broadcast => graph::ShipStrategy::Broadcast,
            ShipStrategy::Rebalance => graph::ShipStrategy::Rebalance,
            ShipStrategy::Singleton => graph::ShipStrategy::Singleton,
            ShipStrategy::Merge(order) if stays => {
                debug_assert_eq!(parallelism, 1, "merged to one subtask");
                let _ = order;
                return Ok(producer);
            }
            ShipStrategy::Merge(order) => {
                let inputs = producer.parallelism;
                let keys = self.sort_keys(&order.0, &columns)?;
                let spec =
                    MergeSpec { input: producer.types(self.columns), keys, inputs, fetch: None };
                let vertex = self.close(producer, "ordered");
                let edge = (vertex, graph::ShipStrategy::Merge, mode);
                let mut fragment = self.reading(vec![edge], 1, columns);
                fragment.push(consumer.id, OperatorSpec::Merge(spec));
                return Ok(fragment);
            }
            ShipStrategy::Range(_) => {
                return Err(Error::Unsupported("a range exchange in this runtime".into()));
            }
        };
        let vertex = self.close(producer, "exchange");
        Ok(self.reading(vec![(vertex, ship, mode)], parallelism, columns))
    }
}

/// The runtime's word for an exchange mode.
pub fn exchange_mode(mode: ExchangeMode) -> graph::ExchangeMode {
    match mode {
        ExchangeMode::Pipelined => graph::ExchangeMode::Pipelined,
        ExchangeMode::Blocking => graph::ExchangeMode::Blocking,
    }
}
