//! Lets the incomplete buffers of a task go when they have waited long enough.
//!
//! A look costs nothing while no buffer holds rows. A timer is set when a buffer gets its first row, and wakes the task:
//! it is the task itself that sends, so that an error in sending ends the task that wrote the rows.

use std::task::Waker;

use crate::error::Result;
use crate::exchange::partition::ResultPartition;
use crate::job::{BufferTimeout, JobContext};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    /// When the buffers are due, in nanoseconds of the environment's monotonic clock.
    due_ns: Option<u64>,
    /// When the last timer that was set wakes the task; it may be earlier than what is due now.
    timer_ns: u64,
}

impl Flusher {
    /// Called after each step: flushes what is due, and sets a timer for what is not.
    pub(super) fn look(
        &mut self,
        partitions: &mut [ResultPartition],
        job: &JobContext,
        waker: &Waker,
    ) -> Result<()> {
        let timeout_us = match job.options.buffer_timeout {
            BufferTimeout::Never => return Ok(()),
            BufferTimeout::AtOnce => 0,
            BufferTimeout::Micros(micros) => micros,
        };
        if !partitions.iter().any(ResultPartition::holds_rows) {
            self.due_ns = None;
            return Ok(());
        }
        if timeout_us == 0 {
            return partitions.iter_mut().try_for_each(ResultPartition::flush);
        }
        let now_ns = job.env.monotonic_ns();
        let wait_ns = timeout_us.saturating_mul(1_000);
        let due_ns = *self.due_ns.get_or_insert_with(|| now_ns.saturating_add(wait_ns));
        if now_ns >= due_ns {
            self.due_ns = None;
            return partitions.iter_mut().try_for_each(ResultPartition::flush);
        }
        if self.timer_ns <= now_ns {
            self.timer_ns = due_ns;
            job.env.wake_at(due_ns, waker.clone());
        }
        Ok(())
    }
}
