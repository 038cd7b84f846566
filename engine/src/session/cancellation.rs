//! Cancelling a query from elsewhere: another thread, a signal handler's thread, a dropped connection.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use thalweg_runtime::job::JobHandle;

use crate::connectors::spool;

/// Cancels one query, before it starts or while it runs. Cheap to clone; cancelling twice is cancelling once.
#[derive(Clone, Default)]
pub struct CancellationToken {
    state: Arc<TokenState>,
}

#[derive(Default)]
struct TokenState {
    cancelled: AtomicBool,
    jobs: Mutex<Vec<Weak<JobHandle>>>,
    wakers: Mutex<Vec<Waker>>,
}

impl CancellationToken {
    /// Asks the query to end; its reader gets [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn cancel(&self) {
        self.state.cancelled.store(true, Ordering::SeqCst);
        let jobs: Vec<_> = self.state.jobs.lock().iter().filter_map(Weak::upgrade).collect();
        jobs.iter().for_each(|job| job.cancel());
        let wakers = std::mem::take(&mut *self.state.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether the query was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state.cancelled.load(Ordering::SeqCst)
    }

    /// Waits for ever, or until the query is cancelled.
    pub(crate) async fn cancelled(&self) {
        poll_fn(|cx| {
            if self.is_cancelled() {
                return Poll::Ready(());
            }
            self.state.wakers.lock().push(cx.waker().clone());
            // It may have been cancelled between the two.
            if self.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Ties the token to a job of the query's.
    pub(crate) fn attach(&self, job: &Arc<JobHandle>) {
        self.state.jobs.lock().push(Arc::downgrade(job));
        if self.is_cancelled() {
            job.cancel();
        }
    }
}

impl std::fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancellationToken").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// The tokens of a session's running statements, so that all can be cancelled at once.
#[derive(Default)]
pub(crate) struct RunningStatements {
    tokens: Mutex<Vec<Weak<TokenState>>>,
}

impl RunningStatements {
    /// A token for a new statement.
    pub(crate) fn token(&self) -> CancellationToken {
        let token = CancellationToken::default();
        let mut tokens = self.tokens.lock();
        tokens.retain(|weak| weak.strong_count() > 0);
        tokens.push(Arc::downgrade(&token.state));
        token
    }

    /// Cancels every statement that has not ended.
    pub(crate) fn cancel_all(&self) {
        spool::interrupt();
        let tokens: Vec<_> = self.tokens.lock().iter().filter_map(Weak::upgrade).collect();
        tokens.into_iter().for_each(|state| CancellationToken { state }.cancel());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_running_statements_are_cancelled_and_ended_ones_forgotten() {
        let running = RunningStatements::default();
        let (first, second) = (running.token(), running.token());
        drop(second);
        running.cancel_all();
        assert!(first.is_cancelled());
        assert!(!running.token().is_cancelled());
        assert_eq!(running.tokens.lock().len(), 2);
    }
}
