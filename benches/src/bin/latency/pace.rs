//! An open loop: when each line is due, whatever became of those before it.
//!
//! A sender looks at the clock once a tick and sends all that has become due, as an operating system's timers would not
//! wake it for each line. Latency counts from the time that a line was due, so that the ticks are part of it.

/// Nanoseconds between two looks at the clock.
pub const TICK_NS: u64 = 100_000;

/// The schedule of one of several senders that take turns.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Lines a second of all senders; 0 is as many as they can.
    pub events_per_second: u64,
    /// Which sender, from 0.
    pub sender: u64,
    /// Of how many.
    pub senders: u64,
    /// When the last line is due, in nanoseconds from the start.
    pub length_ns: u64,
}

impl Pace {
    /// When this sender's line `n` is due, in nanoseconds from the start.
    pub fn due_ns(&self, n: u64) -> u64 {
        let line = u128::from(n) * u128::from(self.senders) + u128::from(self.sender);
        (line * 1_000_000_000 / u128::from(self.events_per_second.max(1))) as u64
    }

    /// Lines of this sender that are due before a time.
    pub fn due_before(&self, now_ns: u64) -> u64 {
        let now_ns = now_ns.min(self.length_ns);
        let lines =
            (u128::from(now_ns) * u128::from(self.events_per_second)).div_ceil(1_000_000_000);
        (lines as u64 + self.senders - 1 - self.sender) / self.senders
    }

    /// Whether lines are sent as fast as possible.
    pub fn is_unbounded(&self) -> bool {
        self.events_per_second == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_share_the_schedule() {
        let pace =
            |sender| Pace { events_per_second: 1_000, sender, senders: 2, length_ns: 10_500_000 };
        assert_eq!((pace(0).due_ns(2), pace(1).due_ns(2)), (4_000_000, 5_000_000));
        for now in [0, 1, 999_999, 1_000_000, 1_000_001, 4_000_001, 1 << 40] {
            let due: u64 = (0..2).map(|s| pace(s).due_before(now)).sum();
            assert_eq!(due, (0..11).filter(|n| n * 1_000_000 < now).count() as u64, "{now}");
            for sender in 0..2 {
                let n = pace(sender).due_before(now);
                assert!(n == 0 || pace(sender).due_ns(n - 1) < now);
            }
        }
    }
}
