//! Scan: drives a connector's reader. The reader's position is the operator's state.

use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::source::{SourceOutput, SourceReader, SourceSpec};

/// What to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceScanSpec {
    /// Which of the job's sources: scans of one vertex share it.
    pub source: SourceSpec,
}

/// The running operator.
pub struct SourceScan {
    spec: SourceSpec,

    reader: Option<Box<dyn SourceReader>>,
}

impl SourceScan {
    /// Opens nothing yet.
    pub fn new(spec: &SourceScanSpec) -> Self {
        SourceScan { spec: spec.source.clone(), reader: None }
    }

    fn reader(&mut self) -> Result<&mut Box<dyn SourceReader>> {
        self.reader.as_mut().ok_or_else(|| Error::Internal("a scan that is not open".into()))
    }
}

impl Operator for SourceScan {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        let source = cx.job.source(cx.vertex, &self.spec)?;
        self.reader = Some(source.reader(cx.subtask)?);
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
            return Ok(match self.reader()?.step(cx)? {
                SourceOutput::Batch(batch) if batch.num_rows() == 0 => continue,
                SourceOutput::Batch(batch) => {
                    Output::Element(PortId(0), StreamElement::Batch(batch))
                }
                SourceOutput::Continue => continue,
                SourceOutput::Wait(reason) => Output::Wait(reason),
                SourceOutput::Finished => Output::Finished,
            });
        }
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
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
        Ok(StateSnapshot { bytes: self.reader()?.snapshot()? })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.reader()?.restore(&snapshot.bytes)
    }

    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn checkpoint_aborted(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.reader = None;
        Ok(())
    }
}
