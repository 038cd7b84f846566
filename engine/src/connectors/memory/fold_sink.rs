//! Folds the changes of a query into a table in memory that statements change, too. Nothing is visible before a barrier.
//!
//! Invariant: what is taken in between two barriers becomes visible at once, as one change of the table.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::{CheckpointId, RowKind};
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

use super::registry::Living;
use super::table::Rows;
use crate::connectors::compact::compacted;
use crate::connectors::write::typed_batch;

/// The sink's registered name.
pub const FOLD_SINK: &str = "memory_fold";

/// The sink of changes into tables. It has one writer; its options are those of the table's sink, the columns of the
/// table's `key`, and whether to `ignore_delete`.
#[derive(Debug, Default)]
pub struct FoldSink;

impl SinkConnector for FoldSink {
    fn writer(
        &self,
        options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let Living::Table(rows) = Living::by_options(options)? else {
            return Err(Error::Internal("changes are to be folded into a view's rows".into()));
        };
        let key = options.get("key").and_then(serde_json::Value::as_array);
        let key = key.into_iter().flatten().filter_map(|at| Some(at.as_u64()? as usize));
        let ignore = options.get("ignore_delete").and_then(serde_json::Value::as_bool);
        Ok(Box::new(FoldWriter {
            rows,
            key: key.collect(),
            ignore_delete: ignore.unwrap_or(false),
            deleted: Vec::new(),
            inserted: Vec::new(),
        }))
    }
}

struct FoldWriter {
    rows: Arc<Rows>,
    key: Vec<usize>,
    ignore_delete: bool,
    deleted: Vec<RecordBatch>,
    inserted: Vec<RecordBatch>,
}

impl FoldWriter {
    fn fold(&mut self) -> Result<()> {
        let deleted = std::mem::take(&mut self.deleted);
        let inserted = std::mem::take(&mut self.inserted);
        match deleted.is_empty() && inserted.is_empty() {
            true => Ok(()),
            false => self.rows.fold(&deleted, inserted, &self.key),
        }
    }
}

impl SinkWriter for FoldWriter {
    fn write(&mut self, batch: Batch, _cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        let kinds = batch.kinds().map(<[RowKind]>::to_vec);
        let typed = compacted(typed_batch(batch, self.rows.schema())?)?;
        let Some(kinds) = kinds else {
            self.inserted.push(typed);
            return Ok(SinkPoll::Ready);
        };
        let of = |wanted: RowKind| {
            let mask: BooleanArray = kinds.iter().map(|kind| Some(*kind == wanted)).collect();
            Ok::<_, Error>(filter_record_batch(&typed, &mask)?)
        };
        let (gone, came) = (of(RowKind::Delete)?, of(RowKind::Insert)?);
        if gone.num_rows() > 0 && !self.ignore_delete {
            self.deleted.push(gone);
        }
        if came.num_rows() > 0 {
            self.inserted.push(came);
        }
        Ok(SinkPoll::Ready)
    }

    fn commit(&mut self, _id: CheckpointId, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.fold()?;
        Ok(true)
    }

    fn finish(&mut self, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.fold()?;
        Ok(true)
    }
}
