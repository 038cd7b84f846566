//! Keys that nothing touches: what `state_ttl` lets operators forget.
//!
//! An operator tells which of its keys it touches, and asks from time to time which ones were not for long enough. Keys are
//! numbers from 0 on. Times are those of the clock. Invariant: a key is kept for its time at least, and a quarter longer
//! at most.

use super::OperatorContext;
use crate::error::Result;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::rows::{RowId, take_array};

/// How often keys are looked through within the time that they are kept.
const SWEEPS: i64 = 4;

/// When keys were touched last; in microseconds.
#[derive(Debug)]
pub(super) struct Untouched {
    length_us: i64,
    now_us: i64,
    /// When keys are looked through next.
    sweep_us: i64,
    /// By key.
    times: Vec<i64>,
    charge: Reservation,
}

impl Untouched {
    /// No keys yet; none if the job keeps keys for ever.
    pub(super) fn of(job: &JobContext, reservation: &Reservation) -> Option<Self> {
        let length_us = i64::try_from(job.options.state_ttl_us).unwrap_or(i64::MAX);
        (length_us > 0).then(|| Untouched {
            length_us,
            now_us: 0,
            sweep_us: i64::MIN,
            times: Vec::new(),
            charge: reservation.share(),
        })
    }

    /// Looks at the clock. Tells whether keys are to be looked through, and asks to be woken for the next time.
    pub(super) fn is_due(&mut self, cx: &OperatorContext<'_>) -> bool {
        self.now_us = cx.job.env.now_us();
        if self.now_us < self.sweep_us {
            return false;
        }
        let pause_us = (self.length_us / SWEEPS).max(1);
        self.sweep_us = self.now_us.saturating_add(pause_us);
        let pause_ns = pause_us.unsigned_abs().saturating_mul(1_000);
        cx.job.env.wake_at(cx.job.env.monotonic_ns().saturating_add(pause_ns), cx.waker.clone());
        !self.times.is_empty()
    }

    /// Keys were touched, as the clock was looked at last.
    pub(super) fn touch(&mut self, keys: impl Iterator<Item = RowId>) -> Result<()> {
        for key in keys {
            let key = key as usize;
            if key >= self.times.len() {
                self.times.resize(key + 1, self.now_us);
            }
            self.times[key] = self.now_us;
        }
        self.charge.try_resize(self.times.capacity() * size_of::<i64>())
    }

    /// Whether a key was untouched for long enough.
    pub(super) fn is_old(&self, key: RowId) -> bool {
        let oldest = self.now_us.saturating_sub(self.length_us);
        self.times.get(key as usize).is_some_and(|&time| time < oldest)
    }

    /// Keys have other numbers: `new_key` gives those of keys that are still there.
    pub(super) fn renumber(&mut self, new_key: impl Fn(RowId) -> Option<RowId>) {
        let mut times: Vec<i64> = Vec::new();
        for (key, time) in (0..).zip(std::mem::take(&mut self.times)) {
            let Some(key) = new_key(key) else { continue };
            let at = key as usize;
            times.resize(times.len().max(at + 1), self.now_us);
            times[at] = time;
        }
        self.times = times;
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.now_us.to_le_bytes());
        out.extend_from_slice(&(self.times.len() as u64).to_le_bytes());
        self.times.iter().for_each(|time| out.extend_from_slice(&time.to_le_bytes()));
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.times.clear();
        self.now_us = i64::from_le_bytes(take_array(bytes)?);
        for _ in 0..u64::from_le_bytes(take_array(bytes)?) {
            self.times.push(i64::from_le_bytes(take_array(bytes)?));
        }
        self.charge.try_resize(self.times.capacity() * size_of::<i64>())
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.times = Vec::new();
        self.charge.shrink(usize::MAX);
    }
}
