//! The task manager: turns a deployed graph into tasks on its threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::{BufferTimeout, JobContext, Message, Services};
use crate::error::{Error, Result};
use crate::exchange::gate::InputGate;
use crate::exchange::partition::{Gathering, ResultPartition, Shipping, Target};
use crate::exchange::partitioner::HashPartitioner;
use crate::exchange::queue::{InputQueue, PortKind, PortSpec};
use crate::expr::{compile_all, positional_schema};
use crate::graph::{EdgeRole, ExchangeMode, JobEdge, JobGraph, JobVertex, ShipStrategy, VertexId};
use crate::operators::PortId;
use crate::task::{Scheduler, Task, TaskParts, TaskRef};

/// Receives what a task manager reports. Called on worker threads.
pub type Report = Arc<dyn Fn(Message) + Send + Sync>;

/// Runs tasks of any number of jobs on one set of threads.
pub struct TaskManager {
    scheduler: Scheduler,
    services: Mutex<Services>,
    jobs: Mutex<HashMap<u64, DeployedJob>>,
}

/// A job's tasks in this process.
#[derive(Clone)]
pub struct DeployedJob {
    /// Shared by the tasks.
    pub context: Arc<JobContext>,
    /// All of them, ended or not.
    pub tasks: Vec<TaskRef>,
    /// Names of the vertices.
    pub names: Vec<String>,
}

impl TaskManager {
    /// Starts the threads.
    pub fn new(threads: usize, services: Services) -> Result<Self> {
        Ok(TaskManager {
            scheduler: Scheduler::new(threads)?,
            services: Mutex::new(services),
            jobs: Mutex::default(),
        })
    }

    /// Replaces what later jobs are offered.
    pub fn set_services(&self, services: Services) {
        *self.services.lock() = services;
    }

    /// A deployed job, for watching it.
    pub fn job(&self, job: u64) -> Option<DeployedJob> {
        self.jobs.lock().get(&job).cloned()
    }

    /// Forgets a job whose tasks have all ended.
    pub fn forget(&self, job: u64) {
        if let Some(deployed) = self.jobs.lock().remove(&job) {
            deployed.context.shared.clear();
            deployed.context.let_go_of_sources();
        }
    }

    /// Does what a message asks; `report` gets the tasks' ends.
    pub fn handle(&self, message: Message, report: &Report) -> Result<()> {
        match message {
            Message::Deploy { job, graph, options } => {
                graph.validate()?;
                let services = self.services.lock().clone();
                let context = JobContext::new(job, &graph, options, services);
                let tasks = Deployment::new(&graph, &context).tasks()?;
                let names = graph.vertices.iter().map(|v| v.name.clone()).collect();
                // The job is known before its first task can end.
                let mut jobs = self.jobs.lock();
                let tasks = tasks.into_iter().map(|t| self.spawn(job, t, report)).collect();
                jobs.insert(job, DeployedJob { context, tasks, names });
                Ok(())
            }
            Message::Cancel { job } => {
                if let Some(deployed) = self.job(job) {
                    deployed.context.cancelled.store(true, Ordering::Relaxed);
                    deployed.tasks.iter().for_each(TaskRef::wake);
                }
                Ok(())
            }
            Message::TaskFinished { .. } | Message::TaskFailed { .. } => {
                Err(Error::Internal("a report sent to a task manager".into()))
            }
        }
    }

    fn spawn(&self, job: u64, task: Task, report: &Report) -> TaskRef {
        let report = report.clone();
        self.scheduler.spawn(
            task,
            Box::new(move |vertex, subtask, result| {
                report(match result {
                    Ok(()) => Message::TaskFinished { job, vertex, subtask },
                    Err(error) => Message::TaskFailed { job, vertex, subtask, error },
                });
            }),
        )
    }
}

/// Builds the tasks of a graph: queues first, then operators, gates and partitions around them.
struct Deployment<'a> {
    graph: &'a JobGraph,
    context: &'a Arc<JobContext>,
    inputs: HashMap<(VertexId, usize), (Arc<InputQueue>, Vec<PortSpec>)>,
}

impl<'a> Deployment<'a> {
    fn new(graph: &'a JobGraph, context: &'a Arc<JobContext>) -> Self {
        let mut inputs = HashMap::new();
        for (index, vertex) in graph.vertices.iter().enumerate() {
            let id = VertexId(index as u32);
            let ports = ports_of(graph, id);
            if ports.is_empty() {
                continue;
            }
            for subtask in 0..vertex.parallelism {
                let bytes_max = context.options.exchange_bytes_max;
                let queue = InputQueue::new(&ports, bytes_max, &context.memory);
                inputs.insert((id, subtask), (queue, ports.clone()));
            }
        }
        Deployment { graph, context, inputs }
    }

    fn tasks(&self) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for (index, vertex) in self.graph.vertices.iter().enumerate() {
            let id = VertexId(index as u32);
            let gathering = self.gathering(vertex);
            for subtask in 0..vertex.parallelism {
                let operators = vertex
                    .chain
                    .iter()
                    .map(|c| Ok((c.spec.name(), c.spec.build(self.context)?)))
                    .collect::<Result<Vec<_>>>()?;
                let out = self.graph.edges.iter().filter(|e| e.source == id);
                tasks.push(Task::new(TaskParts {
                    vertex: id,
                    subtask,
                    parallelism: vertex.parallelism,
                    operators,
                    gate: self
                        .inputs
                        .get(&(id, subtask))
                        .map(|(queue, ports)| InputGate::new(queue.clone(), ports)),
                    partitions: out
                        .map(|e| Ok(self.partition(e, subtask)?.with_gathering(gathering)))
                        .collect::<Result<_>>()?,
                    buffer_timeout: vertex.buffer_timeout,
                    job: self.context.clone(),
                }));
            }
        }
        Ok(tasks)
    }

    /// Buffers that leave at the end of each step need not be gathered, nor need those of a job that ends: its operators
    /// gather.
    fn gathering(&self, vertex: &JobVertex) -> Gathering {
        let options = &self.context.options;
        let timeout = vertex.buffer_timeout.unwrap_or(options.buffer_timeout);
        if options.continuous && timeout != BufferTimeout::AtOnce {
            Gathering::Buffers { rows: options.batch_rows }
        } else {
            Gathering::AsTheyCome
        }
    }

    fn partition(&self, edge: &JobEdge, subtask: usize) -> Result<ResultPartition> {
        let role = edge.role;
        let consumers = self.graph.vertex(edge.target).parallelism;
        let target = |consumer: usize, port: PortId, channel: usize| Target {
            queue: self.inputs[&(edge.target, consumer)].0.clone(),
            port,
            channel,
        };
        let all = |channel: usize| (0..consumers).map(move |c| (c, channel));
        Ok(match &edge.ship {
            // A forward channel is the only one of its consumer subtask's port.
            ShipStrategy::Forward => {
                ResultPartition::new(Shipping::Single, vec![target(subtask, edge.port, 0)], role)
            }
            ShipStrategy::Singleton => {
                ResultPartition::new(Shipping::Single, vec![target(0, edge.port, subtask)], role)
            }
            ShipStrategy::Merge => {
                let port = PortId(edge.port.0 + subtask as u16);
                ResultPartition::new(Shipping::Single, vec![target(0, port, 0)], role)
            }
            ShipStrategy::Broadcast => ResultPartition::new(
                Shipping::Broadcast,
                all(subtask).map(|(c, channel)| target(c, edge.port, channel)).collect(),
                role,
            ),
            ShipStrategy::Rebalance => ResultPartition::new(
                Shipping::Rebalance { next: subtask % consumers },
                all(subtask).map(|(c, channel)| target(c, edge.port, channel)).collect(),
                role,
            ),
            ShipStrategy::Hash { keys, types } => {
                let schema = positional_schema(types);
                let keys = compile_all(keys, &schema, &self.context.functions)?;
                let rows = self.context.options.batch_rows;
                ResultPartition::new(
                    Shipping::Hash(HashPartitioner::new(keys, consumers, rows)),
                    all(subtask).map(|(c, channel)| target(c, edge.port, channel)).collect(),
                    role,
                )
            }
        })
    }
}

/// The input ports of a vertex, from the edges that lead to it.
fn ports_of(graph: &JobGraph, id: VertexId) -> Vec<PortSpec> {
    let mut ports: Vec<PortSpec> = Vec::new();
    let mut put = |port: usize, channels: usize, kind: PortKind, scan: Option<VertexId>| {
        if ports.len() <= port {
            ports.resize(port + 1, PortSpec::of_operators(0, kind));
        }
        let port = &mut ports[port];
        port.channels += channels;
        port.kind = kind;
        port.scans.resize(port.channels, scan);
    };
    for edge in graph.edges.iter().filter(|e| e.target == id) {
        let producer = graph.vertex(edge.source);
        let (producers, scan) = (producer.parallelism, producer.is_scan().then_some(edge.source));
        let kind = match (edge.role, edge.mode) {
            (EdgeRole::Feedback, _) => PortKind::Feedback,
            (_, ExchangeMode::Blocking) => PortKind::Blocking,
            (_, ExchangeMode::Pipelined) => PortKind::Pipelined,
        };
        match &edge.ship {
            ShipStrategy::Forward => put(edge.port.0 as usize, 1, kind, scan),
            ShipStrategy::Merge => {
                (0..producers).for_each(|p| put(edge.port.0 as usize + p, 1, kind, scan));
            }
            ShipStrategy::Hash { .. }
            | ShipStrategy::Broadcast
            | ShipStrategy::Rebalance
            | ShipStrategy::Singleton => put(edge.port.0 as usize, producers, kind, scan),
        }
    }
    ports
}
