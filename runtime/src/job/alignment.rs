//! Alignment of sources: one whose event time is far ahead of the others of its group waits for them.
//!
//! Each subtask of a scan says how far it is. Only those hold others back that could go on themselves: not one that is
//! idle or has ended, nor one that nobody has stepped for a while, which waits for something else itself. So no two scans
//! wait for each other, and the one that is furthest behind never waits.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Intervals after which a scan that is not stepped holds nobody back.
const STALE_INTERVALS: u64 = 3;

/// The groups of a job, by name.
#[derive(Debug, Default)]
pub struct Alignments(Mutex<HashMap<String, Arc<AlignmentGroup>>>);

impl Alignments {
    /// The group of a name.
    pub fn group(&self, name: &str) -> Arc<AlignmentGroup> {
        self.0.lock().entry(name.to_string()).or_default().clone()
    }
}

/// The scans that wait for each other.
#[derive(Debug, Default)]
pub struct AlignmentGroup(Mutex<Vec<Member>>);

/// How far a scan is.
#[derive(Debug, Clone, Copy)]
struct Member {
    standing: Standing,
    /// When it was stepped last, by the clock that never goes back.
    stepped_ns: u64,
}

/// What a scan says of its event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Rows come, and event time is here; `i64::MIN` before it is anywhere.
    At(i64),
    /// Nothing comes for the time being, or ever.
    Aside,
}

impl AlignmentGroup {
    /// A place for another scan, which is not begun.
    pub fn join(&self, now_ns: u64) -> usize {
        let mut members = self.0.lock();
        members.push(Member { standing: Standing::At(i64::MIN), stepped_ns: now_ns });
        members.len() - 1
    }

    /// Takes note of where the scan of a place stands. Whether it is further than `drift_us` ahead of another one, and
    /// has to wait.
    pub fn must_wait(
        &self,
        place: usize,
        standing: Standing,
        drift_us: i64,
        (now_ns, interval_ns): (u64, u64),
    ) -> bool {
        let mut members = self.0.lock();
        members[place] = Member { standing, stepped_ns: now_ns };
        let Standing::At(own) = standing else { return false };
        let fresh_ns = now_ns.saturating_sub(interval_ns.saturating_mul(STALE_INTERVALS));
        members.iter().enumerate().any(|(at, member)| match member.standing {
            Standing::At(other) if at != place && member.stepped_ns >= fresh_ns => {
                own > other.saturating_add(drift_us)
            }
            Standing::At(_) | Standing::Aside => false,
        })
    }

    /// Takes note that a scan holds nobody back any more.
    pub fn leave(&self, place: usize) {
        self.0.lock()[place].standing = Standing::Aside;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_ahead_waits_unless_the_other_cannot_go_on() {
        let group = Alignments::default().group("g");
        let (a, b) = (group.join(0), group.join(0));
        let at = |place, us, now| group.must_wait(place, Standing::At(us), 10, (now, 100));
        assert!(!at(a, i64::MIN, 1));
        assert!(at(b, 5, 1), "the other has not begun");
        assert!(!at(a, 5, 2));
        assert!(!at(b, 15, 3));
        assert!(at(b, 16, 4));
        assert!(!at(a, 6, 5));
        assert!(!at(b, 16, 6));
        // Nobody has stepped the other for a while.
        assert!(at(b, 1_000, 300));
        assert!(!at(b, 1_000, 400));
        assert!(!at(a, 7, 401) && at(b, 1_000, 402));
        group.leave(a);
        assert!(!at(b, 1_000, 403));
        assert!(!group.must_wait(a, Standing::Aside, 10, (404, 100)));
    }
}
