//! The probe side of a hash join.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;

use super::pairs::{Cursor, Searches};
use super::{HashBuild, HashJoinProbeSpec, JoinKind, Place, SharedHashBuild, check_keys};
use crate::batch::Coalescer;
use crate::element::RowKind;
use crate::expr::{CompiledExpr, compile_all, positional_schema};
use crate::job::JobContext;
use crate::operators::contract::restore_batches;
use crate::operators::join_output::{JoinFilter, JoinOutput, JoinPairs};
use crate::operators::join_pairs::PairList;
use crate::operators::prelude::*;
use crate::rows::{NO_ROW, RowId, canonical_key};
use crate::state::LookupScratch;

/// The running probe operator.
pub struct HashJoinProbe {
    spec: HashJoinProbeSpec,
    keys: Vec<CompiledExpr>,
    filter: Option<JoinFilter>,
    output: JoinOutput,

    shared: Option<Arc<SharedHashBuild>>,
    build: Option<Arc<HashBuild>>,
    /// Flags of a snapshot, until the build side is there.
    restored_flags: Vec<u8>,
    /// Rows that an output batch may have.
    rows_max: usize,
    gathered: Coalescer,
    flush: bool,
    phase: Phase,
    /// Whether no probe row follows, or none is wanted.
    ended: bool,

    input: Option<Batch>,
    current: Option<Current>,
    heads: Vec<RowId>,
    lookup: LookupScratch,
    pairs: PairList,
    searches: Searches,
    passed: Vec<u32>,
}

enum Phase {
    /// The build side is not complete.
    Waiting,
    /// Probe rows come in.
    Probing,
    /// All probe rows of this subtask are done; others may still match.
    Draining,
    /// Build rows go out, page by page: those of the page in hand, from a position on.
    Emitting { ids: Vec<RowId>, done: usize },
    /// Nothing more comes.
    Done,
}

/// The probe batch in hand; its chains' first rows are in [`HashJoinProbe::heads`].
struct Current {
    batch: Batch,
    cursor: Cursor,
    /// By row, whether it has a match; kept where a condition decides.
    matched: Vec<bool>,
}

impl HashJoinProbe {
    /// Compiles keys and condition.
    pub fn new(spec: &HashJoinProbeSpec, job: &JobContext) -> Result<Self> {
        check_keys(&spec.keys)?;
        if spec.null_aware && (spec.filter.is_some() || spec.keys.len() > 1) {
            return Err(Error::Unsupported(
                "NOT IN with several keys or a further condition".into(),
            ));
        }
        let filter = spec
            .filter
            .as_ref()
            .map(|filter| JoinFilter::new(filter, &spec.input, &spec.build, &job.functions))
            .transpose()?;
        Ok(HashJoinProbe {
            keys: compile_all(&spec.keys, &positional_schema(&spec.input), &job.functions)?,
            filter,
            output: JoinOutput::new(&spec.output, &spec.input, &spec.build)?,
            spec: spec.clone(),
            shared: None,
            build: None,
            restored_flags: Vec::new(),
            rows_max: job.options.batch_rows,
            gathered: Coalescer::new(job.options.gathered_rows()),
            flush: false,
            phase: Phase::Waiting,
            ended: false,
            input: None,
            current: None,
            heads: Vec::new(),
            lookup: LookupScratch::default(),
            pairs: PairList::default(),
            searches: Searches::default(),
            passed: Vec::new(),
        })
    }

    fn build(&self) -> Result<Arc<HashBuild>> {
        self.build
            .clone()
            .ok_or_else(|| Error::Internal("a join was probed before its build".into()))
    }

    fn place(&self, cx: &OperatorContext<'_>) -> Place {
        Place::new(self.spec.shared, self.spec.partitioned, cx)
    }

    fn shared(&self) -> Result<&Arc<SharedHashBuild>> {
        self.shared
            .as_ref()
            .ok_or_else(|| Error::Internal("a join probe was used before it was opened".into()))
    }

    /// Takes the complete build side over.
    fn begin(&mut self, build: Arc<HashBuild>, batch_rows: usize) {
        self.rows_max = self.output.rows_max(batch_rows, build.row_bytes());
        if self.spec.kind.tracks_matches() {
            build.table.restore_matched_flags(&std::mem::take(&mut self.restored_flags));
        }
        let nothing = build.table.store().is_empty() && self.spec.kind.needs_build_rows();
        let refused =
            self.spec.null_aware && self.spec.kind == JoinKind::ProbeAnti && build.null_keys;
        self.build = Some(build);
        self.phase = Phase::Probing;
        if nothing || refused {
            self.ended = true;
            self.input = None;
        }
    }

    /// Looks the keys of a batch up.
    fn look_up(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.compact()?;
        let build = self.build()?;
        let changes =
            batch.kinds().is_some_and(|kinds| kinds.iter().any(|&k| k != RowKind::Insert));
        if changes && self.spec.kind.tracks_matches() {
            return Err(Error::Unsupported(format!(
                "changes on the probe side of a {:?} hash join",
                self.spec.kind
            )));
        }
        let keys: Vec<ArrayRef> = self
            .keys
            .iter()
            .map(|key| canonical_key(&key.evaluate(&batch)?))
            .collect::<Result<_>>()?;
        build.table.lookup(&keys, &mut self.lookup, &mut self.heads)?;
        if self.spec.null_aware {
            self.mind_nulls(&build, &keys[0]);
        }
        let mut matched = Vec::new();
        if self.filter.is_some() {
            matched.resize(batch.num_rows(), false);
            if !self.spec.kind.emits_pairs() {
                self.searches.start(&self.heads);
            }
        } else if self.spec.kind.tracks_matches() {
            build.table.set_chains_matched(&self.heads);
        }
        self.current = Some(Current { batch, cursor: Cursor::default(), matched });
        Ok(())
    }

    /// What NOT IN makes of NULL keys: a probe row with one is neither in nor not in a build side that has rows.
    fn mind_nulls(&mut self, build: &HashBuild, key: &ArrayRef) {
        let nulls = key.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if !key.is_empty() {
            build.probe_rows.store(true, Ordering::Relaxed);
        }
        let Some(nulls) = nulls else { return };
        build.probe_null_keys.store(true, Ordering::Relaxed);
        if self.spec.kind == JoinKind::ProbeAnti && !build.table.store().is_empty() {
            // Any row but none counts as a match.
            for (head, _) in self.heads.iter_mut().zip(nulls.iter()).filter(|(_, valid)| !valid) {
                *head = 0;
            }
        }
    }

    /// The next output of the batch in hand, which is let go of when it is done.
    fn advance(&mut self, cx: &OperatorContext<'_>) -> Result<Option<Batch>> {
        let build = self.build()?;
        let Some(mut current) = self.current.take() else { return Ok(None) };
        cx.check_cancelled()?;
        if self.spec.kind.emits_pairs() {
            let out = match self.filter {
                None => self.next_pairs(&mut current, &build)?,
                Some(_) => self.next_filtered_pairs(&mut current, &build)?,
            };
            if !current.cursor.is_done(&self.heads) {
                self.current = Some(current);
            }
            return Ok(out);
        }
        match self.filter {
            None => {}
            Some(_) if self.spec.kind.tracks_matches() => {
                self.flag_filtered(&mut current, &build, cx)?;
            }
            Some(_) => self.search(&mut current, &build, cx)?,
        }
        self.probe_rows_alone(&current)
    }

    /// Pairs where equal keys are all that matters.
    fn next_pairs(&mut self, current: &mut Current, build: &HashBuild) -> Result<Option<Batch>> {
        let keep = self.spec.kind.keeps_probe_rows();
        let Current { batch, cursor, .. } = current;
        let heads = &self.heads;
        if build.table.is_unique() && keep {
            // One output row for each probe row: the chains' first rows are the build side of the pairs.
            let start = cursor.row;
            let end = heads.len().min(start + self.rows_max);
            self.pairs.rows.clear();
            self.pairs.rows.extend(start as u32..end as u32);
            cursor.row = end;
            let ids = &heads[start..end];
            let pairs = JoinPairs { rows: &self.pairs.rows, ids, nullable: true };
            return self.output.pairs(batch, pairs, build).map(Some);
        }
        if build.table.is_unique() {
            cursor.walk_unique(heads, self.rows_max, &mut self.pairs);
        } else {
            cursor.walk(&build.table, heads, (self.rows_max, keep), &mut self.pairs);
        }
        self.emit_pairs(batch, build, keep)
    }

    /// Pairs that also satisfy the condition.
    fn next_filtered_pairs(
        &mut self,
        current: &mut Current,
        build: &HashBuild,
    ) -> Result<Option<Batch>> {
        let keep = self.spec.kind.keeps_probe_rows();
        let Current { batch, cursor, matched } = current;
        let first = cursor.row;
        cursor.walk(&build.table, &self.heads, (self.rows_max, false), &mut self.pairs);
        self.apply_filter(batch, build)?;
        if self.spec.kind.tracks_matches() {
            self.pairs.ids.iter().for_each(|&id| build.table.set_matched(id));
        }
        if keep {
            for &row in &self.pairs.rows {
                matched[row as usize] = true;
            }
            self.pairs = self.pairs.with_unmatched(&matched[..cursor.row], first);
        }
        self.emit_pairs(batch, build, keep)
    }

    /// The batch of the pairs at hand, if there are any.
    fn emit_pairs(
        &self,
        batch: &Batch,
        build: &HashBuild,
        nullable: bool,
    ) -> Result<Option<Batch>> {
        if self.pairs.len() == 0 {
            return Ok(None);
        }
        let pairs = JoinPairs { rows: &self.pairs.rows, ids: &self.pairs.ids, nullable };
        self.output.pairs(batch, pairs, build).map(Some)
    }

    /// Keeps the pairs for which the condition is true.
    fn apply_filter(&mut self, batch: &Batch, build: &HashBuild) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let pairs = JoinPairs { rows: &self.pairs.rows, ids: &self.pairs.ids, nullable: false };
        filter.passing(batch, pairs, build, &mut self.passed)?;
        if self.passed.len() < self.pairs.len() {
            self.pairs.keep(&self.passed);
        }
        Ok(())
    }

    /// Flags the build rows that match under the condition.
    fn flag_filtered(
        &mut self,
        current: &mut Current,
        build: &HashBuild,
        cx: &OperatorContext<'_>,
    ) -> Result<()> {
        while !current.cursor.is_done(&self.heads) {
            cx.check_cancelled()?;
            current.cursor.walk(&build.table, &self.heads, (self.rows_max, false), &mut self.pairs);
            self.passed.clear();
            let unflagged = self.pairs.ids.iter().map(|&id| !build.table.is_matched(id));
            self.passed
                .extend((0_u32..).zip(unflagged).filter(|&(_, wanted)| wanted).map(|(i, _)| i));
            let wanted = std::mem::take(&mut self.passed);
            self.pairs.keep(&wanted);
            self.passed = wanted;
            self.apply_filter(&current.batch, build)?;
            self.pairs.ids.iter().for_each(|&id| build.table.set_matched(id));
        }
        Ok(())
    }

    /// Finds for each probe row whether it has a match under the condition, looking no further than the first.
    fn search(
        &mut self,
        current: &mut Current,
        build: &HashBuild,
        cx: &OperatorContext<'_>,
    ) -> Result<()> {
        loop {
            cx.check_cancelled()?;
            let matched = &current.matched;
            self.searches.candidates(&build.table, self.rows_max, matched, &mut self.pairs);
            if self.pairs.len() == 0 {
                return Ok(());
            }
            self.apply_filter(&current.batch, build)?;
            for &row in &self.pairs.rows {
                current.matched[row as usize] = true;
            }
        }
    }

    /// What the kinds that emit no pairs emit of a probe batch.
    fn probe_rows_alone(&mut self, current: &Current) -> Result<Option<Batch>> {
        let has_match = |row: usize| match self.filter {
            Some(_) => current.matched[row],
            None => self.heads[row] != NO_ROW,
        };
        let rows = self.heads.len();
        let wanted = match self.spec.kind {
            JoinKind::ProbeSemi => true,
            JoinKind::ProbeAnti => false,
            JoinKind::ProbeMark => {
                let mark = BooleanBuffer::collect_bool(rows, has_match);
                let mark = BooleanArray::new(mark, None);
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
        let found = &mut self.pairs.rows;
        found.clear();
        found.resize(rows, 0);
        let mut count = 0;
        for row in 0..rows {
            found[count] = row as u32;
            count += usize::from(has_match(row) == wanted);
        }
        found.truncate(count);
        if count == 0 {
            return Ok(None);
        }
        self.output.probe_rows(&current.batch, found).map(Some)
    }

    /// What comes of probe rows, or the wish for more.
    fn probe(&mut self, cx: &OperatorContext<'_>) -> Result<Output> {
        if let Some(batch) = self.input.take() {
            self.look_up(batch)?;
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
        let place = self.place(cx);
        self.shared()?.probe_ended(place.subtask, place.parallelism);
        self.drain(cx)
    }

    /// Waits until no build row can find a match any more.
    fn drain(&mut self, cx: &OperatorContext<'_>) -> Result<Output> {
        let shared = self.shared()?;
        if self.spec.kind.tracks_matches() {
            if !shared.drained_or_wake(cx.waker) {
                return Ok(Output::Wait(WaitReason::SharedBuild(self.spec.shared)));
            }
            if shared.probes_saw_everything() && !self.not_in_refuses_all()? {
                self.phase = Phase::Emitting { ids: Vec::new(), done: 0 };
                return self.emit_build(cx);
            }
        }
        self.finish()
    }

    /// A NULL among the values makes NOT IN true for no row.
    fn not_in_refuses_all(&self) -> Result<bool> {
        Ok(self.spec.null_aware
            && self.spec.kind == JoinKind::BuildAnti
            && self.build()?.probe_null_keys.load(Ordering::Relaxed))
    }

    fn finish(&mut self) -> Result<Output> {
        self.phase = Phase::Done;
        self.build = None;
        Ok(Output::Finished)
    }

    /// Emits build rows of pages that no other subtask has taken.
    fn emit_build(&mut self, cx: &OperatorContext<'_>) -> Result<Output> {
        let build = self.build()?;
        loop {
            cx.check_cancelled()?;
            let Phase::Emitting { ids, done } = &mut self.phase else {
                return Err(Error::Internal("a join emits build rows outside its phase".into()));
            };
            if *done < ids.len() {
                let end = ids.len().min(*done + self.rows_max);
                let part = &ids[*done..end];
                let mark = (self.spec.kind == JoinKind::BuildMark).then(|| {
                    let marks = BooleanBuffer::collect_bool(part.len(), |i| {
                        build.table.is_matched(part[i])
                    });
                    BooleanArray::new(marks, None)
                });
                let batch = self.output.build_rows(&*build, part, mark)?;
                *done = end;
                if let Some(ready) = self.gathered.push(batch)? {
                    return Ok(emit(ready));
                }
                continue;
            }
            let Some(page) = build.emitting.take() else { break };
            *ids = wanted_rows(&self.spec, &build, page)?;
            *done = 0;
        }
        match self.gathered.flush()? {
            Some(batch) => Ok(emit(batch)),
            None => self.finish(),
        }
    }
}

fn emit(batch: Batch) -> Output {
    Output::Element(PortId(0), StreamElement::Batch(batch))
}

/// The rows of a page that come out at the end.
fn wanted_rows(spec: &HashJoinProbeSpec, build: &HashBuild, page: usize) -> Result<Vec<RowId>> {
    let table = &build.table;
    let ids = table.store().page_ids(page);
    let mut wanted: Vec<RowId> = match spec.kind.wanted_at_end() {
        Some(matched) => ids.clone().filter(|&id| table.is_matched(id) == matched).collect(),
        None => ids.clone().collect(),
    };
    let not_in = spec.null_aware && spec.kind == JoinKind::BuildAnti;
    if not_in && build.probe_rows.load(Ordering::Relaxed) {
        let keys = table.page_keys(page, [0])?;
        if let Some(nulls) = keys[0].logical_nulls() {
            wanted.retain(|&id| nulls.is_valid((id - ids.start) as usize));
        }
    }
    Ok(wanted)
}

impl Operator for HashJoinProbe {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        let shared =
            cx.job.shared.get_or_create(self.place(cx).shared, SharedHashBuild::default)?;
        let place = self.place(cx);
        shared.probe_started(place.subtask, place.parallelism);
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
                return Err(Error::Internal(format!("a join probe cannot take {other:?}")));
            }
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let Phase::Waiting = self.phase {
            let Some(build) = self.shared()?.ready_or_wake(cx.waker) else {
                return Ok(Output::Wait(WaitReason::SharedBuild(self.spec.shared)));
            };
            self.begin(build, cx.job.options.batch_rows);
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
        let flags = match &self.build {
            Some(build) if self.spec.kind.tracks_matches() => build.table.matched_flags(),
            Some(_) | None => Vec::new(),
        };
        let mut bytes = (flags.len() as u64).to_le_bytes().to_vec();
        bytes.extend(flags);
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
        let place = self.place(cx);
        if let Some(shared) = self.shared.take() {
            shared.probe_closed(place.subtask, place.parallelism);
        }
        self.build = None;
        self.input = None;
        self.current = None;
        self.gathered.clear();
        Ok(())
    }
}
