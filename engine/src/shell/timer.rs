//! The time a statement took, by the wall clock and by the processor.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Seconds of one clock tick in `/proc`, which Linux fixes for all programs.
const TICK_SECONDS: f64 = 0.01;

/// Measures from its start.
#[derive(Debug, Clone, Copy)]
pub struct Timer {
    start: Instant,
    processor: Duration,
    system_seconds: f64,
}

/// What a timer measured, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunTime {
    real: f64,
    user: f64,
    system: f64,
}

impl Timer {
    /// Starts.
    pub fn start() -> Self {
        Timer {
            start: Instant::now(),
            processor: processor_time(),
            system_seconds: system_seconds(),
        }
    }

    /// The time since the start.
    pub fn stop(self) -> RunTime {
        let total = processor_time().saturating_sub(self.processor).as_secs_f64();
        // The kernel tells the share of system time in whole ticks, the total exactly.
        let system = (system_seconds() - self.system_seconds).clamp(0.0, total);
        RunTime { real: self.start.elapsed().as_secs_f64(), user: total - system, system }
    }
}

impl fmt::Display for RunTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Run Time (s): real {:.3} user {:.3} sys {:.3}",
            self.real, self.user, self.system
        )
    }
}

/// Processor time of all threads of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time that the kernel spent for this process.
fn system_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks_of_stat(&stat).unwrap_or(0) as f64 * TICK_SECONDS
}

/// The 15th field; the second, the program's name in parentheses, may hold anything.
fn ticks_of_stat(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(12)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_usual_form() {
        let time = RunTime { real: 1.2345, user: 0.5, system: 0.0 };
        assert_eq!(time.to_string(), "Run Time (s): real 1.234 user 0.500 sys 0.000");
    }

    #[test]
    fn system_ticks_are_the_fifteenth_field() {
        let stat = "1 (a b) c) S 2 3 4 5 6 7 8 9 10 11 14 15 0 0 20";
        assert_eq!(ticks_of_stat(stat), Some(15));
        assert!(ticks_of_stat(&fs::read_to_string("/proc/self/stat").unwrap()).is_some());
    }
}
