//! Partial aggregation: a table that fits the cache, handed over as row pages whenever it is full.
//!
//! Where the table hardly reduces its input, rows become states of one row each and skip it for a while. Keys that are
//! fetched late go through a table by references first (see `late_keys`). Invariant: whatever leaves has its keys
//! proper.

use std::sync::Arc;

use arrow::array::ArrayRef;

use super::late_keys::{LateKeys, LateTable};
use super::levels::Levels;
use super::outgoing::{Outgoing, PARTITIONS};
use super::shape::Shape;
use super::table::AggregateTable;
use crate::aggregates::{AggregateStates, Groups};
use crate::batch::Batch;
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::Pages;

/// Bytes of rows and buckets that a table may have before it is handed over.
const TABLE_BYTES: usize = 2 << 20;
/// The same for tables whose groups are dear to hand over, so that reducing them further is worth a cache miss: those
/// of grouping sets in levels, and those whose keys are fetched when they are handed over.
const LARGE_TABLE_BYTES: usize = 32 << 20;
/// Bytes that a table's states may keep beside the rows.
const BESIDE_BYTES: usize = 16 << 20;
/// A table with more groups than this share of its input rows does not reduce.
const REDUCING_SHARE: f64 = 0.7;
/// Rows that skip the table before it is tried again, in groups of a full table.
const SKIP_TABLES: usize = 32;

/// The partial phase.
pub(super) struct Partial {
    shape: Arc<Shape>,
    late: Option<LateKeys>,
    /// The table by references; none where states keep something beside the rows, which cannot go from one table
    /// into another.
    late_table: Option<LateTable>,
    /// One, or with levels one for each grouping set.
    tables: Vec<AggregateTable>,
    levels: Option<Levels>,
    /// Groups that fill the tables.
    capacity: usize,
    /// Fills states of rows that are handed over.
    states: AggregateStates,
    outgoing: Outgoing,
    rows_in: usize,
    skip_rows: usize,
}

impl Partial {
    /// Empty tables and nothing to send.
    pub(super) fn new(
        shape: &Arc<Shape>,
        late: Option<LateKeys>,
        reservation: &Reservation,
    ) -> Result<Self> {
        let levels = Levels::new(shape, reservation)?;
        let (tables, bytes) = match &levels {
            Some(levels) => (levels.len(), LARGE_TABLE_BYTES),
            None => (1, TABLE_BYTES),
        };
        let outgoing = Outgoing::new(shape, reservation);
        let late_table = match &late {
            Some(late) if shape.carried.is_empty() => {
                let states = outgoing.states_from(late.shape())?;
                Some(LateTable::new(late, states, LARGE_TABLE_BYTES, reservation)?)
            }
            Some(_) | None => None,
        };
        Ok(Partial {
            shape: Arc::clone(shape),
            late,
            late_table,
            tables: (0..tables)
                .map(|_| AggregateTable::new(shape, reservation))
                .collect::<Result<_>>()?,
            levels,
            capacity: (bytes / (shape.table.row_bytes() + 16)).max(1024),
            states: outgoing.states_from(shape)?,
            outgoing,
            rows_in: 0,
            skip_rows: 0,
        })
    }

    /// Takes a compact batch in.
    pub(super) fn take(&mut self, batch: &Batch) -> Result<()> {
        let arguments = self.shape.arguments(batch)?;
        let rows = batch.num_rows();
        match &mut self.late {
            None => {
                let keys = self.shape.keys_of(batch)?;
                self.update(&keys, &arguments, rows)?;
            }
            Some(late) => {
                late.hold()?;
                let keys = late.shape().keys_of(batch)?;
                match &mut self.late_table {
                    Some(table) if self.skip_rows == 0 => {
                        table.update(&keys, &arguments, rows)?;
                        self.rows_in += rows;
                        self.hand_over_full_late()?;
                    }
                    Some(_) | None => {
                        let keys = late.fetch(&keys)?;
                        self.update(&keys, &arguments, rows)?;
                    }
                }
            }
        }
        self.outgoing.send_if_much();
        Ok(())
    }

    /// Takes rows in: the keys proper, and the columns of the aggregates' arguments.
    fn update(&mut self, keys: &[ArrayRef], arguments: &[ArrayRef], rows: usize) -> Result<()> {
        let sets = self.shape.sets().map_or(1, |sets| sets.sets.len());
        for set in 0..sets {
            let keys = match &self.levels {
                Some(levels) if !levels.takes_rows(set) => continue,
                Some(_) | None => self.shape.keys_in(set, keys, rows)?,
            };
            if self.levels.is_some() {
                self.tables[set].update(&keys, arguments, rows)?;
            } else {
                self.update_or_pass(&keys, arguments, rows)?;
            }
        }
        if self.levels.is_some() && self.is_full() {
            self.hand_over()?;
        }
        Ok(())
    }

    fn update_or_pass(
        &mut self,
        keys: &[ArrayRef],
        arguments: &[ArrayRef],
        rows: usize,
    ) -> Result<()> {
        if self.skip_rows > 0 {
            self.skip_rows = self.skip_rows.saturating_sub(rows);
            return self.pass(keys, arguments, rows);
        }
        self.tables[0].update(keys, arguments, rows)?;
        self.rows_in += rows;
        if self.is_full() {
            let share = self.tables[0].len() as f64 / self.rows_in.max(1) as f64;
            if share > REDUCING_SHARE && self.shape.carried.is_empty() {
                self.skip_rows = self.capacity * SKIP_TABLES;
            }
            self.hand_over()?;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let groups: usize = self.tables.iter().map(AggregateTable::len).sum();
        let beside: usize = self.tables.iter().map(AggregateTable::beside_bytes).sum();
        (self.shape.keys() > 0 && groups >= self.capacity) || beside > BESIDE_BYTES
    }

    /// Makes each row a group of its own.
    fn pass(&mut self, keys: &[ArrayRef], arguments: &[ArrayRef], rows: usize) -> Result<()> {
        let states = &mut self.states;
        self.outgoing.add(keys, rows, |store, ids| {
            states.update(&mut store.states_mut(), arguments, Groups::Many(ids))
        })
    }

    /// Empties the table by references if it is full.
    fn hand_over_full_late(&mut self) -> Result<()> {
        let Some(table) = self.late_table.as_ref().filter(|table| table.is_full()) else {
            return Ok(());
        };
        let share = table.len() as f64 / self.rows_in.max(1) as f64;
        if share > REDUCING_SHARE && self.shape.sets().is_none() {
            self.skip_rows = table.len() * SKIP_TABLES;
        }
        self.rows_in = 0;
        self.hand_over_late()
    }

    /// Fetches the keys of all groups by references and takes the groups over.
    fn hand_over_late(&mut self) -> Result<()> {
        let (Some(late), Some(table)) = (&self.late, &mut self.late_table) else {
            return Ok(());
        };
        let sets = self.shape.sets().map_or(0, |sets| sets.sets.len());
        for page in 0..table.num_pages() {
            let groups = table.groups(page, late)?;
            if sets == 0 {
                let (states, incoming) = (groups.states, &groups.incoming);
                self.outgoing.add(&groups.keys, groups.rows, |store, ids| {
                    states.merge(&mut store.states_mut(), incoming, ids)
                })?;
                continue;
            }
            for set in 0..sets {
                let target = match &self.levels {
                    Some(levels) if !levels.takes_rows(set) => continue,
                    Some(_) => set,
                    None => 0,
                };
                let keys = self.shape.keys_in(set, &groups.keys, groups.rows)?;
                let (states, incoming) = (&mut *groups.states, &groups.incoming);
                self.tables[target].merge_states(&keys, states, incoming, groups.rows)?;
            }
        }
        table.clear()?;
        if sets > 0 && self.is_full() {
            self.hand_over()?;
        }
        Ok(())
    }

    /// Empties the tables.
    fn hand_over(&mut self) -> Result<()> {
        self.rows_in = 0;
        if let Some(levels) = &mut self.levels {
            levels.derive(&mut self.tables)?;
        }
        for table in 0..self.tables.len() {
            if self.tables[table].len() == 0 {
                continue;
            }
            if self.shape.carried.is_empty() {
                let pages = self.tables[table].take_partitions(PARTITIONS)?;
                self.outgoing.send_pages(pages);
            } else {
                self.outgoing.add_table(&mut self.tables[table], &mut self.states)?;
                self.tables[table].clear()?;
            }
        }
        Ok(())
    }

    /// Makes everything ready to be sent.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.hand_over_late()?;
        self.hand_over()?;
        self.outgoing.send();
        Ok(())
    }

    /// The next pages to be sent.
    pub(super) fn next_ready(&mut self) -> Option<Pages> {
        self.outgoing.next_ready()
    }

    /// Appends tables and unsent rows to a snapshot.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.hand_over_late()?;
        self.tables.iter_mut().try_for_each(|table| table.write_to(out))?;
        self.outgoing.write_to(out);
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.tables.iter_mut().try_for_each(|table| table.read_from(bytes))?;
        self.outgoing.read_from(bytes)
    }
}
