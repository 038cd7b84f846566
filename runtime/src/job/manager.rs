//! The job manager: deploys a graph, follows its tasks, and says how the job ended.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::task_manager::{DeployedJob, Report};
use super::watchdog::{Watchdog, wait_graph};
use super::{JobContext, JobOptions, LateBatch, LateRows, Message, SplitReport, TaskManager};
use crate::element::CheckpointId;
use crate::error::{Error, Result};
use crate::graph::{ChainedOperator, JobGraph, JobVertex, VertexId};
use crate::operators::OperatorMetrics;
use crate::task::{TaskRef, TimeSpent};
use arrow_schema::Field;

/// Schedules jobs on a task manager.
pub struct JobManager {
    tasks: Arc<TaskManager>,
    next_job: AtomicU64,
    watched: OnceLock<Arc<Mutex<Vec<Watched>>>>,
}

/// A job that the watchdog's thread looks at as long as somebody holds it.
struct Watched {
    job: Weak<JobState>,
    deployed: DeployedJob,
    watchdog: Watchdog,
}

impl JobManager {
    /// A manager of jobs that run on `tasks`.
    pub fn new(tasks: Arc<TaskManager>) -> Self {
        JobManager { tasks, next_job: AtomicU64::new(1), watched: OnceLock::new() }
    }

    /// Starts a job.
    pub fn submit(&self, graph: JobGraph, options: JobOptions) -> Result<JobHandle> {
        let job = self.next_job.fetch_add(1, Ordering::Relaxed);
        // The submission counts like a task, so that a short job is not over before its handle is there.
        let tasks_left = graph.vertices.iter().map(|v| v.parallelism).sum::<usize>() + 1;
        let state = Arc::new(JobState {
            job,
            tasks: self.tasks.clone(),
            progress: Mutex::new(JobProgress { tasks_left, error: None, wakers: Vec::new() }),
            ended: Condvar::new(),
        });
        let reported = state.clone();
        let report: Report = Arc::new(move |message| reported.take_report(message));
        let links = |v: &JobVertex| {
            let link = |c: &ChainedOperator| Link {
                plan_node: c.plan_node,
                name: c.spec.name(),
                inputs: c.inputs.clone(),
            };
            v.chain.iter().map(link).collect::<Vec<_>>()
        };
        let chains = graph.vertices.iter().map(links).collect();
        let edges = graph.edges.iter().map(|edge| (edge.source, edge.target)).collect();
        self.tasks.handle(Message::Deploy { job, graph, options }, &report)?;
        let deployed = self
            .tasks
            .job(job)
            .ok_or_else(|| Error::Internal("a deployed job is not known".into()))?;
        state.one_ended(None);
        self.watch(&state, &deployed);
        Ok(JobHandle { state, report, deployed, chains, edges })
    }

    /// Has the watchdog look at a job; its thread starts with the first one.
    fn watch(&self, state: &Arc<JobState>, deployed: &DeployedJob) {
        if state.has_ended() {
            return;
        }
        let watched = self.watched.get_or_init(|| {
            let watched = Arc::new(Mutex::new(Vec::new()));
            let weak = Arc::downgrade(&watched);
            // Without the thread jobs run all the same; only a stuck one would not be noticed.
            let _ = std::thread::Builder::new()
                .name("watchdog".into())
                .spawn(move || keep_watch(&weak));
            watched
        });
        let watchdog = Watchdog::default();
        let (job, deployed) = (Arc::downgrade(state), deployed.clone());
        watched.lock().push(Watched { job, deployed, watchdog });
    }
}

/// Looks at all jobs from time to time, until their manager has gone.
fn keep_watch(watched: &Weak<Mutex<Vec<Watched>>>) {
    loop {
        std::thread::sleep(WATCH_INTERVAL);
        let Some(watched) = watched.upgrade() else { return };
        let mut stuck = Vec::new();
        watched.lock().retain_mut(|watched| {
            let Some(job) = watched.job.upgrade().filter(|job| !job.has_ended()) else {
                return false;
            };
            stuck.extend(watched.watchdog.look(&watched.deployed).map(|graph| (job, graph)));
            true
        });
        for (job, graph) in stuck {
            job.progress.lock().error.get_or_insert(Error::Internal(graph));
            job.cancel();
        }
    }
}

struct JobState {
    job: u64,
    tasks: Arc<TaskManager>,
    progress: Mutex<JobProgress>,
    ended: Condvar,
}

struct JobProgress {
    tasks_left: usize,
    error: Option<Error>,
    wakers: Vec<Waker>,
}

impl JobState {
    /// A task ended. The first failure cancels the others and is the job's.
    fn take_report(&self, message: Message) {
        let error = match message {
            Message::TaskFinished { .. } => None,
            Message::TaskFailed { error, .. } => Some(error),
            Message::Deploy { .. } | Message::Cancel { .. } => return,
        };
        self.one_ended(error);
    }

    /// One of those that the job waits for has ended.
    fn one_ended(&self, error: Option<Error>) {
        let mut progress = self.progress.lock();
        progress.tasks_left -= 1;
        let cancel = error.is_some() && progress.error.is_none();
        if let Some(error) = error
            && (progress.error.is_none() || progress.error == Some(Error::Cancelled))
        {
            progress.error = Some(error);
        }
        let done = progress.tasks_left == 0;
        let wakers = if done { std::mem::take(&mut progress.wakers) } else { Vec::new() };
        drop(progress);
        if done {
            self.tasks.forget(self.job);
            self.ended.notify_all();
            wakers.into_iter().for_each(Waker::wake);
        } else if cancel {
            self.cancel();
        }
    }

    fn cancel(&self) {
        let nobody: Report = Arc::new(|_| {});
        // Cancelling a job that has just ended is no error.
        let _ = self.tasks.handle(Message::Cancel { job: self.job }, &nobody);
    }

    fn has_ended(&self) -> bool {
        self.progress.lock().tasks_left == 0
    }

    fn result(progress: &JobProgress) -> Option<Result<()>> {
        (progress.tasks_left == 0).then(|| progress.error.clone().map_or(Ok(()), Err))
    }
}

/// A submitted job. Dropping the handle cancels it.
pub struct JobHandle {
    state: Arc<JobState>,
    #[allow(dead_code, reason = "tasks report through it as long as the job lives")]
    report: Report,
    deployed: DeployedJob,
    chains: Vec<Vec<Link>>,
    edges: Vec<(VertexId, VertexId)>,
}

/// An operator in a vertex's chain.
struct Link {
    plan_node: u32,
    name: &'static str,
    inputs: Vec<Vec<Field>>,
}

/// Counters of one operator of a job.
pub struct OperatorReport {
    /// The plan node it was lowered from.
    pub plan_node: u32,
    /// Its name.
    pub name: &'static str,
    /// Its vertex.
    pub vertex: VertexId,
    /// Its place in the chain.
    pub position: usize,
    /// The counters.
    pub metrics: Arc<OperatorMetrics>,
    /// The columns of each input, by name, if its input rows may be late.
    pub inputs: Vec<Vec<Field>>,
    /// How the tasks that run it have spent their time.
    pub spent: TimeSpent,
}

impl JobHandle {
    /// Asks all tasks to end; the job then ends with [`Error::Cancelled`] unless it already failed.
    pub fn cancel(&self) {
        self.state.cancel();
    }

    /// Blocks until all tasks have ended. A job in which nothing can move any more is ended by the watchdog, with
    /// the wait graph.
    pub fn wait(&self) -> Result<()> {
        let mut progress = self.state.progress.lock();
        loop {
            if let Some(result) = JobState::result(&progress) {
                return result;
            }
            self.state.ended.wait(&mut progress);
        }
    }

    /// Whether all tasks have ended, and how.
    pub fn result(&self) -> Option<Result<()>> {
        JobState::result(&self.state.progress.lock())
    }

    /// A future of the end, for callers with an executor of their own.
    pub fn ended(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        Ended { state: self.state.clone() }
    }

    /// Asks all scans for a barrier behind what belongs before it. While one is under way it is that one.
    pub fn ask_barrier(&self) -> CheckpointId {
        let id = self.deployed.context.barriers.ask();
        self.deployed.tasks.iter().for_each(TaskRef::wake);
        id
    }

    /// A future that is ready once all sinks have committed a barrier; with the job's error if it fails before. A job
    /// that has ended well has every barrier behind it.
    pub fn barrier(
        &self,
        id: CheckpointId,
    ) -> impl Future<Output = Result<()>> + Send + Unpin + 'static {
        BarrierPassed { id, state: self.state.clone(), context: self.deployed.context.clone() }
    }

    /// The barrier that was asked for and is not complete.
    pub fn barrier_under_way(&self) -> Option<CheckpointId> {
        self.deployed.context.barriers.under_way()
    }

    /// Asks for a last barrier, at which sinks make everything visible that they have taken; the job is to be ended then.
    /// Fails as [`Self::barrier`] does. No other barrier may be under way.
    pub fn settle(&self) -> impl Future<Output = Result<()>> + Send + Unpin + 'static {
        self.deployed.context.settle();
        self.barrier(self.ask_barrier())
    }

    /// Work done and work in all, as far as sources know.
    pub fn progress(&self) -> Option<(u64, u64)> {
        self.deployed.context.progress()
    }

    /// Records that sources have left out because they could not be read.
    pub fn skipped_records(&self) -> u64 {
        self.deployed.context.skipped_records.load(Ordering::Relaxed)
    }

    /// Records that could not be read, and that sources have put elsewhere.
    pub fn rejected_records(&self) -> u64 {
        self.deployed.context.rejected_records.load(Ordering::Relaxed)
    }

    /// Rows that scans have left out because they do not tell when they happened.
    pub fn untimed_rows(&self) -> u64 {
        self.deployed.context.untimed_rows.load(Ordering::Relaxed)
    }

    /// Rows that operators have dropped because everything they belong to had left.
    pub fn late_rows(&self) -> u64 {
        let late = |report: &OperatorReport| report.metrics.late_rows.load(Ordering::Relaxed);
        self.operators().iter().map(late).sum()
    }

    /// Late rows that a reader of them found no longer kept.
    pub fn forgotten_rows(&self) -> u64 {
        self.deployed.context.forgotten_rows.load(Ordering::Relaxed)
    }

    /// The late rows that are kept, oldest first, and how many others there were.
    pub fn kept_late_rows(&self) -> (Vec<LateBatch>, u64) {
        self.deployed.context.late_rows.now()
    }

    /// Where late rows are kept until somebody takes them.
    pub fn late_store(&self) -> &LateRows {
        &self.deployed.context.late_rows
    }

    /// How far event time is in the splits that are being read.
    pub fn split_times(&self) -> Vec<SplitReport> {
        self.deployed.context.split_times.reports()
    }

    /// The vertex itself and all those whose rows come to it.
    pub fn upstream(&self, vertex: VertexId) -> BTreeSet<VertexId> {
        let mut all = BTreeSet::from([vertex]);
        let mut next = vec![vertex];
        while let Some(target) = next.pop() {
            let sources = self.edges.iter().filter(|(_, of)| *of == target);
            next.extend(sources.map(|(source, _)| *source).filter(|source| all.insert(*source)));
        }
        all
    }

    /// The time now by the job's clock, in microseconds since 1970.
    pub fn now_us(&self) -> i64 {
        self.deployed.context.env.now_us()
    }

    /// The counters of all operators.
    pub fn operators(&self) -> Vec<OperatorReport> {
        let mut reports = Vec::new();
        let context = &self.deployed.context;
        let now_ns = context.env.monotonic_ns();
        for (v, chain) in self.chains.iter().enumerate() {
            let vertex = VertexId(v as u32);
            let tasks = context.times(vertex).iter().map(|times| times.spent(now_ns));
            let spent = tasks.fold(TimeSpent::default(), TimeSpent::and);
            for (position, link) in chain.iter().enumerate() {
                let metrics = context.metrics(vertex, position);
                reports.push(OperatorReport {
                    plan_node: link.plan_node,
                    name: link.name,
                    vertex,
                    position,
                    metrics,
                    inputs: link.inputs.clone(),
                    spent,
                });
            }
        }
        reports
    }

    /// What each waiting task waits for, one line each.
    pub fn wait_graph(&self) -> String {
        wait_graph(&self.deployed)
    }
}

/// How often the watchdog looks whether anything moves.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

impl Drop for JobHandle {
    fn drop(&mut self) {
        if self.result().is_none() {
            self.cancel();
        }
    }
}

struct BarrierPassed {
    id: CheckpointId,
    state: Arc<JobState>,
    context: Arc<JobContext>,
}

impl Future for BarrierPassed {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.context.barriers.poll_complete(self.id, cx.waker()) {
            return Poll::Ready(Ok(()));
        }
        let mut progress = self.state.progress.lock();
        match JobState::result(&progress) {
            Some(result) => Poll::Ready(result),
            None => {
                progress.wakers.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

struct Ended {
    state: Arc<JobState>,
}

impl Future for Ended {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut progress = self.state.progress.lock();
        match JobState::result(&progress) {
            Some(result) => Poll::Ready(result),
            None => {
                progress.wakers.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
