//! What a statement gives: a frame of columns and rows, which are computed when they are asked for.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use futures::{Stream, StreamExt};
use thalweg_optimizer::physical::{explain, explain_json};
use thalweg_optimizer::{PhysicalPlan, ResultUse};
use thalweg_runtime::job::JobHandle;

use super::cancellation::CancellationToken;
use super::changelog::Changes;
use super::executor::{Execution, Executor};
use super::query_status::QueryStatus;
use crate::error::Result;
use crate::settings::Settings;

/// The result of one statement.
///
/// A query runs when [`Frame::stream`] or [`Frame::collect`] is called; other statements have done their work when
/// their frame is there. Dropping the frame or its stream cancels what runs.
pub struct Frame {
    schema: SchemaRef,
    body: Body,
    warnings: Vec<String>,
    rows_written: Option<u64>,
    text: bool,
    token: CancellationToken,
}

enum Body {
    Rows(Vec<RecordBatch>),
    Query(Box<Query>),
}

/// How to show a result that goes on changing: positions are those behind the column that says what becomes of a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changing {
    /// Columns that tell rows apart, if there are such.
    pub(crate) key: Option<Vec<usize>>,
    /// The columns by which the query orders its rows.
    pub(crate) order: Vec<(usize, SortOptions)>,
}

/// A planned query that has not begun.
pub(crate) struct Query {
    pub(crate) plan: PhysicalPlan,
    pub(crate) executor: Arc<Executor>,
    pub(crate) settings: Settings,
    pub(crate) result: ResultUse,
    /// The columns by which the query orders its rows, as far as they are columns of its result.
    pub(crate) order: Vec<(usize, SortOptions)>,
}

impl Frame {
    /// Nothing: no columns, no rows.
    pub(crate) fn empty() -> Self {
        Frame::of_rows(Arc::new(Schema::empty()), Vec::new())
    }

    /// Nothing, from a statement that wrote so many rows.
    pub(crate) fn written(rows: u64) -> Self {
        Frame { rows_written: Some(rows), ..Frame::empty() }
    }

    /// Rows that are there.
    pub(crate) fn of_rows(schema: SchemaRef, rows: Vec<RecordBatch>) -> Self {
        let token = CancellationToken::default();
        let (warnings, rows_written) = (Vec::new(), None);
        Frame { schema, body: Body::Rows(rows), warnings, rows_written, text: false, token }
    }

    /// One batch of rows.
    pub(crate) fn of_batch(batch: RecordBatch) -> Self {
        Frame::of_rows(batch.schema(), vec![batch])
    }

    /// One column of text that reads as one, line by line.
    pub(crate) fn of_text(batch: RecordBatch) -> Self {
        Frame { text: true, ..Frame::of_batch(batch) }
    }

    /// A query.
    pub(crate) fn of_query(schema: SchemaRef, query: Query, token: CancellationToken) -> Self {
        let warnings = query.plan.warnings.clone();
        let body = Body::Query(Box::new(query));
        Frame { schema, body, warnings, rows_written: None, text: false, token }
    }

    /// The columns. A statement without a result has none.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether the statement has a result to show; a query has one even when no row comes.
    pub fn has_result(&self) -> bool {
        matches!(self.body, Body::Query(_)) || !self.schema.fields().is_empty()
    }

    /// Things the user should hear of, such as a hint that could not be applied.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Rows that the statement has written; `None` when it is not one that writes.
    pub fn rows_written(&self) -> Option<u64> {
        self.rows_written
    }

    /// Adds a warning if rows came too late for the table that they were written into.
    pub(crate) fn warned_of_late(mut self, rows: u64) -> Self {
        self.warnings.extend(
            counted(rows, "row", "that came too late")
                .map(|what| format!("{what} left out: the watermark of the table had passed")),
        );
        self
    }

    /// Adds a warning if the job that the statement ran left records or rows out.
    pub(crate) fn warned_of(mut self, job: &JobHandle) -> Self {
        self.warnings.extend(left_out(job));
        self
    }

    /// The physical plan as a tree; verbose adds properties and costs. Empty for a statement that is no query.
    pub fn explain(&self, verbose: bool) -> String {
        match &self.body {
            Body::Query(query) => explain(&query.plan, verbose, None),
            Body::Rows(_) => String::new(),
        }
    }

    /// The physical plan as JSON; `null` for a statement that is no query.
    pub fn explain_json(&self) -> serde_json::Value {
        match &self.body {
            Body::Query(query) => explain_json(&query.plan, None),
            Body::Rows(_) => serde_json::Value::Null,
        }
    }

    /// How to show a query's result whose rows are told as changes; `None` for other results.
    pub(crate) fn changing(&self) -> Option<Changing> {
        match &self.body {
            Body::Query(query) if query.result == ResultUse::Changelog => {
                Some(Changing { key: query.plan.key.clone(), order: query.order.clone() })
            }
            Body::Query(_) | Body::Rows(_) => None,
        }
    }

    /// Whether the rows are the lines of a text, such as a plan.
    pub(crate) fn is_text(&self) -> bool {
        self.text
    }

    /// Cancels the query, before or while it runs.
    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// What cancels the query after the frame has been turned into a stream.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Starts the query. Its rows come as they are read; it is held back while nobody reads.
    pub fn stream(self) -> Result<FrameStream> {
        let source = match self.body {
            Body::Rows(rows) => Source::Rows(rows.into_iter()),
            Body::Query(query) => {
                let Query { plan, executor, settings, result, .. } = *query;
                let changes = match result {
                    ResultUse::Rows => None,
                    ResultUse::Changelog => Some(Changes::of(&plan)),
                };
                let schema = self.schema.clone();
                let started = executor.start(&plan, schema, changes, &settings, &self.token)?;
                Source::Job(Box::new(started))
            }
        };
        Ok(FrameStream { schema: self.schema, source, ended: false })
    }

    /// All rows. They must fit into memory.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        let mut stream = self.stream()?;
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frame").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// What to say of records and rows that a job left out; nothing if there were none.
fn left_out(job: &JobHandle) -> Vec<String> {
    let records = counted(job.skipped_records(), "record", "that could not be read");
    let rows = counted(job.late_rows(), "row", "that came too late");
    let kept = counted(job.rejected_records(), "record", "that could not be read");
    let untimed = counted(job.untimed_rows(), "row", "without an event time");
    let records = records.map(|what| format!("{what} left out, as the table's options say"));
    let kept = kept.map(|what| format!("{what} put into the dead-letter table"));
    let untimed = untimed.map(|what| format!("{what} left out, as the table's options say"));
    let rows = rows.map(|what| format!("{what} dropped: the watermark had passed their group"));
    let forgotten = counted(job.forgotten_rows(), "late row", "that a job had counted");
    let forgotten = forgotten.map(|what| format!("{what} no longer kept: a job keeps the newest"));
    records.into_iter().chain(kept).chain(untimed).chain(rows).chain(forgotten).collect()
}

fn counted(number: u64, what: &str, which: &str) -> Option<String> {
    match number {
        0 => None,
        1 => Some(format!("1 {what} {which} was")),
        several => Some(format!("{several} {what}s {which} were")),
    }
}

/// The rows of a frame. After an error or the last batch it yields `None`.
pub struct FrameStream {
    schema: SchemaRef,
    source: Source,
    ended: bool,
}

enum Source {
    Rows(std::vec::IntoIter<RecordBatch>),
    Job(Box<Execution>),
}

impl FrameStream {
    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Where to ask for progress while the stream is being read; `None` when nothing runs.
    pub fn progress_handle(&self) -> Option<ProgressHandle> {
        match &self.source {
            Source::Rows(_) => None,
            Source::Job(execution) => Some(ProgressHandle {
                job: Arc::downgrade(execution.job()),
                plan: execution.plan(),
            }),
        }
    }

    /// Whether the query is a continuous one: each row is final when it comes, and the next may be long in coming.
    pub fn is_continuous(&self) -> bool {
        match &self.source {
            Source::Rows(_) => false,
            Source::Job(execution) => execution.is_continuous(),
        }
    }

    /// What the user should hear of records and rows that the query has left out so far: records that could not be read,
    /// where a table's options allow that, and rows that came too late.
    pub fn left_out(&self) -> Vec<String> {
        match &self.source {
            Source::Rows(_) => Vec::new(),
            Source::Job(execution) => left_out(execution.job()),
        }
    }

    /// Cancels the query; the stream then ends with [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn cancel(&self) {
        if let Source::Job(execution) = &self.source {
            execution.cancel();
        }
    }
}

/// Tells a running query's progress, from any thread.
#[derive(Clone)]
pub struct ProgressHandle {
    job: Weak<JobHandle>,
    plan: Arc<PhysicalPlan>,
}

impl ProgressHandle {
    /// Work done and work in all, as far as the sources know; `None` when they do not, or the query has ended.
    pub fn progress(&self) -> Option<(u64, u64)> {
        self.job.upgrade().and_then(|job| job.progress())
    }

    /// How the query is doing; `None` when nobody holds it any more.
    pub(crate) fn status(&self) -> Option<QueryStatus> {
        self.job.upgrade().map(|job| QueryStatus::of(&job, &self.plan))
    }
}

impl Stream for FrameStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = match &mut self.source {
            Source::Rows(rows) => Poll::Ready(rows.next().map(Ok)),
            Source::Job(execution) => execution.poll_batch(cx),
        };
        if let Poll::Ready(None | Some(Err(_))) = &next {
            self.ended = true;
        }
        next
    }
}
