//! The job manager: deploys a graph, follows its tasks, and says how the job ended.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::task_manager::{DeployedJob, Report};
use super::watchdog::Watchdog;
use super::{JobOptions, Message, TaskManager};
use crate::error::{Error, Result};
use crate::graph::{JobGraph, VertexId};
use crate::operators::OperatorMetrics;

/// Schedules jobs on a task manager.
pub struct JobManager {
    tasks: Arc<TaskManager>,
    next_job: AtomicU64,
}

impl JobManager {
    /// A manager of jobs that run on `tasks`.
    pub fn new(tasks: Arc<TaskManager>) -> Self {
        JobManager { tasks, next_job: AtomicU64::new(1) }
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
        let chains = graph
            .vertices
            .iter()
            .map(|v| v.chain.iter().map(|c| (c.plan_node, c.spec.name())).collect::<Vec<_>>());
        let chains = chains.collect();
        self.tasks.handle(Message::Deploy { job, graph, options }, &report)?;
        let deployed = self
            .tasks
            .job(job)
            .ok_or_else(|| Error::Internal("a deployed job is not known".into()))?;
        state.one_ended(None);
        Ok(JobHandle { state, report, deployed, chains })
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
    chains: Vec<Vec<(u32, &'static str)>>,
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
}

impl JobHandle {
    /// Asks all tasks to end; the job then ends with [`Error::Cancelled`] unless it already failed.
    pub fn cancel(&self) {
        self.state.cancel();
    }

    /// Blocks until all tasks have ended. A job in which nothing can move any more ends with the wait graph.
    pub fn wait(&self) -> Result<()> {
        let mut watchdog = Watchdog::new(&self.deployed);
        let mut progress = self.state.progress.lock();
        loop {
            if let Some(result) = JobState::result(&progress) {
                return result;
            }
            let timed_out = self.state.ended.wait_for(&mut progress, WATCH_INTERVAL).timed_out();
            if timed_out && let Some(graph) = watchdog.look() {
                progress.error.get_or_insert(Error::Internal(graph));
                drop(progress);
                self.state.cancel();
                progress = self.state.progress.lock();
            }
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

    /// Work done and work in all, as far as sources know.
    pub fn progress(&self) -> Option<(u64, u64)> {
        self.deployed.context.progress()
    }

    /// The counters of all operators.
    pub fn operators(&self) -> Vec<OperatorReport> {
        let mut reports = Vec::new();
        for (v, chain) in self.chains.iter().enumerate() {
            for (position, (plan_node, name)) in chain.iter().enumerate() {
                let vertex = VertexId(v as u32);
                let metrics = self.deployed.context.metrics(vertex, position);
                reports.push(OperatorReport {
                    plan_node: *plan_node,
                    name,
                    vertex,
                    position,
                    metrics,
                });
            }
        }
        reports
    }

    /// What each waiting task waits for, one line each.
    pub fn wait_graph(&self) -> String {
        Watchdog::new(&self.deployed).graph()
    }
}

/// How often a waiting caller looks whether anything moves.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

impl Drop for JobHandle {
    fn drop(&mut self) {
        if self.result().is_none() {
            self.cancel();
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
