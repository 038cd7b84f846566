//! The merge.

use std::cmp::Ordering;

use arrow::array::BooleanArray;

use super::sides::{Carried, Left, Right, SideKeys};
use super::{JoinKind, SortMergeJoinSpec};
use crate::batch::Coalescer;
use crate::expr::positional_schema;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::contract::restore_batches;
use crate::operators::join_output::{
    BatchColumns, BuildColumns, JoinFilter, JoinOutput, JoinPairs, NoRows,
};
use crate::operators::join_pairs::PairList;
use crate::operators::prelude::*;
use crate::operators::sort_key_spec::{SortKeyColumns, SortKeySpec, inserts_only};

const LEFT: PortId = PortId(0);
const RIGHT: PortId = PortId(1);

/// The running operator.
pub struct SortMergeJoin {
    spec: SortMergeJoinSpec,
    left_keys: SideKeys,
    right_keys: SideKeys,
    filter: Option<JoinFilter>,
    output: JoinOutput,
    rows_max: usize,

    left_input: Option<Batch>,
    left: Option<Left>,
    left_ended: bool,
    right_input: Option<Batch>,
    right: Option<Right>,
    carried: Carried,
    right_ended: bool,
    pairs: PairList,
    passed: Vec<u32>,
    /// Build rows to emit, and how many of them are out.
    leaving: Option<(Batch, Vec<bool>, usize)>,
    gathered: Coalescer,
    flush: bool,
    reservation: Option<Reservation>,
}

fn side_keys(
    spec: &SortMergeJoinSpec,
    types: &[arrow_schema::DataType],
    key: impl Fn(&(crate::expr::Expr, crate::expr::Expr)) -> &crate::expr::Expr,
    job: &JobContext,
) -> Result<SideKeys> {
    if spec.keys.len() != spec.directions.len() {
        return Err(Error::Internal("a merge join needs a direction for each key".into()));
    }
    let keys: Vec<SortKeySpec> = spec
        .keys
        .iter()
        .zip(&spec.directions)
        .map(|(pair, &(descending, nulls_first))| SortKeySpec {
            expr: key(pair).clone(),
            descending,
            nulls_first,
        })
        .collect();
    let columns = SortKeyColumns::new(&keys, &positional_schema(types), &job.functions)?;
    let encoder = columns
        .encoder(0)?
        .ok_or_else(|| Error::Internal("a sort-merge join without keys".into()))?;
    Ok(SideKeys::new(columns, encoder, spec.null_equal))
}

impl SortMergeJoin {
    /// Compiles keys and condition.
    pub fn new(spec: &SortMergeJoinSpec, job: &JobContext) -> Result<Self> {
        let filter = spec
            .filter
            .as_ref()
            .map(|filter| JoinFilter::new(filter, &spec.left, &spec.right, &job.functions))
            .transpose()?;
        let output = JoinOutput::new(&spec.output, &spec.left, &spec.right)?;
        Ok(SortMergeJoin {
            left_keys: side_keys(spec, &spec.left, |pair| &pair.0, job)?,
            right_keys: side_keys(spec, &spec.right, |pair| &pair.1, job)?,
            filter,
            rows_max: output.rows_max(job.options.batch_rows, 0),
            output,
            spec: spec.clone(),
            left_input: None,
            left: None,
            left_ended: false,
            right_input: None,
            right: None,
            carried: Carried::default(),
            right_ended: false,
            pairs: PairList::default(),
            passed: Vec::new(),
            leaving: None,
            gathered: Coalescer::new(job.options.batch_rows),
            flush: false,
            reservation: None,
        })
    }

    /// Whether every build row is known to be done.
    fn right_is_over(&self) -> bool {
        self.right_ended && self.right.is_none() && self.carried.batches().is_empty()
    }

    /// Whether nothing more can come out of the probe side.
    fn left_is_over(&self) -> bool {
        let pointless = self.right_is_over() && self.spec.kind.needs_build_rows();
        self.left.is_none() && (self.left_ended || pointless)
    }

    /// Takes up what was pushed.
    fn take_inputs(&mut self) -> Result<()> {
        if let Some(batch) = self.left_input.take() {
            let batch = inserts_only(batch, "sort-merge join")?;
            if batch.num_rows() > 0 {
                self.left = Some(Left::new(batch, &self.left_keys)?);
            }
        }
        if let Some(batch) = self.right_input.take() {
            let batch = inserts_only(batch, "sort-merge join")?;
            self.right = self.carried.extend(batch, &self.right_keys)?;
            self.charge()?;
        }
        if self.right_ended && self.right.is_none() {
            self.right = self.carried.finish(&self.right_keys)?;
            self.charge()?;
        }
        Ok(())
    }

    fn charge(&mut self) -> Result<()> {
        let right = self.right.as_ref().map_or(0, |right| right.batch.data_bytes());
        match &mut self.reservation {
            Some(reservation) => reservation.try_resize(self.carried.memory_bytes() + right),
            None => Ok(()),
        }
    }

    /// The port whose rows are needed next; none if the batches in hand can go on, or nothing is left to do.
    fn wanted_port(&self) -> Option<PortId> {
        if self.left_is_over() {
            let unseen = self.right.is_none() && !self.right_ended;
            return (unseen && self.spec.kind.tracks_matches()).then_some(RIGHT);
        }
        if self.right.is_none() && !self.right_ended {
            return Some(RIGHT);
        }
        self.left.is_none().then_some(LEFT)
    }

    /// Joins what is in hand as far as one output batch goes.
    fn advance(&mut self) -> Result<Option<Batch>> {
        let out = match (self.left.take(), self.right.take()) {
            (None, None) => None,
            (None, Some(mut right)) => {
                if self.left_is_over() {
                    right.row = right.available;
                }
                self.right = Some(right);
                None
            }
            (Some(mut left), None) => {
                // No build row follows: the rows that are left match nothing.
                left.row = left.matched.len().min(left.row + self.rows_max);
                let out = self.emit_left(&mut left, None)?;
                self.left = Some(left);
                out
            }
            (Some(mut left), Some(mut right)) => {
                self.merge(&mut left, &mut right);
                let out = self.emit_left(&mut left, Some(&mut right))?;
                (self.left, self.right) = (Some(left), Some(right));
                out
            }
        };
        self.left.take_if(|left| left.is_done());
        if let Some(right) = self.right.take_if(|right| right.is_done()) {
            self.retire(right);
        }
        Ok(out)
    }

    /// Lets a build batch go: what comes out of it leaves, its last key waits for the next batch.
    fn retire(&mut self, right: Right) {
        if self.spec.kind.tracks_matches() && right.available > 0 {
            let done = right.batch.slice(0, right.available);
            self.leaving = Some((done, right.matched[..right.available].to_vec(), 0));
        }
        if let Some(rest) = right.into_rest() {
            self.carried.keep(rest);
        }
    }

    /// Walks both sides until a batch ends or enough pairs are there.
    fn merge(&mut self, left: &mut Left, right: &mut Right) {
        let wants_pairs = self.spec.kind.emits_pairs() || self.filter.is_some();
        let tracks = self.spec.kind.tracks_matches();
        self.pairs.clear();
        let mut spent = 0;
        while !left.is_done() && !right.is_done() && spent < self.rows_max {
            if left.keys.is_unmatchable(left.row) {
                (left.row, spent) = (left.row + 1, spent + 1);
                continue;
            }
            if right.keys.is_unmatchable(right.row) {
                right.row += 1;
                continue;
            }
            match left.keys.compare(left.row, &right.keys, right.row) {
                Ordering::Less => (left.row, spent) = (left.row + 1, spent + 1),
                Ordering::Greater => right.skip_group(),
                Ordering::Equal if wants_pairs => {
                    let (start, end) = (right.row + left.offset, right.group_end());
                    let stop = end.min(start + self.rows_max - spent);
                    spent += stop - start;
                    self.pairs.rows.resize(self.pairs.rows.len() + stop - start, left.row as u32);
                    self.pairs.ids.extend(start as u32..stop as u32);
                    if stop < end {
                        left.offset += stop - start;
                    } else {
                        (left.row, left.offset) = (left.row + 1, 0);
                    }
                }
                Ordering::Equal => {
                    left.matched[left.row] = true;
                    (left.row, spent) = (left.row + 1, spent + 1);
                    if tracks && !right.matched[right.row] {
                        let group = right.row..right.group_end();
                        right.matched[group].fill(true);
                    }
                }
            }
        }
    }

    /// What comes out of the probe rows that are done, and of the pairs.
    fn emit_left(&mut self, left: &mut Left, right: Option<&mut Right>) -> Result<Option<Batch>> {
        let first = std::mem::replace(&mut left.emitted, left.row);
        let kind = self.spec.kind;
        let Some(right) = right else {
            self.pairs.clear();
            let types = self.spec.right.clone();
            return self.emit_done(left, first, &NoRows(&types));
        };
        if let Some(filter) = &self.filter {
            let pairs = JoinPairs { rows: &self.pairs.rows, ids: &self.pairs.ids, nullable: false };
            filter.passing(&left.batch, pairs, &BatchColumns(&right.batch), &mut self.passed)?;
            self.pairs.keep(&self.passed);
        }
        for &row in &self.pairs.rows {
            left.matched[row as usize] = true;
        }
        if kind.tracks_matches() {
            for &id in &self.pairs.ids {
                right.matched[id as usize] = true;
            }
        }
        self.emit_done(left, first, &BatchColumns(&right.batch))
    }

    fn emit_done(
        &mut self,
        left: &Left,
        first: usize,
        right: &dyn BuildColumns,
    ) -> Result<Option<Batch>> {
        let done = &left.matched[..left.row];
        let wanted = match self.spec.kind {
            JoinKind::Inner | JoinKind::ProbeOuter | JoinKind::BuildOuter | JoinKind::FullOuter => {
                let nullable = self.spec.kind.keeps_probe_rows();
                if nullable {
                    self.pairs = self.pairs.with_unmatched(done, first);
                }
                if self.pairs.len() == 0 {
                    return Ok(None);
                }
                let pairs = JoinPairs { rows: &self.pairs.rows, ids: &self.pairs.ids, nullable };
                return self.output.pairs(&left.batch, pairs, right).map(Some);
            }
            JoinKind::ProbeMark => {
                if first == done.len() {
                    return Ok(None);
                }
                let mark = BooleanArray::from(done[first..].to_vec());
                let part = left.batch.slice(first, done.len() - first);
                return self.output.marked_probe_rows(&part, mark).map(Some);
            }
            JoinKind::ProbeSemi => true,
            JoinKind::ProbeAnti => false,
            JoinKind::BuildSemi | JoinKind::BuildAnti | JoinKind::BuildMark => return Ok(None),
        };
        let rows = (first..done.len()).filter(|&row| done[row] == wanted).map(|row| row as u32);
        let rows: Vec<u32> = rows.collect();
        if rows.is_empty() {
            return Ok(None);
        }
        self.output.probe_rows(&left.batch, &rows).map(Some)
    }

    /// The next build rows that come out of a retired batch.
    fn emit_leaving(&mut self) -> Result<Option<Batch>> {
        let Some((batch, matched, mut done)) = self.leaving.take() else { return Ok(None) };
        let wanted = self.spec.kind.wanted_at_end();
        let mut ids = Vec::new();
        while done < matched.len() && ids.len() < self.rows_max {
            if wanted.is_none_or(|wanted| matched[done] == wanted) {
                ids.push(done as u32);
            }
            done += 1;
        }
        let mark = (self.spec.kind == JoinKind::BuildMark)
            .then(|| BooleanArray::from_iter(ids.iter().map(|&id| Some(matched[id as usize]))));
        let out = match ids.is_empty() {
            true => None,
            false => Some(self.output.build_rows(&BatchColumns(&batch), &ids, mark)?),
        };
        if done < matched.len() {
            self.leaving = Some((batch, matched, done));
        }
        Ok(out)
    }
}

fn emit(batch: Batch) -> Output {
    Output::Element(PortId(0), StreamElement::Batch(batch))
}

impl Operator for SortMergeJoin {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        self.reservation = Some(cx.job.memory.reserve_revocable("SortMergeJoin"));
        Ok(())
    }

    fn push(
        &mut self,
        port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match (port, element) {
            (LEFT, StreamElement::Batch(batch)) => self.left_input = Some(batch),
            (LEFT, StreamElement::End) => self.left_ended = true,
            (RIGHT, StreamElement::Batch(batch)) => self.right_input = Some(batch),
            (RIGHT, StreamElement::End) => self.right_ended = true,
            (port, other) => {
                return Err(Error::Internal(format!(
                    "a sort-merge join cannot take {other:?} on port {}",
                    port.0
                )));
            }
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        self.take_inputs()?;
        loop {
            cx.check_cancelled()?;
            let wanted = self.wanted_port();
            let out = if self.leaving.is_some() {
                self.emit_leaving()?
            } else if let Some(port) = wanted {
                if std::mem::take(&mut self.flush)
                    && let Some(batch) = self.gathered.flush()?
                {
                    return Ok(emit(batch));
                }
                return Ok(Output::NeedInput(PortSet::Only(port)));
            } else if self.left.is_none() && self.right.is_none() {
                return Ok(self.gathered.flush()?.map_or(Output::Finished, emit));
            } else {
                let out = self.advance()?;
                // The last key of a build batch is complete once nothing follows.
                self.take_inputs()?;
                out
            };
            if let Some(batch) = out
                && let Some(ready) = self.gathered.push(batch)?
            {
                return Ok(emit(ready));
            }
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

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        self.write_snapshot()
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.read_snapshot(&snapshot)
    }

    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn checkpoint_aborted(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        (self.left, self.right, self.leaving) = (None, None, None);
        (self.left_input, self.right_input) = (None, None);
        self.carried.clear();
        self.gathered.clear();
        self.reservation = None;
        Ok(())
    }
}

/// Snapshots are taken while the join asks for input: the probe batch in hand is then emitted up to its next row,
/// and no build rows are on their way out.
impl SortMergeJoin {
    fn write_snapshot(&self) -> Result<StateSnapshot> {
        let left: Vec<Batch> = self
            .left
            .iter()
            .map(|left| left.batch.slice(left.row, left.matched.len() - left.row))
            .collect();
        let right: Vec<Batch> = self.right.iter().map(|right| right.batch.clone()).collect();
        let mut place = vec![u8::from(self.left_ended), u8::from(self.right_ended)];
        if let Some(right) = &self.right {
            place.extend((right.row as u64).to_le_bytes());
            place.extend((right.available as u64).to_le_bytes());
            place.extend(right.matched.iter().map(|&matched| u8::from(matched)));
        }
        let sections = [
            StateSnapshot::of_batches(&left, &self.spec.left)?.bytes,
            StateSnapshot::of_batches(&right, &self.spec.right)?.bytes,
            StateSnapshot::of_batches(self.carried.batches(), &self.spec.right)?.bytes,
            StateSnapshot::of_batches(self.gathered.pending(), self.output.types())?.bytes,
            place,
        ];
        let mut bytes = Vec::new();
        for section in sections {
            bytes.extend((section.len() as u64).to_le_bytes());
            bytes.extend(section);
        }
        Ok(StateSnapshot { bytes })
    }

    fn read_snapshot(&mut self, snapshot: &StateSnapshot) -> Result<()> {
        let mut rest = snapshot.bytes.as_slice();
        let [left, right, carried, gathered] =
            [section(&mut rest)?, section(&mut rest)?, section(&mut rest)?, section(&mut rest)?]
                .map(|bytes| restore_batches(&StateSnapshot { bytes: bytes.to_vec() }));
        let place = section(&mut rest)?;
        for batch in left? {
            self.left = Some(Left::new(batch, &self.left_keys)?);
        }
        let ([left_ended, right_ended], place) = place.split_first_chunk().ok_or_else(broken)?;
        (self.left_ended, self.right_ended) = (*left_ended != 0, *right_ended != 0);
        for batch in right? {
            self.carried.keep(batch);
            self.right = self.carried.finish(&self.right_keys)?;
        }
        if let Some(right) = &mut self.right {
            let (row, place) = place.split_first_chunk().ok_or_else(broken)?;
            let (available, matched) = place.split_first_chunk().ok_or_else(broken)?;
            right.row = u64::from_le_bytes(*row) as usize;
            right.available = u64::from_le_bytes(*available) as usize;
            right.matched = matched.iter().map(|&matched| matched != 0).collect();
        }
        carried?.into_iter().for_each(|batch| self.carried.keep(batch));
        gathered?.into_iter().for_each(|batch| self.gathered.keep(batch));
        self.charge()
    }
}

fn broken() -> Error {
    Error::Internal("a broken snapshot of a sort-merge join".into())
}

/// The next section of a snapshot.
fn section<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk().ok_or_else(broken)?;
    let (section, rest) =
        rest.split_at_checked(u64::from_le_bytes(*len) as usize).ok_or_else(broken)?;
    *bytes = rest;
    Ok(section)
}
