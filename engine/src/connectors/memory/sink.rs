//! Writes into tables in memory: rows that come, or changes that find their rows by the table's primary key. They become
//! visible together: at a barrier, or when all of a writer's rows are there.

use std::sync::Arc;

use arrow::array::RecordBatch;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::{CheckpointId, RowKind};
use thalweg_runtime::memory::MemoryManager;
use thalweg_runtime::operators::{OperatorContext, OperatorMetrics};
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

use super::registry::Living;
use super::table::Rows;
use super::upsert::{OnKey, Upserts};
use crate::connectors::compact::compacted;
use crate::connectors::write::{RowCounter, typed_batch};

/// The sink of tables.
#[derive(Debug, Default)]
pub struct MemorySink;

impl SinkConnector for MemorySink {
    fn writer(
        &self,
        options: &serde_json::Value,
        cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let Living::Table(rows) = Living::by_options(options)? else {
            return Err(Error::Internal("rows are to be appended to a view".into()));
        };
        let counter = RowCounter::by_options(options);
        let Some(key) = options.get("key").filter(|key| !key.is_null()) else {
            return Ok(Box::new(MemoryWriter { rows, counter, added: Vec::new() }));
        };
        let key = serde_json::from_value(key.clone())
            .map_err(|e| Error::Internal(format!("the key of a table: {e}")))?;
        let on_key = match options.get("on_conflict").and_then(serde_json::Value::as_str) {
            Some("nothing") => OnKey::Nothing,
            Some("error") => OnKey::Error,
            _ => OnKey::Update,
        };
        let (memory, changes) = (cx.job.memory.clone(), Upserts::default());
        Ok(Box::new(UpsertWriter { rows, counter, key, on_key, memory, changes }))
    }
}

struct MemoryWriter {
    rows: Arc<Rows>,
    counter: RowCounter,
    added: Vec<RecordBatch>,
}

impl MemoryWriter {
    fn append(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        let added = std::mem::take(&mut self.added);
        let count: u64 = added.iter().map(|b| b.num_rows() as u64).sum();
        if count > 0 {
            let late = self.rows.append(added)? as u64;
            OperatorMetrics::add(&cx.metrics.late_rows, late);
            self.counter.add(count - late);
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

    fn commit(&mut self, _id: CheckpointId, cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.append(cx)?;
        Ok(true)
    }

    fn finish(&mut self, cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.append(cx)?;
        Ok(true)
    }
}

/// Lets rows take the place of others.
struct UpsertWriter {
    rows: Arc<Rows>,
    counter: RowCounter,
    key: Vec<usize>,
    on_key: OnKey,
    memory: Arc<MemoryManager>,
    /// What came since the last barrier.
    changes: Upserts,
}

impl UpsertWriter {
    fn apply(&mut self) -> Result<()> {
        let changes = std::mem::take(&mut self.changes);
        if changes.len() > 0 {
            let count = self.rows.upsert(changes, &self.key, self.on_key, &self.memory)?;
            self.counter.add(count);
        }
        Ok(())
    }
}

impl SinkWriter for UpsertWriter {
    fn write(&mut self, batch: Batch, _cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        let kinds: Option<Vec<RowKind>> = batch.kinds().map(<[RowKind]>::to_vec);
        let rows = compacted(typed_batch(batch, self.rows.schema())?)?;
        self.changes.push(rows, kinds.as_deref());
        Ok(SinkPoll::Ready)
    }

    fn commit(&mut self, _id: CheckpointId, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.apply()?;
        Ok(true)
    }

    fn finish(&mut self, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.apply()?;
        Ok(true)
    }
}
