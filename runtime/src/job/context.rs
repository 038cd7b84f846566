//! What all tasks of a job share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::alignment::Alignments;
use super::barriers::Barriers;
use super::late_rows::{KeepLate, LateRows};
use super::latency::LatencySteering;
use super::split_times::SplitTimes;
use crate::env::Environment;
use crate::error::{Error, Result};
use crate::expr::FunctionRegistry;
use crate::graph::{JobGraph, JobVertex, VertexId};
use crate::memory::MemoryManager;
use crate::operators::OperatorMetrics;
use crate::shared::SharedRegistry;
use crate::shared::runtime_filter::RuntimeFilters;
use crate::sink::SinkConnector;
use crate::source::{Source, SourceConnector, SourceSpec};
use crate::task::TaskTimes;
use crate::windowing::{Windowing, WindowingRegistry};

/// Settings of a job, sent with its graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOptions {
    /// Rows a batch has at most.
    pub batch_rows: usize,
    /// Bytes that the queue of one input port may hold before its producers wait.
    pub exchange_bytes_max: usize,
    /// When incomplete buffers leave, unless their operators have a timeout of their own.
    pub buffer_timeout: BufferTimeout,
    /// Whether the job goes on without an end: then rows wait in buffers of exchanges alone, where timeouts hold.
    pub continuous: bool,
    /// Microseconds from a row's arrival to its effect that a continuous job's buffer timeouts are steered towards; 0
    /// steers nothing.
    pub latency_target_us: u64,
    /// Microseconds after which state that no watermark bounds is forgotten, unless it was touched; 0 keeps it for ever.
    pub state_ttl_us: u64,
    /// Which rows are kept that come too late.
    pub late_rows: KeepLate,
}

impl JobOptions {
    /// Rows that an operator gathers to make a batch worth handing on. In a continuous job it hands on what it has: the
    /// rows would wait for others for an unknown time.
    pub fn gathered_rows(&self) -> usize {
        if self.continuous { 1 } else { self.batch_rows }
    }
}

/// When a buffer that is not full leaves its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BufferTimeout {
    /// With the next control event; until then only full buffers leave.
    Never,
    /// At the end of the step that wrote into it.
    AtOnce,
    /// So many microseconds after it got its first row, at least 1.
    Micros(u64),
}

impl BufferTimeout {
    /// The timeout of a number of microseconds: 0 is at once, and a negative number never.
    pub fn of_micros(micros: i64) -> Self {
        match u64::try_from(micros) {
            Ok(0) => BufferTimeout::AtOnce,
            Ok(micros) => BufferTimeout::Micros(micros),
            Err(_) => BufferTimeout::Never,
        }
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions {
            batch_rows: 8192,
            exchange_bytes_max: 8 << 20,
            buffer_timeout: BufferTimeout::Never,
            continuous: false,
            latency_target_us: 0,
            state_ttl_us: 0,
            late_rows: KeepLate::Nothing,
        }
    }
}

/// What a process offers to jobs: never sent, registered by name on every side.
#[derive(Clone)]
pub struct Services {
    /// Clocks, files, I/O threads.
    pub env: Arc<dyn Environment>,
    /// The memory budget.
    pub memory: Arc<MemoryManager>,
    /// Scalar functions.
    pub functions: FunctionRegistry,
    /// Connectors that read, by name.
    pub sources: HashMap<String, Arc<dyn SourceConnector>>,
    /// Connectors that write, by name.
    pub sinks: HashMap<String, Arc<dyn SinkConnector>>,
    /// Kinds of windows, by name.
    pub windowings: WindowingRegistry,
}

/// A running job's shared part.
pub struct JobContext {
    /// The job's number in this process.
    pub job: u64,
    /// Its settings.
    pub options: JobOptions,
    /// Clocks, files, I/O threads.
    pub env: Arc<dyn Environment>,
    /// The memory budget.
    pub memory: Arc<MemoryManager>,
    /// Scalar functions.
    pub functions: FunctionRegistry,
    /// Builds that subtasks share.
    pub shared: SharedRegistry,
    /// Filters from finished build sides.
    pub filters: RuntimeFilters,
    /// Barriers that scans send and sinks commit.
    pub barriers: Barriers,
    /// Scans that wait for each other.
    pub alignments: Alignments,
    /// What steers buffer timeouts, if the job has a target.
    pub latency: Option<LatencySteering>,
    /// Set when the job is to end early.
    pub cancelled: AtomicBool,
    /// Steps done by all tasks: the watchdog sees by it whether anything moves.
    pub steps: AtomicU64,
    /// Records that sources left out because they could not be read, as they were told to.
    pub skipped_records: AtomicU64,
    /// Records that sources have put elsewhere because they could not be read.
    pub rejected_records: AtomicU64,
    /// Rows that scans left out because they do not tell when they happened.
    pub untimed_rows: AtomicU64,
    /// Late rows that a reader of them was too late for itself.
    pub forgotten_rows: AtomicU64,
    /// Rows that operators dropped as late.
    pub late_rows: LateRows,
    /// How far event time is in the splits of the scans.
    pub split_times: SplitTimes,
    /// Whether the job is about to be ended, and rows that came before the barrier under way are to stay.
    settling: AtomicBool,
    /// The furthest watermark that a task got from its inputs, in microseconds.
    pub furthest_us: AtomicI64,
    connectors: Services,
    opened: Mutex<HashMap<VertexId, Arc<dyn Source>>>,
    metrics: HashMap<(VertexId, usize), Arc<OperatorMetrics>>,
    times: Vec<Vec<Arc<TaskTimes>>>,
}

impl JobContext {
    /// The context of a graph about to be deployed.
    pub fn new(job: u64, graph: &JobGraph, options: JobOptions, services: Services) -> Arc<Self> {
        let metrics = graph
            .vertices
            .iter()
            .enumerate()
            .flat_map(|(v, vertex)| (0..vertex.chain.len()).map(move |i| (v, i)))
            .map(|(v, i)| ((VertexId(v as u32), i), Arc::default()))
            .collect();
        let tasks = |vertex: &JobVertex| (0..vertex.parallelism).map(|_| Arc::default()).collect();
        let times = graph.vertices.iter().map(tasks).collect();
        Arc::new(JobContext {
            job,
            latency: LatencySteering::of_job(graph, &options),
            env: services.env.clone(),
            memory: services.memory.clone(),
            functions: services.functions.clone(),
            shared: SharedRegistry::default(),
            filters: RuntimeFilters::default(),
            barriers: Barriers::new(graph),
            alignments: Alignments::default(),
            cancelled: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            skipped_records: AtomicU64::new(0),
            rejected_records: AtomicU64::new(0),
            untimed_rows: AtomicU64::new(0),
            forgotten_rows: AtomicU64::new(0),
            late_rows: LateRows::new(options.late_rows, &services.memory),
            split_times: SplitTimes::default(),
            settling: AtomicBool::new(false),
            furthest_us: AtomicI64::new(i64::MIN),
            options,
            connectors: services,
            opened: Mutex::default(),
            metrics,
            times,
        })
    }

    /// The counters of an operator, by its place in the graph.
    pub fn metrics(&self, vertex: VertexId, operator: usize) -> Arc<OperatorMetrics> {
        self.metrics.get(&(vertex, operator)).cloned().unwrap_or_default()
    }

    /// How the subtasks of a vertex spend their time; none for a vertex that is not in the graph.
    pub fn times(&self, vertex: VertexId) -> &[Arc<TaskTimes>] {
        self.times.get(vertex.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The source of a scan vertex, opened by whichever subtask comes first.
    pub fn source(
        self: &Arc<Self>,
        vertex: VertexId,
        spec: &SourceSpec,
    ) -> Result<Arc<dyn Source>> {
        let mut opened = self.opened.lock();
        if let Some(source) = opened.get(&vertex) {
            return Ok(source.clone());
        }
        let connector = self
            .connectors
            .sources
            .get(&spec.connector)
            .ok_or_else(|| Error::Internal(format!("no connector {}", spec.connector)))?;
        let source = connector.open(spec, self)?;
        opened.insert(vertex, source.clone());
        Ok(source)
    }

    /// Whether the next barrier is the last one, behind which nothing counts any more.
    pub fn is_settling(&self) -> bool {
        self.settling.load(Ordering::Acquire)
    }

    /// The next barrier is the last one.
    pub(super) fn settle(&self) {
        self.settling.store(true, Ordering::Release);
    }

    /// The job has ended: sources refer to it, and would keep it in memory.
    pub(super) fn let_go_of_sources(&self) {
        self.opened.lock().clear();
    }

    /// Adds to the records left out, and clears the count.
    pub fn count_skipped(&self, skipped: &mut usize) {
        if *skipped > 0 {
            self.skipped_records.fetch_add(std::mem::take(skipped) as u64, Ordering::Relaxed);
        }
    }

    /// Work done and work in all over the job's sources that know it.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let opened = self.opened.lock();
        let known = opened.values().filter_map(|s| s.progress());
        known.reduce(|a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// The windows of a name.
    pub(crate) fn windowing(&self, name: &str) -> Option<&Windowing> {
        self.connectors.windowings.get(name)
    }

    /// The sink of a name.
    pub fn sink(&self, name: &str) -> Result<Arc<dyn SinkConnector>> {
        self.connectors
            .sinks
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Internal(format!("no sink {name}")))
    }
}
