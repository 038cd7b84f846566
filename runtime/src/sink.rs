//! Sinks: where results leave the runtime.

use crate::batch::Batch;
use crate::element::{CheckpointId, Watermark};
use crate::error::Result;
use crate::operators::OperatorContext;

/// What became of a batch.
#[derive(Debug)]
pub enum SinkPoll {
    /// It was taken.
    Ready,
    /// Not now: here it is again; the task's waker is registered.
    Full(Batch),
    /// The reader of this sink has gone; nothing more is wanted.
    Closed,
}

/// Makes the writers of one sink. Registered by name in the job's environment.
pub trait SinkConnector: Send + Sync {
    /// A writer for one subtask.
    fn writer(
        &self,
        options: &serde_json::Value,
        cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>>;
}

/// One subtask's writer. Dropping it before `finish` answered true leaves nothing behind.
pub trait SinkWriter: Send {
    /// Takes a batch without a selection.
    fn write(&mut self, batch: Batch, cx: &mut OperatorContext<'_>) -> Result<SinkPoll>;
    /// A barrier came behind everything written so far: a writer that gathers rows until they are consistent makes them
    /// visible, all at once. One that shows rows as they come has nothing to do. False means "not yet", with the waker
    /// registered: it is asked again. Where [`JobContext::is_settling`](crate::job::JobContext::is_settling), nothing that
    /// comes later is ever made visible.
    fn commit(&mut self, _id: CheckpointId, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        Ok(true)
    }
    /// Event time has come this far behind everything written so far. Most writers do not care.
    fn reached(&mut self, _watermark: Watermark) {}
    /// Makes everything written visible; false means "not yet", with the waker registered.
    fn finish(&mut self, cx: &mut OperatorContext<'_>) -> Result<bool>;
}
