//! Tables of a program's own: rows that it makes as they are read.
//!
//! A program implements [`RowSource`]; filters, parallel reading, coalescing and positions are the same as for files.
//! Plans name a source by a number; it lives as long as its table does. What a source delivers is checked against what
//! it declared: a wrong column is an error, never a wrong result.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::Constraints;
use parking_lot::Mutex;
use thalweg_optimizer::TableStatistics;
use thalweg_optimizer::physical::Provenance;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::scan::{ReadLayout, SplitFormat, SplitProgress, SplitScan, SplitSource, Wanted};
use crate::catalog::Table;

/// The connector's registered name.
pub const CONNECTOR: &str = "external";

/// The living sources by number.
static SOURCES: LazyLock<Mutex<HashMap<u64, Weak<Registered>>>> = LazyLock::new(Mutex::default);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What goes wrong in a program's source; its text becomes the query's error.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;
/// The rows of a part, batch by batch.
pub type RowBatches =
    Box<dyn Iterator<Item = std::result::Result<RecordBatch, SourceError>> + Send>;

/// Rows that a program makes when a query reads them.
pub trait RowSource: fmt::Debug + Send + Sync + 'static {
    /// The columns.
    fn schema(&self) -> SchemaRef;

    /// How many parts there are. Parts are read at the same time by as many threads as there are.
    fn parts(&self) -> usize;

    /// Starts on a part. Batches have exactly the columns at the positions `columns` of the schema, in that order. The
    /// iterator runs on a worker thread: a long wait in it keeps other work from that thread.
    fn read(&self, part: usize, columns: &[usize]) -> std::result::Result<RowBatches, SourceError>;

    /// How many rows there are, if that is known; plans are chosen by it.
    fn rows(&self) -> Option<u64> {
        None
    }
}

#[derive(Debug)]
struct Registered {
    id: u64,
    source: Arc<dyn RowSource>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        SOURCES.lock().remove(&self.id);
    }
}

/// A source as a table.
#[derive(Debug)]
pub struct ExternalTable(Arc<Registered>);

impl ExternalTable {
    /// The table of a source.
    pub fn new(source: Arc<dyn RowSource>) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let registered = Arc::new(Registered { id, source });
        SOURCES.lock().insert(id, Arc::downgrade(&registered));
        ExternalTable(registered)
    }
}

impl Table for ExternalTable {
    fn schema(&self) -> SchemaRef {
        self.0.source.schema()
    }

    fn connector(&self) -> &str {
        CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        serde_json::json!({ "source": self.0.id })
    }

    fn statistics(&self) -> TableStatistics {
        let rows = self.0.source.rows().map(|rows| rows as f64);
        let provenance = match rows {
            Some(_) => Provenance::Stats,
            None => Provenance::Default,
        };
        TableStatistics { rows, provenance, bytes: None, columns: Vec::new() }
    }

    fn constraints(&self) -> Option<&Constraints> {
        None
    }
}

/// Reads sources of the program.
#[derive(Debug, Default)]
pub struct ExternalConnector;

impl SourceConnector for ExternalConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let id = spec.options.get("source").and_then(serde_json::Value::as_u64);
        let registered = id
            .and_then(|id| SOURCES.lock().get(&id).and_then(Weak::upgrade))
            .ok_or_else(|| Error::user("the table has been dropped"))?;
        let format = ExternalFormat { registered, batch_rows: spec.batch_rows.max(1) };
        Ok(SplitSource::open(spec, Box::new(format), job))
    }
}

struct ExternalFormat {
    registered: Arc<Registered>,
    batch_rows: usize,
}

impl SplitFormat for ExternalFormat {
    fn splits(&self) -> Vec<(usize, u64)> {
        // The sizes of parts are not known; each counts as one step of the progress.
        (0..self.registered.source.parts()).map(|part| (part, 1)).collect()
    }

    fn open(
        &self,
        split: usize,
        layout: &ReadLayout,
        _job: &Arc<JobContext>,
    ) -> Result<Box<dyn SplitScan>> {
        let source = &self.registered.source;
        let batches = source.read(split, &layout.columns).map_err(failed)?;
        let schema = source.schema();
        let schema = Arc::new(schema.project(&layout.columns)?);
        Ok(Box::new(ExternalScan { batches, schema, rest: None, batch_rows: self.batch_rows }))
    }
}

struct ExternalScan {
    batches: RowBatches,
    schema: SchemaRef,
    /// What is left of a batch.
    rest: Option<RecordBatch>,
    batch_rows: usize,
}

impl SplitScan for ExternalScan {
    fn step(&mut self, _cx: &OperatorContext<'_>, _wanted: Wanted<'_>) -> Result<SplitProgress> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.batches.next() {
                None => return Ok(SplitProgress::Finished),
                Some(batch) => checked(batch.map_err(failed)?, &self.schema)?,
            },
        };
        let rows = batch.num_rows().min(self.batch_rows);
        if rows < batch.num_rows() {
            self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        Ok(match rows {
            0 => SplitProgress::Working,
            _ => SplitProgress::Rows(batch.slice(0, rows).columns().to_vec(), rows),
        })
    }
}

fn failed(error: SourceError) -> Error {
    Error::user(error.to_string())
}

fn checked(batch: RecordBatch, wanted: &SchemaRef) -> Result<RecordBatch> {
    let types = |schema: &SchemaRef| -> Vec<_> {
        schema.fields().iter().map(|f| f.data_type().clone()).collect()
    };
    if types(&batch.schema()) == types(wanted) {
        return Ok(batch);
    }
    Err(Error::User {
        message: "a source delivered other columns than it was asked for".into(),
        detail: Some(format!("asked for {wanted}, got {}", batch.schema())),
        hint: None,
    })
}
