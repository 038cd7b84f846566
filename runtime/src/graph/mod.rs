//! The job graph: what the engine hands to the runtime, as plain serialisable data.

use arrow_schema::{DataType, Field};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::job::BufferTimeout;
use crate::operators::{OperatorSpec, PortId};

/// A vertex of a graph: its position in [`JobGraph::vertices`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VertexId(pub u32);

/// How rows find their subtask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ShipStrategy {
    /// Subtask i to subtask i; both vertices have the same parallelism.
    Forward,
    /// By the hash of the keys.
    Hash {
        /// The keys, over the producer's output columns.
        keys: Vec<Expr>,
        /// Types of the producer's output columns.
        types: Vec<DataType>,
    },
    /// Every element to every subtask.
    Broadcast,
    /// Whole batches in turn.
    Rebalance,
    /// All to subtask 0, in arrival order.
    Singleton,
    /// All to subtask 0; producer i arrives on port i, so that the consumer can merge ordered inputs.
    Merge,
}

/// When a consumer sees what a producer made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExchangeMode {
    /// At once, through bounded buffers.
    Pipelined,
    /// When the producer has finished; the result is held in between.
    Blocking,
}

/// An operator in a vertex's chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChainedOperator {
    /// Stable id from the operator's logical signature; state is stored under it.
    pub operator_id: u64,
    /// The physical plan node it was lowered from (several operators may share one).
    pub plan_node: u32,
    /// What it does.
    pub spec: OperatorSpec,
    /// The columns of each input, by name, of an operator whose input rows somebody may want to see.
    pub inputs: Vec<Vec<Field>>,
}

/// A chain of operators run by `parallelism` subtasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobVertex {
    /// For errors, the wait graph and thread dumps.
    pub name: String,
    /// Number of subtasks, at least 1.
    pub parallelism: usize,
    /// At least one operator; the first takes the vertex's inputs.
    pub chain: Vec<ChainedOperator>,
    /// When incomplete buffers of its out edges leave, instead of when the job says.
    pub buffer_timeout: Option<BufferTimeout>,
}

impl JobVertex {
    /// Whether its rows come from a source, rather than from other vertices.
    pub fn is_scan(&self) -> bool {
        matches!(self.chain.first().map(|link| &link.spec), Some(OperatorSpec::SourceScan(_)))
    }
}

/// What an edge is to an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum EdgeRole {
    /// Nothing special: supersteps pass.
    #[default]
    Data,
    /// From an iteration's tail back to its head: never full, and each superstep gets the next number.
    Feedback,
    /// Out of an iteration: supersteps do not pass.
    Exit,
}

/// An edge between two vertices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobEdge {
    /// The producer.
    pub source: VertexId,
    /// The consumer.
    pub target: VertexId,
    /// The port of the consumer's first operator (the first of several with [`ShipStrategy::Merge`]).
    pub port: PortId,
    /// How rows find their subtask.
    pub ship: ShipStrategy,
    /// When the consumer sees them.
    pub mode: ExchangeMode,
    /// What it is to an iteration.
    pub role: EdgeRole,
}

/// A job: vertices in any order, edges without a cycle but through feedback.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobGraph {
    /// The vertices; an edge names them by position.
    pub vertices: Vec<JobVertex>,
    /// The edges; a producer with several out edges sends everything to each.
    pub edges: Vec<JobEdge>,
}

impl JobGraph {
    /// Adds a vertex.
    pub fn add_vertex(&mut self, vertex: JobVertex) -> VertexId {
        self.vertices.push(vertex);
        VertexId(u32::try_from(self.vertices.len() - 1).expect("fewer than 2^32 vertices"))
    }

    /// The vertex of an id that this graph gave out.
    pub fn vertex(&self, id: VertexId) -> &JobVertex {
        &self.vertices[id.0 as usize]
    }

    /// Checks what tasks rely on: parallelisms, chains and ends of edges.
    pub fn validate(&self) -> Result<()> {
        for vertex in &self.vertices {
            if vertex.parallelism == 0 || vertex.chain.is_empty() {
                return Err(Error::Internal(format!("vertex {} is empty", vertex.name)));
            }
        }
        for edge in &self.edges {
            let ends = [edge.source, edge.target];
            if ends.iter().any(|v| v.0 as usize >= self.vertices.len()) {
                return Err(Error::Internal("an edge leads to no vertex".into()));
            }
            let (source, target) = (self.vertex(edge.source), self.vertex(edge.target));
            if edge.ship == ShipStrategy::Forward && source.parallelism != target.parallelism {
                return Err(Error::Internal(format!(
                    "forward edge between {} x{} and {} x{}",
                    source.name, source.parallelism, target.name, target.parallelism
                )));
            }
        }
        Ok(())
    }
}
