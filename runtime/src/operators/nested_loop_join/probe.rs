//! The probe side of a nested loop join.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;

use super::{LoopBuild, NestedLoopProbeSpec, SharedLoopBuild};
use crate::batch::Coalescer;
use crate::element::RowKind;
use crate::job::JobContext;
use crate::operators::contract::restore_batches;
use crate::operators::join_kind::JoinKind;
use crate::operators::join_output::{
    BatchColumns, BuildColumns, JoinFilter, JoinOutput, JoinPairs, NoRows,
};
use crate::operators::prelude::*;
use crate::rows::{NO_ROW, RowId};

/// The running probe operator.
pub struct NestedLoopProbe {
    spec: NestedLoopProbeSpec,
    filter: Option<JoinFilter>,
    output: JoinOutput,

    shared: Option<Arc<SharedLoopBuild>>,
    build: Option<Arc<LoopBuild>>,
    /// The only build row, repeated as often as an output batch has rows.
    constant: Option<Batch>,
    restored_flags: Vec<u8>,
    rows_max: usize,
    gathered: Coalescer,
    flush: bool,
    phase: Phase,
    ended: bool,

    input: Option<Batch>,
    current: Option<Current>,
    rows: Vec<u32>,
    ids: Vec<RowId>,
    passed: Vec<u32>,
}

enum Phase {
    /// The build side is not complete.
    Waiting,
    /// Probe rows come in.
    Probing,
    /// All probe rows of this subtask are done; others may still match.
    Draining,
    /// Build rows go out, batch by batch: the batch's number, its wanted rows, and how many of them are gone.
    Emitting { batch: usize, ids: Vec<RowId>, done: usize },
    /// Nothing more comes.
    Done,
}

/// The probe batch in hand, and how far it is joined.
struct Current {
    batch: Batch,
    /// By row, whether it has a match.
    matched: Vec<bool>,
    /// Probe rows to pair with the build batch.
    active: Vec<u32>,
    /// The build batch, or their number when all are done.
    build: usize,
    /// Next among the active rows.
    next: usize,
    /// Next row of the build batch, where it is larger than an output batch.
    offset: usize,
    /// Next row that may have no match, once all build batches are done.
    unmatched: usize,
}

impl NestedLoopProbe {
    /// Compiles the condition.
    pub fn new(spec: &NestedLoopProbeSpec, job: &JobContext) -> Result<Self> {
        let filter = spec
            .filter
            .as_ref()
            .map(|filter| JoinFilter::new(filter, &spec.input, &spec.build, &job.functions))
            .transpose()?;
        Ok(NestedLoopProbe {
            filter,
            output: JoinOutput::new(&spec.output, &spec.input, &spec.build)?,
            spec: spec.clone(),
            shared: None,
            build: None,
            constant: None,
            restored_flags: Vec::new(),
            rows_max: job.options.batch_rows,
            gathered: Coalescer::new(job.options.batch_rows),
            flush: false,
            phase: Phase::Waiting,
            ended: false,
            input: None,
            current: None,
            rows: Vec::new(),
            ids: Vec::new(),
            passed: Vec::new(),
        })
    }

    fn build(&self) -> Result<Arc<LoopBuild>> {
        self.build
            .clone()
            .ok_or_else(|| Error::Internal("a join was probed before its build".into()))
    }

    fn shared(&self) -> Result<&Arc<SharedLoopBuild>> {
        self.shared
            .as_ref()
            .ok_or_else(|| Error::Internal("a join probe was used before it was opened".into()))
    }

    /// Takes the complete build side over.
    fn begin(&mut self, build: Arc<LoopBuild>, batch_rows: usize) -> Result<()> {
        self.rows_max = self.output.rows_max(batch_rows, build.row_bytes());
        if let ([row], 1) = (build.batches.as_slice(), build.rows) {
            let ids = vec![0; self.rows_max];
            let columns = (0..row.columns().len())
                .map(|column| BatchColumns(row).gather(column, &ids, false))
                .collect::<Result<Vec<_>>>()?;
            self.constant = Some(Batch::new(columns, self.rows_max));
        }
        for (flag, &set) in
            build.matched.iter().flat_map(|flags| flags.iter()).zip(&self.restored_flags)
        {
            flag.fetch_or(set, Ordering::Relaxed);
        }
        self.restored_flags.clear();
        if build.rows == 0 && self.spec.kind.needs_build_rows() {
            self.ended = true;
            self.input = None;
        }
        self.build = Some(build);
        self.phase = Phase::Probing;
        Ok(())
    }

    fn take_up(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.compact()?;
        let changes =
            batch.kinds().is_some_and(|kinds| kinds.iter().any(|&k| k != RowKind::Insert));
        if changes && self.spec.kind.tracks_matches() {
            return Err(Error::Unsupported(format!(
                "changes on the probe side of a {:?} nested loop join",
                self.spec.kind
            )));
        }
        let build = self.build()?;
        let rows = batch.num_rows();
        let mut current = Current {
            matched: vec![false; rows],
            active: (0..rows as u32).collect(),
            build: 0,
            next: 0,
            offset: 0,
            unmatched: 0,
            batch,
        };
        if self.filter.is_none() && !self.spec.kind.emits_pairs() && rows > 0 {
            // Without a condition any two rows match.
            current.matched.fill(build.rows > 0);
            for number in 0..build.batches.len() {
                build.set_matched(number, 0..build.flags(number).len() as RowId);
            }
            current.build = build.batches.len();
        }
        self.current = Some(current);
        Ok(())
    }

    /// The next output of the batch in hand, which is let go of when it is done.
    fn advance(&mut self, cx: &OperatorContext<'_>) -> Result<Option<Batch>> {
        let build = self.build()?;
        let Some(mut current) = self.current.take() else { return Ok(None) };
        cx.check_cancelled()?;
        if current.build < build.batches.len() {
            let out = self.next_pairs(&mut current, &build)?;
            self.current = Some(current);
            return Ok(out);
        }
        if self.spec.kind.keeps_probe_rows() {
            let out = self.next_unmatched(&mut current)?;
            if out.is_some() {
                self.current = Some(current);
            }
            return Ok(out);
        }
        self.probe_rows_alone(&current)
    }

    /// Joins a part of the batch in hand with a part of a build batch.
    fn next_pairs(&mut self, current: &mut Current, build: &LoopBuild) -> Result<Option<Batch>> {
        let number = current.build;
        let kind = self.spec.kind;
        match &self.constant {
            Some(_) => current.spread(self.rows_max, &mut self.rows, &mut self.ids),
            None => {
                let rows = build.batches[number].num_rows();
                current.tile(rows, self.rows_max, &mut self.rows, &mut self.ids);
            }
        }
        let side = BatchColumns(self.constant.as_ref().unwrap_or(&build.batches[number]));
        if let Some(filter) = &self.filter {
            let pairs = JoinPairs { rows: &self.rows, ids: &self.ids, nullable: false };
            filter.passing(&current.batch, pairs, &side, &mut self.passed)?;
            for (to, &from) in self.passed.iter().enumerate() {
                self.rows[to] = self.rows[from as usize];
                self.ids[to] = self.ids[from as usize];
            }
            self.rows.truncate(self.passed.len());
            self.ids.truncate(self.passed.len());
        }
        if kind.tracks_matches() {
            let single = self.constant.is_some();
            build.set_matched(number, self.ids.iter().map(|&id| if single { 0 } else { id }));
        }
        for &row in &self.rows {
            current.matched[row as usize] = true;
        }
        current.enter_next_build_batch(number, !kind.emits_pairs() && !kind.tracks_matches());
        if !kind.emits_pairs() || self.rows.is_empty() {
            return Ok(None);
        }
        let pairs = JoinPairs { rows: &self.rows, ids: &self.ids, nullable: false };
        self.output.pairs(&current.batch, pairs, &side).map(Some)
    }

    /// Probe rows without a match beside NULLs; none when all are out.
    fn next_unmatched(&mut self, current: &mut Current) -> Result<Option<Batch>> {
        self.rows.clear();
        while current.unmatched < current.matched.len() && self.rows.len() < self.rows_max {
            if !current.matched[current.unmatched] {
                self.rows.push(current.unmatched as u32);
            }
            current.unmatched += 1;
        }
        if self.rows.is_empty() {
            return Ok(None);
        }
        self.ids.clear();
        self.ids.resize(self.rows.len(), NO_ROW);
        let pairs = JoinPairs { rows: &self.rows, ids: &self.ids, nullable: true };
        self.output.pairs(&current.batch, pairs, &NoRows(&self.spec.build)).map(Some)
    }

    /// What the kinds that emit no pairs emit of a probe batch.
    fn probe_rows_alone(&mut self, current: &Current) -> Result<Option<Batch>> {
        let wanted = match self.spec.kind {
            JoinKind::ProbeSemi => true,
            JoinKind::ProbeAnti => false,
            JoinKind::ProbeMark => {
                let mark = BooleanArray::from(current.matched.clone());
                return self.output.marked_probe_rows(&current.batch, mark).map(Some);
            }
            JoinKind::Inner
            | JoinKind::ProbeOuter
            | JoinKind::BuildOuter
            | JoinKind::FullOuter
            | JoinKind::BuildSemi
            | JoinKind::BuildAnti
            | JoinKind::BuildMark => return Ok(None),
        };
        let rows =
            (0_u32..).zip(&current.matched).filter(|&(_, &m)| m == wanted).map(|(row, _)| row);
        let rows: Vec<u32> = rows.collect();
        if rows.is_empty() {
            return Ok(None);
        }
        self.output.probe_rows(&current.batch, &rows).map(Some)
    }

    fn probe(&mut self, cx: &OperatorContext<'_>) -> Result<Output> {
        if let Some(batch) = self.input.take() {
            self.take_up(batch)?;
        }
        while self.current.is_some() {
            if let Some(batch) = self.advance(cx)?
                && let Some(ready) = self.gathered.push(batch)?
            {
                return Ok(emit(ready));
            }
        }
        if (self.ended || std::mem::take(&mut self.flush))
            && let Some(batch) = self.gathered.flush()?
        {
            return Ok(emit(batch));
        }
        if !self.ended {
            return Ok(Output::NeedInput(PortSet::Any));
        }
        self.phase = Phase::Draining;
        self.shared()?.probe_ended(cx.subtask, cx.parallelism);
        self.drain(cx)
    }

    /// Waits until no build row can find a match any more.
    fn drain(&mut self, cx: &OperatorContext<'_>) -> Result<Output> {
        let shared = self.shared()?;
        if self.spec.kind.tracks_matches() {
            if !shared.drained_or_wake(cx.waker) {
                return Ok(Output::Wait(WaitReason::SharedBuild(self.spec.shared)));
            }
            if shared.probes_saw_everything() {
                self.phase = Phase::Emitting { batch: 0, ids: Vec::new(), done: 0 };
                return self.emit_build(cx);
            }
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<Output> {
        self.phase = Phase::Done;
        self.build = None;
        self.constant = None;
        Ok(Output::Finished)
    }

    /// Emits rows of build batches that no other subtask has taken.
    fn emit_build(&mut self, cx: &OperatorContext<'_>) -> Result<Output> {
        let build = self.build()?;
        loop {
            cx.check_cancelled()?;
            let Phase::Emitting { batch, ids, done } = &mut self.phase else {
                return Err(Error::Internal("a join emits build rows outside its phase".into()));
            };
            if *done < ids.len() {
                let end = ids.len().min(*done + self.rows_max);
                let part = &ids[*done..end];
                let flags = build.flags(*batch);
                let mark = (self.spec.kind == JoinKind::BuildMark).then(|| {
                    let is_matched =
                        |i: usize| flags[part[i] as usize].load(Ordering::Relaxed) != 0;
                    BooleanArray::new(BooleanBuffer::collect_bool(part.len(), is_matched), None)
                });
                let out =
                    self.output.build_rows(&BatchColumns(&build.batches[*batch]), part, mark)?;
                *done = end;
                if let Some(ready) = self.gathered.push(out)? {
                    return Ok(emit(ready));
                }
                continue;
            }
            let Some(number) = build.emitting.take() else { break };
            let wanted = self.spec.kind.wanted_at_end();
            let flags = (0..).zip(build.flags(number));
            *ids = flags
                .filter(|(_, flag)| wanted.is_none_or(|w| (flag.load(Ordering::Relaxed) != 0) == w))
                .map(|(id, _)| id)
                .collect();
            (*batch, *done) = (number, 0);
        }
        match self.gathered.flush()? {
            Some(batch) => Ok(emit(batch)),
            None => self.finish(),
        }
    }
}

impl Current {
    /// The next pairs of active rows with the only build row: one pair a row, in order.
    fn spread(&mut self, max: usize, rows: &mut Vec<u32>, ids: &mut Vec<RowId>) {
        let end = self.active.len().min(self.next + max);
        rows.clear();
        rows.extend_from_slice(&self.active[self.next..end]);
        ids.clear();
        ids.extend(0..rows.len() as RowId);
        self.next = end;
    }

    /// The next pairs of active rows with a build batch of `build_rows` rows: whole build batches as long as they
    /// fit, or a part of one.
    fn tile(&mut self, build_rows: usize, max: usize, rows: &mut Vec<u32>, ids: &mut Vec<RowId>) {
        rows.clear();
        ids.clear();
        if build_rows > max {
            let Some(&row) = self.active.get(self.next) else { return };
            let end = build_rows.min(self.offset + max);
            ids.extend(self.offset as RowId..end as RowId);
            rows.resize(ids.len(), row);
            self.offset = end;
            if end == build_rows {
                (self.offset, self.next) = (0, self.next + 1);
            }
            return;
        }
        let end = self.active.len().min(self.next + max / build_rows);
        for &row in &self.active[self.next..end] {
            rows.resize(rows.len() + build_rows, row);
            ids.extend(0..build_rows as RowId);
        }
        self.next = end;
    }

    /// Goes on to the next build batch when all active rows are joined with this one; rows that have a match stay
    /// out of it if one is all they look for.
    fn enter_next_build_batch(&mut self, number: usize, first_match_only: bool) {
        if self.next < self.active.len() {
            return;
        }
        (self.build, self.next, self.offset) = (number + 1, 0, 0);
        if first_match_only {
            let matched = &self.matched;
            self.active.retain(|&row| !matched[row as usize]);
        }
    }
}

fn emit(batch: Batch) -> Output {
    Output::Element(PortId(0), StreamElement::Batch(batch))
}

impl Operator for NestedLoopProbe {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        let shared = cx.job.shared.get_or_create(self.spec.shared, SharedLoopBuild::default)?;
        shared.probe_started(cx.subtask, cx.parallelism);
        self.shared = Some(shared);
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.input = Some(batch),
            StreamElement::End => self.ended = true,
            other => {
                return Err(Error::Internal(format!("a nested loop probe cannot take {other:?}")));
            }
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let Phase::Waiting = self.phase {
            let Some(build) = self.shared()?.ready_or_wake(cx.waker) else {
                return Ok(Output::Wait(WaitReason::SharedBuild(self.spec.shared)));
            };
            self.begin(build, cx.job.options.batch_rows)?;
        }
        match self.phase {
            Phase::Waiting | Phase::Probing => self.probe(cx),
            Phase::Draining => self.drain(cx),
            Phase::Emitting { .. } => self.emit_build(cx),
            Phase::Done => Ok(Output::Finished),
        }
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.flush = true;
        Ok(())
    }

    fn on_timer(
        &mut self,
        _domain: TimeDomain,
        _time_us: i64,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        Ok(())
    }

    fn on_barrier(&mut self, _id: CheckpointId, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.flush = true;
        Ok(())
    }

    fn on_superstep(&mut self, _superstep: Superstep, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.flush = true;
        Ok(())
    }

    fn revoke(&mut self, _bytes: usize, _cx: &mut OperatorContext<'_>) -> Result<usize> {
        self.flush = true;
        Ok(0)
    }

    /// The number of flags, the flags, then the rows gathered so far: no probe batch is in hand between two.
    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let flags = self.build.as_ref().and_then(|build| build.matched.as_deref()).unwrap_or(&[]);
        let mut bytes = (flags.len() as u64).to_le_bytes().to_vec();
        bytes.extend(flags.iter().map(|flag| flag.load(Ordering::Relaxed)));
        bytes
            .extend(StateSnapshot::of_batches(self.gathered.pending(), self.output.types())?.bytes);
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let broken = || Error::Internal("a broken snapshot of a join probe".into());
        let (len, rest) = snapshot.bytes.split_first_chunk::<8>().ok_or_else(broken)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| broken())?;
        let (flags, rows) = rest.split_at_checked(len).ok_or_else(broken)?;
        self.restored_flags = flags.to_vec();
        for batch in restore_batches(&StateSnapshot { bytes: rows.to_vec() })? {
            self.gathered.keep(batch);
        }
        Ok(())
    }

    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn checkpoint_aborted(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn close(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        if let Some(shared) = self.shared.take() {
            shared.probe_closed(cx.subtask, cx.parallelism);
        }
        self.build = None;
        self.constant = None;
        self.input = None;
        self.current = None;
        self.gathered.clear();
        Ok(())
    }
}
