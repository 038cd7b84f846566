//! The partial phase of groups that close before the input ends.
//!
//! Rows are grouped where they are, a table for each pane, and leave as pages before the next watermark does, or when
//! they are many. Which rows are late the final phase says: the rows of one pane between two watermarks share their fate,
//! as all of them are behind the same ones. Their number goes with their pages, and so do, where the job keeps late rows,
//! the rows themselves as far as a watermark has passed their pane that this subtask or one with inputs has seen: no other row can
//! turn out to be late but one that such a watermark overtakes on the way. Invariant: pages hold groups of one pane.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::outgoing::{Outgoing, PARTITIONS};
use super::panes::{ClosingKey, parts};
use super::shape::Shape;
use super::table::AggregateTable;
use crate::aggregates::AggregateStates;
use crate::batch::Batch;
use crate::element::Watermark;
use crate::error::Result;
use crate::memory::Reservation;
use crate::operators::OperatorContext;
use crate::operators::time_bound::TimeBound;
use crate::rows::{Pages, PanePages, take_array};

/// Groups up to which rows are gathered, in all panes.
const GROUPS_MAX: usize = 32 << 10;
/// Bytes that states may keep beside the rows, in all panes.
const BESIDE_BYTES_MAX: usize = 16 << 20;
/// Panes without rows that are kept for their room.
const EMPTY_PANES_MAX: usize = 16;
/// Rows that may be late up to which they are gathered, in all panes.
const DOUBTFUL_ROWS_MAX: usize = 32 << 10;

/// See the module.
pub(super) struct PartialPanes {
    shape: Arc<Shape>,
    key: ClosingKey,
    bound: TimeBound,
    /// The furthest watermark that was looked at, and what no pane in time is below by it.
    furthest: (i64, i64),
    doubtful_rows: usize,
    reservation: Reservation,
    panes: BTreeMap<Option<i64>, Gathered>,
    /// Fills states of rows that are handed over.
    states: AggregateStates,
    outgoing: Outgoing,
    /// Into how many radix partitions rows are split.
    partitions: usize,
    ready: VecDeque<Pages>,
}

/// The rows of a pane since the last watermark.
struct Gathered {
    table: AggregateTable,
    rows: u64,
    /// Those that may be late.
    doubtful: Vec<Batch>,
}

impl PartialPanes {
    /// No rows yet, for consumers that are as many as producers or fewer.
    pub(super) fn new(
        shape: &Arc<Shape>,
        (key, bound): (ClosingKey, TimeBound),
        producers: usize,
        reservation: &Reservation,
    ) -> Result<Self> {
        let outgoing = Outgoing::new(shape, reservation);
        Ok(PartialPanes {
            shape: Arc::clone(shape),
            key,
            bound,
            furthest: (i64::MIN, i64::MIN),
            doubtful_rows: 0,
            reservation: reservation.share(),
            panes: BTreeMap::new(),
            states: outgoing.states_from(shape)?,
            outgoing,
            partitions: (4 * producers).next_power_of_two().min(PARTITIONS),
            ready: VecDeque::new(),
        })
    }

    /// Takes a compact batch in.
    pub(super) fn take(&mut self, batch: &Batch, cx: &OperatorContext<'_>) -> Result<()> {
        let passed = self.passed_below(cx)?;
        let arguments = self.shape.arguments(batch)?;
        let keys = self.shape.keys_of(batch)?;
        for part in parts(&self.key.values(batch)?) {
            let rows = part.rows.len(batch.num_rows());
            let gathered = match self.panes.entry(part.pane) {
                std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::btree_map::Entry::Vacant(vacant) => {
                    let table = AggregateTable::new(&self.shape, &self.reservation)?;
                    vacant.insert(Gathered { table, rows: 0, doubtful: Vec::new() })
                }
            };
            gathered.table.update(&part.rows.of(&keys)?, &part.rows.of(&arguments)?, rows)?;
            gathered.rows += rows as u64;
            if part.pane.is_some_and(|pane| pane < passed) {
                gathered.doubtful.push(part.rows.of_batch(batch)?);
                self.doubtful_rows += rows;
            }
        }
        if self.is_full() {
            self.flush()?;
        }
        Ok(())
    }

    /// What no pane in time is below by the furthest watermark in the job; nothing where late rows are not kept.
    fn passed_below(&mut self, cx: &OperatorContext<'_>) -> Result<i64> {
        if !cx.job.late_rows.are_kept() {
            return Ok(i64::MIN);
        }
        // This subtask is ahead of those who get its watermarks, and behind others whose watermarks count while it is idle.
        let own = cx.watermark.map_or(i64::MIN, |Watermark(at)| at);
        let furthest = cx.job.furthest_us.load(Ordering::Relaxed).max(own);
        if furthest > self.furthest.0 {
            self.furthest = (furthest, self.bound.at(Watermark(furthest))?);
        }
        Ok(self.furthest.1)
    }

    /// Groups in all panes.
    pub(super) fn groups(&self) -> usize {
        self.panes.values().map(|gathered| gathered.table.len()).sum()
    }

    fn is_full(&self) -> bool {
        if self.doubtful_rows >= DOUBTFUL_ROWS_MAX {
            return true;
        }
        let tables = || self.panes.values().map(|gathered| &gathered.table);
        tables().map(AggregateTable::len).sum::<usize>() >= GROUPS_MAX
            || tables().map(AggregateTable::beside_bytes).sum::<usize>() > BESIDE_BYTES_MAX
    }

    /// Makes everything ready to be sent.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.doubtful_rows = 0;
        // Times go on: later rows rarely belong to the first panes.
        while self.panes.len() > EMPTY_PANES_MAX
            && self.panes.first_key_value().is_some_and(|(_, gathered)| gathered.rows == 0)
        {
            self.panes.pop_first();
        }
        for (key, gathered) in &mut self.panes {
            let rows = std::mem::take(&mut gathered.rows);
            if rows == 0 {
                continue;
            }
            let partitions = if self.shape.carried.is_empty() {
                gathered.table.take_partitions(self.partitions)?
            } else {
                self.outgoing.add_table(&mut gathered.table, &mut self.states)?;
                gathered.table.clear()?;
                self.outgoing.take_partitions()
            };
            let mut pane = PanePages { key: *key, rows };
            let mut doubtful = std::mem::take(&mut gathered.doubtful);
            for (partition, pages) in partitions.into_iter().enumerate() {
                if pages.is_empty() {
                    continue;
                }
                let layout = Arc::clone(&self.shape.handover);
                let pages = Pages::new(layout, partition as u32, pages).of_pane(pane);
                // Each row is counted once.
                self.ready.push_back(pages.with_doubtful(std::mem::take(&mut doubtful)));
                pane.rows = 0;
            }
        }
        Ok(())
    }

    /// The next pages to be sent.
    pub(super) fn next_ready(&mut self) -> Option<Pages> {
        self.ready.pop_front()
    }

    /// Appends the rows to a snapshot; nothing is ready.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        for (key, gathered) in self.panes.iter_mut().filter(|(_, gathered)| gathered.rows > 0) {
            out.push(u8::from(key.is_some()));
            out.extend_from_slice(&key.unwrap_or_default().to_le_bytes());
            out.extend_from_slice(&gathered.rows.to_le_bytes());
            gathered.table.write_to(out)?;
        }
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let known = take_array::<1>(bytes)?[0] != 0;
            let key = i64::from_le_bytes(take_array(bytes)?);
            let rows = u64::from_le_bytes(take_array(bytes)?);
            let mut table = AggregateTable::new(&self.shape, &self.reservation)?;
            table.read_from(bytes)?;
            self.panes.insert(known.then_some(key), Gathered { table, rows, doubtful: Vec::new() });
        }
        Ok(())
    }
}
