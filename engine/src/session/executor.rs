//! Runs physical plans: the session's share of the runtime (memory, environment, threads, connectors).
//!
//! Threads start with the first query, and anew when the setting `threads` changes; running jobs keep theirs.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_expr::ScalarUDF;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use thalweg_optimizer::PhysicalPlan;
use thalweg_planner::{own_scalar_functions, processing_time, with_deep_stack};
use thalweg_runtime::env::Environment;
use thalweg_runtime::expr::FunctionRegistry;
use thalweg_runtime::graph::JobGraph;
use thalweg_runtime::job::{
    BufferTimeout, JobHandle, JobManager, JobOptions, KeepLate, Services, TaskManager,
};
use thalweg_runtime::memory::{MemoryManager, heap_bytes};
use thalweg_runtime::operators::sink::SinkSpec;
use thalweg_runtime::sink::SinkConnector;
use thalweg_runtime::windowing::{Windowing, WindowingRegistry};

use super::cancellation::CancellationToken;
use super::changelog::Changes;
use super::channel::{RESULT_SINK, Received, ResultChannel, ResultChannels};
use super::plan::deep_stack_failure;
use crate::connectors;
use crate::connectors::buffers::BufferPool;
use crate::error::{Error, Result};
use crate::lower::{LowerOptions, lower};
use crate::settings::Settings;

/// The name by which jobs know a kind of windows with a number.
pub(crate) fn windowing_name(number: u64) -> String {
    format!("windows {number}")
}

/// Bytes that the late rows of a job may take which are kept for those who ask for them.
const LATE_ROWS_BYTES_MAX: usize = 16 << 20;

/// The session's share of the runtime.
pub(crate) struct Executor {
    env: Arc<dyn Environment>,
    memory: Arc<MemoryManager>,
    /// Functions beside the built-in ones.
    functions: Mutex<Vec<Arc<ScalarUDF>>>,
    windowings: Mutex<WindowingRegistry>,
    channels: Arc<ResultChannels>,
    manager: Mutex<Option<Manager>>,
}

/// The running threads, and how many they are.
struct Manager {
    threads: usize,
    tasks: Arc<TaskManager>,
    jobs: Arc<JobManager>,
}

impl Executor {
    /// Nothing is started yet.
    pub(crate) fn new(env: Arc<dyn Environment>) -> Arc<Self> {
        let clock = env.clone();
        let mut functions = own_scalar_functions();
        // The later of two of one name counts.
        functions.push(processing_time(Arc::new(move || clock.now_us())));
        Arc::new(Executor {
            env,
            memory: MemoryManager::with_heap_meter(usize::MAX, heap_bytes),
            functions: Mutex::new(functions),
            windowings: Mutex::default(),
            channels: Arc::default(),
            manager: Mutex::default(),
        })
    }

    /// The memory budget of everything that the session runs.
    pub(crate) fn memory(&self) -> &Arc<MemoryManager> {
        &self.memory
    }

    /// Offers a function to jobs that start from now on.
    pub(crate) fn add_function(&self, function: Arc<ScalarUDF>) {
        self.functions.lock().push(function);
        if let Some(manager) = self.manager.lock().as_ref() {
            manager.tasks.set_services(self.services());
        }
    }

    /// All functions that expressions may call.
    pub(super) fn functions(&self) -> FunctionRegistry {
        FunctionRegistry::built_in().with_scalar(self.functions.lock().iter().cloned())
    }

    /// Offers a kind of windows to jobs that start from now on. Gives its number.
    pub(crate) fn add_windowing(&self, windowing: Windowing) -> u64 {
        let mut windowings = self.windowings.lock();
        let number = windowings.len() as u64;
        windowings.insert(windowing_name(number), windowing);
        drop(windowings);
        if let Some(manager) = self.manager.lock().as_ref() {
            manager.tasks.set_services(self.services());
        }
        number
    }

    /// Starts a query whose rows come to the caller.
    pub(crate) fn start(
        &self,
        plan: &PhysicalPlan,
        schema: SchemaRef,
        changes: Option<Changes>,
        settings: &Settings,
        token: &CancellationToken,
    ) -> Result<Execution> {
        let (id, channel) = self.channels.open();
        let reader = Reader { id, channel, channels: self.channels.clone() };
        let sink = SinkSpec {
            sink: RESULT_SINK.to_string(),
            options: serde_json::json!({ "channel": id }),
        };
        let job = self.submit(plan, sink, false, settings, token)?;
        let mut ended = job.ended().boxed();
        // The channel itself is what a job's end wakes; it hands on to whoever reads then.
        let waker = Waker::from(reader.channel.clone());
        let _ = ended.poll_unpin(&mut Context::from_waker(&waker));
        Ok(Execution {
            schema,
            changes,
            reader,
            job,
            _ended: ended,
            plan: Arc::new(plan.clone()),
            token: token.clone(),
        })
    }

    /// Runs a plan into a sink of its own, to the end; a parallel sink may have several writers. Gives the job that
    /// has ended.
    pub(crate) async fn run(
        &self,
        plan: &PhysicalPlan,
        sink: SinkSpec,
        parallel: bool,
        settings: &Settings,
        token: &CancellationToken,
    ) -> Result<Arc<JobHandle>> {
        let job = self.submit(plan, sink, parallel, settings, token)?;
        job.ended().await?;
        Ok(job)
    }

    /// A number that no other call gives, as good as surely.
    pub(crate) fn random_u64(&self) -> u64 {
        self.env.random_u64()
    }

    /// A future that is ready after some time by the session's clock.
    pub(crate) fn after(&self, time: Duration) -> impl Future<Output = ()> {
        let env = self.env.clone();
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let due_ns = env.monotonic_ns().saturating_add(nanos);
        poll_fn(move |cx| {
            if env.monotonic_ns() >= due_ns {
                return Poll::Ready(());
            }
            env.wake_at(due_ns, cx.waker().clone());
            Poll::Pending
        })
    }

    /// The time now, in microseconds since 1970.
    pub(crate) fn now_us(&self) -> i64 {
        self.env.now_us()
    }

    /// Starts a plan that runs into a sink. Dropping the handle ends it.
    pub(crate) fn submit(
        &self,
        plan: &PhysicalPlan,
        sink: SinkSpec,
        parallel_sink: bool,
        settings: &Settings,
        token: &CancellationToken,
    ) -> Result<Arc<JobHandle>> {
        let keep = match plan.streaming {
            true => KeepLate::Newest { bytes: LATE_ROWS_BYTES_MAX },
            false => KeepLate::Nothing,
        };
        let graph = self.graph(plan, sink, parallel_sink, settings)?;
        self.submit_graph(plan, graph, keep, settings, token)
    }

    /// Starts a plan that is run for its late rows: all of them are kept until they are taken.
    pub(crate) fn submit_for_late_rows(
        &self,
        plan: &PhysicalPlan,
        sink: SinkSpec,
        settings: &Settings,
        token: &CancellationToken,
    ) -> Result<Arc<JobHandle>> {
        let graph = self.graph(plan, sink, true, settings)?;
        self.submit_graph(plan, graph, KeepLate::All, settings, token)
    }

    /// The graph of a plan that runs into a sink.
    pub(crate) fn graph(
        &self,
        plan: &PhysicalPlan,
        sink: SinkSpec,
        parallel_sink: bool,
        settings: &Settings,
    ) -> Result<JobGraph> {
        let (threads, batch_rows) = (settings.threads(), settings.batch_rows());
        let options =
            LowerOptions { threads, batch_rows, sink, streaming: plan.streaming, parallel_sink };
        Ok(with_deep_stack(|| lower(plan, &options)).map_err(deep_stack_failure)??)
    }

    fn submit_graph(
        &self,
        plan: &PhysicalPlan,
        graph: JobGraph,
        late_rows: KeepLate,
        settings: &Settings,
        token: &CancellationToken,
    ) -> Result<Arc<JobHandle>> {
        if token.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let (threads, batch_rows) = (settings.threads(), settings.batch_rows());
        let limit = settings.memory_limit().and_then(|bytes| usize::try_from(bytes).ok());
        self.memory.set_limit(limit.unwrap_or(usize::MAX));
        BufferPool::process().keep_within(self.memory.limit());
        let jobs = self.jobs(threads)?;
        let buffer_timeout = match plan.streaming {
            true => BufferTimeout::of_micros(settings.buffer_timeout_us()),
            false => BufferTimeout::Never,
        };
        let options = JobOptions {
            batch_rows,
            buffer_timeout,
            continuous: plan.streaming,
            latency_target_us: u64::try_from(settings.latency_target_us()).unwrap_or(0),
            state_ttl_us: match plan.streaming {
                true => u64::try_from(settings.state_ttl_us()).unwrap_or(0),
                false => 0,
            },
            late_rows,
            ..JobOptions::default()
        };
        let job = Arc::new(jobs.submit(graph, options)?);
        token.attach(&job);
        Ok(job)
    }

    fn jobs(&self, threads: usize) -> Result<Arc<JobManager>> {
        let mut manager = self.manager.lock();
        if let Some(manager) = manager.as_ref().filter(|m| m.threads == threads) {
            return Ok(manager.jobs.clone());
        }
        let tasks = Arc::new(TaskManager::new(threads, self.services())?);
        let jobs = Arc::new(JobManager::new(tasks.clone()));
        *manager = Some(Manager { threads, tasks, jobs: jobs.clone() });
        Ok(jobs)
    }

    fn services(&self) -> Services {
        let result: Arc<dyn SinkConnector> = self.channels.clone();
        let mut sinks = connectors::sinks();
        sinks.insert(RESULT_SINK.to_string(), result);
        Services {
            env: self.env.clone(),
            memory: self.memory.clone(),
            functions: self.functions(),
            sources: connectors::sources(),
            sinks,
            windowings: self.windowings.lock().clone(),
        }
    }
}

/// A running query and the reading end of its channel. Dropping it cancels the query.
pub(crate) struct Execution {
    schema: SchemaRef,
    /// How rows are told that come and go; `None` if all stay.
    changes: Option<Changes>,
    reader: Reader,
    job: Arc<JobHandle>,
    /// Registered with the job, so that its end wakes the channel.
    _ended: BoxFuture<'static, thalweg_runtime::Result<()>>,
    /// Keeps the tables that are read, which may have been dropped or replaced meanwhile.
    plan: Arc<PhysicalPlan>,
    /// Kept, so that the session can cancel the query as long as it is read.
    token: CancellationToken,
}

/// Gives the channel back when the reader is dropped.
struct Reader {
    id: u64,
    channel: Arc<ResultChannel>,
    channels: Arc<ResultChannels>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.channels.close(self.id);
    }
}

impl Execution {
    /// Whether rows come for as long as the query's inputs bring any.
    pub(crate) fn is_continuous(&self) -> bool {
        self.plan.streaming
    }

    /// The next batch, the error the job ended with, or `None` at its end.
    pub(crate) fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if let Received::Batch(batch) = self.reader.channel.receive(cx.waker()) {
            return Poll::Ready(Some(self.record_batch(batch)));
        }
        match self.job.result() {
            None => Poll::Pending,
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            // The last batch may have come between the two looks.
            Some(Ok(())) => match self.reader.channel.receive(cx.waker()) {
                Received::Batch(batch) => Poll::Ready(Some(self.record_batch(batch))),
                Received::Pending => Poll::Ready(None),
            },
        }
    }

    fn record_batch(&self, batch: thalweg_runtime::Batch) -> Result<RecordBatch> {
        match &self.changes {
            Some(changes) => changes.record_batch(batch, &self.schema),
            None => Ok(batch.to_record_batch(self.schema.clone())?),
        }
    }

    /// Asks the job to end.
    pub(crate) fn cancel(&self) {
        self.token.cancel();
    }

    /// What is run.
    pub(crate) fn plan(&self) -> Arc<PhysicalPlan> {
        self.plan.clone()
    }

    /// The running job.
    pub(crate) fn job(&self) -> &Arc<JobHandle> {
        &self.job
    }
}
