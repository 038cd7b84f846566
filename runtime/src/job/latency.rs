//! Steering of buffer timeouts towards a latency target.
//!
//! A job with a target has one timeout for all tasks whose operators have none of their own. It begins at the target's
//! share of one exchange: rows wait in one buffer for each exchange on their way. After that the sinks' batches decide,
//! once a window: too many that came after the target halve the timeout, and a window of batches well before it raises it
//! by a quarter. Invariant: the timeout is at most the job's ceiling, and never below 0. Nothing is lowered further when
//! the buffers cannot be the reason, because smaller buffers cost the CPU that a busy job lacks. Batches without a time of
//! arrival, such as the results of closed windows, tell nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{BufferTimeout, JobOptions};
use crate::graph::{EdgeRole, JobGraph, VertexId};

/// The greatest timeout of steered buffers, in microseconds, where the job names none: the default of the setting.
const CEILING_US: u64 = 100_000;

/// A timeout below this, in microseconds, is worth no timer: buffers leave at the end of each step.
const FLOOR_US: u64 = 100;

/// How long a window is, in targets, and at least how many microseconds.
const WINDOW_TARGETS: u64 = 4;
const WINDOW_US_MIN: u64 = 50_000;

/// One batch in so many may come after the target.
const TOLERATED: u64 = 100;

/// The timeout that a job's tasks share, and what its sinks have seen.
#[derive(Debug)]
pub struct LatencySteering {
    target_us: u64,
    ceiling_us: u64,
    /// Exchanges on the longest way from a scan to a sink, at least 1.
    exchanges: u64,
    timeout_us: AtomicU64,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    began_us: u64,
    batches: u64,
    late: u64,
    worst_us: u64,
}

impl LatencySteering {
    /// The steering of a job that has a target and buffers that may wait; `None` otherwise.
    pub fn of_job(graph: &JobGraph, options: &JobOptions) -> Option<Self> {
        let ceiling_us = match options.buffer_timeout {
            BufferTimeout::AtOnce => return None,
            BufferTimeout::Micros(micros) => micros,
            BufferTimeout::Never => CEILING_US,
        };
        let target_us = options.latency_target_us;
        (options.continuous && target_us > 0).then(|| {
            let exchanges = longest_way(graph).max(1);
            let first_us = (target_us / (exchanges + 1)).min(ceiling_us);
            LatencySteering {
                target_us,
                ceiling_us,
                exchanges,
                timeout_us: AtomicU64::new(floored(first_us)),
                window: Mutex::default(),
            }
        })
    }

    /// How long an incomplete buffer may wait now, in microseconds; 0 is until the end of the step.
    pub fn timeout_us(&self) -> u64 {
        self.timeout_us.load(Ordering::Relaxed)
    }

    /// A sink took a batch whose oldest row came at `arrived_us`; both are microseconds of one clock.
    pub fn saw(&self, arrived_us: i64, now_us: i64) {
        let (Ok(arrived), Ok(now)) = (u64::try_from(arrived_us), u64::try_from(now_us)) else {
            return;
        };
        if arrived == 0 {
            return;
        }
        let latency_us = now.saturating_sub(arrived);
        let mut window = self.window.lock();
        if window.batches == 0 {
            window.began_us = now;
        }
        window.batches += 1;
        window.late += u64::from(latency_us > self.target_us);
        window.worst_us = window.worst_us.max(latency_us);
        let length_us = (self.target_us * WINDOW_TARGETS).max(WINDOW_US_MIN);
        if now.saturating_sub(window.began_us) >= length_us {
            let seen = std::mem::take(&mut *window);
            self.timeout_us.store(self.next_timeout_us(&seen), Ordering::Relaxed);
        }
    }

    fn next_timeout_us(&self, seen: &Window) -> u64 {
        let timeout_us = self.timeout_us();
        // What waits in buffers at most; the rest of the latency is work and queues.
        let waits_us = timeout_us.saturating_mul(self.exchanges);
        let late = seen.late.saturating_mul(TOLERATED) > seen.batches;
        if late {
            let matters = waits_us.saturating_mul(8) > self.target_us;
            return if matters { floored(timeout_us / 2) } else { timeout_us };
        }
        if seen.worst_us.saturating_mul(4) > self.target_us.saturating_mul(3) {
            return timeout_us;
        }
        let raised = timeout_us + (timeout_us / 4).max(FLOOR_US);
        raised.min(self.ceiling_us)
    }
}

fn floored(timeout_us: u64) -> u64 {
    if timeout_us < FLOOR_US { 0 } else { timeout_us }
}

/// Exchanges on the longest way through a graph; the way back of an iteration does not count.
fn longest_way(graph: &JobGraph) -> u64 {
    let mut known = HashMap::new();
    let vertices = 0..graph.vertices.len() as u32;
    vertices.map(|vertex| way_to(graph, VertexId(vertex), &mut known)).max().unwrap_or(0)
}

fn way_to(graph: &JobGraph, vertex: VertexId, known: &mut HashMap<VertexId, u64>) -> u64 {
    if let Some(way) = known.get(&vertex) {
        return *way;
    }
    let inputs = graph.edges.iter().filter(|e| e.target == vertex && e.role != EdgeRole::Feedback);
    let way = inputs.map(|edge| way_to(graph, edge.source, known) + 1).max().unwrap_or(0);
    known.insert(vertex, way);
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET_US: u64 = 10_000;

    fn steering(buffer_timeout: BufferTimeout) -> Option<LatencySteering> {
        let options = JobOptions {
            buffer_timeout,
            continuous: true,
            latency_target_us: TARGET_US,
            ..JobOptions::default()
        };
        LatencySteering::of_job(&JobGraph::default(), &options)
    }

    /// Windows of batches that all took `latency_us`, one batch a millisecond.
    fn feed(steering: &LatencySteering, start_us: &mut i64, windows: u64, latency_us: i64) {
        let batches = windows * (TARGET_US * WINDOW_TARGETS).max(WINDOW_US_MIN) / 1_000 + windows;
        for _ in 0..batches {
            *start_us += 1_000;
            steering.saw(*start_us, *start_us + latency_us);
        }
    }

    #[test]
    fn a_job_without_waiting_buffers_or_target_is_not_steered() {
        assert!(steering(BufferTimeout::AtOnce).is_none());
        let options = JobOptions { continuous: true, ..JobOptions::default() };
        assert!(LatencySteering::of_job(&JobGraph::default(), &options).is_none());
        assert_eq!(steering(BufferTimeout::Never).map(|s| s.timeout_us()), Some(TARGET_US / 2));
        assert_eq!(steering(BufferTimeout::Micros(700)).map(|s| s.timeout_us()), Some(700));
    }

    #[test]
    fn late_batches_lower_the_timeout_and_early_ones_raise_it_to_the_ceiling() {
        let steering = steering(BufferTimeout::Micros(8_000)).unwrap();
        let mut now = 1;
        feed(&steering, &mut now, 1, 20_000);
        assert_eq!(steering.timeout_us(), 2_500);
        feed(&steering, &mut now, 1, 9_000);
        assert_eq!(steering.timeout_us(), 2_500, "near the target nothing moves");
        feed(&steering, &mut now, 30, 1_000);
        assert_eq!(steering.timeout_us(), 8_000);
        feed(&steering, &mut now, 30, 20_000);
        let least = steering.timeout_us();
        assert!(
            least * 8 <= TARGET_US && least > 0,
            "buffers are not the reason any more: {least}"
        );
    }

    #[test]
    fn batches_of_unknown_age_tell_nothing() {
        let steering = steering(BufferTimeout::Never).unwrap();
        (1..1_000).for_each(|i| steering.saw(0, i * 1_000));
        assert_eq!(steering.timeout_us(), TARGET_US / 2);
    }
}
