//! Closing: partitions that the watermark has passed are forgotten, with what is late for them.
//!
//! Their results have been told and stay. All partitions are looked through when there is twice as much as was left the
//! last time. Invariant: a row of a closed partition changes nothing, whether the partition is still there or not.

use arrow::array::{ArrayRef, BooleanArray};
use serde::{Deserialize, Serialize};

use super::ChangelogWindowSpec;
use crate::expr::{CompiledExpr, compile, positional_schema};
use crate::job::JobContext;
use crate::operators::doubled::Doubled;
use crate::operators::event_time_window::CompletionSpec;
use crate::operators::prelude::*;
use crate::operators::time_bound::{TimeBound, times};
use crate::rows::take_array;

/// When partitions are forgotten by event time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosingSpec {
    /// The time that completes partitions, which is one of their keys.
    pub completion: CompletionSpec,
    /// How long they are kept for rows that come late, in microseconds of event time.
    pub lateness_us: i64,
}

/// See the module.
pub(super) struct Closing {
    time: CompiledExpr,
    /// The time among the partition keys.
    key: usize,
    bound: TimeBound,
    lateness_us: i64,
    closed_below: i64,
    /// When closed partitions are looked for.
    pub(super) search: Doubled,
}

impl Closing {
    /// Compiles the time and its bound.
    pub(super) fn new(
        spec: &ClosingSpec,
        window: &ChangelogWindowSpec,
        job: &JobContext,
    ) -> Result<Self> {
        let CompletionSpec { time, bound, watermark_type, .. } = &spec.completion;
        let key = window.window.partition_by.iter().position(|key| key == time);
        let key = key.ok_or_else(|| {
            Error::Internal("partitions close by a time that is none of their keys".into())
        })?;
        Ok(Closing {
            time: compile(time, &positional_schema(&window.window.input), &job.functions)?,
            key,
            bound: TimeBound::new(bound, watermark_type, job)?,
            lateness_us: spec.lateness_us,
            closed_below: i64::MIN,
            search: Doubled::default(),
        })
    }

    /// The rows of a compact batch that are not late; the others are dropped as such.
    pub(super) fn in_time(&self, batch: Batch, cx: &OperatorContext<'_>) -> Result<Batch> {
        let times = times(&self.time.evaluate(&batch)?)?;
        let is_late = |time: Option<i64>| time.is_some_and(|time| time < self.closed_below);
        if !times.iter().any(is_late) {
            return Ok(batch);
        }
        let late: BooleanArray = times.iter().map(|time| Some(is_late(time))).collect();
        cx.drop_late(PortId(0), vec![batch.filter(&late)?])?;
        let in_time: BooleanArray = times.iter().map(|time| Some(!is_late(time))).collect();
        batch.filter(&in_time)?.compact()
    }

    /// Event time has come to a watermark. Tells whether more is closed.
    pub(super) fn pass(&mut self, Watermark(at): Watermark) -> Result<bool> {
        let bound = self.bound.at(Watermark(at.saturating_sub(self.lateness_us)))?;
        let more = bound > self.closed_below;
        self.closed_below = self.closed_below.max(bound);
        Ok(more)
    }

    /// The partition key that is the time.
    pub(super) fn key(&self) -> usize {
        self.key
    }

    /// Which of some times are those of closed partitions.
    pub(super) fn are_closed(&self, values: &ArrayRef) -> Result<Vec<bool>> {
        let times = times(values)?;
        Ok(times.iter().map(|time| time.is_some_and(|time| time < self.closed_below)).collect())
    }

    /// Appends what is closed to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.closed_below.to_le_bytes());
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.closed_below = i64::from_le_bytes(take_array(bytes)?);
        Ok(())
    }
}
