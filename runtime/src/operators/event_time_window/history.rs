//! History: complete rows that functions of other rows still look at, by partition.
//!
//! Rows join in the order of their times, so that those of a partition stand in the window's order. A row leaves, with
//! its results, once the rows after it that its functions see are there or can come no more; it is forgotten when no
//! row to come sees it. Invariant: a row that has left is marked, and rows leave in the order of their partition.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::{Array, Int64Array};

use super::held::rows_of;
use super::keyed_rows::{KeyedRows, distinct};
use super::numbers::Numbers;
use super::ordered::OrderedWindow;
use super::reach::Reach;
use crate::batch::Batch;
use crate::error::Result;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::window::WindowSpec;
use crate::rows::RowId;

/// Rows below which nothing is searched for what time alone lets go.
const SWEEP_ROWS_MIN: usize = 8192;
/// The time of rows without one, which come last.
const NO_TIME: i64 = i64::MAX;

/// See the module.
pub(super) struct History {
    reach: Reach,
    rows: KeyedRows,
    numbers: Option<Numbers>,
    /// Rows that wait for time to pass, by the time that they wait for.
    waiting: BTreeMap<i64, Vec<RowId>>,
    /// The number of rows at which those are searched for that time alone lets go.
    sweep_at: usize,
}

/// The rows of some partitions.
struct Listed {
    ids: Vec<RowId>,
    partitions: Vec<Range<usize>>,
}

/// What becomes of listed rows.
struct Decided {
    /// Positions of the rows that leave.
    leaving: Vec<u32>,
    /// How many rows of each partition nobody sees any more, from its first.
    forgotten: Vec<usize>,
}

impl History {
    /// No rows yet.
    pub(super) fn new(
        window: &WindowSpec,
        reach: Reach,
        reservation: &Reservation,
        job: &JobContext,
    ) -> Result<Self> {
        let rows = KeyedRows::new(window, reservation, job)?;
        Ok(History {
            reach,
            numbers: Numbers::of(window, rows.key_types(), reservation)?,
            rows,
            waiting: BTreeMap::new(),
            sweep_at: SWEEP_ROWS_MIN,
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
        if partitions.is_empty() {
            return Ok(None);
        }
        let listed = self.list(&distinct(partitions));
        let decided = self.decide(&listed, bound);
        let complete = match decided.leaving.is_empty() {
            true => None,
            false => Some(self.leave(&listed, &decided, window)?),
        };
        // Numbers follow from results, without which nothing is forgotten.
        if complete.is_some() || self.numbers.is_none() {
            let partitions = listed.partitions.iter().zip(&decided.forgotten);
            let ids = partitions.flat_map(|(rows, &count)| &listed.ids[rows.start..][..count]);
            self.forget(ids.copied().collect())?;
        }
        self.sweep(bound)?;
        Ok(complete)
    }

    /// The rows that leave, with their results.
    fn leave(
        &mut self,
        listed: &Listed,
        decided: &Decided,
        window: &OrderedWindow,
    ) -> Result<Batch> {
        let mut results = window.evaluate(self.rows.gather(&listed.ids)?)?;
        if let Some(numbers) = &mut self.numbers {
            let starts: Vec<usize> = listed.partitions.iter().map(|rows| rows.start).collect();
            let lens: Vec<usize> = listed.partitions.iter().map(Range::len).collect();
            let firsts: Vec<RowId> = starts.iter().map(|&start| listed.ids[start]).collect();
            results = numbers.correct(results, &self.rows.gather_keys(&firsts)?, &lens)?;
            numbers.forget(&decided.forgotten, &results, &starts);
        }
        decided.leaving.iter().for_each(|&at| self.rows.mark(listed.ids[at as usize]));
        rows_of(&results, decided.leaving.clone())
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
            listed.partitions.push(start..listed.ids.len());
        }
        listed
    }

    fn decide(&self, listed: &Listed, bound: Option<i64>) -> Decided {
        let mut decided = Decided { leaving: Vec::new(), forgotten: Vec::new() };
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
                decided.leaving.push((partition.start + next) as u32);
                next += 1;
            }
            let Some(rows_before) = self.reach.rows_before else {
                decided.forgotten.push(0);
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
            if self.numbers.is_some() {
                let splits = |at: usize| at > 0 && at < ids.len() && time(at - 1) == time(at);
                while splits(forgotten) {
                    forgotten -= 1;
                }
            }
            decided.forgotten.push(forgotten);
        }
        decided
    }

    fn forget(&mut self, ids: Vec<RowId>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        if let Some(moved) = self.rows.remove(&ids)?.rows {
            for waiting in self.waiting.values_mut() {
                *waiting = waiting.iter().filter_map(|&id| moved.new_id(id)).collect();
            }
        }
        Ok(())
    }

    /// Forgets rows of partitions that get no new ones, from time to time.
    fn sweep(&mut self, bound: Option<i64>) -> Result<()> {
        let by_time_alone = self.reach.rows_before == Some(0) && self.numbers.is_none();
        let Some(bound) = bound.filter(|_| by_time_alone) else {
            return Ok(());
        };
        if self.rows.len() < self.sweep_at {
            return Ok(());
        }
        let unseen = bound.saturating_sub(self.reach.time_before);
        let mut ids = Vec::new();
        self.rows.list_all(&mut ids);
        ids.retain(|&id| self.rows.is_marked(id) && self.rows.time(id) < unseen);
        self.forget(ids)?;
        self.sweep_at = (2 * self.rows.len()).max(SWEEP_ROWS_MIN);
        Ok(())
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        self.rows.write_to(out);
        if let Some(numbers) = &self.numbers {
            numbers.write_to(out);
        }
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.clear();
        self.rows.read_from(bytes)?;
        if let Some(numbers) = &mut self.numbers {
            numbers.read_from(bytes)?;
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
        if let Some(numbers) = &mut self.numbers {
            numbers.clear();
        }
        self.waiting.clear();
        self.sweep_at = SWEEP_ROWS_MIN;
    }
}
