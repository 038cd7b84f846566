//! CPU time of this process.

use rustix::time::{ClockId, clock_gettime};

/// Seconds that all threads of the process have run, those that have ended included.
pub fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
