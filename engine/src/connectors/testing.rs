//! A driver for readers and writers in tests: subtasks in turn, on one thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Wake, Waker};
use std::thread::Thread;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};
use thalweg_runtime::batch::Batch;
use thalweg_runtime::env::System;
use thalweg_runtime::expr::{Expr, FunctionRegistry};
use thalweg_runtime::graph::{JobGraph, VertexId};
use thalweg_runtime::job::{JobContext, JobOptions, Services};
use thalweg_runtime::memory::MemoryManager;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::sink::SinkPoll;
use thalweg_runtime::source::{SourceOutput, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::{FileOptions, FileTable, sinks, sources};
use crate::catalog::Table;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A job without vertices.
pub fn job() -> Arc<JobContext> {
    let services = Services {
        env: System::new(),
        memory: MemoryManager::unlimited(),
        functions: FunctionRegistry::built_in(),
        sources: sources(),
        sinks: sinks(),
        windowings: Default::default(),
    };
    JobContext::new(1, &JobGraph::default(), JobOptions::default(), services)
}

/// Calls `f` with a context of one subtask.
pub fn with_context<T>(
    job: &Arc<JobContext>,
    (subtask, parallelism): (usize, usize),
    f: impl FnOnce(&mut OperatorContext<'_>) -> T,
) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = OperatorContext {
        subtask,
        vertex: VertexId(0),
        position: 0,
        parallelism,
        watermark: None,
        job,
        waker: &waker,
        metrics: &Arc::default(),
        cancelled: &AtomicBool::new(false),
    };
    f(&mut cx)
}

/// The spec of a scan over all columns.
pub fn spec(table: &dyn Table) -> SourceSpec {
    let schema = table.schema();
    SourceSpec {
        metadata: Vec::new(),
        connector: table.connector().to_string(),
        options: table.options(),
        projection: (0..schema.fields().len()).collect(),
        schema: schema.as_ref().clone(),
        filters: Vec::new(),
        runtime_filters: Vec::new(),
        fetch: None,
        batch_rows: 8192,
        event_time: None,
    }
}

/// All batches of a scan, read by several subtasks in turn.
pub fn run_in(job: &Arc<JobContext>, spec: &SourceSpec, subtasks: usize) -> Result<Vec<Batch>> {
    let spec: SourceSpec = serde_json::from_str(&serde_json::to_string(spec).unwrap())
        .expect("a spec survives the wire");
    let source = sources()[&spec.connector].open(&spec, job)?;
    let mut readers: Vec<_> =
        (0..subtasks).map(|i| source.reader(i).map(Some)).collect::<Result<_>>()?;
    let mut batches = Vec::new();
    while readers.iter().any(Option::is_some) {
        let mut waiting = true;
        for (i, slot) in readers.iter_mut().enumerate() {
            let Some(reader) = slot else { continue };
            match with_context(job, (i, subtasks), |cx| reader.step(cx))? {
                SourceOutput::Batch(batch) => {
                    assert!(
                        batch.num_rows() <= 2 * spec.batch_rows,
                        "a batch of {} rows",
                        batch.num_rows()
                    );
                    batches.push(batch);
                    waiting = false;
                }
                SourceOutput::Continue | SourceOutput::Split(_) => waiting = false,
                SourceOutput::Wait(_) => {}
                SourceOutput::Finished => {
                    *slot = None;
                    waiting = false;
                }
            }
        }
        if waiting {
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
    }
    Ok(batches)
}

/// The rows of a scan as one batch.
pub fn run(spec: &SourceSpec, subtasks: usize) -> Result<RecordBatch> {
    let batches = run_in(&job(), spec, subtasks)?;
    let schema = output_schema(spec);
    let batches =
        batches.iter().map(|b| b.to_record_batch(schema.clone())).collect::<Result<Vec<_>>>()?;
    if schema.fields().is_empty() {
        let rows = batches.iter().map(|b| b.num_rows()).sum();
        return Batch::new(vec![], rows).to_record_batch(schema);
    }
    concat_batches(&schema, &batches).map_err(Error::from)
}

/// The columns that a spec delivers.
pub fn output_schema(spec: &SourceSpec) -> SchemaRef {
    let fields: Vec<Field> =
        spec.projection.iter().map(|&c| spec.schema.field(c).clone().with_nullable(true)).collect();
    Arc::new(Schema::new(fields))
}

/// All rows of the files behind a path.
pub fn read(path: &str, options: &FileOptions) -> Result<RecordBatch> {
    let table = FileTable::discover(&[path.to_string()], None, options)?;
    run(&spec(&table), 1)
}

/// All rows that pass a filter.
pub fn read_where(path: &str, filters: Vec<Expr>, subtasks: usize) -> Result<RecordBatch> {
    let table = FileTable::discover(&[path.to_string()], None, &FileOptions::default())?;
    run(&SourceSpec { filters, ..spec(&table) }, subtasks)
}

/// Writes batches through a sink with one subtask.
pub fn write(sink: &str, options: &serde_json::Value, batches: &[RecordBatch]) -> Result<()> {
    let job = job();
    let sinks: HashMap<_, _> = sinks();
    let mut writer = with_context(&job, (0, 1), |cx| sinks[sink].writer(options, cx))?;
    for batch in batches {
        let mut batch = Batch::from(batch.clone());
        loop {
            match with_context(&job, (0, 1), |cx| writer.write(batch, cx))? {
                SinkPoll::Ready => break,
                SinkPoll::Full(back) => {
                    batch = back;
                    std::thread::park_timeout(std::time::Duration::from_millis(20));
                }
                SinkPoll::Closed => return Ok(()),
            }
        }
    }
    while !with_context(&job, (0, 1), |cx| writer.finish(cx))? {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    Ok(())
}

/// A text file in a temporary folder.
pub fn text_file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (dir, path)
}

/// The rows as text, fields joined by `|`, NULL as `∅`.
pub fn rows_as_text(batch: &RecordBatch) -> Vec<String> {
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    let options = FormatOptions::new().with_null("∅");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap())
        .collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|"))
        .collect()
}

/// Numbers below a limit, the same in every run.
pub struct Random(pub u64);

impl Random {
    /// The next of them.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}
