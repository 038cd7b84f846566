//! Tables in memory.
//!
//! Batches are immutable; INSERT appends, UPDATE and DELETE replace the list. A scan sees the list as it was when
//! the scan was opened. Plans name a table by a number; dropping the table frees its rows. A table that was told its
//! budget is a holder there by its name. Declared keys hold: rows that would break one are refused.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{SortOptions, sort_to_indices};
use arrow::datatypes::SchemaRef;
use datafusion_common::{Constraints, ScalarValue};
use parking_lot::{Mutex, RwLock};
use thalweg_optimizer::physical::Provenance;
use thalweg_optimizer::{ColumnStatistics, TableStatistics};
use thalweg_runtime::batch::Batch;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::memory::{MemoryManager, Reservation};
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::compact::held_bytes;
use super::keys::Keys;
use super::scan::{ReadLayout, SplitFormat, SplitProgress, SplitScan, SplitSource};
use crate::catalog::Table;

/// The connector's registered name.
pub const CONNECTOR: &str = "memory";
/// Tables of more rows get no least and greatest values.
const BOUNDS_ROWS_MAX: usize = 2_000_000;

/// The living tables by number.
static TABLES: LazyLock<Mutex<HashMap<u64, Weak<Rows>>>> = LazyLock::new(Mutex::default);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The rows of a table; readers and writers hold it while they run.
#[derive(Debug)]
struct Rows {
    id: u64,
    schema: SchemaRef,
    batches: RwLock<Arc<Vec<RecordBatch>>>,
    statistics: Mutex<Option<TableStatistics>>,
    charge: Mutex<Option<Reservation>>,
    keys: Mutex<Option<Keys>>,
}

impl Drop for Rows {
    fn drop(&mut self) {
        TABLES.lock().remove(&self.id);
    }
}

/// A table whose rows are record batches in memory.
#[derive(Debug, Clone)]
pub struct MemoryTable {
    rows: Arc<Rows>,
    constraints: Option<Constraints>,
}

impl MemoryTable {
    /// A table of these batches, which must have the columns of `schema`.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let rows = Arc::new(Rows {
            id,
            schema,
            batches: RwLock::new(Arc::new(batches)),
            statistics: Mutex::default(),
            charge: Mutex::default(),
            keys: Mutex::default(),
        });
        TABLES.lock().insert(id, Arc::downgrade(&rows));
        MemoryTable { rows, constraints: None }
    }

    /// The table with declared keys, which its rows must not break, now and later. The table is called `name` in
    /// errors, and in the budget that is charged for the keys.
    pub fn with_keys(
        mut self,
        constraints: Constraints,
        memory: &Arc<MemoryManager>,
        name: &str,
    ) -> Result<Self> {
        if !constraints.is_empty() {
            let mut keys = Keys::new(name, &self.rows.schema, &constraints, memory)?;
            keys.add(&[], &self.batches())?;
            *self.rows.keys.lock() = Some(keys);
            self.constraints = Some(constraints);
        }
        Ok(self)
    }

    /// The table as a holder of memory under a name.
    pub fn charged_to(self, memory: &Arc<MemoryManager>, name: &str) -> Self {
        *self.rows.charge.lock() = Some(memory.reserve(format!("table {name}")));
        self.rows.settle();
        self
    }

    /// What the sink "memory" needs to append to this table.
    pub fn sink_options(&self) -> serde_json::Value {
        serde_json::json!({ "table": self.rows.id })
    }

    /// The rows as they are now.
    pub fn batches(&self) -> Arc<Vec<RecordBatch>> {
        self.rows.batches.read().clone()
    }

    /// How many rows there are now.
    pub fn row_count(&self) -> usize {
        self.batches().iter().map(RecordBatch::num_rows).sum()
    }

    /// Adds batches, all at once or, when they would break a key, not at all.
    pub fn append(&self, added: Vec<RecordBatch>) -> Result<()> {
        self.rows.append(added)
    }

    /// Puts other batches in the place of all rows, if these are still the rows `seen`; false when others have changed
    /// the table in the meantime. Batches that would break a key are an error, and the rows stay.
    pub fn replace_seen(
        &self,
        seen: &Arc<Vec<RecordBatch>>,
        batches: Vec<RecordBatch>,
    ) -> Result<bool> {
        self.rows.replace(Some(seen), batches)
    }

    /// Puts other batches in the place of all rows. Batches that would break a key are an error, and the rows stay.
    pub fn replace(&self, batches: Vec<RecordBatch>) -> Result<()> {
        self.rows.replace(None, batches).map(|_| ())
    }
}

impl Rows {
    fn append(&self, added: Vec<RecordBatch>) -> Result<()> {
        let mut batches = self.batches.write();
        if let Some(keys) = self.keys.lock().as_mut() {
            keys.add(&batches, &added)?;
        }
        let mut all = batches.as_ref().clone();
        all.extend(added.into_iter().filter(|b| b.num_rows() > 0));
        *batches = Arc::new(all);
        drop(batches);
        self.changed();
        Ok(())
    }

    /// False, and nothing is done, when the rows are no longer those that were `seen`.
    fn replace(
        &self,
        seen: Option<&Arc<Vec<RecordBatch>>>,
        batches: Vec<RecordBatch>,
    ) -> Result<bool> {
        let mut now = self.batches.write();
        if seen.is_some_and(|seen| !Arc::ptr_eq(&now, seen)) {
            return Ok(false);
        }
        if let Some(keys) = self.keys.lock().as_mut() {
            keys.replace(batches.iter())?;
        }
        *now = Arc::new(batches);
        drop(now);
        self.changed();
        Ok(true)
    }

    fn changed(&self) {
        *self.statistics.lock() = None;
        self.settle();
    }

    /// Charges for the rows that there are. They were charged to the statement that brought them; should others have
    /// taken that memory just now, the meter of the heap still counts them.
    fn settle(&self) {
        if let Some(charge) = self.charge.lock().as_mut() {
            let _ = charge.try_resize(held_bytes(&self.batches.read()));
        }
    }

    fn by_options(options: &serde_json::Value) -> Result<Arc<Rows>> {
        let id = options.get("table").and_then(serde_json::Value::as_u64);
        id.and_then(|id| TABLES.lock().get(&id).and_then(Weak::upgrade))
            .ok_or_else(|| Error::user("the table has been dropped"))
    }
}

impl Table for MemoryTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema.clone()
    }

    fn connector(&self) -> &str {
        CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        self.sink_options()
    }

    fn statistics(&self) -> TableStatistics {
        let mut statistics = self.rows.statistics.lock();
        statistics.get_or_insert_with(|| measure(&self.rows.schema, &self.batches())).clone()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.constraints.as_ref()
    }
}

fn measure(schema: &SchemaRef, batches: &[RecordBatch]) -> TableStatistics {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let columns: Vec<ColumnStatistics> = (0..schema.fields().len())
        .map(|i| {
            let parts: Vec<&ArrayRef> = batches.iter().map(|b| b.column(i)).collect();
            let nulls: usize = parts.iter().map(|p| p.logical_null_count()).sum();
            let bytes: usize =
                parts.iter().map(|p| p.to_data().get_slice_memory_size().unwrap_or(0)).sum();
            let bounded = rows <= BOUNDS_ROWS_MAX && !schema.field(i).data_type().is_nested();
            ColumnStatistics {
                null_count: Some(nulls as f64),
                min: bounded.then(|| extreme(&parts, false)).flatten(),
                max: bounded.then(|| extreme(&parts, true)).flatten(),
                distinct: None,
                avg_width: (rows > 0).then(|| bytes as f64 / rows as f64),
            }
        })
        .collect();
    let bytes = columns.iter().map(|c| c.avg_width.unwrap_or(0.0) * rows as f64).sum();
    TableStatistics {
        rows: Some(rows as f64),
        provenance: Provenance::Exact,
        bytes: Some(bytes),
        columns,
    }
}

/// The least or greatest value.
fn extreme(parts: &[&ArrayRef], greatest: bool) -> Option<ScalarValue> {
    let options = SortOptions { descending: greatest, nulls_first: false };
    let mut best: Option<ScalarValue> = None;
    for part in parts.iter().filter(|p| !p.is_empty()) {
        let first = sort_to_indices(part, Some(options), Some(1)).ok()?;
        let value = ScalarValue::try_from_array(part, first.value(0) as usize).ok()?;
        let better = best.as_ref().is_none_or(|b| if greatest { value > *b } else { value < *b });
        if !value.is_null() && better {
            best = Some(value);
        }
    }
    best
}

/// Reads tables in memory.
#[derive(Debug, Default)]
pub struct MemoryConnector;

impl SourceConnector for MemoryConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let rows = Rows::by_options(&spec.options)?;
        let batches = rows.batches.read().clone();
        let format = MemoryFormat { batches, batch_rows: spec.batch_rows.max(1) };
        Ok(SplitSource::open(spec, Box::new(format), job))
    }
}

struct MemoryFormat {
    batches: Arc<Vec<RecordBatch>>,
    batch_rows: usize,
}

impl SplitFormat for MemoryFormat {
    fn splits(&self) -> Vec<(usize, u64)> {
        self.batches.iter().enumerate().map(|(i, b)| (i, b.num_rows() as u64)).collect()
    }

    fn open(
        &self,
        split: usize,
        layout: &ReadLayout,
        _job: &Arc<JobContext>,
    ) -> Result<Box<dyn SplitScan>> {
        let batch = &self.batches[split];
        let columns = layout.columns.iter().map(|&c| batch.column(c).clone()).collect();
        Ok(Box::new(MemoryScan {
            columns,
            rows: batch.num_rows(),
            at: 0,
            batch_rows: self.batch_rows,
        }))
    }
}

struct MemoryScan {
    columns: Vec<ArrayRef>,
    rows: usize,
    at: usize,
    batch_rows: usize,
}

impl SplitScan for MemoryScan {
    fn step(&mut self, _cx: &OperatorContext<'_>) -> Result<SplitProgress> {
        let rows = self.batch_rows.min(self.rows - self.at);
        if rows == 0 {
            return Ok(SplitProgress::Finished);
        }
        let columns = self.columns.iter().map(|c| c.slice(self.at, rows)).collect();
        self.at += rows;
        Ok(SplitProgress::Rows(columns, rows))
    }
}

/// Appends to tables in memory. Rows become visible together when all of a writer's rows are there.
#[derive(Debug, Default)]
pub struct MemorySink;

impl SinkConnector for MemorySink {
    fn writer(
        &self,
        options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let rows = Rows::by_options(options)?;
        let counter = super::write::RowCounter::by_options(options);
        Ok(Box::new(MemoryWriter { rows, counter, added: Vec::new() }))
    }
}

struct MemoryWriter {
    rows: Arc<Rows>,
    counter: super::write::RowCounter,
    added: Vec<RecordBatch>,
}

impl SinkWriter for MemoryWriter {
    fn write(&mut self, batch: Batch, _cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        let batch = super::write::typed_batch(batch, &self.rows.schema)?;
        self.added.push(batch);
        Ok(SinkPoll::Ready)
    }

    fn finish(&mut self, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        let added = std::mem::take(&mut self.added);
        let count = added.iter().map(|b| b.num_rows() as u64).sum();
        self.rows.append(added)?;
        self.counter.add(count);
        Ok(true)
    }
}
