//! Reads a subscription: the rows that it began with, and then the changes, for ever.
//!
//! The first subtask reads, the others have nothing to do: changes of one row must not overtake each other. The reader
//! waits at the subscription's limit; whoever moves the limit wakes the job's tasks. A batch holds rows of one kind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::RowKind;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::{OperatorContext, WaitReason};
use thalweg_runtime::source::{
    Source, SourceOutput, SourceReader, SourceSpec, SplitEvent, SplitId,
};
use thalweg_runtime::{Error, Result};

use super::changes::{Change, Subscription};
use super::told::Telling;
use crate::connectors::scan::{ReadLayout, ScanFilter, apply_mask};

/// The only split.
const SPLIT: SplitId = SplitId(0);

/// Opens the source of a subscription.
pub(super) fn open(
    spec: &SourceSpec,
    subscription: Arc<Subscription>,
    job: &Arc<JobContext>,
) -> Arc<dyn Source> {
    Arc::new(FollowSource {
        layout: ReadLayout::new(spec),
        spec: spec.clone(),
        subscription,
        job: job.clone(),
        begun: Arc::default(),
    })
}

struct FollowSource {
    spec: SourceSpec,
    layout: ReadLayout,
    subscription: Arc<Subscription>,
    job: Arc<JobContext>,
    /// Whether the reader was stepped again after it had said what it reads.
    begun: Arc<AtomicBool>,
}

impl Source for FollowSource {
    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>> {
        if subtask > 0 {
            return Ok(Box::new(Nothing));
        }
        let mut rows = self.subscription.rows();
        let telling = Telling::of_options(&self.spec.options);
        if let Some(telling) = &telling {
            rows = Arc::new(telling.present(&rows, self.job.env.now_us())?);
        }
        let inserts = rows.iter().map(|batch| Piece::Rows(batch.clone(), RowKind::Insert));
        let reached = self.subscription.watermark_us().map(Piece::Reached);
        Ok(Box::new(FollowReader {
            in_time: self.spec.event_time.is_some(),
            filter: ScanFilter::new(&self.spec, &self.layout, &self.job.functions)?,
            layout: self.layout.clone(),
            batch_rows: self.spec.batch_rows.max(1),
            pieces: inserts.chain(reached).collect(),
            version: self.subscription.start(),
            subscription: self.subscription.clone(),
            begun: self.begun.clone(),
            telling,
            said: Said::Nothing,
        }))
    }

    fn progress(&self) -> Option<(u64, u64)> {
        None
    }

    fn pending_from_us(&self) -> Option<i64> {
        (!self.begun.load(Ordering::Acquire)).then_some(i64::MIN)
    }
}

/// What was last said of the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Reading,
    CaughtUp,
}

/// What is to be delivered next.
enum Piece {
    /// Rows of one kind.
    Rows(RecordBatch, RowKind),
    /// How far event time has come.
    Reached(i64),
}

struct FollowReader {
    /// Whether the job wants to know of event time. Nobody knows when the next row comes, so that the split always holds it
    /// back then.
    in_time: bool,
    subscription: Arc<Subscription>,
    layout: ReadLayout,
    filter: ScanFilter,
    batch_rows: usize,
    /// What has been taken from the subscription and not delivered.
    pieces: VecDeque<Piece>,
    /// The version behind which the next change comes.
    version: u64,
    begun: Arc<AtomicBool>,
    /// How changes are told, if they are rows of their own.
    telling: Option<Telling>,
    said: Said,
}

impl FollowReader {
    /// Takes the next change; false if there is none within the limit.
    fn take_change(&mut self, now_us: i64) -> Result<bool> {
        let Some(change) = self.subscription.after(self.version) else { return Ok(false) };
        self.version += 1;
        if let Some(telling) = &self.telling {
            let told = telling.tell(&change, now_us)?;
            self.pieces.extend(told.into_iter().map(|batch| Piece::Rows(batch, RowKind::Insert)));
            return Ok(true);
        }
        let Change { deleted, inserted, watermark_us } = change.as_ref();
        let of = |batches: &[RecordBatch], kind| {
            batches.iter().cloned().map(move |batch| Piece::Rows(batch, kind)).collect::<Vec<_>>()
        };
        self.pieces.extend(of(deleted, RowKind::Delete));
        self.pieces.extend(of(inserted, RowKind::Insert));
        self.pieces.extend(watermark_us.map(Piece::Reached));
        Ok(true)
    }

    /// The rows of a piece that pass the filters; what is more than a batch stays.
    fn deliver(&mut self, piece: RecordBatch, kind: RowKind, now_us: i64) -> Result<SourceOutput> {
        let rows = piece.num_rows().min(self.batch_rows);
        if rows < piece.num_rows() {
            let rest = piece.slice(rows, piece.num_rows() - rows);
            self.pieces.push_front(Piece::Rows(rest, kind));
        }
        let columns: Vec<ArrayRef> =
            self.layout.columns.iter().map(|&at| piece.column(at).slice(0, rows)).collect();
        let mask = self.filter.mask(rows, &|place| columns[place].clone())?;
        let mut output: Vec<ArrayRef> =
            self.layout.output.iter().map(|&place| columns[place].clone()).collect();
        let mut kept = rows;
        if let Some(bits) = mask {
            kept = bits.count_set_bits();
            if kept > 0 {
                apply_mask(&mut output, &bits)?;
            }
        }
        if kept == 0 {
            return Ok(SourceOutput::Continue);
        }
        let mut batch = Batch::new(output, kept);
        if kind != RowKind::Insert {
            batch = batch.with_kinds(vec![kind; kept].into());
        }
        batch.ingest_time_us = now_us;
        Ok(SourceOutput::Batch(batch))
    }
}

impl SourceReader for FollowReader {
    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        if self.said == Said::Nothing {
            self.said = Said::Reading;
            return Ok(SourceOutput::Split(SplitEvent::Reading(SPLIT)));
        }
        self.begun.store(true, Ordering::Release);
        self.filter.refresh(cx);
        if self.pieces.is_empty() && !self.take_change(cx.job.env.now_us())? {
            if self.said == Said::Reading && !self.in_time {
                self.said = Said::CaughtUp;
                return Ok(SourceOutput::Split(SplitEvent::CaughtUp(SPLIT)));
            }
            return Ok(SourceOutput::Wait(WaitReason::Io));
        }
        if self.said == Said::CaughtUp {
            self.said = Said::Reading;
            return Ok(SourceOutput::Split(SplitEvent::Reading(SPLIT)));
        }
        match self.pieces.pop_front() {
            Some(Piece::Rows(piece, kind)) => self.deliver(piece, kind, cx.job.env.now_us()),
            Some(Piece::Reached(at_us)) if self.in_time => {
                Ok(SourceOutput::Split(SplitEvent::Reached(SPLIT, at_us)))
            }
            Some(Piece::Reached(_)) => Ok(SourceOutput::Continue),
            None => Ok(SourceOutput::Continue),
        }
    }

    fn is_at_cut(&self) -> bool {
        self.pieces.is_empty() && self.version >= self.subscription.limit()
    }

    fn snapshot(&mut self) -> Result<Vec<u8>> {
        Err(Error::Unsupported("a checkpoint of tables in memory".into()))
    }

    fn restore(&mut self, _position: &[u8]) -> Result<()> {
        Err(Error::Unsupported("a checkpoint of tables in memory".into()))
    }
}

/// The reader of a subtask that has nothing to read.
struct Nothing;

impl SourceReader for Nothing {
    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        Ok(SourceOutput::Finished)
    }

    fn is_at_cut(&self) -> bool {
        false
    }

    fn snapshot(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn restore(&mut self, _position: &[u8]) -> Result<()> {
        Ok(())
    }
}
