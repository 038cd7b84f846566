//! History: complete rows that functions of other rows still look at, by partition.
//!
//! Rows join in the order of their times, so that those of a partition stand in the window's order. A row leaves, with
//! its results, once the rows after it that its functions see are there or can come no more; it is forgotten when no
//! row to come sees it, or every one does through what is carried. Invariant: a row that has left is marked, and rows
//! leave in the order of their partition.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::{Array, Int64Array};

use super::held::rows_of;
use super::keyed_rows::{KeyedRows, distinct};
use super::ordered::OrderedWindow;
use super::reach::Reach;
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::OperatorContext;
use crate::operators::doubled::Doubled;
use crate::operators::untouched::Untouched;
use crate::operators::window::{Carried, Progress, WindowSpec};
use crate::rows::{NO_ROW, RowId};

/// The time of rows without one, which come last.
const NO_TIME: i64 = i64::MAX;

/// See the module.
pub(super) struct History {
    reach: Reach,
    rows: KeyedRows,
    /// What functions know of rows that are forgotten.
    carried: Option<Carried>,
    /// When partitions were touched, by their ids in what is carried, or else among the rows.
    untouched: Option<Untouched>,
    /// Rows that wait for time to pass, by the time that they wait for.
    waiting: BTreeMap<i64, Vec<RowId>>,
    /// When rows are searched for that time alone lets go.
    sweep: Doubled,
}

/// The rows of some partitions.
struct Listed {
    ids: Vec<RowId>,
    partitions: Vec<Range<usize>>,
}

impl Listed {
    /// The rows that leave.
    fn leaving(&self, decided: &[Progress]) -> Vec<u32> {
        let partitions = self.partitions.iter().zip(decided);
        let leaving = partitions.flat_map(|(rows, progress)| {
            rows.start + progress.leaving.start..rows.start + progress.leaving.end
        });
        leaving.map(|at| at as u32).collect()
    }

    /// The rows that are forgotten.
    fn forgotten(&self, decided: &[Progress]) -> Vec<RowId> {
        let partitions = self.partitions.iter().zip(decided);
        partitions.flat_map(|(rows, p)| &self.ids[rows.start..][..p.forgotten]).copied().collect()
    }
}

impl History {
    /// No rows yet.
    pub(super) fn new(
        (spec, window): (&WindowSpec, &OrderedWindow),
        mut reach: Reach,
        reservation: &Reservation,
        job: &JobContext,
    ) -> Result<Self> {
        let rows = KeyedRows::new(spec, reservation, job)?;
        let carried = match window.carried(rows.key_types(), reservation) {
            // What cannot be carried is looked for in the rows.
            Err(Error::Unsupported(_)) => {
                reach.rows_before = None;
                None
            }
            carried => carried?,
        };
        Ok(History {
            reach,
            carried,
            untouched: match spec.partition_by.is_empty() {
                true => None,
                false => Untouched::of(job, reservation),
            },
            rows,
            waiting: BTreeMap::new(),
            sweep: Doubled::default(),
        })
    }

    /// Takes complete rows in, in the window's order, with their times; gives those that leave, with their results.
    pub(super) fn complete(
        &mut self,
        ready: Option<(&Batch, Int64Array)>,
        bound: Option<i64>,
        window: &OrderedWindow,
    ) -> Result<Option<Batch>> {
        let mut partitions = self.take_due(bound);
        if let Some((batch, times)) = ready {
            let times = |row: usize| if times.is_valid(row) { times.value(row) } else { NO_TIME };
            let rows = batch.num_rows();
            let (ids, keys) = self.rows.add(batch, (0..rows).map(times))?;
            partitions.extend_from_slice(keys);
            if let (Some(untouched), None) = (&mut self.untouched, &self.carried) {
                untouched.touch(keys.iter().copied())?;
            }
            if self.reach.time_after > 0 && bound.is_some() {
                for (row, &id) in ids.iter().enumerate() {
                    let due = times(row).saturating_add(self.reach.time_after);
                    self.waiting.entry(due).or_default().push(id);
                }
            }
        }
        if bound.is_none() {
            // Rows that waited for others which do not come.
            let mut ids = Vec::new();
            self.rows.list_all(&mut ids);
            partitions = ids.iter().map(|&id| self.rows.partition(id)).collect();
        }
        self.sweep(bound, &mut partitions);
        if partitions.is_empty() {
            return Ok(None);
        }
        let listed = self.list(&distinct(partitions));
        let decided = self.decide(&listed, bound);
        let leaving = listed.leaving(&decided);
        let forgotten = listed.forgotten(&decided);
        let complete = match (&self.carried, leaving.is_empty()) {
            (None, true) => None,
            (Some(_), true) if forgotten.is_empty() => None,
            (None | Some(_), _) => Some(self.leave(&listed, &decided, leaving, window)?),
        };
        self.forget(forgotten)?;
        Ok(complete.filter(|rows| rows.num_rows() > 0))
    }

    /// The rows that leave, with their results; what is forgotten is carried on.
    fn leave(
        &mut self,
        listed: &Listed,
        decided: &[Progress],
        leaving: Vec<u32>,
        window: &OrderedWindow,
    ) -> Result<Batch> {
        let rows = self.rows.gather(&listed.ids)?;
        let results = match &mut self.carried {
            None => window.evaluate(rows)?,
            Some(carried) => {
                let firsts: Vec<RowId> =
                    listed.partitions.iter().map(|rows| listed.ids[rows.start]).collect();
                carried.find(&self.rows.gather_keys(&firsts)?, firsts.len())?;
                if let Some(untouched) = &mut self.untouched {
                    untouched.touch(carried.found().iter().copied())?;
                }
                window.evaluate_carried(rows, carried, decided)?
            }
        };
        leaving.iter().for_each(|&at| self.rows.mark(listed.ids[at as usize]));
        rows_of(&results, leaving)
    }

    /// The partitions of rows that waited for a time that is now below the bound.
    fn take_due(&mut self, bound: Option<i64>) -> Vec<RowId> {
        let mut due = Vec::new();
        while let Some(entry) = self.waiting.first_entry() {
            if bound.is_some_and(|bound| *entry.key() >= bound) {
                break;
            }
            due.extend(entry.remove().iter().map(|&id| self.rows.partition(id)));
        }
        due
    }

    fn list(&self, partitions: &[RowId]) -> Listed {
        let mut listed = Listed { ids: Vec::new(), partitions: Vec::new() };
        for &partition in partitions {
            let start = listed.ids.len();
            self.rows.list(partition, &mut listed.ids);
            if listed.ids.len() > start {
                listed.partitions.push(start..listed.ids.len());
            }
        }
        listed
    }

    fn decide(&self, listed: &Listed, bound: Option<i64>) -> Vec<Progress> {
        let numbered = self.carried.as_ref().is_some_and(Carried::numbers);
        let mut decided = Vec::with_capacity(listed.partitions.len());
        for partition in &listed.partitions {
            let ids = &listed.ids[partition.clone()];
            let time = |at: usize| self.rows.time(ids[at]);
            let first = ids.iter().position(|&id| !self.rows.is_marked(id)).unwrap_or(ids.len());
            let leaves = |at: usize| {
                let Some(bound) = bound else { return true };
                let later = self.reach.time_after;
                ids.len() - 1 - at >= self.reach.rows_after
                    && (later == 0 || time(at).saturating_add(later) < bound)
            };
            let mut next = first;
            while next < ids.len() && leaves(next) {
                next += 1;
            }
            let Some(rows_before) = self.reach.rows_before else {
                decided.push(Progress { leaving: first..next, forgotten: 0 });
                continue;
            };
            // What the next row that leaves sees: one that is here, or one that comes at the bound or later.
            let seen_from = match (next < ids.len(), bound) {
                (true, _) => time(next),
                (false, Some(bound)) => bound,
                (false, None) => i64::MAX,
            };
            let seen_from = seen_from.saturating_sub(self.reach.time_before);
            let unseen = (0..next).take_while(|&at| time(at) < seen_from).count();
            let mut forgotten = unseen.min(next.saturating_sub(rows_before));
            if numbered {
                let splits = |at: usize| at > 0 && at < ids.len() && time(at - 1) == time(at);
                while splits(forgotten) {
                    forgotten -= 1;
                }
            }
            decided.push(Progress { leaving: first..next, forgotten });
        }
        decided
    }

    fn forget(&mut self, ids: Vec<RowId>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let compacted = self.rows.remove(&ids)?;
        if let Some(moved) = compacted.rows {
            for waiting in self.waiting.values_mut() {
                *waiting = waiting.iter().filter_map(|&id| moved.new_id(id)).collect();
            }
        }
        if let (Some(untouched), None, Some(moved)) =
            (&mut self.untouched, &self.carried, compacted.keys)
        {
            untouched.renumber(|key| moved.new_id(key));
        }
        Ok(())
    }

    /// Forgets, from time to time, what is known of partitions that nothing has touched for long enough. Partitions with
    /// rows that wait stay.
    pub(super) fn forget_untouched(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        let Some(mut untouched) = self.untouched.take() else { return Ok(()) };
        let done = match untouched.is_due(cx) {
            true => self.forget_old(&mut untouched),
            false => Ok(Vec::new()),
        };
        self.untouched = Some(untouched);
        self.forget(done?)
    }

    /// Forgets what is carried of old partitions; gives their rows.
    fn forget_old(&mut self, untouched: &mut Untouched) -> Result<Vec<RowId>> {
        let Some(carried) = &mut self.carried else {
            let mut ids = Vec::new();
            self.rows.list_all(&mut ids);
            let waits = |id: &RowId| !self.rows.is_marked(*id);
            let mut waiting: Vec<RowId> =
                ids.iter().filter(|id| waits(id)).map(|&id| self.rows.partition(id)).collect();
            waiting.sort_unstable();
            ids.retain(|&id| {
                let partition = self.rows.partition(id);
                untouched.is_old(partition) && waiting.binary_search(&partition).is_err()
            });
            return Ok(ids);
        };
        let old: Vec<RowId> =
            (0..carried.len() as RowId).filter(|&partition| untouched.is_old(partition)).collect();
        let partitions = self.rows.find(&carried.keys(&old)?, old.len())?;
        let (mut gone, mut forgotten, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for (&partition, &rows) in old.iter().zip(&partitions) {
            ids.clear();
            if rows != NO_ROW {
                self.rows.list(rows, &mut ids);
            }
            if ids.iter().all(|&id| self.rows.is_marked(id)) {
                gone.push(partition);
                forgotten.extend_from_slice(&ids);
            }
        }
        if !gone.is_empty() {
            let stays = |partition: &RowId| gone.binary_search(partition).is_err();
            let kept: Vec<RowId> = (0..carried.len() as RowId).filter(stays).collect();
            carried.keep_only(&kept)?;
            untouched.renumber(|old| kept.binary_search(&old).ok().map(|new| new as RowId));
        }
        Ok(forgotten)
    }

    /// Adds partitions whose rows time alone lets go, from time to time: they may get no new ones.
    fn sweep(&mut self, bound: Option<i64>, partitions: &mut Vec<RowId>) {
        let by_time_alone = self.reach.rows_before == Some(0) && self.reach.time_before > 0;
        let Some(bound) = bound.filter(|_| by_time_alone) else { return };
        if !self.sweep.is_due(self.rows.len()) {
            return;
        }
        let unseen = bound.saturating_sub(self.reach.time_before);
        let mut ids = Vec::new();
        self.rows.list_all(&mut ids);
        ids.retain(|&id| self.rows.is_marked(id) && self.rows.time(id) < unseen);
        partitions.extend(ids.iter().map(|&id| self.rows.partition(id)));
        self.sweep.note(self.rows.len() - ids.len());
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&mut self, window: &OrderedWindow, out: &mut Vec<u8>) -> Result<()> {
        self.rows.write_to(out);
        if let Some(carried) = &mut self.carried {
            window.write_carried(carried, out)?;
        }
        if let Some(untouched) = &self.untouched {
            untouched.write_to(out);
        }
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, window: &OrderedWindow, bytes: &mut &[u8]) -> Result<()> {
        self.clear();
        self.rows.read_from(bytes)?;
        if let Some(carried) = &mut self.carried {
            window.read_carried(carried, bytes)?;
        }
        if let Some(untouched) = &mut self.untouched {
            untouched.read_from(bytes)?;
        }
        if self.reach.time_after > 0 {
            let mut ids = Vec::new();
            self.rows.list_all(&mut ids);
            for id in ids.into_iter().filter(|&id| !self.rows.is_marked(id)) {
                let due = self.rows.time(id).saturating_add(self.reach.time_after);
                self.waiting.entry(due).or_default().push(id);
            }
        }
        Ok(())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        if let Some(carried) = &mut self.carried {
            carried.clear();
        }
        if let Some(untouched) = &mut self.untouched {
            untouched.clear();
        }
        self.waiting.clear();
        self.sweep = Doubled::default();
    }
}
