//! The jobs that go on behind the statements: materialized views, and INSERTs in the background.
//!
//! Invariant: a job runs as long as the session knows it; the session's end, STOP JOB and DROP end it. One thread a
//! session, which starts with the first job, has all jobs commit from time to time (see [`super::commits`]), and tells once
//! what became of those that have failed.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use parking_lot::{Condvar, Mutex};
use thalweg_optimizer::PhysicalPlan;
use thalweg_planner::JobName;
use thalweg_runtime::Error as RuntimeError;
use thalweg_runtime::job::JobHandle;

use super::job_listing::OperatorLoad;
use super::{Session, SessionState};
use crate::catalog::{EntryKey, Table};
use crate::connectors::RowCounter;
use crate::connectors::memory::Subscription;
use crate::error::{Error, Report, Result};

/// Jobs that have ended and are still listed.
const ENDED_MAX: usize = 100;

/// How often it is looked whether jobs have failed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often it is noted how busy operators are: their shares are those of the time since, at most twice as long.
const LOADS_EVERY: Duration = Duration::from_secs(5);

/// Hears what the user should know of jobs.
pub(crate) type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// Keeps a view up to date.
    View,
    /// Writes rows into a table.
    Insert,
    /// Writes rows into several tables.
    StatementSet,
    /// Folds the changes of a query into a table.
    Sink,
}

impl JobKind {
    /// Whether rows go to a table or another place that outlives the job.
    pub(crate) fn writes(self) -> bool {
        match self {
            JobKind::View => false,
            JobKind::Insert | JobKind::StatementSet | JobKind::Sink => true,
        }
    }

    /// As SHOW JOBS calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            JobKind::View => "MATERIALIZED VIEW",
            JobKind::Insert => "INSERT",
            JobKind::StatementSet => "STATEMENT SET",
            JobKind::Sink => "SINK",
        }
    }
}

/// How a job is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JobState {
    Running,
    Finished,
    Stopped,
    Failed(RuntimeError),
}

impl JobState {
    /// As SHOW JOBS calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            JobState::Running => "RUNNING",
            JobState::Finished => "FINISHED",
            JobState::Stopped => "STOPPED",
            JobState::Failed(_) => "FAILED",
        }
    }

    /// The state of a single run.
    pub(crate) fn of(handle: &JobHandle) -> JobState {
        match handle.result() {
            None => JobState::Running,
            Some(Ok(())) => JobState::Finished,
            Some(Err(RuntimeError::Cancelled)) => JobState::Stopped,
            Some(Err(error)) => JobState::Failed(error),
        }
    }
}

/// What is to be known of a job that has started.
pub(crate) struct Started {
    pub(crate) name: String,
    pub(crate) kind: JobKind,
    pub(crate) sql: String,
    pub(crate) since_us: i64,
    pub(crate) runs: Vec<Run>,
    pub(crate) links: Mutex<Links>,
    pub(crate) subscriptions: Vec<Arc<Subscription>>,
    /// Whether rows may come that nobody subscribed to.
    pub(crate) endless: bool,
}

/// Names in the catalog that a job has to do with; they follow when something is renamed.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// A view's own.
    pub(crate) view: Option<EntryKey>,
    /// Those of the tables and views that a view or sink reads, and of the table that a sink writes.
    pub(crate) reads: BTreeSet<EntryKey>,
}

/// One graph of a job.
pub(crate) struct Run {
    pub(crate) handle: Arc<JobHandle>,
    /// Kept, since it holds the tables that are read.
    pub(crate) plan: PhysicalPlan,
    /// The table that rows are written into, if its rows are not in memory.
    pub(crate) target: Option<Target>,
}

/// A table into which a job writes.
pub(crate) struct Target {
    table: Arc<dyn Table>,
    counter: RowCounter,
    /// Rows that the table has taken note of.
    noted: AtomicU64,
}

impl Target {
    /// A table, and the counter of rows that can be seen in it.
    pub(crate) fn new(table: Arc<dyn Table>, counter: RowCounter) -> Self {
        Target { table, counter, noted: AtomicU64::new(0) }
    }

    /// Has the table look for rows if there are new ones, or in any case at the end.
    fn look(&self, at_end: bool) -> Result<()> {
        let rows = self.counter.rows();
        match self.noted.swap(rows, Ordering::AcqRel) == rows && !at_end {
            true => Ok(()),
            false => self.table.written(),
        }
    }
}

/// A job with its number.
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) started: Started,
    /// Whether its end has been looked at.
    settled: AtomicBool,
    /// How busy its operators were at two moments, the later one at most so long ago; by run.
    loads: Mutex<VecDeque<(Instant, Vec<Vec<OperatorLoad>>)>>,
}

impl Job {
    /// The first failure counts, then whether anything still runs.
    pub(crate) fn state(&self) -> JobState {
        let states: Vec<JobState> =
            self.started.runs.iter().map(|run| JobState::of(&run.handle)).collect();
        let failed = states.iter().find(|state| matches!(state, JobState::Failed(_)));
        let next = || states.iter().find(|state| **state == JobState::Running);
        let stopped = || states.iter().find(|state| **state == JobState::Stopped);
        failed.or_else(next).or_else(stopped).cloned().unwrap_or(JobState::Finished)
    }

    /// How busy the operators of a run had been some seconds ago; nothing if it did not run then.
    pub(super) fn loads_before(&self, run: usize) -> Vec<OperatorLoad> {
        let loads = self.loads.lock();
        loads.front().and_then(|(_, runs)| runs.get(run).cloned()).unwrap_or_default()
    }

    /// Notes from time to time how busy the operators are.
    fn note_loads(&self) {
        let mut loads = self.loads.lock();
        if loads.back().is_some_and(|(at, _)| at.elapsed() < LOADS_EVERY) || self.has_ended() {
            return;
        }
        let of_run = |run: &Run| run.handle.operators().iter().map(OperatorLoad::of).collect();
        loads.push_back((Instant::now(), self.started.runs.iter().map(of_run).collect()));
        if loads.len() > 2 {
            loads.pop_front();
        }
    }

    /// Has the tables that it writes into look for new rows, or in any case at its end.
    pub(super) fn note_written(&self, at_end: bool) -> Result<()> {
        let mut targets = self.started.runs.iter().filter_map(|run| run.target.as_ref());
        targets.try_for_each(|target| target.look(at_end))
    }

    /// Asks all of it to end.
    pub(crate) fn cancel(&self) {
        self.started.runs.iter().for_each(|run| run.handle.cancel());
    }

    fn has_ended(&self) -> bool {
        self.started.runs.iter().all(|run| run.handle.result().is_some())
    }

    /// What there is to be done once it has ended; what the user should hear.
    fn settle(&self) -> Option<String> {
        let state = self.state();
        if let JobState::Failed(_) = &state {
            // One that fails stops the others.
            self.cancel();
        }
        if !self.has_ended() || self.settled.swap(true, Ordering::AcqRel) {
            return None;
        }
        let failure = match state {
            JobState::Failed(error) => Some(Error::from(error)),
            JobState::Finished | JobState::Stopped => self.note_written(true).err(),
            JobState::Running => None,
        };
        let Job { number, started: Started { name, .. }, .. } = self;
        failure.map(|error| format!("job {number} ({name}) has failed: {error}"))
    }
}

/// All jobs of a session, in the order in which they began.
pub(crate) struct Jobs {
    all: Mutex<Vec<Arc<Job>>>,
    next: AtomicU64,
    /// Held by whoever has jobs commit, or adds one.
    pub(super) commits: futures::lock::Mutex<()>,
    /// How many callers wait for jobs to show what they have taken in before they are ended.
    settling: AtomicUsize,
    kept: AtomicBool,
    background: AtomicBool,
    listener: Mutex<Option<Listener>>,
    gone: Arc<Gone>,
}

/// Somebody waits for jobs to show what they have taken in.
pub(super) struct Settling<'a>(&'a Jobs);

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.settling.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Tells the thread that looks after the jobs that there is nothing more to look after.
#[derive(Default)]
struct Gone {
    gone: Mutex<bool>,
    told: Condvar,
}

impl Gone {
    /// Waits at most so long; whether there is nothing more to look after.
    fn wait(&self, at_most: Duration) -> bool {
        let mut gone = self.gone.lock();
        if !*gone {
            let _ = self.told.wait_for(&mut gone, at_most);
        }
        *gone
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        *self.gone.gone.lock() = true;
        self.gone.told.notify_all();
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Jobs {
            all: Mutex::default(),
            next: AtomicU64::new(1),
            commits: futures::lock::Mutex::new(()),
            settling: AtomicUsize::new(0),
            kept: AtomicBool::new(false),
            background: AtomicBool::new(false),
            listener: Mutex::default(),
            gone: Arc::default(),
        }
    }
}

impl Jobs {
    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.all.lock().clone()
    }

    /// The job of a number.
    pub(crate) fn get(&self, number: u64) -> Result<Arc<Job>> {
        let found = self.all.lock().iter().find(|job| job.number == number).cloned();
        found.ok_or_else(|| missing(&number.to_string()))
    }

    /// The job of a number or name: of several the one that runs, or began last.
    pub(crate) fn named(&self, name: &JobName) -> Result<Arc<Job>> {
        let (jobs, shown) = self.all_named(name)?;
        let running = jobs.iter().rev().find(|job| job.state() == JobState::Running);
        running.or(jobs.last()).cloned().ok_or_else(|| missing(&shown))
    }

    /// The jobs of a number or name, and how it is shown.
    fn all_named(&self, name: &JobName) -> Result<(Vec<Arc<Job>>, String)> {
        Ok(match name {
            JobName::Number(number) => (vec![self.get(*number)?], number.to_string()),
            JobName::Name(name) => {
                let named = self.all().into_iter().filter(|job| job.started.name == *name);
                (named.collect(), name.clone())
            }
        })
    }

    /// The running job of a number or name.
    pub(crate) fn running(&self, name: &JobName) -> Result<Arc<Job>> {
        let (jobs, shown) = self.all_named(name)?;
        let (last, known) = (jobs.last().cloned(), jobs.into_iter().rev());
        let mut running = known.filter(|job| job.state() == JobState::Running);
        match (running.next(), last) {
            (Some(job), _) => Ok(job),
            (None, Some(job)) => {
                let state = job.state().name().to_lowercase();
                Err(Error::catalog(
                    Report::new(format!("the job \"{shown}\" is not running"))
                        .with_detail(format!("It is {state}.")),
                ))
            }
            (None, None) => Err(missing(&shown)),
        }
    }

    /// The running or ended jobs of views and sinks that read something.
    pub(crate) fn readers(&self, of: &EntryKey) -> Vec<Arc<Job>> {
        let all = self.all();
        all.into_iter().filter(|job| job.started.links.lock().reads.contains(of)).collect()
    }

    /// The job of a view.
    pub(crate) fn of_view(&self, view: &EntryKey) -> Option<Arc<Job>> {
        let all = self.all.lock();
        all.iter().find(|job| job.started.links.lock().view.as_ref() == Some(view)).cloned()
    }

    /// The sink of a name.
    pub(crate) fn sink(&self, name: &str) -> Option<Arc<Job>> {
        let all = self.all.lock();
        let is = |job: &&Arc<Job>| job.started.kind == JobKind::Sink && job.started.name == name;
        all.iter().find(is).cloned()
    }

    /// How many sinks there are.
    pub(crate) fn sinks(&self) -> usize {
        self.all.lock().iter().filter(|job| job.started.kind == JobKind::Sink).count()
    }

    /// Notes that somebody waits for jobs to settle, as long as what is given back lives.
    pub(super) fn settling(&self) -> Settling<'_> {
        self.settling.fetch_add(1, Ordering::AcqRel);
        Settling(self)
    }

    /// Whether somebody waits for jobs to settle.
    pub(super) fn are_settling(&self) -> bool {
        self.settling.load(Ordering::Acquire) > 0
    }

    /// Takes note of an object's new name.
    pub(crate) fn renamed(&self, from: &EntryKey, to: &EntryKey) {
        for job in self.all() {
            let mut links = job.started.links.lock();
            if links.view.as_ref() == Some(from) {
                links.view = Some(to.clone());
            }
            if links.reads.remove(from) {
                links.reads.insert(to.clone());
            }
        }
    }

    /// Ends a job and forgets it.
    pub(crate) fn remove(&self, job: &Arc<Job>) {
        self.all.lock().retain(|known| !Arc::ptr_eq(known, job));
        job.cancel();
    }

    /// Lists a job that has started.
    pub(super) fn add(&self, session: &Session, started: Started) -> Arc<Job> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let job = Arc::new(Job {
            number,
            started,
            settled: AtomicBool::new(false),
            loads: Mutex::default(),
        });
        let mut all = self.all.lock();
        let lasts = |job: &Job| matches!(job.started.kind, JobKind::View | JobKind::Sink);
        let done = |job: &Job| !lasts(job) && job.settled.load(Ordering::Acquire);
        if all.iter().filter(|job| done(job)).count() > ENDED_MAX
            && let Some(oldest) = all.iter().position(|job| done(job))
        {
            all.remove(oldest);
        }
        all.push(job.clone());
        drop(all);
        if !self.kept.swap(true, Ordering::AcqRel) {
            keep(session);
        }
        job
    }

    /// Looks after jobs that have ended.
    pub(super) fn settle(&self) {
        self.all().iter().for_each(|job| job.note_loads());
        let news: Vec<String> = self.all().iter().filter_map(|job| job.settle()).collect();
        let listener = self.listener.lock().clone();
        if let Some(listener) = listener {
            news.iter().for_each(|news| listener(news));
        }
    }

    /// Who hears of jobs that have failed.
    pub(super) fn set_listener(&self, listener: Listener) {
        *self.listener.lock() = Some(listener);
    }

    /// Whether INSERTs that do not end run in the background.
    pub(super) fn set_background(&self, background: bool) {
        self.background.store(background, Ordering::Relaxed);
    }

    /// Whether INSERTs that do not end run in the background.
    pub(super) fn in_background(&self) -> bool {
        self.background.load(Ordering::Relaxed)
    }
}

fn missing(name: &str) -> Error {
    let report = Report::new(format!("the job \"{name}\" does not exist"));
    Error::catalog(report.with_hint("SHOW JOBS lists all jobs.".to_string()))
}

/// Starts the thread that looks after the jobs until the session has gone.
fn keep(session: &Session) {
    let (state, gone) = (Arc::downgrade(&session.inner), session.inner.jobs.gone.clone());
    let look = move || look_after(&state, &gone);
    // Without the thread jobs run all the same; only FLUSH has them commit then.
    let _ = std::thread::Builder::new().name("jobs".into()).spawn(look);
}

fn look_after(state: &Weak<SessionState>, gone: &Gone) {
    let mut committed = Instant::now();
    loop {
        let Some(inner) = state.upgrade() else { return };
        let session = Session { inner };
        let interval = session.settings_now().view_commit_interval();
        if committed.elapsed() >= interval {
            block_on(session.commit_jobs());
            committed = Instant::now();
        }
        session.inner.jobs.settle();
        drop(session);
        let left = interval.saturating_sub(committed.elapsed());
        if gone.wait(left.min(LOOK_EVERY)) {
            return;
        }
    }
}
