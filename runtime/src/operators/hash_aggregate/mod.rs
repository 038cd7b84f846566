//! Hash aggregate: groups rows by keys and computes aggregates, in one phase or in two.
//!
//! *Single* keeps one table and emits it when the input ends. *Partial* keeps a table that fits the cache and hands
//! it over as row pages, split by hash, whenever it is full. *Final* keeps one table for each partition it owns and
//! merges pages into it. Rows of several grouping sets go through one table with the set's id as a key, or one for each
//! level (see `levels`). At a superstep the results so far are emitted and the tables begin anew. A watermark lets the
//! groups leave that are complete by it, where a key tells (see `panes`), or a key and those before it (see `slices`).
//! Where changes are wanted, they leave after each batch (see `changes`), and a watermark or barrier finds nothing held
//! back; of groups that close they may be told from time to time (see `firing`). All rows are held through one revocable
//! reservation; only the partial phase can give memory back, by sending early. Rows that are withdrawn are taken where
//! the specification says so, in the single phase, and refused elsewhere.

#[cfg(test)]
mod changelog_model;
#[cfg(test)]
mod changelog_tests;
mod changes;
mod firing;
mod late_keys;
mod levels;
#[cfg(test)]
pub(super) mod model;
mod outgoing;
mod panes;
mod partial;
mod partial_panes;
mod shape;
mod slices;
#[cfg(test)]
mod slices_tests;
mod spec;
mod state_bytes;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod type_tests;
mod waiting;

use std::sync::Arc;

use self::changes::{Changes, deletes_of};
use self::firing::Firing;
pub use self::firing::{Early, FiringSpec};
use self::late_keys::LateKeys;
pub use self::late_keys::LateKeysSpec;
use self::levels::Levels;
use self::outgoing::PARTITIONS;
pub use self::panes::ClosingSpec;
use self::panes::{ClosingKey, Pane, Panes};
use self::partial::Partial;
use self::partial_panes::PartialPanes;
pub(super) use self::shape::Shape;
use self::slices::Slices;
pub use self::slices::SlicesSpec;
pub use self::spec::{AggregatePhase, Emission, GroupingSetsSpec, HashAggregateSpec};
use self::table::{AggregateTable, result_rows};
use self::waiting::Waiting;
use super::prelude::*;
use super::sort_key_spec::inserts_only;
use super::time_bound::TimeBound;
pub use crate::aggregates::AggregateSpec;
use crate::aggregates::StateUse;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::rows::{HASH_SEED, Pages, Selected, hash_columns, partition_of};

/// The running operator.
pub struct HashAggregate {
    phase: AggregatePhase,
    shape: Arc<Shape>,
    late: Option<LateKeys>,
    reservation: Option<Reservation>,
    partial: Option<Partial>,
    /// By partition; in the single phase one, or with levels one for each grouping set.
    tables: Vec<Option<AggregateTable>>,
    levels: Option<Levels>,
    /// Instead of the tables, where groups close.
    panes: Option<Panes>,
    /// The values of the closing key of the tables that are leaving, where they are panes.
    leaving: Vec<Option<i64>>,
    /// Instead of the tables, where groups close that share rows.
    slices: Option<Slices>,
    /// The key by which the partial phase splits rows, until it is opened.
    partial_key: Option<(ClosingKey, TimeBound)>,
    /// The partial phase where groups close.
    partial_panes: Option<PartialPanes>,
    /// Instead of the tables, where changes leave of groups that close.
    firing: Option<Firing>,
    /// Instead of the tables, where changes leave.
    changes: Option<Changes>,
    /// Rows that wait for changes to be told, until it is opened.
    waiting: Option<Waiting>,
    emits_changes: bool,
    input: Option<StreamElement>,
    state: State,
    /// Input or a superstep came since the last results.
    dirty: bool,
    /// The partial phase was asked to send what it has.
    flush: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Taking,
    /// Results of a table leave from a group on; the input has ended, or a superstep.
    Emitting {
        table: usize,
        next: usize,
        ended: bool,
    },
    /// The input has ended; nothing was emitted for it yet.
    Ended,
    Done,
}

impl HashAggregate {
    /// Compiles the expressions.
    ///
    /// # Errors
    /// `Unsupported` for functions and types that are not, and for rows that are withdrawn or changes in two phases.
    pub fn new(spec: &HashAggregateSpec, job: &JobContext) -> Result<Self> {
        let every_us = match spec.emission {
            Emission::PeriodicChanges { every_us } => Some(every_us),
            Emission::AtEnd | Emission::Closed(_) | Emission::Changes | Emission::Fired(_) => None,
        };
        let emits_changes = every_us.is_some() || matches!(spec.emission, Emission::Changes);
        let fires = matches!(spec.emission, Emission::Fired(_));
        if spec.phase != AggregatePhase::Single && (spec.withdrawn || emits_changes || fires) {
            return Err(Error::Unsupported("a changelog through a GROUP BY in two phases".into()));
        }
        let (mut panes, mut slices, mut partial_key) = (None, None, None);
        if let Some(closing) = spec.emission.closing() {
            let key = ClosingKey::new(spec, closing, job)?;
            let bound = TimeBound::new(&closing.bound, &closing.watermark_type, job)?;
            match (spec.phase, closing.slices) {
                (AggregatePhase::Partial, _) => partial_key = Some((key, bound)),
                (_, None) => panes = Some(Panes::new(key, bound)),
                (_, Some(windows)) => slices = Some(Slices::new(spec, windows, key, bound)?),
            }
        }
        let tables = panes::of_tables(spec);
        let shape = Shape::new(tables.as_ref().unwrap_or(spec), job)?;
        let firing = match &spec.emission {
            Emission::Fired(fired) => Some(Firing::new(fired, &spec.input, &shape, job)?),
            Emission::AtEnd
            | Emission::Closed(_)
            | Emission::Changes
            | Emission::PeriodicChanges { .. } => None,
        };
        Ok(HashAggregate {
            phase: spec.phase,
            shape,
            firing,
            late: LateKeys::new(spec, job)?,
            reservation: None,
            partial: None,
            tables: Vec::new(),
            levels: None,
            panes,
            leaving: Vec::new(),
            slices,
            partial_key,
            partial_panes: None,
            changes: None,
            waiting: every_us.map(|every_us| Waiting::new(&spec.input, every_us)),
            emits_changes,
            input: None,
            state: State::Taking,
            dirty: true,
            flush: false,
        })
    }

    fn reservation(&self) -> Result<&Reservation> {
        self.reservation
            .as_ref()
            .ok_or_else(|| Error::Internal("an aggregate was not opened".into()))
    }

    fn table(&mut self, partition: usize) -> Result<&mut AggregateTable> {
        if self.tables[partition].is_none() {
            let table = AggregateTable::new(&self.shape, self.reservation()?)?;
            self.tables[partition] = Some(table);
        }
        Ok(self.tables[partition].as_mut().expect("it was just made"))
    }

    fn take(&mut self, element: StreamElement, cx: &OperatorContext<'_>) -> Result<()> {
        self.dirty = true;
        match (element, self.phase) {
            (StreamElement::Batch(batch), AggregatePhase::Single | AggregatePhase::Partial) => {
                self.take_batch(batch, cx)
            }
            (StreamElement::Pages(pages), AggregatePhase::Final) if pages.pane().is_some() => {
                self.merge_pane(pages, cx)
            }
            (StreamElement::Pages(pages), AggregatePhase::Final) => {
                let partition = pages.partition() as usize % PARTITIONS;
                self.table(partition)?.merge(pages.into_pages()?)
            }
            (other, phase) => {
                Err(Error::Internal(format!("a {phase:?} aggregate cannot take {other:?}")))
            }
        }
    }

    /// Merges partial results of a pane or slice.
    fn merge_pane(&mut self, mut pages: Pages, cx: &OperatorContext<'_>) -> Result<()> {
        let reservation = self.reservation.as_ref().expect("open makes it before any input");
        let doubtful = pages.take_doubtful();
        let late = match (&mut self.panes, &mut self.slices) {
            (Some(panes), _) => panes.merge(&self.shape, reservation, pages)?,
            (None, Some(slices)) => slices.merge(&self.shape, reservation, pages)?,
            (None, None) => {
                return Err(Error::Internal("pages of a pane, of which none are kept".into()));
            }
        };
        if late > 0 {
            let seen: usize = doubtful.iter().map(Batch::num_rows).sum();
            cx.drop_late(PortId(0), doubtful)?;
            cx.drop_unseen(late.saturating_sub(seen as u64));
        }
        Ok(())
    }

    fn take_batch(&mut self, batch: Batch, cx: &OperatorContext<'_>) -> Result<()> {
        let batch = match self.shape.use_of {
            StateUse::Withdrawn | StateUse::Forgotten => batch.compact()?,
            StateUse::Once | StateUse::Running => inserts_only(batch, "GROUP BY")?,
        };
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        if let Some(partial) = &mut self.partial {
            return partial.take(&batch);
        }
        if let Some(partial) = &mut self.partial_panes {
            return partial.take(&batch, cx);
        }
        if let Some(firing) = &mut self.firing {
            let reservation = self.reservation.as_ref().expect("open makes it before any input");
            let late = firing.take(batch, reservation, cx)?;
            return cx.drop_late(PortId(0), late);
        }
        if let Some(changes) = &mut self.changes {
            return changes.take(batch, cx);
        }
        let deletes = deletes_of(&batch)?;
        let arguments = self.shape.arguments(&batch)?;
        let keys = self.shape.keys_of(&batch)?;
        if let Some(panes) = &mut self.panes {
            let reservation = self.reservation.as_ref().expect("open makes it before any input");
            let columns = [keys.as_slice(), arguments.as_slice()];
            let late = panes.update(&self.shape, reservation, &batch, columns, deletes.as_ref())?;
            return cx.drop_late(PortId(0), late);
        }
        if let Some(slices) = &mut self.slices {
            let reservation = self.reservation.as_ref().expect("open makes it before any input");
            let late = slices.update(&self.shape, reservation, &batch, &keys, &arguments)?;
            return cx.drop_late(PortId(0), late);
        }
        let sets = self.shape.sets().map_or(1, |sets| sets.sets.len());
        for set in 0..sets {
            let table = match &self.levels {
                Some(levels) if !levels.takes_rows(set) => continue,
                Some(_) => set,
                None => 0,
            };
            let keys = self.shape.keys_in(set, &keys, rows)?;
            match &deletes {
                None => self.table(table)?.update(&keys, &arguments, rows)?,
                Some(deletes) => self.table(table)?.change(&keys, &arguments, deletes)?,
            }
        }
        Ok(())
    }

    /// Begins to emit results, of no rows too where there are such.
    fn begin_results(&mut self, cx: &OperatorContext<'_>, ended: bool) -> Result<()> {
        if self.partial.is_some() || self.partial_panes.is_some() {
            self.flush_partial()?;
            self.state = if ended { State::Done } else { State::Taking };
            return Ok(());
        }
        if let Some(panes) = &mut self.panes {
            let closed = panes.close_all();
            self.leave(closed);
        } else if let Some(slices) = &mut self.slices {
            slices.end();
        } else if self.shape.keys() == 0 && cx.subtask == 0 {
            self.table(0)?;
        }
        self.derive_levels()?;
        let mut hashes = Vec::new();
        for (set, keys) in self.shape.groups_of_no_rows()? {
            hash_columns(&keys, Selected::All(1), HASH_SEED, &mut hashes)?;
            let partition = partition_of(hashes[0], PARTITIONS);
            let (owner, partition) = match self.phase {
                AggregatePhase::Final => (partition % cx.parallelism, partition),
                AggregatePhase::Single | AggregatePhase::Partial => {
                    (0, if self.levels.is_some() { set } else { 0 })
                }
            };
            if owner == cx.subtask {
                self.table(partition)?.insert_group(&keys)?;
            }
        }
        self.tables.iter_mut().flatten().for_each(AggregateTable::finish);
        self.state = State::Emitting { table: 0, next: 0, ended };
        Ok(())
    }

    /// Lets panes leave.
    fn leave(&mut self, closed: Vec<Pane>) {
        let (leaving, tables): (Vec<_>, Vec<_>) = closed.into_iter().unzip();
        self.leaving = leaving;
        self.tables = tables.into_iter().map(Some).collect();
    }

    /// Makes all that the partial phase has ready to be sent.
    fn flush_partial(&mut self) -> Result<()> {
        if let Some(partial) = &mut self.partial {
            partial.flush()?;
        }
        self.partial_panes.as_mut().map_or(Ok(()), PartialPanes::flush)
    }

    /// The next results; `None` when there are no more.
    fn next_results(&mut self, cx: &OperatorContext<'_>) -> Result<Option<Batch>> {
        let State::Emitting { table, next, ended } = &mut self.state else { return Ok(None) };
        loop {
            if *table == self.tables.len() {
                let Some(slices) = &mut self.slices else { break };
                let reservation = self.reservation.as_ref().expect("open makes it before results");
                let Some(window) = slices.next_window(&self.shape, reservation)? else { break };
                self.tables = vec![Some(window)];
                (*table, *next) = (0, 0);
            }
            let Some(current) = &mut self.tables[*table] else {
                *table += 1;
                continue;
            };
            if *next < current.len() {
                let rows = result_rows(current, cx.job.options.batch_rows, *next);
                *next = rows.end as usize;
                let (mut columns, count) = current.results(rows)?;
                if count > 0 {
                    if let Some(slices) = &self.slices {
                        slices.add_key(&mut columns, count)?;
                    }
                    if let Some(panes) = &self.panes {
                        panes.key().add_to(&mut columns, self.leaving[*table], count)?;
                    }
                    return Ok(Some(Batch::new(columns, count)));
                }
                continue;
            }
            // The memory goes as soon as the results are out.
            self.tables[*table] = None;
            (*table, *next) = (*table + 1, 0);
        }
        if self.panes.is_some() || self.slices.is_some() {
            self.tables.clear();
        }
        self.dirty = false;
        self.state = if *ended { State::Done } else { State::Taking };
        Ok(None)
    }
}

impl Operator for HashAggregate {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        let reservation = cx.job.memory.reserve_revocable("HashAggregate");
        match self.phase {
            AggregatePhase::Partial if self.partial_key.is_some() => {
                let closing = self.partial_key.take().expect("there is one");
                let partial =
                    PartialPanes::new(&self.shape, closing, cx.parallelism, &reservation)?;
                self.partial_panes = Some(partial);
            }
            AggregatePhase::Partial => {
                let mut late = self.late.take();
                if let Some(late) = &mut late {
                    late.open(cx)?;
                }
                self.partial = Some(Partial::new(&self.shape, late, &reservation)?)
            }
            AggregatePhase::Single if self.emits_changes => {
                let waiting = self.waiting.take();
                let ttl_us = cx.job.options.state_ttl_us;
                let mut changes = Changes::new(&self.shape, waiting, &reservation, ttl_us)?;
                changes.wake_for_sweep(cx);
                self.changes = Some(changes);
            }
            AggregatePhase::Single => {
                self.levels = Levels::new(&self.shape, &reservation)?;
                let tables = self.levels.as_ref().map_or(1, Levels::len);
                self.tables = (0..tables).map(|_| None).collect();
            }
            AggregatePhase::Final if self.panes.is_some() || self.slices.is_some() => {}
            AggregatePhase::Final => self.tables = (0..PARTITIONS).map(|_| None).collect(),
        }
        self.reservation = Some(reservation);
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match element {
            StreamElement::End => self.state = State::Ended,
            data => self.input = Some(data),
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        let tells = self.firing.is_some() || self.changes.is_some();
        if !tells && std::mem::take(&mut self.flush) {
            self.flush_partial()?;
        }
        if let Some(element) = self.input.take() {
            self.take(element, cx)?;
        }
        if self.changes.is_some() {
            return self.step_changes(cx);
        }
        if self.firing.is_some() {
            return self.step_firing(cx);
        }
        if self.state == State::Ended {
            // The results that left last may have been of closed panes alone.
            if self.dirty || self.panes.is_some() || self.slices.is_some() {
                self.begin_results(cx, true)?;
            } else {
                self.state = State::Done;
            }
        }
        let ready = self.partial.as_mut().and_then(Partial::next_ready);
        let in_pane = || self.partial_panes.as_mut().and_then(PartialPanes::next_ready);
        if let Some(pages) = ready.or_else(in_pane) {
            return Ok(Output::Element(PortId(0), StreamElement::Pages(pages)));
        }
        if let Some(batch) = self.next_results(cx)? {
            return Ok(Output::Element(PortId(0), StreamElement::Batch(batch)));
        }
        Ok(match self.state {
            State::Done => Output::Finished,
            State::Taking | State::Ended | State::Emitting { .. } => {
                Output::NeedInput(PortSet::Any)
            }
        })
    }

    fn on_watermark(&mut self, watermark: Watermark, cx: &mut OperatorContext<'_>) -> Result<()> {
        if let (Some(firing), Some(reservation)) = (&mut self.firing, &self.reservation) {
            let late = firing.pass(watermark, reservation, cx.job.options.batch_rows)?;
            cx.drop_late(PortId(0), late)?;
        }
        // What came before the watermark leaves before it.
        self.flush |= self.partial_panes.is_some();
        if let Some(slices) = &mut self.slices
            && slices.close(watermark)?
        {
            self.tables.clear();
            self.state = State::Emitting { table: 0, next: 0, ended: false };
        }
        let Some(panes) = &mut self.panes else { return Ok(()) };
        let closed = panes.close(watermark)?;
        if closed.is_empty() {
            return Ok(());
        }
        self.leave(closed);
        self.tables.iter_mut().flatten().for_each(AggregateTable::finish);
        self.state = State::Emitting { table: 0, next: 0, ended: false };
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
        let gathers = self.partial.is_some() || self.partial_panes.is_some();
        self.flush = gathers || self.firing.is_some() || self.changes.is_some();
        Ok(())
    }

    fn on_superstep(&mut self, _superstep: Superstep, cx: &mut OperatorContext<'_>) -> Result<()> {
        if self.changes.is_some() {
            return Err(Error::Unsupported("changes of results inside an iteration".into()));
        }
        if self.slices.is_some() {
            return Err(Error::Unsupported("windows of slices inside an iteration".into()));
        }
        self.begin_results(cx, false)
    }

    fn revoke(&mut self, _bytes: usize, _cx: &mut OperatorContext<'_>) -> Result<usize> {
        // The partial phase sends what it has at its next step; the others cannot give anything back.
        self.flush = self.partial.is_some() || self.partial_panes.is_some();
        if let (false, Some(reservation)) = (self.flush, &self.reservation) {
            reservation.dismiss_revoke();
        }
        Ok(0)
    }

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        self.state_bytes().map(|bytes| StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.take_state(&snapshot.bytes)
    }

    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn checkpoint_aborted(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn state_size(&self) -> StateSize {
        let groups = self.tables.iter().flatten().map(AggregateTable::len).sum::<usize>()
            + self.panes.as_ref().map_or(0, Panes::groups)
            + self.slices.as_ref().map_or(0, Slices::groups)
            + self.firing.as_ref().map_or(0, Firing::groups)
            + self.changes.as_ref().map_or(0, Changes::groups)
            + self.partial_panes.as_ref().map_or(0, PartialPanes::groups);
        let bytes = self.reservation.as_ref().map_or(0, Reservation::total);
        StateSize { rows: groups as u64, bytes: bytes as u64 }
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        self.partial = None;
        self.levels = None;
        self.panes = None;
        self.slices = None;
        self.partial_panes = None;
        self.changes = None;
        self.tables.clear();
        self.reservation = None;
        Ok(())
    }
}
