//! How fast a generator may go: a row is due when the clock says so.
//!
//! Rows are numbered over all splits, so that a rate is the table's and does not depend on how it is split.

use std::sync::OnceLock;

use thalweg_runtime::env::Environment;
use thalweg_runtime::operators::OperatorContext;

/// Nanoseconds of a second.
const SECOND_NS: u128 = 1_000_000_000;
/// Rows are handed on in groups that come no closer together than this: a wake-up costs more than a row.
const TICK_NS: u64 = 10_000_000;

/// When the rows of a table are due. All its splits share one.
#[derive(Debug)]
pub struct Pace {
    /// `None`: as fast as they can be made.
    rows_per_second: Option<u64>,
    /// When row 0 is due, on the clock that never goes back.
    start_ns: OnceLock<u64>,
}

impl Pace {
    /// So many rows a second; `None` or 0 is as fast as possible.
    pub fn new(rows_per_second: Option<u64>) -> Self {
        Pace {
            rows_per_second: rows_per_second.filter(|rate| *rate > 0),
            start_ns: OnceLock::new(),
        }
    }

    /// Row `first` is due now. Only the first call counts.
    pub fn start(&self, first: u64, env: &dyn Environment) {
        if let Some(rate) = self.rows_per_second {
            self.start_ns.get_or_init(|| env.monotonic_ns().saturating_sub(after_ns(first, rate)));
        }
    }

    /// Rows below this number are due.
    pub fn due(&self, env: &dyn Environment) -> u64 {
        let (Some(rate), Some(start)) = (self.rows_per_second, self.start_ns.get()) else {
            return u64::MAX;
        };
        let elapsed = u128::from(env.monotonic_ns().saturating_sub(*start));
        u64::try_from(elapsed * u128::from(rate) / SECOND_NS).unwrap_or(u64::MAX - 1) + 1
    }

    /// Has the task woken when row `next` is due.
    pub fn wake(&self, next: u64, cx: &OperatorContext<'_>) {
        let env = &cx.job.env;
        let (rate, start) = (self.rows_per_second.unwrap_or(u64::MAX), self.start_ns.get());
        let due = start.copied().unwrap_or_default().saturating_add(after_ns(next, rate));
        env.wake_at(due.max(env.monotonic_ns().saturating_add(TICK_NS)), cx.waker.clone());
    }
}

/// How long after row 0 a row is due, rounded up so that it is due when that time has come.
fn after_ns(row: u64, rate: u64) -> u64 {
    let ns = (u128::from(row) * SECOND_NS).div_ceil(u128::from(rate));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use thalweg_runtime::env::Sim;

    use super::*;

    #[test]
    fn rows_are_due_by_the_clock() {
        let sim = Sim::new(1);
        let pace = Pace::new(Some(1000));
        pace.start(0, &*sim);
        assert_eq!(pace.due(&*sim), 1);
        sim.advance_us(999);
        assert_eq!(pace.due(&*sim), 1);
        sim.advance_us(1);
        assert_eq!(pace.due(&*sim), 2);
        sim.advance_us(1_000_000);
        assert_eq!(pace.due(&*sim), 1002);
        assert_eq!(after_ns(1, 3), 333_333_334);
    }

    #[test]
    fn a_generator_that_goes_on_starts_with_its_next_row() {
        let sim = Sim::new(1);
        sim.advance_us(10_000_000);
        let pace = Pace::new(Some(1000));
        pace.start(500, &*sim);
        assert_eq!(pace.due(&*sim), 501);
    }

    #[test]
    fn without_a_rate_every_row_is_due() {
        let sim = Sim::new(1);
        let pace = Pace::new(Some(0));
        pace.start(0, &*sim);
        assert_eq!(pace.due(&*sim), u64::MAX);
    }
}
