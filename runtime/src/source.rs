//! Sources: connectors that hand out splits and read them.
//!
//! A connector is registered by name in the job's environment. For each scan vertex it opens one [`Source`];
//! every subtask has a [`SourceReader`] of its own and takes splits from the source's enumerator when it has
//! none left, so that fast subtasks read more.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::error::Result;
use crate::expr::Expr;
use crate::job::JobContext;
use crate::operators::{OperatorContext, WaitReason};

/// A runtime filter to apply: rows whose key cannot match are dropped early.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuntimeFilterUse {
    /// The filter's id in the job.
    pub filter: u32,
    /// The key, over the table's columns.
    pub key: Expr,
}

/// What a scan reads. Positions in `filters` and `runtime_filters` refer to `schema`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceSpec {
    /// The connector's registered name.
    pub connector: String,
    /// What the connector needs to find the data; its own format.
    pub options: serde_json::Value,
    /// All columns of the table that the connector reads as values.
    pub schema: Schema,
    /// What the connector is to tell of a row beside them, by the names that it has for it: positions in `projection`
    /// behind the columns of `schema` are these.
    pub metadata: Vec<Field>,
    /// The columns to deliver, in order; may be empty (row counts alone).
    pub projection: Vec<usize>,
    /// Conjuncts; only rows for which all are true are delivered.
    pub filters: Vec<Expr>,
    /// Filters that arrive while the job runs; applying them is allowed, not required.
    pub runtime_filters: Vec<RuntimeFilterUse>,
    /// At least this many rows are enough, if set.
    pub fetch: Option<usize>,
    /// Rows a batch should have at most.
    pub batch_rows: usize,
    /// How event time follows from the rows, if the query asks for it.
    pub event_time: Option<EventTimeSpec>,
}

/// How the watermark of a source follows from its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventTimeSpec {
    /// When a row happened: a timestamp over the projected columns; `None` if rows do not say it.
    pub time: Option<Expr>,
    /// The watermark that a row declares: a timestamp over the projected columns. A later row of the split should have
    /// a time after it. NULL declares none. `None` where the reader tells watermarks by [`SplitEvent::Reached`].
    pub watermark: Option<Expr>,
    /// The types of the projected columns.
    pub types: Vec<DataType>,
    /// How many of the projected columns leave the scan; those behind them only serve the watermark.
    pub delivered: usize,
    /// The name of the column that tells the time, for messages.
    pub name: String,
    /// What becomes of rows whose time is NULL.
    pub null_time: NullTime,
    /// Whether watermarks are made; otherwise only rows without a time are looked for.
    pub tells_time: bool,
    /// How long watermarks lie apart at least, in nanoseconds, where no late row asks for one: 0 lets each leave at once.
    pub emit_interval_ns: u64,
    /// How long a split that is caught up holds time back before it is idle, in nanoseconds.
    pub idle_timeout_ns: u64,
    /// The scans that this one waits for when it is ahead.
    pub alignment: Option<AlignmentSpec>,
}

/// Which scans wait for each other, so that none is far ahead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlignmentSpec {
    /// The name that they share.
    pub group: String,
    /// How far ahead of another one a scan may be, in microseconds.
    pub max_drift_us: i64,
    /// How often a scan that waits looks at the others, in nanoseconds.
    pub update_interval_ns: u64,
}

/// What becomes of a row whose event time is NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NullTime {
    /// It is an error.
    Fail,
    /// It is left out and counted.
    Drop,
    /// It is delivered, and says nothing about the time.
    SkipWatermark,
}

/// A stretch of a source whose rows come in one order of their own: a file, a byte range, a partition of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SplitId(pub u64);

/// What a reader says about its splits. A reader that says nothing has one split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitEvent {
    /// The batches that follow are of this split, which may be a new one.
    Reading(SplitId),
    /// Nothing more comes of it.
    Ended(SplitId),
    /// All that it holds at the moment has been read, and nobody knows when more comes.
    CaughtUp(SplitId),
    /// No row before this time, in microseconds, follows in it.
    Reached(SplitId, i64),
}

/// What a step of a reader came to.
#[derive(Debug)]
pub enum SourceOutput {
    /// Rows with the projected columns.
    Batch(Batch),
    /// Something about a split.
    Split(SplitEvent),
    /// Something was done, nothing is ready yet; step again.
    Continue,
    /// The reader waits for something that will wake the task.
    Wait(WaitReason),
    /// No split is left.
    Finished,
}

/// One subtask's reader. `step` does at most a batch of work and never blocks on I/O.
pub trait SourceReader: Send {
    /// Goes on reading; takes the next split when it needs one.
    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<SourceOutput>;
    /// Whether everything has been delivered that belongs before a barrier which is asked for now. A source that goes on
    /// for ever may be cut anywhere; of one that ends all rows come before the first barrier.
    fn is_at_cut(&self) -> bool;
    /// The split in hand and the place in it, in the reader's own encoding.
    fn snapshot(&mut self) -> Result<Vec<u8>>;
    /// Goes on where a snapshot was taken.
    fn restore(&mut self, position: &[u8]) -> Result<()>;
}

/// A table opened for one scan vertex, shared by its subtasks.
pub trait Source: Send + Sync {
    /// A reader for one subtask.
    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>>;
    /// Work done and work in all (bytes or rows, the source's choice), for progress; `None` if unknown.
    fn progress(&self) -> Option<(u64, u64)>;
    /// The least event time, in microseconds, that a split may hold which no reader has begun; `None` when no such
    /// split is left. Watermarks stay at or below it. A split is begun when its reader is stepped again after it said
    /// [`SplitEvent::Reading`]: by then everyone behind the scan knows that it speaks.
    fn pending_from_us(&self) -> Option<i64>;
    /// What users know a split by, such as a file; `None` if its number is all there is.
    fn split_name(&self, _split: SplitId) -> Option<String> {
        None
    }
}

/// Makes sources of one kind.
pub trait SourceConnector: Send + Sync {
    /// Opens the table of a spec. Called once a vertex, before its first step; must not block on I/O.
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>>;
}
