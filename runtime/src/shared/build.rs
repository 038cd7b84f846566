//! A build side that several subtasks fill and several probe.
//!
//! It goes through three states. *Gathering*: each build subtask contributes what it kept, once. *Filling*: whoever
//! contributed last has assembled the contributions into one thing, and all build subtasks that are still there take
//! pieces of the remaining work. *Ready*: the last piece is done, and probes may read. After that the probes count
//! themselves out, since what the build side keeps for the end may leave only when nothing can match any more.
//! Invariant: a probe never sees anything before `Ready`, and `Ready` is never taken back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::Event;
use crate::error::{Error, Result};

/// Pieces of work that threads take, each once.
#[derive(Debug, Default)]
pub struct WorkQueue {
    pieces: usize,
    taken: AtomicUsize,
    done: AtomicUsize,
}

impl WorkQueue {
    /// Pieces `0 .. pieces`.
    pub fn new(pieces: usize) -> Self {
        WorkQueue { pieces, ..WorkQueue::default() }
    }

    /// A piece that nobody has taken, if there is one.
    pub fn take(&self) -> Option<usize> {
        let piece = self.taken.fetch_add(1, Ordering::Relaxed);
        (piece < self.pieces).then_some(piece)
    }

    /// Tells that a taken piece is done; true for the one that was done last. Whoever is told so sees what all
    /// others wrote.
    pub fn finish(&self) -> bool {
        self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.pieces
    }
}

/// How a probe subtask stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProbeState {
    /// It may still find matches.
    Running,
    /// It has seen its whole input.
    Ended,
    /// It was closed before the end of its input: matches may be missing.
    Abandoned,
}

struct Gathering<C> {
    /// One place for each build subtask.
    contributions: Vec<Option<C>>,
    assembled: bool,
}

/// A build side made of contributions `C` into a `T`.
pub struct SharedBuild<C, T> {
    gathering: Mutex<Gathering<C>>,
    /// There from the assembly until the last probe has ended and nobody keeps it.
    built: Mutex<Option<Arc<T>>>,
    /// Those who will want the built thing later, perhaps after the last probe.
    keepers: AtomicUsize,
    filling: Event,
    ready: Event,
    probes: Mutex<Vec<ProbeState>>,
    drained: Event,
}

impl<C, T> Default for SharedBuild<C, T> {
    fn default() -> Self {
        SharedBuild {
            gathering: Mutex::new(Gathering { contributions: Vec::new(), assembled: false }),
            built: Mutex::new(None),
            keepers: AtomicUsize::new(0),
            filling: Event::default(),
            ready: Event::default(),
            probes: Mutex::default(),
            drained: Event::default(),
        }
    }
}

impl<C, T> SharedBuild<C, T> {
    /// Takes what build subtask `subtask` of `parallelism` kept. The last one gets all contributions, in the order
    /// of the subtasks, and must go on with [`Self::start_filling`].
    ///
    /// # Errors
    /// `Internal` for a second contribution.
    pub fn contribute(
        &self,
        subtask: usize,
        parallelism: usize,
        contribution: C,
    ) -> Result<Option<Vec<C>>> {
        let mut gathering = self.gathering.lock();
        if gathering.contributions.len() < parallelism {
            gathering.contributions.resize_with(parallelism, || None);
        }
        let place = &mut gathering.contributions[subtask];
        if place.is_some() {
            return Err(Error::Internal("a build subtask contributed twice".into()));
        }
        *place = Some(contribution);
        if gathering.assembled || gathering.contributions.iter().any(Option::is_none) {
            return Ok(None);
        }
        gathering.assembled = true;
        Ok(Some(std::mem::take(&mut gathering.contributions).into_iter().flatten().collect()))
    }

    /// Gives the assembled thing to all build subtasks.
    pub fn start_filling(&self, built: T) -> Arc<T> {
        let built = Arc::new(built);
        *self.built.lock() = Some(built.clone());
        self.filling.set();
        built
    }

    /// The assembled thing, for build subtasks, or nothing if the probes are done with it already; `waker` will be
    /// woken if it is not assembled yet.
    pub fn filling_or_wake(&self, waker: &Waker) -> Poll<Option<Arc<T>>> {
        if self.filling.is_set_or_wake(waker) {
            Poll::Ready(self.built.lock().clone())
        } else {
            Poll::Pending
        }
    }

    /// Lets the probes in.
    pub fn set_ready(&self) {
        self.ready.set();
    }

    /// The complete thing, for probes; none yet means that `waker` will be woken.
    pub fn ready_or_wake(&self, waker: &Waker) -> Option<Arc<T>> {
        if self.ready.is_set_or_wake(waker) { self.built.lock().clone() } else { None }
    }

    /// Tells that a probe subtask starts, or starts again after a restore.
    pub fn probe_started(&self, subtask: usize, parallelism: usize) {
        self.set_probe(subtask, parallelism, ProbeState::Running);
    }

    /// Tells that a probe subtask has seen its whole input.
    pub fn probe_ended(&self, subtask: usize, parallelism: usize) {
        self.set_probe(subtask, parallelism, ProbeState::Ended);
    }

    /// Tells that a probe subtask was closed; without effect after its end.
    pub fn probe_closed(&self, subtask: usize, parallelism: usize) {
        self.set_probe(subtask, parallelism, ProbeState::Abandoned);
    }

    fn set_probe(&self, subtask: usize, parallelism: usize, state: ProbeState) {
        let mut probes = self.probes.lock();
        if probes.len() < parallelism {
            probes.resize(parallelism, ProbeState::Running);
        }
        if probes[subtask] != ProbeState::Ended {
            probes[subtask] = state;
        }
        let drained = probes.iter().all(|&probe| probe != ProbeState::Running);
        let ended = probes.iter().all(|&probe| probe == ProbeState::Ended);
        drop(probes);
        if drained {
            self.drained.set();
        }
        if ended {
            self.free_unless_kept();
        }
    }

    /// Whoever still emits build rows has its own handle.
    fn free_unless_kept(&self) {
        if self.keepers.load(Ordering::SeqCst) == 0 {
            *self.built.lock() = None;
        }
    }

    /// Keeps the built thing beyond the last probe's end, until [`Self::let_go`]. An operator behind the probes may see
    /// their last rows after they have ended: operators between hold batches back.
    pub fn keep(&self) {
        self.keepers.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends what [`Self::keep`] began.
    pub fn let_go(&self) {
        self.keepers.fetch_sub(1, Ordering::SeqCst);
        let probes = self.probes.lock();
        let ended = !probes.is_empty() && probes.iter().all(|&probe| probe == ProbeState::Ended);
        drop(probes);
        if ended {
            self.free_unless_kept();
        }
    }

    /// Whether no probe subtask will find further matches; `waker` will be woken if some may.
    pub fn drained_or_wake(&self, waker: &Waker) -> bool {
        // The states count: a probe that was restored runs again although it had been closed.
        self.drained.is_set_or_wake(waker)
            && self.probes.lock().iter().all(|&probe| probe != ProbeState::Running)
    }

    /// Whether all probe subtasks have seen their whole input. If one has not although all are done, nothing can be
    /// said about rows without a match; its consumers wanted nothing more, so that nothing needs to be.
    pub fn probes_saw_everything(&self) -> bool {
        self.probes.lock().iter().all(|&probe| probe == ProbeState::Ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_outlives_the_probes() {
        let build = SharedBuild::<char, String>::default();
        build.start_filling("built".into());
        build.set_ready();
        build.keep();
        build.probe_started(0, 1);
        build.probe_ended(0, 1);
        assert!(build.ready_or_wake(Waker::noop()).is_some());
        build.let_go();
        assert!(build.ready_or_wake(Waker::noop()).is_none());
    }

    #[test]
    fn the_last_contributor_gets_all_in_order() {
        let build = SharedBuild::<char, String>::default();
        assert!(build.contribute(2, 3, 'c').unwrap().is_none());
        assert!(build.contribute(0, 3, 'a').unwrap().is_none());
        assert!(build.contribute(0, 3, 'a').is_err());
        assert!(build.filling_or_wake(Waker::noop()).is_pending());
        let all = build.contribute(1, 3, 'b').unwrap().unwrap();
        assert_eq!(*build.start_filling(all.into_iter().collect()), "abc");
        assert!(build.ready_or_wake(Waker::noop()).is_none());
        build.set_ready();
        assert_eq!(*build.ready_or_wake(Waker::noop()).unwrap(), "abc");
    }

    #[test]
    fn drained_when_every_probe_is_done() {
        let build = SharedBuild::<(), ()>::default();
        build.probe_started(0, 2);
        build.probe_ended(0, 2);
        build.probe_closed(0, 2);
        assert!(!build.drained_or_wake(Waker::noop()));
        build.probe_closed(1, 2);
        assert!(build.drained_or_wake(Waker::noop()));
        assert!(!build.probes_saw_everything());
    }

    #[test]
    fn pieces_are_taken_once() {
        let queue = WorkQueue::new(2);
        assert_eq!((queue.take(), queue.take(), queue.take()), (Some(0), Some(1), None));
        assert!(!queue.finish());
        assert!(queue.finish());
    }
}
