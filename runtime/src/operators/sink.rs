//! Sink: hands batches to a writer of the environment, and is finished when the writer is.
//!
//! The last operator of a chain. A writer may refuse a batch for now; the sink then waits.

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
    input: Option<Batch>,
    ended: bool,
}

impl Sink {
    /// Opens nothing yet.
    pub fn new(spec: &SinkSpec) -> Self {
        Sink { spec: spec.clone(), writer: None, input: None, ended: false }
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
        let writer = self.writer.as_mut().ok_or_else(|| Error::Internal("a closed sink".into()))?;
        if let Some(batch) = self.input.take() {
            return match writer.write(batch.compact()?, cx)? {
                SinkPoll::Ready => Ok(Output::NeedInput(PortSet::Any)),
                SinkPoll::Full(batch) => {
                    self.input = Some(batch);
                    Ok(Output::Wait(WaitReason::Io))
                }
                SinkPoll::Closed => Ok(Output::Finished),
            };
        }
        if !self.ended {
            return Ok(Output::NeedInput(PortSet::Any));
        }
        Ok(if writer.finish(cx)? { Output::Finished } else { Output::Wait(WaitReason::Io) })
    }

    stateless_operator!();

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.writer = None;
        self.input = None;
        Ok(())
    }
}
