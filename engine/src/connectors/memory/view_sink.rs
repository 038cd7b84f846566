//! Folds the changes that a view's job makes into the view. Nothing is visible before the next barrier.

use std::sync::Arc;

use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::{CheckpointId, Watermark};
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

use super::registry::Living;
use super::view_rows::{ViewChange, ViewRows};

/// The sink's registered name.
pub const VIEW_SINK: &str = "view";

/// The sink of all views. A view has one writer.
#[derive(Debug, Default)]
pub struct ViewSink;

impl SinkConnector for ViewSink {
    fn writer(
        &self,
        options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        match Living::by_options(options)? {
            Living::View(rows) => {
                Ok(Box::new(ViewWriter { rows, pending: Vec::new(), reached_us: None }))
            }
            Living::Table(_) => {
                Err(Error::Internal("changes are to be folded into a table".into()))
            }
        }
    }
}

struct ViewWriter {
    rows: Arc<ViewRows>,
    /// What came since the last barrier.
    pending: Vec<ViewChange>,
    /// How far event time has come.
    reached_us: Option<i64>,
}

impl SinkWriter for ViewWriter {
    fn write(&mut self, batch: Batch, _cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        self.pending.push(ViewChange::of(batch, self.rows.schema())?);
        Ok(SinkPoll::Ready)
    }

    fn commit(&mut self, _id: CheckpointId, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.rows.commit(std::mem::take(&mut self.pending), self.reached_us)?;
        Ok(true)
    }

    fn reached(&mut self, Watermark(at_us): Watermark) {
        // That nothing follows at all says nothing of the times of other rows.
        self.reached_us = Some(at_us).filter(|at| *at < i64::MAX).or(self.reached_us);
    }

    fn finish(&mut self, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.rows.commit(std::mem::take(&mut self.pending), self.reached_us)?;
        Ok(true)
    }
}
