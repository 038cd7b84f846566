//! Scan: drives a connector's reader. The state is the reader's position and how far event time is in its splits.
//!
//! Where the query asks for event time, watermarks stand between the batches (see `event_time`); a scan that has no
//! event time says that it is idle, as nobody is to wait for it. A barrier that the job
//! asks for is sent as soon as the reader has delivered what belongs before it. A scan may have to wait
//! for others (see `waiting`); rows and barriers that are ready leave all the same.

mod event_time;
mod progress;
mod waiting;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use self::event_time::{EventTime, take_part};
use self::waiting::{Aligned, Silence};
use super::prelude::*;
use crate::job::{JobContext, ScanTimes};
use crate::source::{Source, SourceOutput, SourceReader, SourceSpec, SplitEvent, SplitId};

/// What to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceScanSpec {
    /// Which of the job's sources: scans of one vertex share it.
    pub source: SourceSpec,
}

/// The running operator.
pub struct SourceScan {
    spec: SourceSpec,
    source: Option<Arc<dyn Source>>,
    reader: Option<Box<dyn SourceReader>>,
    event_time: Option<EventTime>,
    /// Where it is told how far the splits are.
    told: Option<Arc<ScanTimes>>,
    aligned: Option<Aligned>,
    silence: Silence,
    /// What leaves before the reader is asked again.
    ready: VecDeque<StreamElement>,
    /// The last barrier that was sent.
    barrier: CheckpointId,
}

impl SourceScan {
    /// Opens nothing yet.
    pub fn new(spec: &SourceScanSpec) -> Self {
        SourceScan {
            spec: spec.source.clone(),
            source: None,
            reader: None,
            event_time: None,
            told: None,
            aligned: None,
            silence: Silence::new(0),
            ready: VecDeque::new(),
            barrier: CheckpointId(0),
        }
    }

    fn reader(&mut self) -> Result<&mut Box<dyn SourceReader>> {
        self.reader.as_mut().ok_or_else(|| Error::Internal("a scan that is not open".into()))
    }

    fn pending_us(&self) -> Option<i64> {
        self.source.as_ref().and_then(|source| source.pending_from_us())
    }

    /// The barrier to be sent now, if there is one.
    fn due_barrier(&mut self, cx: &OperatorContext<'_>) -> Result<Option<CheckpointId>> {
        let asked = cx.job.barriers.asked();
        if asked <= self.barrier || !self.reader()?.is_at_cut() {
            return Ok(None);
        }
        self.barrier = asked;
        Ok(Some(asked))
    }

    /// Takes what the reader says of a split.
    fn hear(&mut self, event: SplitEvent) {
        let pending_us = self.pending_us();
        if let Some(time) = &mut self.event_time {
            time.hear(event, pending_us, &mut self.ready);
        }
        match (event, &self.told) {
            (SplitEvent::Ended(split), Some(told)) => told.end(split),
            (
                SplitEvent::Reading(split)
                | SplitEvent::CaughtUp(split)
                | SplitEvent::Reached(split, _),
                _,
            ) => self.tell(split),
            (SplitEvent::Ended(_), None) => {}
        }
    }

    /// Tells how far a split is.
    fn tell(&self, split: SplitId) {
        if let (Some(told), Some(time)) = (&self.told, &self.event_time) {
            time.tell(split, told);
        }
    }

    /// Whether the scan has to wait for others, whose event time is far behind.
    fn is_ahead(&mut self, cx: &OperatorContext<'_>) -> bool {
        let (Some(aligned), Some(time)) = (&mut self.aligned, &self.event_time) else {
            return false;
        };
        aligned.must_wait(time.standing(), cx)
    }

    /// The clock counts only where watermarks leave from time to time.
    fn look_at_the_clock(&mut self, cx: &OperatorContext<'_>) {
        let periodic = self.spec.event_time.as_ref().is_some_and(|time| time.emit_interval_ns > 0);
        if let Some(time) = self.event_time.as_mut().filter(|_| periodic) {
            time.at(cx.job.env.monotonic_ns());
        }
    }

    /// A watermark that may not leave yet leaves when its time has come, whether rows come or not.
    fn wake_for_watermark(&self, cx: &OperatorContext<'_>) {
        let Some(time) = self.event_time.as_ref().filter(|time| time.is_held(self.pending_us()))
        else {
            return;
        };
        cx.job.env.wake_at(time.due_ns(), cx.waker.clone());
    }

    fn take(&mut self, batch: Batch, job: &JobContext) -> Result<()> {
        let pending_us = self.pending_us();
        match &mut self.event_time {
            Some(time) => {
                let dropped = time.take(batch, pending_us, &mut self.ready)?;
                job.untimed_rows.fetch_add(dropped as u64, Ordering::Relaxed);
                let split = time.current();
                self.tell(split);
                Ok(())
            }
            None => {
                self.ready.push_back(StreamElement::Batch(batch));
                Ok(())
            }
        }
    }
}

impl Operator for SourceScan {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        let source = cx.job.source(cx.vertex, &self.spec)?;
        self.reader = Some(source.reader(cx.subtask)?);
        self.source = Some(source.clone());
        if let Some(spec) = &self.spec.event_time {
            self.event_time = Some(EventTime::new(spec, cx.job)?);
            if spec.tells_time {
                self.told = Some(cx.job.split_times.join(cx.vertex, &source));
            }
            self.aligned = Aligned::join(spec, cx);
            self.silence = Silence::new(spec.idle_timeout_ns);
        } else if cx.job.options.continuous {
            self.ready.push_back(StreamElement::Idle);
        }
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        Err(Error::Internal(format!("a scan has no input, but got {element:?}")))
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        loop {
            cx.check_cancelled()?;
            if let Some(element) = self.ready.pop_front() {
                return Ok(Output::Element(PortId(0), element));
            }
            if let Some(id) = self.due_barrier(cx)? {
                return Ok(Output::Element(PortId(0), StreamElement::Barrier(id)));
            }
            if self.is_ahead(cx) {
                return Ok(Output::Wait(WaitReason::Io));
            }
            match self.reader()?.step(cx)? {
                SourceOutput::Batch(batch) if batch.num_rows() == 0 => {}
                SourceOutput::Batch(batch) => {
                    self.look_at_the_clock(cx);
                    self.take(batch, cx.job)?;
                }
                SourceOutput::Split(event) => {
                    self.look_at_the_clock(cx);
                    if let Some(event) = self.silence.hear(event, cx) {
                        self.hear(event);
                    }
                }
                SourceOutput::Continue => {}
                SourceOutput::Wait(reason) => {
                    if let Some(event) = self.silence.over(cx) {
                        self.hear(event);
                        continue;
                    }
                    // A split that was pending when the last rows came may have begun since.
                    self.look_at_the_clock(cx);
                    let pending_us = self.pending_us();
                    match self.event_time.as_mut().and_then(|time| time.wait(pending_us)) {
                        Some(watermark) => self.ready.push_back(watermark),
                        None => {
                            self.wake_for_watermark(cx);
                            return Ok(Output::Wait(reason));
                        }
                    }
                }
                SourceOutput::Finished => {
                    self.told.take().iter().for_each(|told| cx.job.split_times.leave(told));
                    self.aligned.iter().for_each(Aligned::leave);
                    return Ok(Output::Finished);
                }
            }
        }
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    untimed_operator!();

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let position = self.reader()?.snapshot()?;
        let mut bytes = (position.len() as u64).to_le_bytes().to_vec();
        bytes.extend(position);
        if let Some(time) = &self.event_time {
            time.write_to(&self.ready, &mut bytes)?;
        }
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let (position, rest) = take_part(&snapshot.bytes)?;
        self.reader()?.restore(position)?;
        match &mut self.event_time {
            Some(time) => time.read_from(rest, &mut self.ready),
            None => Ok(()),
        }
    }

    fn close(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        self.told.take().iter().for_each(|told| cx.job.split_times.leave(told));
        self.aligned.iter().for_each(Aligned::leave);
        (self.reader, self.source, self.event_time) = (None, None, None);
        self.ready.clear();
        Ok(())
    }
}
