//! Limit: skips rows, then passes some on, then is finished. Runs in one subtask where the count must be exact.

use serde::{Deserialize, Serialize};

use super::prelude::*;

/// How many rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitSpec {
    /// Rows to leave out first.
    pub skip: u64,
    /// Rows to pass on; all that follow if none.
    pub fetch: Option<u64>,
}

/// The running operator: the counts that are left are its whole state.
pub struct Limit {
    skip: u64,
    fetch: Option<u64>,

    input: Option<Batch>,
    ended: bool,
}

impl Limit {
    /// The full counts are left.
    pub fn new(spec: &LimitSpec) -> Self {
        Limit { skip: spec.skip, fetch: spec.fetch, input: None, ended: false }
    }

    /// The part of a batch that passes, if any.
    fn cut(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let batch = batch.compact()?;
        let rows = batch.num_rows() as u64;
        let skipped = self.skip.min(rows);
        self.skip -= skipped;
        let taken = self.fetch.map_or(rows - skipped, |f| f.min(rows - skipped));
        if let Some(fetch) = &mut self.fetch {
            *fetch -= taken;
        }
        Ok((taken > 0).then(|| batch.slice(skipped as usize, taken as usize)))
    }
}

impl Operator for Limit {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
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
            other => return Err(Error::Internal(format!("limit cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let Some(batch) = self.input.take()
            && let Some(part) = self.cut(batch)?
        {
            return Ok(Output::Element(PortId(0), StreamElement::Batch(part)));
        }
        if self.ended || self.fetch == Some(0) {
            return Ok(Output::Finished);
        }
        Ok(Output::NeedInput(PortSet::Any))
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
        let mut bytes = self.skip.to_le_bytes().to_vec();
        if let Some(fetch) = self.fetch {
            bytes.extend(fetch.to_le_bytes());
        }
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let mut counts = snapshot
            .bytes
            .chunks_exact(8)
            .map(|c| u64::from_le_bytes(c.try_into().expect("a chunk has eight bytes")));
        self.skip = counts.next().ok_or_else(|| Error::Internal("an empty snapshot".into()))?;
        self.fetch = counts.next();
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        Ok(())
    }
}
