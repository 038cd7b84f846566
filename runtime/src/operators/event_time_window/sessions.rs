//! Sessions: rows of a partition by time, none further than the gap from the one before.
//!
//! Each partition has its open sessions as spans from the first time to the last; a row joins the spans that it is near
//! to. A span ends when the watermark is further than the gap behind its last time; then its rows leave with their
//! results. A row is late when a session of it alone would have ended. Invariant: the rows of a partition are those in
//! its spans, and every span's end is among the ends.

use std::collections::BTreeMap;

use arrow::array::{Array, BooleanArray, Int64Array};
use arrow::compute::not;

use super::EventTimeWindowSpec;
use super::keyed_rows::KeyedRows;
use super::ordered::OrderedWindow;
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::{CompiledExpr, compile, positional_schema};
use crate::job::JobContext;
use crate::operators::time_bound::times;
use crate::operators::window::without_time;
use crate::rows::RowId;

/// The first and the last time of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: i64,
    last: i64,
}

/// See the module.
pub(super) struct Sessions {
    gap: i64,
    time: CompiledExpr,
    window: OrderedWindow,
    rows: KeyedRows,
    open: BTreeMap<RowId, Vec<Span>>,
    /// Partitions by last times of their spans; some are of spans that have grown since.
    ends: BTreeMap<i64, Vec<RowId>>,
}

impl Sessions {
    /// Compiles the window.
    pub(super) fn new(spec: &EventTimeWindowSpec, gap: i64, job: &JobContext) -> Result<Self> {
        let reservation = job.memory.reserve("EventTimeWindow");
        let schema = positional_schema(&spec.window.input);
        Ok(Sessions {
            gap,
            time: compile(&spec.completion.time, &schema, &job.functions)?,
            window: OrderedWindow::new(&spec.window, job)?,
            rows: KeyedRows::new(&spec.window, &reservation, job)?,
            open: BTreeMap::new(),
            ends: BTreeMap::new(),
        })
    }

    /// Takes the rows of a compact batch that are in time; gives the others.
    pub(super) fn take(&mut self, batch: &Batch, complete_below: i64) -> Result<Option<Batch>> {
        let times = times(&self.time.evaluate(batch)?)?;
        if times.null_count() > 0 {
            return Err(without_time());
        }
        let gap = self.gap;
        let in_time = |time: i64| time.saturating_add(gap) >= complete_below;
        if times.values().iter().all(|&time| in_time(time)) {
            self.add(batch, &times)?;
            return Ok(None);
        }
        let mask: BooleanArray = times.values().iter().map(|&t| Some(in_time(t))).collect();
        let kept: Int64Array =
            times.values().iter().copied().filter(|&time| in_time(time)).collect();
        if !kept.is_empty() {
            self.add(&batch.filter(&mask)?.compact()?, &kept)?;
        }
        batch.filter(&not(&mask)?).map(Some)
    }

    fn add(&mut self, batch: &Batch, times: &Int64Array) -> Result<()> {
        let (_, partitions) = self.rows.add(batch, times.values().iter().copied())?;
        let mut rows: Vec<(RowId, i64)> =
            partitions.iter().copied().zip(times.values().iter().copied()).collect();
        rows.sort_unstable();
        let near =
            |a: &(RowId, i64), b: &(RowId, i64)| a.0 == b.0 && b.1 <= a.1.saturating_add(self.gap);
        let spans: Vec<(RowId, Span)> = rows
            .chunk_by(near)
            .map(|run| (run[0].0, Span { first: run[0].1, last: run[run.len() - 1].1 }))
            .collect();
        spans.into_iter().for_each(|(partition, span)| self.join(partition, span));
        Ok(())
    }

    /// Rows in all sessions, and bytes of theirs.
    pub(super) fn size(&self) -> (usize, usize) {
        self.rows.size()
    }

    /// Joins a span with those of its partition that it is near to.
    fn join(&mut self, partition: RowId, mut span: Span) {
        let gap = self.gap;
        let spans = self.open.entry(partition).or_default();
        let mut last_was = None;
        spans.retain(|other| {
            let is_near = span.first <= other.last.saturating_add(gap)
                && other.first <= span.last.saturating_add(gap);
            if is_near {
                span = Span { first: span.first.min(other.first), last: span.last.max(other.last) };
                last_was = last_was.max(Some(other.last));
            }
            !is_near
        });
        spans.push(span);
        if last_was != Some(span.last) {
            self.ends.entry(span.last).or_default().push(partition);
        }
    }

    /// The rows of the sessions that a bound ends, or of all without one.
    pub(super) fn complete(&mut self, bound: Option<i64>) -> Result<Option<Batch>> {
        let mut ended: Vec<(RowId, Span)> = Vec::new();
        while let Some(entry) = self.ends.first_entry() {
            let last = *entry.key();
            if bound.is_some_and(|bound| last.saturating_add(self.gap) >= bound) {
                break;
            }
            for partition in entry.remove() {
                let Some(spans) = self.open.get_mut(&partition) else { continue };
                let Some(at) = spans.iter().position(|span| span.last == last) else { continue };
                ended.push((partition, spans.swap_remove(at)));
                if spans.is_empty() {
                    self.open.remove(&partition);
                }
            }
        }
        if ended.is_empty() {
            return Ok(None);
        }
        let mut ids = Vec::new();
        for (partition, span) in ended {
            let start = ids.len();
            self.rows.list(partition, &mut ids);
            let mut next = start;
            for at in start..ids.len() {
                let time = self.rows.time(ids[at]);
                if (span.first..=span.last).contains(&time) {
                    ids[next] = ids[at];
                    next += 1;
                }
            }
            ids.truncate(next);
        }
        let rows = self.window.sort(self.rows.gather(&ids)?)?;
        let complete = self.window.evaluate(rows)?;
        if let Some(moved) = self.rows.remove(&ids)?.keys {
            let follow = |key: RowId| moved.new_id(key);
            self.open = std::mem::take(&mut self.open)
                .into_iter()
                .filter_map(|(key, spans)| Some((follow(key)?, spans)))
                .collect();
            for keys in self.ends.values_mut() {
                *keys = keys.iter().filter_map(|&key| follow(key)).collect();
            }
        }
        Ok(Some(complete))
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        self.rows.write_to(out);
    }

    /// Takes over what [`Self::write_to`] wrote: the spans follow from the rows.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.clear();
        self.rows.read_from(bytes)?;
        let mut ids = Vec::new();
        self.rows.list_all(&mut ids);
        for id in ids {
            let time = self.rows.time(id);
            self.join(self.rows.partition(id), Span { first: time, last: time });
        }
        Ok(())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.open.clear();
        self.ends.clear();
    }
}
