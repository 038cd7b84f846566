//! Wakers that are due at times.
//!
//! Invariant: a waker is woken once, and never before its time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::task::Waker;

/// See the module.
#[derive(Default)]
pub(super) struct Timers {
    due: BinaryHeap<Reverse<Timer>>,
    /// Tells timers of one time apart, in the order they came.
    next: u64,
}

impl Timers {
    /// Adds one; true if it is now the first.
    pub(super) fn add(&mut self, at_ns: u64, waker: Waker) -> bool {
        let timer = Timer { at_ns, number: self.next, waker };
        let first = self.first().is_none_or(|first| at_ns < first);
        self.next += 1;
        self.due.push(Reverse(timer));
        first
    }

    /// When the next one is due.
    pub(super) fn first(&self) -> Option<u64> {
        self.due.peek().map(|Reverse(timer)| timer.at_ns)
    }

    /// Takes out those that are due.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while self.first().is_some_and(|at| at <= now_ns) {
            wakers.extend(self.due.pop().map(|Reverse(timer)| timer.waker));
        }
        wakers
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} timers", self.due.len())
    }
}

struct Timer {
    at_ns: u64,
    number: u64,
    waker: Waker,
}

impl Timer {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.number)
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_due_in_the_order_of_their_times() {
        let mut timers = Timers::default();
        assert!(timers.add(20, Waker::noop().clone()));
        assert!(timers.add(10, Waker::noop().clone()));
        assert!(!timers.add(30, Waker::noop().clone()));
        assert_eq!((timers.first(), timers.take_due(9).len()), (Some(10), 0));
        assert_eq!((timers.take_due(20).len(), timers.first()), (2, Some(30)));
    }
}
