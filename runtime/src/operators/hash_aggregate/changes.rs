//! Results as changes: after each batch, the old rows of the groups it touched are deleted and the new ones inserted.
//!
//! Where changes are told from time to time, rows wait for that (see `waiting`).
//! There is a table for each grouping set, kept for ever, or for as long after its last row as the job says. Invariant: what was emitted so far adds up to the results of
//! the rows so far. A group whose row stays the same says nothing; its deletion and insertion leave together, in this
//! order, and a group occurs once a batch. Where there are no keys the only row exists from the start and never goes.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::interleave;

use super::shape::Shape;
use super::table::AggregateTable;
use super::waiting::Waiting;
use super::{HashAggregate, State};
use crate::aggregates::same_values;
use crate::batch::{BATCH_BYTES_MAX, Batch};
use crate::element::{RowKind, StreamElement};
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::operators::{OperatorContext, Output, PortId, PortSet};
use crate::rows::{RowId, take_array};

/// Groups of a batch up to which they are put in order, and their results kept for the next batch.
const REMEMBERED_GROUPS_MAX: usize = 1024;

/// How often groups are looked through within the time that they are kept.
const TTL_SWEEPS: i64 = 4;

/// See the module.
pub(super) struct Changes {
    shape: Arc<Shape>,
    /// By grouping set; without sets one.
    tables: Vec<SetTable>,
    touched: Touched,
    /// Rows that wait for a tick, where changes are told from time to time.
    waiting: Option<Waiting>,
    ready: VecDeque<Batch>,
    /// How long groups are kept that nothing touches, if not for ever.
    ttl: Option<Ttl>,
    /// When rows came last, in microseconds since 1970.
    now_us: i64,
}

/// How long groups are kept that nothing touches, in microseconds.
struct Ttl {
    length_us: i64,
    /// When groups are looked through next.
    sweep_us: i64,
}

impl Ttl {
    /// Looks a few times within the length: a group is kept at most this much longer.
    fn pause_us(&self) -> i64 {
        (self.length_us / TTL_SWEEPS).max(1)
    }
}

/// The groups of one grouping set, or of one pane.
pub(super) struct SetTable {
    table: AggregateTable,
    /// The key columns of the only group, where the set has no keys.
    only: Option<Vec<ArrayRef>>,
    /// Whether the only group has been emitted.
    emitted: bool,
    /// The groups of the last batch and their results, unless they were many: where each batch touches the same few
    /// groups, each result is computed once.
    last: (Vec<RowId>, Vec<ArrayRef>),
    /// When each group was touched last, where that matters; charged to the reservation.
    times: Option<(Vec<i64>, Reservation)>,
}

/// The groups of a batch, each once.
#[derive(Default)]
pub(super) struct Touched {
    /// A bit for each group, all zero between batches.
    seen: Vec<u64>,
    /// Groups that have a row among the results, and then those that have none.
    groups: Vec<RowId>,
    /// How many of them have one.
    old: usize,
}

impl Touched {
    /// Collects the groups of rows; `has_row` tells those whose rows have been emitted.
    fn collect(&mut self, ids: &[RowId], groups: usize, has_row: impl FnOnce(&mut Vec<RowId>)) {
        self.seen.resize(groups.div_ceil(64).max(self.seen.len()), 0);
        self.groups.clear();
        for &id in ids {
            let (word, bit) = (id as usize / 64, 1 << (id % 64));
            if self.seen[word] & bit == 0 {
                self.seen[word] |= bit;
                self.groups.push(id);
            }
        }
        if self.groups.len() <= REMEMBERED_GROUPS_MAX {
            self.groups.sort_unstable();
        }
        let mut old = self.groups.clone();
        has_row(&mut old);
        self.old = old.len();
        if old.len() < self.groups.len() {
            // What is left of the marks are the groups without a row.
            old.iter().for_each(|&id| self.seen[id as usize / 64] &= !(1 << (id % 64)));
            let rest =
                self.groups.iter().filter(|&&id| self.seen[id as usize / 64] >> (id % 64) & 1 != 0);
            old.extend(rest);
        }
        self.groups = old;
        self.groups.iter().for_each(|&id| self.seen[id as usize / 64] &= !(1 << (id % 64)));
    }
}

impl Changes {
    /// Groups of all grouping sets.
    pub(super) fn groups(&self) -> usize {
        self.tables.iter().map(SetTable::groups).sum()
    }

    /// No groups, and nothing emitted.
    pub(super) fn new(
        shape: &Arc<Shape>,
        waiting: Option<Waiting>,
        reservation: &Reservation,
        ttl_us: u64,
    ) -> Result<Self> {
        let sets = shape.sets().map_or(1, |sets| sets.sets.len());
        let mut only: Vec<Option<Vec<ArrayRef>>> = vec![None; sets];
        if shape.keys() == 0 {
            only[0] = Some(Vec::new());
        }
        for (set, keys) in shape.groups_of_no_rows()? {
            only[set] = Some(keys);
        }
        let tables = only.into_iter().map(|only| {
            let table = AggregateTable::new(shape, reservation)?;
            let times = (ttl_us > 0).then(|| (Vec::new(), reservation.share()));
            Ok(SetTable { table, only, emitted: false, last: (Vec::new(), Vec::new()), times })
        });
        let length_us = i64::try_from(ttl_us).unwrap_or(i64::MAX);
        Ok(Changes {
            shape: Arc::clone(shape),
            tables: tables.collect::<Result<_>>()?,
            touched: Touched::default(),
            waiting,
            ready: VecDeque::new(),
            ttl: (ttl_us > 0).then_some(Ttl { length_us, sweep_us: i64::MIN }),
            now_us: 0,
        })
    }

    /// Emits the rows that exist without any input, unless they have been.
    pub(super) fn begin(&mut self, subtask: usize) -> Result<()> {
        if subtask > 0 {
            return Ok(());
        }
        for set in &mut self.tables {
            let Some(keys) = set.only.as_ref().filter(|_| !set.emitted) else { continue };
            set.table.insert_group(keys)?;
            set.emitted = true;
            let (columns, rows) = set.table.results(0..1)?;
            self.ready.push_back(Batch::new(columns, rows));
        }
        Ok(())
    }

    /// Takes a compact batch in. What changes is ready then, unless it waits.
    pub(super) fn take(&mut self, batch: Batch, cx: &OperatorContext<'_>) -> Result<()> {
        if self.ttl.is_some() {
            self.now_us = cx.job.env.now_us();
        }
        match &mut self.waiting {
            None => self.apply(&batch, cx.job.options.batch_rows),
            Some(waiting) => match waiting.take(batch, cx) {
                true => self.tell_waiting(cx.job.options.batch_rows),
                false => Ok(()),
            },
        }
    }

    /// Tells the changes of the rows that waited if it is time; else the task is woken then.
    pub(super) fn tick(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        match self.waiting.as_ref().is_some_and(|waiting| waiting.is_due(cx)) {
            true => self.tell_waiting(cx.job.options.batch_rows),
            false => Ok(()),
        }
    }

    /// Takes the rows in that waited.
    pub(super) fn tell_waiting(&mut self, batch_rows: usize) -> Result<()> {
        let waited = self.waiting.as_mut().map_or(Ok(None), Waiting::release)?;
        waited.map_or(Ok(()), |rows| self.apply(&rows, batch_rows))
    }

    fn apply(&mut self, batch: &Batch, batch_rows: usize) -> Result<()> {
        let deletes = deletes_of(batch)?;
        let rows = batch.num_rows();
        let arguments = self.shape.arguments(batch)?;
        let keys = self.shape.keys_of(batch)?;
        for set in 0..self.tables.len() {
            let keys = self.shape.keys_in(set, &keys, rows)?;
            let table = &mut self.tables[set];
            if let Some(mut changed) =
                table.change(&keys, &arguments, rows, deletes.as_ref(), &mut self.touched)?
            {
                changed.ingest_time_us = batch.ingest_time_us;
                cut(changed, batch_rows, &mut self.ready);
            }
            table.note_times(&self.touched.groups, self.now_us)?;
            table.let_go_of_empty(&self.touched.groups);
        }
        Ok(())
    }

    /// Asks to be woken when groups are to be looked through.
    pub(super) fn wake_for_sweep(&mut self, cx: &OperatorContext<'_>) {
        let Some(ttl) = &mut self.ttl else { return };
        let pause_us = ttl.pause_us();
        ttl.sweep_us = cx.job.env.now_us().saturating_add(pause_us);
        let pause_ns = pause_us.unsigned_abs().saturating_mul(1_000);
        let at_ns = cx.job.env.monotonic_ns().saturating_add(pause_ns);
        cx.job.env.wake_at(at_ns, cx.waker.clone());
    }

    /// Forgets the groups that nothing has touched for long enough, when it is time to look. What was emitted of them
    /// stays; rows that come for one of them begin it anew.
    pub(super) fn sweep(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        let now_us = cx.job.env.now_us();
        let Some(ttl) = self.ttl.as_ref().filter(|ttl| ttl.sweep_us <= now_us) else {
            return Ok(());
        };
        let oldest_us = now_us.saturating_sub(ttl.length_us);
        self.tables.iter_mut().try_for_each(|set| set.forget_before(oldest_us))?;
        self.wake_for_sweep(cx);
        Ok(())
    }

    /// The next changes to leave.
    pub(super) fn next_ready(&mut self) -> Option<Batch> {
        self.ready.pop_front()
    }

    /// Appends the tables to a snapshot; nothing is ready.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if let Some(waiting) = &self.waiting {
            waiting.write_to(out)?;
        }
        for set in &mut self.tables {
            out.push(u8::from(set.emitted));
            set.table.write_to(out)?;
            let times = set.times.as_ref().map_or(&[][..], |(times, _)| times);
            out.extend_from_slice(&(times.len() as u64).to_le_bytes());
            times.iter().for_each(|time| out.extend_from_slice(&time.to_le_bytes()));
        }
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        if let Some(waiting) = &mut self.waiting {
            waiting.read_from(bytes)?;
        }
        for set in &mut self.tables {
            set.emitted = take_array::<1>(bytes)?[0] != 0;
            set.table.read_from(bytes)?;
            set.read_times(bytes)?;
            if let Some(keys) = set.only.as_ref().filter(|_| set.emitted) {
                set.table.insert_group(keys)?;
            }
        }
        Ok(())
    }
}

impl SetTable {
    /// How many groups there are.
    pub(super) fn groups(&self) -> usize {
        self.table.len()
    }

    /// No groups yet; there are keys.
    pub(super) fn keyed(shape: &Arc<Shape>, reservation: &Reservation) -> Result<Self> {
        let table = AggregateTable::new(shape, reservation)?;
        let last = (Vec::new(), Vec::new());
        Ok(SetTable { table, only: None, emitted: false, last, times: None })
    }

    /// Takes note that groups were touched.
    fn note_times(&mut self, groups: &[RowId], now_us: i64) -> Result<()> {
        let Some((times, charge)) = &mut self.times else { return Ok(()) };
        times.resize(self.table.len(), now_us);
        groups.iter().for_each(|&group| times[group as usize] = now_us);
        charge.try_resize(times.capacity() * size_of::<i64>())
    }

    /// Groups that have lost all their rows are forgotten the next time that it is looked for old ones.
    fn let_go_of_empty(&mut self, groups: &[RowId]) {
        let Some((times, _)) = &mut self.times else { return };
        let mut present = groups.to_vec();
        self.table.retain_present(&mut present);
        let mut present = present.into_iter().peekable();
        for &group in groups {
            if present.next_if_eq(&group).is_none() {
                times[group as usize] = i64::MIN;
            }
        }
    }

    /// Forgets the groups that were touched before a moment.
    fn forget_before(&mut self, oldest_us: i64) -> Result<()> {
        let Some((times, charge)) = &mut self.times else { return Ok(()) };
        times.resize(self.table.len(), i64::MAX);
        if times.iter().all(|time| *time >= oldest_us) {
            return Ok(());
        }
        let kept = self.table.forget(|group| times[group as usize] < oldest_us)?;
        *times = kept.iter().map(|&group| times[group as usize]).collect();
        charge.try_resize(times.capacity() * size_of::<i64>())?;
        self.last = Default::default();
        Ok(())
    }

    fn read_times(&mut self, bytes: &mut &[u8]) -> Result<()> {
        let count = u64::from_le_bytes(take_array(bytes)?);
        let mut read = Vec::new();
        for _ in 0..count {
            read.push(i64::from_le_bytes(take_array(bytes)?));
        }
        if let Some((times, _)) = &mut self.times {
            *times = read;
        }
        Ok(())
    }

    /// The groups.
    pub(super) fn table_mut(&mut self) -> &mut AggregateTable {
        &mut self.table
    }

    /// Takes rows in and out; gives the changes of the results.
    pub(super) fn change(
        &mut self,
        keys: &[ArrayRef],
        arguments: &[ArrayRef],
        rows: usize,
        deletes: Option<&BooleanArray>,
        touched: &mut Touched,
    ) -> Result<Option<Batch>> {
        if let Some(only) = &self.only {
            self.table.insert_group(only)?;
        }
        let new = self.table.locate(keys, rows)?;
        let (table, emitted) = (&mut self.table, self.only.is_none() || self.emitted);
        let located = table.located().to_vec();
        touched.collect(&located, table.len(), |groups| {
            groups.retain(|&group| emitted && group < new.start);
            table.retain_present(groups);
        });
        self.emitted = true;
        let old = &touched.groups[..touched.old];
        let before = match touched.old {
            0 => Vec::new(),
            _ if old == self.last.0 => std::mem::take(&mut self.last.1),
            _ => table.finalize(old)?,
        };
        table.apply_located(arguments, deletes)?;
        let after = table.finalize(&touched.groups)?;
        let mut present = touched.groups.clone();
        table.retain_present(&mut present);
        let changes = Change { groups: &touched.groups, old: touched.old, present: &present };
        let changed = changes.rows(&before, &after)?;
        let batch = changed.batch(table, &touched.groups, &before, &after)?;
        // Groups keep their numbers where it is known when they were touched: those without rows go with the old ones.
        let renumbered = match &self.times {
            Some(_) => table.drop_replaced_strings().map(|()| false)?,
            None => table.compact()?,
        };
        self.last = match touched.groups.len() {
            0..=REMEMBERED_GROUPS_MAX if !renumbered => (touched.groups.clone(), after),
            _ => Default::default(),
        };
        Ok(batch)
    }
}

impl HashAggregate {
    /// The step of an aggregate that tells changes.
    pub(super) fn step_changes(&mut self, cx: &OperatorContext<'_>) -> Result<Output> {
        let flush = std::mem::take(&mut self.flush);
        let Some(changes) = &mut self.changes else {
            return Err(Error::Internal("an aggregate was not opened".into()));
        };
        changes.begin(cx.subtask)?;
        changes.sweep(cx)?;
        match self.state {
            State::Taking | State::Emitting { .. } if !flush => changes.tick(cx)?,
            State::Taking | State::Emitting { .. } | State::Ended | State::Done => {
                changes.tell_waiting(cx.job.options.batch_rows)?
            }
        }
        Ok(match (changes.next_ready(), self.state) {
            (Some(batch), _) => Output::Element(PortId(0), StreamElement::Batch(batch)),
            (None, State::Ended | State::Done) => Output::Finished,
            (None, State::Taking | State::Emitting { .. }) => Output::NeedInput(PortSet::Any),
        })
    }
}

/// What has become of some groups.
struct Change<'a> {
    groups: &'a [RowId],
    /// The first groups had a row before.
    old: usize,
    /// Those that have a row now, in the order of `groups`.
    present: &'a [RowId],
}

/// The rows to be emitted.
#[derive(Default)]
struct ChangedRows {
    /// For each row: before (0) or after (1), and the position of the group.
    places: Vec<(usize, usize)>,
    deletes: usize,
}

impl Change<'_> {
    /// Which rows are to be emitted.
    fn rows(&self, before: &[ArrayRef], after: &[ArrayRef]) -> Result<ChangedRows> {
        let mut same = BooleanBuffer::new_set(self.old);
        for (before, after) in before.iter().zip(after) {
            same = &same & &same_values(before, &after.slice(0, self.old))?;
        }
        let mut changed = ChangedRows::default();
        let mut present = self.present.iter().peekable();
        for (position, group) in self.groups.iter().enumerate() {
            let is_present = present.next_if_eq(&group).is_some();
            let was_present = position < self.old;
            if was_present && is_present && same.value(position) {
                continue;
            }
            if was_present {
                changed.places.push((0, position));
                changed.deletes += 1;
            }
            if is_present {
                changed.places.push((1, position));
            }
        }
        Ok(changed)
    }
}

impl ChangedRows {
    /// The rows as a batch, if there are any.
    fn batch(
        &self,
        table: &AggregateTable,
        groups: &[RowId],
        before: &[ArrayRef],
        after: &[ArrayRef],
    ) -> Result<Option<Batch>> {
        if self.places.is_empty() {
            return Ok(None);
        }
        let ids: Vec<RowId> = self.places.iter().map(|&(_, position)| groups[position]).collect();
        let mut columns = table.output_keys(&ids)?;
        // Where all groups are new, the rows are those that they have now.
        let all_new = self.deletes == 0 && self.places.len() == groups.len();
        for (column, after) in after.iter().enumerate() {
            let before: &dyn Array = before.get(column).unwrap_or(after);
            columns.push(match all_new {
                true => after.clone(),
                false => interleave(&[before, after], &self.places)?,
            });
        }
        let batch = Batch::new(columns, ids.len());
        if self.deletes == 0 {
            return Ok(Some(batch));
        }
        let kinds = self.places.iter().map(|&(side, _)| match side {
            0 => RowKind::Delete,
            _ => RowKind::Insert,
        });
        Ok(Some(batch.with_kinds(kinds.collect())))
    }
}

/// Which rows of a compact batch are withdrawn; none where all are inserted.
pub(super) fn deletes_of(batch: &Batch) -> Result<Option<BooleanArray>> {
    let Some(kinds) = batch.kinds() else { return Ok(None) };
    if kinds.contains(&RowKind::Upsert) {
        return Err(Error::Internal("a GROUP BY cannot tell what an upsert replaces".into()));
    }
    if !kinds.contains(&RowKind::Delete) {
        return Ok(None);
    }
    Ok(Some(kinds.iter().map(|kind| Some(*kind == RowKind::Delete)).collect()))
}

/// Cuts a batch into such that hold their bounds in rows and bytes, and no group apart.
pub(super) fn cut(batch: Batch, batch_rows: usize, out: &mut VecDeque<Batch>) {
    let rows = batch.num_rows();
    let row_bytes = batch.data_bytes() / rows.max(1);
    let most = (BATCH_BYTES_MAX / row_bytes.max(1)).clamp(64.min(batch_rows), batch_rows).max(2);
    if rows <= most {
        out.push_back(batch);
        return;
    }
    let mut start = 0;
    while start < rows {
        let mut end = (start + most).min(rows);
        let is_delete = |row: usize| batch.kinds().is_some_and(|k| k[row] == RowKind::Delete);
        if end < rows && is_delete(end - 1) && end - start > 1 {
            // An insertion may follow.
            end -= 1;
        }
        out.push_back(batch.slice(start, end - start));
        start = end;
    }
}
