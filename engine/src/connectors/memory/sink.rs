//! Appends to tables in memory. Rows become visible together: at a barrier, or when all of a writer's rows are there.

use std::sync::Arc;

use arrow::array::RecordBatch;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::{CheckpointId, RowKind};
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

use super::registry::Living;
use super::table::Rows;
use crate::connectors::compact::compacted;
use crate::connectors::write::{RowCounter, typed_batch};

/// The sink of tables.
#[derive(Debug, Default)]
pub struct MemorySink;

impl SinkConnector for MemorySink {
    fn writer(
        &self,
        options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let Living::Table(rows) = Living::by_options(options)? else {
            return Err(Error::Internal("rows are to be appended to a view".into()));
        };
        let counter = RowCounter::by_options(options);
        Ok(Box::new(MemoryWriter { rows, counter, added: Vec::new() }))
    }
}

struct MemoryWriter {
    rows: Arc<Rows>,
    counter: RowCounter,
    added: Vec<RecordBatch>,
}

impl MemoryWriter {
    fn append(&mut self) -> Result<()> {
        let added = std::mem::take(&mut self.added);
        let count: u64 = added.iter().map(|b| b.num_rows() as u64).sum();
        if count > 0 {
            self.rows.append(added)?;
            self.counter.add(count);
        }
        Ok(())
    }
}

impl SinkWriter for MemoryWriter {
    fn write(&mut self, batch: Batch, _cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        if batch.kinds().is_some_and(|kinds| kinds.iter().any(|kind| *kind != RowKind::Insert)) {
            return Err(Error::user("a table cannot be written by a query that takes rows back"));
        }
        self.added.push(compacted(typed_batch(batch, self.rows.schema())?)?);
        Ok(SinkPoll::Ready)
    }

    fn commit(&mut self, _id: CheckpointId, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.append()
    }

    fn finish(&mut self, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.append()?;
        Ok(true)
    }
}
