//! A source of splits that are all known from the start: delimited text, JSON, Arrow files, tables in memory.
//!
//! A format says how many splits there are and how to read one ([`SplitFormat`]); handing them out, filtering,
//! coalescing, stopping early, progress and positions are the same for all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thalweg_runtime::batch::{Batch, Coalescer};
use thalweg_runtime::element::RowKind;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::{OperatorContext, WaitReason};
use thalweg_runtime::source::{
    Source, SourceOutput, SourceReader, SourceSpec, SplitEvent, SplitId,
};
use thalweg_runtime::{Error, Result};

use super::{ReadLayout, ScanFilter, apply_mask};
use crate::connectors::metadata::RowOrigin;

/// While so many splits wait, a reader begins to fetch the next one before it has read the one in hand.
const AHEAD_MIN: usize = 16;

/// What a step in a split came to.
pub enum SplitProgress {
    /// The columns of the layout, in its order, and their length.
    Rows(Vec<ArrayRef>, usize),
    /// What a format that filters by itself has of the rows that are wanted.
    Wanted {
        /// The delivered columns.
        columns: Vec<ArrayRef>,
        /// Their length.
        rows: usize,
        /// Rows that were looked at, wanted or not.
        seen: usize,
    },
    /// The columns of the layout, in its order, and what becomes of each row.
    Changes(Vec<ArrayRef>, Arc<[RowKind]>),
    /// Nothing yet.
    Working,
    /// Bytes are on their way; the waker is registered.
    Wait,
    /// The split is done.
    Finished,
}

/// What is wanted of the rows to be read next, for formats that need not read what is not.
pub struct Wanted<'a> {
    /// Rows must pass it.
    pub filter: &'a mut ScanFilter,
    /// So many rows were delivered before.
    pub skip: usize,
    /// The delivered columns, as places in the layout.
    pub output: &'a [usize],
}

/// A split being read.
pub trait SplitScan: Send {
    /// A batch's worth of work. Whoever answers with rows of the layout leaves it to others to choose among them.
    fn step(&mut self, cx: &OperatorContext<'_>, wanted: Wanted<'_>) -> Result<SplitProgress>;
    /// Where the rows of the last step come from, for metadata.
    fn origin(&self) -> RowOrigin {
        RowOrigin::default()
    }
}

/// How a format reads its splits.
pub trait SplitFormat: Send + Sync {
    /// The numbers of the splits to read, in order, with the bytes of each.
    fn splits(&self) -> Vec<(usize, u64)>;
    /// What users know a split by, such as a file and the piece of it.
    fn split_name(&self, _split: usize) -> Option<String> {
        None
    }
    /// Starts on a split; must not block.
    fn open(
        &self,
        split: usize,
        layout: &ReadLayout,
        job: &Arc<JobContext>,
    ) -> Result<Box<dyn SplitScan>>;
}

/// The source.
pub struct SplitSource(Arc<Shared>);

struct Shared {
    spec: SourceSpec,
    layout: ReadLayout,
    job: Arc<JobContext>,
    format: Box<dyn SplitFormat>,
    pending: Mutex<VecDeque<(usize, u64)>>,
    /// Splits that were taken, and whose readers have not said so and been stepped again. Raised under `pending`.
    unannounced: AtomicUsize,
    bytes_all: u64,
    bytes_done: AtomicU64,
    rows_delivered: AtomicUsize,
}

impl SplitSource {
    /// A source over all splits of a format.
    pub fn open(
        spec: &SourceSpec,
        format: Box<dyn SplitFormat>,
        job: &Arc<JobContext>,
    ) -> Arc<dyn Source> {
        let pending: VecDeque<_> = format.splits().into();
        Arc::new(SplitSource(Arc::new(Shared {
            layout: ReadLayout::new(spec),
            spec: spec.clone(),
            job: job.clone(),
            format,
            bytes_all: pending.iter().map(|(_, bytes)| bytes).sum(),
            pending: Mutex::new(pending),
            unannounced: AtomicUsize::new(0),
            bytes_done: AtomicU64::new(0),
            rows_delivered: AtomicUsize::new(0),
        })))
    }
}

impl Source for SplitSource {
    fn reader(&self, _subtask: usize) -> Result<Box<dyn SourceReader>> {
        let shared = self.0.clone();
        Ok(Box::new(SplitReader {
            filter: ScanFilter::new(&shared.spec, &shared.layout, &shared.job.functions)?,
            coalescer: Coalescer::new(shared.spec.batch_rows),
            shared,
            current: None,
            ahead: None,
            done: false,
            finished: Vec::new(),
            resume: Position::default(),
            said: VecDeque::new(),
            unannounced: false,
        }))
    }

    fn progress(&self) -> Option<(u64, u64)> {
        Some((self.0.bytes_done.load(Ordering::Relaxed), self.0.bytes_all))
    }

    fn split_name(&self, split: SplitId) -> Option<String> {
        self.0.format.split_name(split.0 as usize)
    }

    fn pending_from_us(&self) -> Option<i64> {
        let pending = self.0.pending.lock();
        let begun = pending.is_empty() && self.0.unannounced.load(Ordering::Acquire) == 0;
        (!begun).then_some(i64::MIN)
    }
}

/// One subtask's reader.
struct SplitReader {
    shared: Arc<Shared>,
    filter: ScanFilter,

    current: Option<Current>,
    /// The split behind it, begun and taken from those that are pending.
    ahead: Option<Current>,
    done: bool,
    coalescer: Coalescer,
    finished: Vec<usize>,
    resume: Position,
    /// What is to be said before the next batch; only for those who count event time.
    said: VecDeque<SplitEvent>,
    /// Whether the split in hand is among the unannounced.
    unannounced: bool,
}

struct Current {
    split: usize,
    bytes: u64,
    scan: Box<dyn SplitScan>,
    rows_done: usize,
    /// Rows that were delivered before a restore.
    skip: usize,
}

/// Everything before it was delivered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Position {
    finished: Vec<usize>,
    current: Option<(usize, usize)>,
}

impl SplitReader {
    /// Goes on to the next split, or to the end.
    fn take(&mut self) -> Result<()> {
        let next = match self.ahead.take() {
            Some(next) => Some(next),
            None => self.begin(1)?,
        };
        let Some(next) = next else {
            self.done = true;
            return Ok(());
        };
        self.unannounced = self.shared.spec.event_time.is_some();
        self.read(next);
        self.ahead = self.begin(AHEAD_MIN)?;
        Ok(())
    }

    /// Begins the first pending split, if at least so many are pending.
    fn begin(&self, pending_min: usize) -> Result<Option<Current>> {
        let mut pending = self.shared.pending.lock();
        if pending.len() < pending_min {
            return Ok(None);
        }
        let Some((split, bytes)) = pending.pop_front() else { return Ok(None) };
        if self.shared.spec.event_time.is_some() {
            self.shared.unannounced.fetch_add(1, Ordering::Release);
        }
        drop(pending);
        self.open(split, bytes, 0).map(Some)
    }

    /// Reads nothing more.
    fn stop(&mut self) {
        self.done = true;
        if self.ahead.take().is_some() && self.shared.spec.event_time.is_some() {
            self.shared.unannounced.fetch_sub(1, Ordering::Release);
        }
    }

    fn open(&self, split: usize, bytes: u64, skip: usize) -> Result<Current> {
        let scan = self.shared.format.open(split, &self.shared.layout, &self.shared.job)?;
        Ok(Current { split, bytes, scan, rows_done: 0, skip })
    }

    fn read(&mut self, next: Current) {
        self.say(SplitEvent::Reading(SplitId(next.split as u64)));
        self.current = Some(next);
    }

    /// Takes the wanted rows of those that the split in hand has looked at.
    fn take_wanted(
        &mut self,
        mut columns: Vec<ArrayRef>,
        rows: usize,
        seen: usize,
    ) -> Result<SourceOutput> {
        let layout = &self.shared.layout;
        if let Some(current) = &mut self.current {
            current.rows_done += seen;
            current.skip -= current.skip.min(seen);
            if rows > 0 && layout.has_metadata() {
                let now_us = self.shared.job.env.now_us();
                layout.add_metadata(&mut columns, &current.scan.origin(), rows, now_us)?;
            }
        }
        if rows == 0 {
            return Ok(SourceOutput::Continue);
        }
        let batch = self.coalescer.push(Batch::new(columns, rows))?;
        Ok(batch.map_or(SourceOutput::Continue, |batch| self.deliver(batch)))
    }

    /// Takes what the split in hand has given, but for what was delivered before a restore.
    fn take_rows(
        &mut self,
        mut columns: Vec<ArrayRef>,
        mut rows: usize,
        mut kinds: Option<Arc<[RowKind]>>,
    ) -> Result<SourceOutput> {
        let mut origin = RowOrigin::default();
        if let Some(current) = &mut self.current {
            if self.shared.layout.has_metadata() {
                origin = current.scan.origin();
            }
            current.rows_done += rows;
            let skipped = current.skip.min(rows);
            if skipped > 0 {
                current.skip -= skipped;
                rows -= skipped;
                columns.iter_mut().for_each(|c| *c = c.slice(skipped, rows));
                origin.lines.iter_mut().for_each(|lines| drop(lines.drain(..skipped)));
                kinds = kinds.map(|kinds| kinds[skipped..].into());
            }
        }
        Ok(match self.filtered(columns, rows, kinds, &origin)? {
            Some(batch) => self.deliver(batch),
            None => SourceOutput::Continue,
        })
    }

    fn filtered(
        &mut self,
        mut columns: Vec<ArrayRef>,
        rows: usize,
        mut kinds: Option<Arc<[RowKind]>>,
        origin: &RowOrigin,
    ) -> Result<Option<Batch>> {
        let mask = self.filter.mask(rows, &|place| columns[place].clone())?;
        let mut output: Vec<ArrayRef> =
            self.shared.layout.output.iter().map(|&place| columns[place].clone()).collect();
        columns.clear();
        if self.shared.layout.has_metadata() {
            let now_us = self.shared.job.env.now_us();
            self.shared.layout.add_metadata(&mut output, origin, rows, now_us)?;
        }
        let mut kept = rows;
        if let Some(bits) = mask {
            kept = bits.count_set_bits();
            if kept == 0 {
                return Ok(None);
            }
            apply_mask(&mut output, &bits)?;
            kinds = kinds.map(|kinds| bits.set_indices().map(|row| kinds[row]).collect());
        }
        let batch = Batch::new(output, kept);
        self.coalescer.push(match kinds {
            Some(kinds) => batch.with_kinds(kinds),
            None => batch,
        })
    }

    /// Where event time counts, no batch has rows of two splits: gives the rest of this one.
    fn finish_split(&mut self) -> Result<Option<Batch>> {
        let Some(current) = self.current.take() else { return Ok(None) };
        self.shared.bytes_done.fetch_add(current.bytes, Ordering::Relaxed);
        self.finished.push(current.split);
        let by_split = self.shared.spec.event_time.is_some();
        let rest = if by_split { self.coalescer.flush()? } else { None };
        self.say(SplitEvent::Ended(SplitId(current.split as u64)));
        self.note_position();
        Ok(rest)
    }

    fn say(&mut self, event: SplitEvent) {
        if self.shared.spec.event_time.is_some() {
            self.said.push_back(event);
        }
    }

    fn note_position(&mut self) {
        if self.coalescer.pending().is_empty() {
            let current = self.current.as_ref().map(|c| (c.split, c.rows_done));
            self.resume = Position { finished: self.finished.clone(), current };
        }
    }

    fn deliver(&mut self, mut batch: Batch) -> SourceOutput {
        self.shared.rows_delivered.fetch_add(batch.num_rows(), Ordering::Relaxed);
        batch.ingest_time_us = self.shared.job.env.now_us();
        self.note_position();
        SourceOutput::Batch(batch)
    }

    fn has_enough(&self) -> bool {
        let delivered = self.shared.rows_delivered.load(Ordering::Relaxed);
        self.shared.spec.fetch.is_some_and(|n| delivered >= n)
    }
}

impl SourceReader for SplitReader {
    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        if let Some(event) = self.said.pop_front() {
            return Ok(SourceOutput::Split(event));
        }
        if std::mem::take(&mut self.unannounced) {
            self.shared.unannounced.fetch_sub(1, Ordering::Release);
        }
        if self.has_enough() {
            self.stop();
            self.coalescer.clear();
        }
        if self.done {
            return match self.coalescer.flush()? {
                Some(batch) => Ok(self.deliver(batch)),
                None => Ok(SourceOutput::Finished),
            };
        }
        if self.filter.refresh(cx) {
            self.stop();
            return Ok(SourceOutput::Continue);
        }
        let Some(current) = &mut self.current else {
            self.take()?;
            return Ok(SourceOutput::Continue);
        };
        let output = &self.shared.layout.output;
        let wanted = Wanted { filter: &mut self.filter, skip: current.skip, output };
        match current.scan.step(cx, wanted)? {
            SplitProgress::Working => Ok(SourceOutput::Continue),
            SplitProgress::Wait => Ok(SourceOutput::Wait(WaitReason::Io)),
            SplitProgress::Finished => Ok(match self.finish_split()? {
                Some(batch) => self.deliver(batch),
                None => SourceOutput::Continue,
            }),
            SplitProgress::Rows(columns, rows) => self.take_rows(columns, rows, None),
            SplitProgress::Wanted { columns, rows, seen } => self.take_wanted(columns, rows, seen),
            SplitProgress::Changes(columns, kinds) => {
                self.take_rows(columns, kinds.len(), Some(kinds))
            }
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
        let mut bytes = 0;
        self.shared.pending.lock().retain(|(split, size)| {
            let current = position.current.is_some_and(|(c, _)| c == *split);
            if current {
                bytes = *size;
            }
            !current && !position.finished.contains(split)
        });
        if let Some((split, rows)) = position.current {
            let current = self.open(split, bytes, rows)?;
            self.read(current);
        }
        self.finished = position.finished.clone();
        self.resume = position;
        Ok(())
    }
}
