//! When a scan waits although there may be rows, and when it is silent though there are none: alignment with other scans,
//! and how long a split that is caught up still holds time back.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::job::{AlignmentGroup, Standing};
use crate::operators::OperatorContext;
use crate::source::{AlignmentSpec, EventTimeSpec, SplitEvent, SplitId};

/// A scan's place among those that it is aligned with.
pub(super) struct Aligned {
    spec: AlignmentSpec,
    group: Arc<AlignmentGroup>,
    place: usize,
    begun: bool,
}

impl Aligned {
    /// Joins the group, if the table is in one.
    pub(super) fn join(spec: &EventTimeSpec, cx: &OperatorContext<'_>) -> Option<Self> {
        let spec = spec.alignment.clone()?;
        let group = cx.job.alignments.group(&spec.group);
        let place = group.join(cx.job.env.monotonic_ns());
        Some(Aligned { spec, group, place, begun: false })
    }

    /// Whether the scan has to wait before it reads on; then it is woken for another look.
    pub(super) fn must_wait(&mut self, standing: Standing, cx: &OperatorContext<'_>) -> bool {
        // What has not been asked for rows yet does not know whether any come.
        if !std::mem::replace(&mut self.begun, true) {
            return false;
        }
        let (now, interval) = (cx.job.env.monotonic_ns(), self.spec.update_interval_ns);
        let waits =
            self.group.must_wait(self.place, standing, self.spec.max_drift_us, (now, interval));
        if waits {
            cx.job.env.wake_at(now.saturating_add(interval), cx.waker.clone());
        }
        waits
    }

    /// Nobody waits for the scan any more.
    pub(super) fn leave(&self) {
        self.group.leave(self.place);
    }
}

/// Splits that are caught up and still hold time back.
pub(super) struct Silence {
    timeout_ns: u64,
    until_ns: BTreeMap<SplitId, u64>,
}

impl Silence {
    /// None are, and each is idle after so long.
    pub(super) fn new(timeout_ns: u64) -> Self {
        Silence { timeout_ns, until_ns: BTreeMap::new() }
    }

    /// The event as it counts now: a split that has just been caught up counts later.
    pub(super) fn hear(
        &mut self,
        event: SplitEvent,
        cx: &OperatorContext<'_>,
    ) -> Option<SplitEvent> {
        match event {
            SplitEvent::CaughtUp(split) if self.timeout_ns > 0 => {
                let until = cx.job.env.monotonic_ns().saturating_add(self.timeout_ns);
                self.until_ns.insert(split, until);
                cx.job.env.wake_at(until, cx.waker.clone());
                None
            }
            SplitEvent::Reading(split) | SplitEvent::Ended(split) | SplitEvent::CaughtUp(split) => {
                self.until_ns.remove(&split);
                Some(event)
            }
            SplitEvent::Reached(..) => Some(event),
        }
    }

    /// A split that has been silent for long enough.
    pub(super) fn over(&mut self, cx: &OperatorContext<'_>) -> Option<SplitEvent> {
        if self.until_ns.is_empty() {
            return None;
        }
        let now = cx.job.env.monotonic_ns();
        let split =
            self.until_ns.iter().find(|(_, until)| **until <= now).map(|(split, _)| *split)?;
        self.until_ns.remove(&split);
        Some(SplitEvent::CaughtUp(split))
    }
}
