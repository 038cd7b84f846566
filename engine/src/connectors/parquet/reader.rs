//! One subtask's part of a Parquet scan.
//!
//! Phases: take a row group (perhaps load a footer first), fetch, decode. While one row group is decoded the next
//! one is fetched. Rows that pass the filter are coalesced over batches and row groups.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg_runtime::batch::{Batch, Coalescer};
use thalweg_runtime::env::IoTask;
use thalweg_runtime::operators::{OperatorContext, WaitReason};
use thalweg_runtime::source::{SourceOutput, SourceReader};
use thalweg_runtime::{Error, Result};

use super::meta::ParquetMeta;
use super::row_group::{GroupProgress, RowGroupScan};
use super::source::{NextSplit, SharedScan, Split};
use crate::connectors::files::FileCache;
use crate::connectors::metadata::RowOrigin;
use crate::connectors::scan::ScanFilter;
use crate::connectors::scan::prune::may_lie_between;

/// A row group of more compressed bytes is not fetched ahead.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// The reader.
pub struct ParquetReader {
    shared: Arc<SharedScan>,
    filter: ScanFilter,

    phase: Phase,
    ahead: Option<RowGroupScan>,
    coalescer: Coalescer,
    finished: Vec<(usize, usize)>,
    resume: Position,
}

enum Phase {
    Idle,
    Loading { file: usize, task: IoTask<Arc<ParquetMeta>> },
    Scanning(Box<RowGroupScan>),
    Done,
}

/// Where a reader is: everything before it was delivered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Position {
    /// Files and row groups that were read whole.
    finished: Vec<(usize, usize)>,
    /// The row group in hand and how many of its rows were looked at.
    current: Option<(usize, usize, usize)>,
}

impl ParquetReader {
    /// A reader that has no split yet.
    pub fn new(shared: Arc<SharedScan>) -> Result<Self> {
        let filter = ScanFilter::new(&shared.spec, &shared.layout, &shared.job.functions)?;
        Ok(ParquetReader {
            coalescer: Coalescer::new(shared.spec.batch_rows),
            shared,
            filter,
            phase: Phase::Idle,
            ahead: None,
            finished: Vec::new(),
            resume: Position::default(),
        })
    }

    fn take(&mut self, cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        if self.filter.refresh(cx) {
            self.phase = Phase::Done;
            return Ok(SourceOutput::Continue);
        }
        if let Some(ahead) = self.ahead.take() {
            if self.is_ruled_out(ahead.split()) {
                self.finish_group(ahead.split().clone());
            } else if ahead.suits(&self.filter) {
                self.phase = Phase::Scanning(Box::new(ahead));
            } else {
                let split = ahead.split().clone();
                let anew = RowGroupScan::start(&self.shared, split, &self.filter, 0);
                self.phase = Phase::Scanning(Box::new(anew));
            }
            return Ok(SourceOutput::Continue);
        }
        match self.shared.next_split(cx.waker) {
            NextSplit::Split(split) if self.is_ruled_out(&split) => self.finish_group(split),
            NextSplit::Split(split) => {
                let scan = RowGroupScan::start(&self.shared, split, &self.filter, 0);
                self.phase = Phase::Scanning(Box::new(scan));
            }
            NextSplit::Load(file) => return self.load(file),
            NextSplit::Wait => return Ok(SourceOutput::Wait(WaitReason::Io)),
            NextSplit::Finished => self.phase = Phase::Done,
        }
        Ok(SourceOutput::Continue)
    }

    fn load(&mut self, file: usize) -> Result<SourceOutput> {
        let info = &self.shared.scan.files[file];
        if let Some(meta) = FileCache::process().parquet(&info.path, info.size, info.mtime_ns) {
            self.shared.add_file(file, meta)?;
            return Ok(SourceOutput::Continue);
        }
        let (env, info) = (self.shared.job.env.clone(), info.clone());
        let task = IoTask::spawn(&self.shared.job.env, move || {
            let cache = FileCache::process();
            cache.load_parquet(&*env, &info.path, &info.name, info.size, info.mtime_ns)
        });
        self.phase = Phase::Loading { file, task };
        Ok(SourceOutput::Continue)
    }

    /// Whether the runtime filters that have arrived let no row of a row group through.
    fn is_ruled_out(&self, split: &Split) -> bool {
        let filters = &self.shared.spec.runtime_filters;
        filters.iter().any(|used| {
            let Some(filter) = self.shared.job.filters.get(used.filter) else { return false };
            let Some((least, greatest)) = filter.bounds() else { return filter.is_empty() };
            let bounds = self.shared.bounds(&split.plan, vec![split.group]);
            !may_lie_between(&used.key, &least, &greatest, &bounds).value(0)
        })
    }

    fn fetch_ahead(&mut self, cx: &OperatorContext<'_>) {
        if self.ahead.is_some() {
            return;
        }
        let Some(split) = self.shared.split_ahead(cx.parallelism) else { return };
        let places: Vec<usize> = (0..self.shared.layout.columns.len()).collect();
        let small = split.plan.compressed_bytes(split.group, &places) <= AHEAD_BYTES_MAX;
        let mut scan = RowGroupScan::start(&self.shared, split, &self.filter, 0);
        if small {
            scan.fetch(&self.shared);
        }
        self.ahead = Some(scan);
    }

    fn scan(&mut self, cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        self.fetch_ahead(cx);
        let Phase::Scanning(scan) = &mut self.phase else { return Ok(SourceOutput::Continue) };
        if scan.is_between_batches() && self.filter.refresh(cx) {
            self.phase = Phase::Done;
            return Ok(SourceOutput::Continue);
        }
        let ready = match scan.step(&self.shared, &mut self.filter, cx)? {
            GroupProgress::Rows(batch) if self.shared.layout.has_metadata() => {
                let file = &self.shared.scan.files[scan.split().plan.index];
                let origin = RowOrigin { file: Some(file.clone()), lines: None };
                let (rows, now_us) = (batch.num_rows(), self.shared.job.env.now_us());
                let mut columns = batch.columns().to_vec();
                self.shared.layout.add_metadata(&mut columns, &origin, rows, now_us)?;
                self.coalescer.push(Batch::new(columns, rows))?
            }
            GroupProgress::Rows(batch) => self.coalescer.push(batch)?,
            GroupProgress::Working => None,
            GroupProgress::Wait => return Ok(SourceOutput::Wait(WaitReason::Io)),
            GroupProgress::Finished => {
                let split = scan.split().clone();
                self.phase = Phase::Idle;
                self.finish_group(split);
                None
            }
        };
        match ready {
            Some(batch) => Ok(self.deliver(batch)),
            None => Ok(SourceOutput::Continue),
        }
    }

    fn finish_group(&mut self, split: Split) {
        self.shared.done(&split.plan, split.group);
        self.finished.push((split.plan.index, split.group));
        self.note_position();
    }

    /// Between coalesced batches everything up to here was delivered.
    fn note_position(&mut self) {
        if !self.coalescer.pending().is_empty() {
            return;
        }
        let current = match &self.phase {
            Phase::Scanning(scan) => {
                Some((scan.split().plan.index, scan.split().group, scan.rows_done()))
            }
            Phase::Idle | Phase::Loading { .. } | Phase::Done => None,
        };
        self.resume = Position { finished: self.finished.clone(), current };
    }

    fn deliver(&mut self, mut batch: Batch) -> SourceOutput {
        self.shared.delivered(batch.num_rows());
        batch.ingest_time_us = self.shared.job.env.now_us();
        self.note_position();
        SourceOutput::Batch(batch)
    }
}

impl SourceReader for ParquetReader {
    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        if self.shared.has_enough() {
            self.phase = Phase::Done;
            self.coalescer.clear();
        }
        match &mut self.phase {
            Phase::Idle => self.take(cx),
            Phase::Loading { file, task } => {
                let file = *file;
                let Some(loaded) = task.poll(cx.waker) else {
                    return Ok(SourceOutput::Wait(WaitReason::Io));
                };
                self.phase = Phase::Idle;
                match loaded {
                    Ok(meta) => self.shared.add_file(file, meta)?,
                    Err(error) => {
                        self.shared.file_failed();
                        return Err(error);
                    }
                }
                Ok(SourceOutput::Continue)
            }
            Phase::Scanning(_) => self.scan(cx),
            Phase::Done => match self.coalescer.flush()? {
                Some(batch) => Ok(self.deliver(batch)),
                None => Ok(SourceOutput::Finished),
            },
        }
    }

    fn is_at_cut(&self) -> bool {
        false
    }

    fn snapshot(&mut self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self.resume)
            .map_err(|e| Error::Internal(format!("the position of a scan: {e}")))
    }

    fn restore(&mut self, position: &[u8]) -> Result<()> {
        let position: Position = serde_json::from_slice(position)
            .map_err(|e| Error::Internal(format!("the position of a scan: {e}")))?;
        let current = position.current.map(|(file, group, _)| (file, group));
        self.shared.claim(position.finished.iter().copied().chain(current));
        self.finished = position.finished.clone();
        if let Some((file, group, rows)) = position.current {
            let info = &self.shared.scan.files[file];
            let env = &self.shared.job.env;
            let cache = FileCache::process();
            let meta =
                cache.load_parquet(&**env, &info.path, &info.name, info.size, info.mtime_ns)?;
            let split = Split { plan: self.shared.plan(file, meta)?, group };
            let scan = RowGroupScan::start(&self.shared, split, &self.filter, rows);
            self.phase = Phase::Scanning(Box::new(scan));
        }
        self.resume = position;
        Ok(())
    }
}
