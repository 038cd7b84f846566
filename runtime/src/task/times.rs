//! How the tasks of a vertex spend their time, for those who look for what holds a job back.
//!
//! A task is idle while it waits for input, for I/O or for another task's work, and blocked while its consumers have no
//! room for its output; the rest of the time it works or waits for a thread. Invariant: only the task itself writes.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What a task does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Doing {
    /// It runs, or would if it had a thread.
    Working = 0,
    /// It waits for something to do.
    Idle = 1,
    /// It waits for room at a consumer.
    Blocked = 2,
    /// It has ended.
    Nothing = 3,
}

/// The time of one task, in nanoseconds of the environment's clock.
#[derive(Debug, Default)]
pub struct TaskTimes {
    doing: AtomicU8,
    since_ns: AtomicU64,
    begun_ns: AtomicU64,
    idle_ns: AtomicU64,
    blocked_ns: AtomicU64,
}

/// Time spent, in nanoseconds, summed over tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeSpent {
    /// From the tasks' first runs to their ends, or to now.
    pub all_ns: u64,
    /// Waiting for something to do.
    pub idle_ns: u64,
    /// Waiting for room at consumers.
    pub blocked_ns: u64,
}

impl TimeSpent {
    /// The time of both.
    pub fn and(self, other: TimeSpent) -> TimeSpent {
        TimeSpent {
            all_ns: self.all_ns + other.all_ns,
            idle_ns: self.idle_ns + other.idle_ns,
            blocked_ns: self.blocked_ns + other.blocked_ns,
        }
    }

    /// What was spent since an earlier look.
    pub fn since(self, before: TimeSpent) -> TimeSpent {
        TimeSpent {
            all_ns: self.all_ns.saturating_sub(before.all_ns),
            idle_ns: self.idle_ns.saturating_sub(before.idle_ns),
            blocked_ns: self.blocked_ns.saturating_sub(before.blocked_ns),
        }
    }
}

impl TaskTimes {
    /// The task goes over to something else.
    pub(super) fn turn(&self, doing: Doing, now_ns: u64) {
        let since = self.since_ns.swap(now_ns, Ordering::Relaxed);
        if since == 0 {
            self.begun_ns.store(now_ns.max(1), Ordering::Relaxed);
        }
        let before = self.doing.swap(doing as u8, Ordering::Relaxed);
        let spent = if since == 0 { 0 } else { now_ns.saturating_sub(since) };
        if let Some(counter) = self.counter(before) {
            counter.fetch_add(spent, Ordering::Relaxed);
        }
    }

    fn counter(&self, doing: u8) -> Option<&AtomicU64> {
        [(Doing::Idle, &self.idle_ns), (Doing::Blocked, &self.blocked_ns)]
            .into_iter()
            .find_map(|(of, counter)| (of as u8 == doing).then_some(counter))
    }

    /// What was spent so far; what the task does at this moment counts up to now.
    pub fn spent(&self, now_ns: u64) -> TimeSpent {
        let begun = self.begun_ns.load(Ordering::Relaxed);
        if begun == 0 {
            return TimeSpent::default();
        }
        let (doing, since) =
            (self.doing.load(Ordering::Relaxed), self.since_ns.load(Ordering::Relaxed));
        let ended = doing == Doing::Nothing as u8;
        let until = if ended { since } else { now_ns };
        let open = |of: Doing| if doing == of as u8 { now_ns.saturating_sub(since) } else { 0 };
        TimeSpent {
            all_ns: until.saturating_sub(begun),
            idle_ns: self.idle_ns.load(Ordering::Relaxed) + open(Doing::Idle),
            blocked_ns: self.blocked_ns.load(Ordering::Relaxed) + open(Doing::Blocked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_what_the_task_was_doing() {
        let times = TaskTimes::default();
        assert_eq!(times.spent(50), TimeSpent::default());
        times.turn(Doing::Working, 10);
        times.turn(Doing::Blocked, 30);
        assert_eq!(times.spent(35), TimeSpent { all_ns: 25, idle_ns: 0, blocked_ns: 5 });
        times.turn(Doing::Working, 40);
        times.turn(Doing::Idle, 45);
        times.turn(Doing::Working, 65);
        times.turn(Doing::Nothing, 70);
        assert_eq!(times.spent(1_000), TimeSpent { all_ns: 60, idle_ns: 20, blocked_ns: 10 });
    }
}
