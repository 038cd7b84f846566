//! Sink: hands batches to a writer of the environment, and is finished when the writer is.
//!
//! The last operator of a chain. A writer may refuse a batch for now; the sink then waits. At a barrier the writer
//! commits, and the job hears of it once that is done; the writer is told how far event time has come.

use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::sink::{SinkPoll, SinkWriter};

/// Where to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SinkSpec {
    /// The sink's registered name.
    pub sink: String,
    /// What it needs; its own format.
    pub options: serde_json::Value,
}

/// The running operator.
pub struct Sink {
    spec: SinkSpec,
    writer: Option<Box<dyn SinkWriter>>,
    /// The barrier that the writer is committing.
    committing: Option<CheckpointId>,
    input: Option<Batch>,
    ended: bool,
}

impl Sink {
    /// Opens nothing yet.
    pub fn new(spec: &SinkSpec) -> Self {
        Sink { spec: spec.clone(), writer: None, committing: None, input: None, ended: false }
    }

    /// Goes on with the commit under way; whether there is none any more.
    fn commit(&mut self, cx: &mut OperatorContext<'_>) -> Result<bool> {
        let Some(id) = self.committing else { return Ok(true) };
        if !self.writer.as_mut().ok_or_else(closed)?.commit(id, cx)? {
            return Ok(false);
        }
        self.committing = None;
        cx.job.barriers.committed(cx.vertex, cx.subtask, id);
        Ok(true)
    }
}

impl Operator for Sink {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        self.writer = Some(cx.job.sink(&self.spec.sink)?.writer(&self.spec.options, cx)?);
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.input = Some(batch),
            StreamElement::End => self.ended = true,
            other => return Err(Error::Internal(format!("a sink cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        if !self.commit(cx)? {
            return Ok(Output::Wait(WaitReason::Io));
        }
        let writer = self.writer.as_mut().ok_or_else(closed)?;
        if let Some(batch) = self.input.take() {
            if let Some(latency) = &cx.job.latency {
                latency.saw(batch.ingest_time_us, cx.job.env.now_us());
            }
            return match writer.write(batch.compact()?, cx)? {
                SinkPoll::Ready => Ok(Output::NeedInput(PortSet::Any)),
                SinkPoll::Full(batch) => {
                    self.input = Some(batch);
                    Ok(Output::Wait(WaitReason::Io))
                }
                SinkPoll::Closed => {
                    cx.job.barriers.ended(cx.vertex, cx.subtask);
                    Ok(Output::Finished)
                }
            };
        }
        if !self.ended {
            return Ok(Output::NeedInput(PortSet::Any));
        }
        if !writer.finish(cx)? {
            return Ok(Output::Wait(WaitReason::Io));
        }
        cx.job.barriers.ended(cx.vertex, cx.subtask);
        Ok(Output::Finished)
    }

    fn on_watermark(&mut self, watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.writer.as_mut().ok_or_else(closed)?.reached(watermark);
        Ok(())
    }

    fn on_timer(
        &mut self,
        _domain: TimeDomain,
        _time_us: i64,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        Ok(())
    }

    fn on_barrier(&mut self, id: CheckpointId, cx: &mut OperatorContext<'_>) -> Result<()> {
        self.committing = Some(id);
        self.commit(cx).map(|_| ())
    }

    fn on_superstep(&mut self, _superstep: Superstep, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn revoke(&mut self, _bytes: usize, _cx: &mut OperatorContext<'_>) -> Result<usize> {
        Ok(0)
    }

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        Ok(StateSnapshot::default())
    }

    fn restore(&mut self, _snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn checkpoint_aborted(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.writer = None;
        self.input = None;
        Ok(())
    }
}

fn closed() -> Error {
    Error::Internal("a closed sink".into())
}
