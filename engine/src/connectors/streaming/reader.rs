//! A source whose splits are read side by side, as none of them may ever end.
//!
//! Split `i` belongs to subtask `i` modulo their number. A reader takes a batch from one of its splits after the
//! other and waits when all of them wait. Rows are handed on before it waits: nothing stays behind because little
//! comes. Where event time counts, no batch has rows of two splits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use arrow::array::ArrayRef;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg_runtime::batch::{Batch, Coalescer};
use thalweg_runtime::element::RowKind;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::{OperatorContext, WaitReason};
use thalweg_runtime::source::{
    Source, SourceOutput, SourceReader, SourceSpec, SplitEvent, SplitId,
};
use thalweg_runtime::{Error, Result};

use crate::connectors::metadata::RowOrigin;
use crate::connectors::scan::{ReadLayout, ScanFilter, apply_mask};

/// Splits that are read side by side before others are begun; those that are caught up do not count.
const ACTIVE_MAX: usize = 8;
/// Small batches that are joined at most.
const PENDING_MAX: usize = 64;

/// What a step in a split came to.
pub enum StreamProgress {
    /// The columns of the layout, in its order, and their length, which is at most that of a batch.
    Rows(Vec<ArrayRef>, usize),
    /// The same with what becomes of each row.
    Changes(Vec<ArrayRef>, Arc<[RowKind]>),
    /// Nothing yet.
    Working,
    /// Nothing now; the waker is registered.
    Wait {
        /// Whether all that there is has been read, and nobody knows when more comes.
        caught_up: bool,
    },
    /// Nothing more comes.
    Finished,
}

/// A split being read.
pub trait StreamSplit: Send {
    /// A batch's worth of work; must not block.
    fn step(&mut self, cx: &OperatorContext<'_>) -> Result<StreamProgress>;
    /// Where the rows of the last step come from, for metadata.
    fn origin(&self) -> RowOrigin {
        RowOrigin::default()
    }
    /// Where the row lies that comes next, for [`StreamFormat::open`].
    fn position(&self) -> Value;
}

/// How a connector reads its splits.
pub trait StreamFormat: Send + Sync {
    /// How many splits there are.
    fn splits(&self) -> u64;
    /// Starts on a split, at a position if one is given; must not block.
    fn open(
        &self,
        split: u64,
        position: Option<&Value>,
        layout: &ReadLayout,
        job: &Arc<JobContext>,
    ) -> Result<Box<dyn StreamSplit>>;
    /// What users know a split by, such as a file or an address.
    fn split_name(&self, _split: u64) -> Option<String> {
        None
    }
    /// How many rows there are, if that is known.
    fn rows(&self) -> Option<u64>;
    /// Whether splits are read one after another, by the first reader alone: to those who count event time they are one.
    fn ordered(&self) -> bool {
        false
    }
    /// What looks for further splits, for the reader of a subtask; `None` if there are never any.
    fn discovery(&self, _cx: &OperatorContext<'_>) -> Option<Box<dyn Discovery>> {
        None
    }
}

/// Finds splits that were not there before. It never ends.
pub trait Discovery: Send {
    /// The splits that are new to this reader, once a look at what there is has ended; `None` as long as none has. The
    /// waker is registered.
    fn poll(&mut self, cx: &OperatorContext<'_>) -> Result<Option<Vec<u64>>>;
}

/// How many readers are blind before one of them has stepped.
const NOBODY_KNOWS: usize = usize::MAX;

/// The source.
pub struct StreamSource(Arc<Shared>);

struct Shared {
    spec: SourceSpec,
    layout: ReadLayout,
    job: Arc<JobContext>,
    format: Box<dyn StreamFormat>,
    /// Splits of which no reader has said that it reads them.
    pending: AtomicU64,
    /// Readers that have not yet found what there was at their start; unknown before the first of them steps.
    blind: AtomicUsize,
    /// Those who wait until no reader is.
    waiting: Mutex<Vec<Waker>>,
    rows_read: AtomicU64,
    rows_delivered: AtomicUsize,
}

impl Shared {
    /// Whether all readers have found what there was; otherwise the waker is registered.
    fn all_see(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock();
        let all = self.blind.load(Ordering::Acquire) == 0;
        if !all {
            waiting.push(waker.clone());
        }
        all
    }

    /// One more reader sees.
    fn one_sees(&self) {
        let waiting = {
            let mut waiting = self.waiting.lock();
            let was_last = self.blind.fetch_sub(1, Ordering::AcqRel) == 1;
            if was_last { std::mem::take(&mut *waiting) } else { Vec::new() }
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl StreamSource {
    /// A source over the splits of a format.
    pub fn open(
        spec: &SourceSpec,
        format: Box<dyn StreamFormat>,
        job: &Arc<JobContext>,
    ) -> Arc<dyn Source> {
        Arc::new(StreamSource(Arc::new(Shared {
            layout: ReadLayout::new(spec),
            spec: spec.clone(),
            job: job.clone(),
            pending: AtomicU64::new(format.splits()),
            blind: AtomicUsize::new(NOBODY_KNOWS),
            waiting: Mutex::default(),
            format,
            rows_read: AtomicU64::new(0),
            rows_delivered: AtomicUsize::new(0),
        })))
    }
}

impl Source for StreamSource {
    fn reader(&self, _subtask: usize) -> Result<Box<dyn SourceReader>> {
        let shared = self.0.clone();
        Ok(Box::new(StreamReader {
            filter: ScanFilter::new(&shared.spec, &shared.layout, &shared.job.functions)?,
            coalescer: Coalescer::new(shared.spec.batch_rows),
            by_split: shared.spec.event_time.is_some(),
            shared,
            begun: false,
            restored: false,
            discovery: None,
            sees: false,
            found: VecDeque::new(),
            splits: VecDeque::new(),
            waiting: 0,
            reading: None,
            said: VecDeque::new(),
            unannounced: 0,
            ready: None,
            noted: Vec::new(),
            before_ready: Vec::new(),
        }))
    }

    fn progress(&self) -> Option<(u64, u64)> {
        let read = self.0.rows_read.load(Ordering::Relaxed);
        self.0.format.rows().map(|rows| (read.min(rows), rows))
    }

    fn split_name(&self, split: SplitId) -> Option<String> {
        match self.0.format.ordered() {
            true => Some("all splits in their order".to_string()),
            false => self.0.format.split_name(split.0),
        }
    }

    fn pending_from_us(&self) -> Option<i64> {
        let blind = self.0.blind.load(Ordering::Acquire) > 0;
        // Splits that come behind others in order say nothing before their turn.
        let waits = !self.0.format.ordered() && self.0.pending.load(Ordering::Acquire) > 0;
        (blind || waits).then_some(i64::MIN)
    }
}

/// One subtask's reader.
struct StreamReader {
    shared: Arc<Shared>,
    filter: ScanFilter,
    coalescer: Coalescer,
    /// Whether event time counts, so that splits are told apart.
    by_split: bool,

    begun: bool,
    /// Whether the splits to begin with come from a snapshot.
    restored: bool,
    /// Looks for further splits, and whether it has seen what there was.
    discovery: Option<Box<dyn Discovery>>,
    sees: bool,
    /// Splits that were found and not begun.
    found: VecDeque<u64>,
    /// The splits that have not ended; the first is the next to be read.
    splits: VecDeque<Open>,
    /// How many splits in a row had to wait.
    waiting: usize,
    /// The split of which it was said that its rows follow.
    reading: Option<SplitId>,
    /// What is to be said before anything else, and then the batch to be delivered.
    said: VecDeque<SplitEvent>,
    /// Splits that were begun of which it was not yet said, or not yet heard.
    unannounced: u64,
    ready: Option<Batch>,
    /// Where to go on behind everything that was made, and before the batch that is ready.
    noted: Vec<Place>,
    before_ready: Vec<Place>,
}

struct Open {
    id: u64,
    split: Box<dyn StreamSplit>,
    caught_up: bool,
}

/// Everything of the split before the position was delivered.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Place {
    split: u64,
    position: Value,
}

impl StreamReader {
    fn begin(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let readers = cx.parallelism.max(1);
        let shared = self.shared.clone();
        self.discovery = shared.format.discovery(cx);
        let blind = match (self.discovery.is_some(), shared.format.ordered()) {
            (_, true) => 1,
            (true, false) => readers,
            (false, false) => 0,
        };
        // The first reader tells for all.
        let _ =
            shared.blind.compare_exchange(NOBODY_KNOWS, blind, Ordering::AcqRel, Ordering::Acquire);
        let own = |split: &u64| split % readers as u64 == cx.subtask as u64;
        let own: Vec<u64> = (0..shared.format.splits()).filter(own).collect();
        if !self.restored {
            own.iter().try_for_each(|&split| self.open(split, None))?;
        }
        self.unannounced += own.len() as u64;
        self.note_positions();
        Ok(())
    }

    /// Has found what there was at the start.
    fn see(&mut self) {
        if !std::mem::replace(&mut self.sees, true) {
            self.shared.one_sees();
        }
    }

    /// Begins splits that are new, a few at a time.
    fn discover(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        let Some(discovery) = &mut self.discovery else { return Ok(()) };
        if let Some(new) = discovery.poll(cx)? {
            self.shared.pending.fetch_add(new.len() as u64, Ordering::AcqRel);
            self.found.extend(new);
            // What was listed counts, too: it may have grown.
            self.waiting = 0;
            self.see();
        }
        let active_max = if self.shared.format.ordered() { 1 } else { ACTIVE_MAX };
        let mut active = self.splits.iter().filter(|open| !open.caught_up).count();
        while active < active_max
            && self.coalescer.pending().is_empty()
            && let Some(split) = self.found.pop_front()
        {
            self.open(split, None)?;
            self.unannounced += 1;
            self.note_positions();
            active += 1;
        }
        Ok(())
    }

    fn open(&mut self, id: u64, position: Option<&Value>) -> Result<()> {
        let shared = self.shared.clone();
        let split = shared.format.open(id, position, &shared.layout, &shared.job)?;
        self.splits.push_back(Open { id, split, caught_up: false });
        // Its rows count from the first word about it.
        self.say(SplitEvent::Reading(SplitId(id)));
        Ok(())
    }

    fn say(&mut self, event: SplitEvent) {
        let event = match self.shared.format.ordered() {
            true => self.of_all(event),
            false => Some(event),
        };
        if let Some(event) = event.filter(|_| self.by_split) {
            self.reading = match event {
                SplitEvent::Reading(split) => Some(split),
                SplitEvent::Ended(_) | SplitEvent::CaughtUp(_) => None,
                SplitEvent::Reached(..) => self.reading,
            };
            self.said.push_back(event);
        }
    }

    /// The event of a split as one of all splits together: more comes as long as one of them has not been read.
    fn of_all(&self, event: SplitEvent) -> Option<SplitEvent> {
        const ALL: SplitId = SplitId(0);
        let caught_up = self.found.is_empty() && self.splits.iter().all(|open| open.caught_up);
        match event {
            SplitEvent::Reading(_) if self.reading == Some(ALL) => None,
            SplitEvent::Reading(_) => Some(SplitEvent::Reading(ALL)),
            SplitEvent::Ended(_) | SplitEvent::CaughtUp(_) => {
                caught_up.then_some(SplitEvent::CaughtUp(ALL))
            }
            SplitEvent::Reached(_, time_us) => Some(SplitEvent::Reached(ALL, time_us)),
        }
    }

    fn take_rows(
        &mut self,
        columns: Vec<ArrayRef>,
        rows: usize,
        kinds: Option<Arc<[RowKind]>>,
    ) -> Result<()> {
        self.waiting = 0;
        self.shared.rows_read.fetch_add(rows as u64, Ordering::Relaxed);
        let Some(open) = self.splits.front_mut() else { return Ok(()) };
        open.caught_up = false;
        let id = SplitId(open.id);
        let reads = if self.shared.format.ordered() { SplitId(0) } else { id };
        if self.reading != Some(reads) {
            self.say(SplitEvent::Reading(id));
        }
        self.ready = self.filtered(columns, rows, kinds)?;
        if self.coalescer.pending().is_empty() {
            self.note_positions();
            self.splits.rotate_left(1);
        }
        Ok(())
    }

    fn filtered(
        &mut self,
        columns: Vec<ArrayRef>,
        rows: usize,
        mut kinds: Option<Arc<[RowKind]>>,
    ) -> Result<Option<Batch>> {
        let mask = self.filter.mask(rows, &|place| columns[place].clone())?;
        let mut output: Vec<ArrayRef> =
            self.shared.layout.output.iter().map(|&place| columns[place].clone()).collect();
        if self.shared.layout.has_metadata() {
            let origin = self.splits.front().map(|open| open.split.origin()).unwrap_or_default();
            let now_us = self.shared.job.env.now_us();
            self.shared.layout.add_metadata(&mut output, &origin, rows, now_us)?;
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
        self.coalescer.keep(match kinds {
            Some(kinds) => batch.with_kinds(kinds),
            None => batch,
        });
        let pending = self.coalescer.pending();
        let rows: usize = pending.iter().map(Batch::num_rows).sum();
        // All of it or nothing: a position lies behind what was delivered and before what was not.
        match rows * 2 >= self.shared.spec.batch_rows || pending.len() >= PENDING_MAX {
            true => self.coalescer.flush(),
            false => Ok(None),
        }
    }

    /// The first split has nothing now: what it gave leaves, and the next one is looked at.
    fn wait(&mut self, caught_up: bool) -> Result<SourceOutput> {
        let rest = self.flush()?;
        self.waiting += 1;
        let Some(open) = self.splits.front_mut() else { return Ok(SourceOutput::Continue) };
        let news = caught_up && !std::mem::replace(&mut open.caught_up, caught_up);
        let id = SplitId(open.id);
        if news {
            self.say(SplitEvent::CaughtUp(id));
        }
        self.splits.rotate_left(1);
        Ok(match rest {
            Some(batch) => self.deliver(batch),
            None if self.waiting < self.splits.len() || !self.said.is_empty() => {
                SourceOutput::Continue
            }
            None => {
                self.waiting = 0;
                SourceOutput::Wait(WaitReason::Io)
            }
        })
    }

    fn end_split(&mut self) -> Result<SourceOutput> {
        self.waiting = 0;
        let rest = self.flush()?;
        if let Some(open) = self.splits.pop_front() {
            self.say(SplitEvent::Ended(SplitId(open.id)));
        }
        self.note_positions();
        Ok(match rest {
            Some(batch) => self.deliver(batch),
            None => SourceOutput::Continue,
        })
    }

    fn flush(&mut self) -> Result<Option<Batch>> {
        let rest = self.coalescer.flush()?;
        self.note_positions();
        Ok(rest)
    }

    fn note_positions(&mut self) {
        let place = |open: &Open| Place { split: open.id, position: open.split.position() };
        let noted = self.splits.iter().map(place).collect();
        self.before_ready = std::mem::replace(&mut self.noted, noted);
    }

    fn deliver(&self, mut batch: Batch) -> SourceOutput {
        self.shared.rows_delivered.fetch_add(batch.num_rows(), Ordering::Relaxed);
        batch.ingest_time_us = self.shared.job.env.now_us();
        SourceOutput::Batch(batch)
    }

    fn has_enough(&self) -> bool {
        let delivered = self.shared.rows_delivered.load(Ordering::Relaxed);
        self.shared.spec.fetch.is_some_and(|n| delivered >= n)
    }
}

impl SourceReader for StreamReader {
    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        self.begin(cx)?;
        if let Some(event) = self.said.pop_front() {
            return Ok(SourceOutput::Split(event));
        }
        // Whoever steps on has heard of the splits that were begun: from now on they speak for themselves.
        let announced = std::mem::take(&mut self.unannounced);
        self.shared.pending.fetch_sub(announced, Ordering::AcqRel);
        if let Some(batch) = self.ready.take() {
            return Ok(self.deliver(batch));
        }
        if self.has_enough() || self.filter.refresh(cx) {
            self.coalescer.clear();
            self.splits.clear();
            if self.discovery.take().is_some() {
                self.see();
            }
        }
        self.discover(cx)?;
        if let Some(event) = self.said.pop_front() {
            return Ok(SourceOutput::Split(event));
        }
        let Some(open) = self.splits.front_mut() else {
            return Ok(match self.discovery {
                Some(_) => SourceOutput::Wait(WaitReason::Io),
                None => SourceOutput::Finished,
            });
        };
        // Time that is held back by readers who do not know their splits yet would leave late rows in time.
        if self.by_split && self.discovery.is_some() && !self.shared.all_see(cx.waker) {
            return Ok(SourceOutput::Wait(WaitReason::Io));
        }
        match open.split.step(cx)? {
            StreamProgress::Rows(columns, rows) => {
                self.take_rows(columns, rows, None)?;
                Ok(SourceOutput::Continue)
            }
            StreamProgress::Changes(columns, kinds) => {
                self.take_rows(columns, kinds.len(), Some(kinds))?;
                Ok(SourceOutput::Continue)
            }
            StreamProgress::Working => {
                self.waiting = 0;
                Ok(SourceOutput::Continue)
            }
            StreamProgress::Wait { caught_up } => self.wait(caught_up),
            StreamProgress::Finished => self.end_split(),
        }
    }

    fn is_at_cut(&self) -> bool {
        self.shared.format.rows().is_none()
    }

    fn snapshot(&mut self) -> Result<Vec<u8>> {
        if !self.begun && !self.restored {
            return Ok(Vec::new());
        }
        let places = match self.ready {
            Some(_) => &self.before_ready,
            None => &self.noted,
        };
        serde_json::to_vec(places).map_err(bad_position)
    }

    fn restore(&mut self, position: &[u8]) -> Result<()> {
        if position.is_empty() {
            return Ok(());
        }
        let places: Vec<Place> = serde_json::from_slice(position).map_err(bad_position)?;
        self.restored = true;
        for place in &places {
            self.open(place.split, Some(&place.position))?;
        }
        self.noted = places;
        Ok(())
    }
}

fn bad_position(error: serde_json::Error) -> Error {
    Error::Internal(format!("the position of a source: {error}"))
}
