//! Commits: how materialized views take in the changes of what they read.
//!
//! Jobs commit one after the other, in the order in which they began, so that a view comes after those that it reads.
//! Invariant: within one round all who follow a table go on to the same version of it, and no round cuts a job while it
//! still carries out the one before. So each view shows what its query gives for one state of each table that it reads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, join_all, select};
use thalweg_runtime::job::JobHandle;

use super::Session;
use super::frame::Frame;
use super::jobs::{Job, JobState};
use super::statement::StatementContext;
use crate::error::{Error, Result};

/// The versions that one round has its readers go on to, by the table.
type Versions = HashMap<u64, u64>;

impl Session {
    /// One round over all jobs that have something to commit.
    pub(super) async fn commit_jobs(&self) {
        let _alone = self.inner.jobs.commits.lock().await;
        // A clock that does not go on lets views stay as they are.
        let _ = self.inner.catalog.clock().tick();
        let mut versions = Versions::new();
        for job in self.inner.jobs.all() {
            commit(&job, &mut versions).await;
        }
    }
}

/// `FLUSH`: a round of its own, so that it takes in everything that was there when it began.
pub(super) async fn flush(cx: &StatementContext<'_>) -> Result<()> {
    // What a sink has written is taken in by another round.
    let rounds = async {
        for _ in 0..=cx.session.inner.jobs.sinks() {
            cx.session.commit_jobs().await;
        }
    };
    let round = std::pin::pin!(rounds);
    match select(round, std::pin::pin!(cx.token.cancelled())).await {
        Either::Left(((), _)) => {
            cx.session.inner.jobs.settle();
            Ok(())
        }
        Either::Right(_) => Err(Error::Cancelled),
    }
}

/// What a statement that has changed tables gives, once views show the change if the session wants that.
pub(super) async fn flushed(cx: &StatementContext<'_>, done: Result<Frame>) -> Result<Frame> {
    let frame = done?;
    if cx.settings.implicit_flush() {
        flush(cx).await?;
    }
    Ok(frame)
}

/// Has a job commit. One that has failed says so to those who ask for its rows.
async fn commit(job: &Arc<Job>, versions: &mut Versions) {
    if job.state() != JobState::Running {
        return;
    }
    for run in &job.started.runs {
        if let Some(id) = run.handle.barrier_under_way() {
            let _ = run.handle.barrier(id).await;
        }
    }
    let mut changed = job.started.endless;
    for subscription in &job.started.subscriptions {
        let latest = || subscription.latest();
        let version = *versions.entry(subscription.table()).or_insert_with(latest);
        changed |= version > subscription.limit();
        subscription.advance_to(version);
    }
    if changed {
        pass(job).await;
    }
}

/// How long a job may take to show what it has taken in before it is ended all the same.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Has jobs that are to be ended show all rows that have come to their sinks, where that does not take too long. No other
/// round is under way meanwhile.
pub(super) async fn settle(session: &Session, handles: &[Arc<JobHandle>]) {
    let _settling = session.inner.jobs.settling();
    let settled = async {
        let _alone = session.inner.jobs.commits.lock().await;
        for handle in handles {
            if let Some(id) = handle.barrier_under_way() {
                let _ = handle.barrier(id).await;
            }
        }
        join_all(handles.iter().map(|handle| handle.settle())).await;
    };
    // A job that fails meanwhile, or has ended, tells so itself.
    let too_long = std::pin::pin!(session.inner.executor.after(SETTLE_MAX));
    let _ = select(std::pin::pin!(settled), too_long).await;
}

/// Ends a job; rows that came to its sinks stay.
pub(super) async fn stop(session: &Session, job: &Job) {
    let handles: Vec<Arc<JobHandle>> =
        job.started.runs.iter().map(|run| run.handle.clone()).collect();
    settle(session, &handles).await;
    job.cancel();
    join_all(handles.iter().map(|handle| handle.ended())).await;
    session.inner.jobs.settle();
}

/// Ends all running jobs that write.
pub(super) async fn stop_all(session: &Session) {
    let runs = |job: &Arc<Job>| job.state() == JobState::Running && job.started.kind.writes();
    for job in session.inner.jobs.all().into_iter().filter(runs) {
        stop(session, &job).await;
    }
}

/// Sends a barrier through a job and waits for it.
pub(super) async fn pass(job: &Job) {
    let mut passed = true;
    for run in &job.started.runs {
        passed &= run.handle.barrier(run.handle.ask_barrier()).await.is_ok();
    }
    // What cannot be read is told to those who read it.
    let _ = job.note_written(false);
    if passed {
        job.started.subscriptions.iter().for_each(|subscription| subscription.let_go());
    }
}
