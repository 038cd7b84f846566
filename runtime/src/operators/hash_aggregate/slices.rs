//! Groups of windows that overlap: rows are grouped by slice, and windows are put together from slices.
//!
//! All windows begin and end where slices do, so that a row is in one slice, however many windows hold it. When the
//! watermark passes the end of a window, the groups of its slices are merged and leave. For that, slices that are
//! complete are gathered in two ways: in blocks of 2, 4, 8 … neighbours, and from each *boundary*, which is a multiple
//! of the longest such length, onwards. A window is then the blocks up to a boundary, a few of which are merged, and
//! what was gathered from there. A slice is merged into few tables by and by, each once. Windows that begin together
//! are what was gathered from their beginning, each time that a slice is complete.
//!
//! Invariants: slices below `absorbed` are complete; a slice that is complete is in all the tables that cover it, so
//! that a row which comes for it nevertheless goes into each of them. A key is among the results of a window where it
//! has rows. Only rows all of whose windows have left are late: they are counted and dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use serde::{Deserialize, Serialize};

use super::HashAggregateSpec;
use super::panes::{ClosingKey, parts};
use super::shape::Shape;
use super::table::AggregateTable;
use crate::batch::Batch;
use crate::element::Watermark;
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::operators::time_bound::TimeBound;
use crate::rows::{Pages, take_array};

/// Numbers of slices stay within this, so that sums of some of them do not overflow.
const NUMBER_MAX: i64 = 1 << 62;

/// How windows lie over the values of the closing key, which are the starts of slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicesSpec {
    /// Slices in a window.
    pub count: u32,
    /// Slices from the start of a window to that of the next.
    pub step: u32,
    /// How long a slice is, in units of the key.
    pub length: i64,
    /// Where a slice begins that a window begins with.
    pub origin: i64,
    /// Whether windows begin together, one after each `count` slices, and end one slice after the other; the closing key
    /// of results is then the end of a window, else its start.
    pub cumulative: bool,
}

/// See the module. Slices have numbers: the one that begins at the origin is 0. A window has the number of its first.
pub(super) struct Slices {
    /// The start of a row's slice, and of a window.
    key: ClosingKey,
    spec: SlicesSpec,
    bound: TimeBound,
    /// Slices that are not complete.
    open: BTreeMap<i64, AggregateTable>,
    /// By first slice and binary logarithm of the length: blocks that begin at a multiple of their length and are
    /// complete, as far as a window will want them or their neighbour has yet to come.
    blocks: BTreeMap<(i64, u32), AggregateTable>,
    /// By boundary, or by the first slice of cumulative windows: all complete slices from there on.
    from: BTreeMap<i64, AggregateTable>,
    /// The binary logarithm of the distance of boundaries, which is no longer than a window.
    levels: u32,
    /// Slices below it are complete, and windows that end there have left.
    absorbed: i64,
    /// Slices below it are complete, and are still to be absorbed.
    complete: i64,
    /// The number of the window that is leaving, or of the slice behind it where windows are cumulative.
    leaving: i64,
}

impl Slices {
    /// No slice yet.
    ///
    /// # Errors
    /// `Unsupported` for rows that are withdrawn.
    pub(super) fn new(
        spec: &HashAggregateSpec,
        slices: SlicesSpec,
        key: ClosingKey,
        bound: TimeBound,
    ) -> Result<Self> {
        if spec.withdrawn || spec.grouping_sets.is_some() {
            return Err(Error::Unsupported("windows of slices over such rows".into()));
        }
        if slices.count == 0 || slices.step == 0 || slices.length <= 0 {
            return Err(Error::Internal("windows without slices".into()));
        }
        Ok(Slices {
            key,
            spec: slices,
            bound,
            open: BTreeMap::new(),
            blocks: BTreeMap::new(),
            from: BTreeMap::new(),
            levels: slices.count.ilog2(),
            absorbed: -NUMBER_MAX,
            complete: -NUMBER_MAX,
            leaving: 0,
        })
    }

    /// Takes a compact batch in: its keys without the slice's start, and the arguments. Gives the rows that are late.
    pub(super) fn update(
        &mut self,
        shape: &Arc<Shape>,
        reservation: &Reservation,
        batch: &Batch,
        keys: &[ArrayRef],
        arguments: &[ArrayRef],
    ) -> Result<Vec<Batch>> {
        let starts = self.key.values(batch)?;
        let rows = batch.num_rows();
        let mut late = Vec::new();
        for part in parts(&starts) {
            let Some(start) = part.pane else {
                return Err(Error::Internal("a row without a slice".into()));
            };
            let slice = self.number(start);
            if self.is_late(slice) {
                late.push(part.rows.of_batch(batch)?);
                continue;
            }
            let (keys, arguments) = (part.rows.of(keys)?, part.rows.of(arguments)?);
            let rows = part.rows.len(rows);
            for place in self.places(slice) {
                let table = self.table(place, shape, reservation)?;
                table.update(&keys, &arguments, rows)?;
            }
        }
        Ok(late)
    }

    /// Merges the partial results of a slice. Gives the number of rows in them that are late.
    pub(super) fn merge(
        &mut self,
        shape: &Arc<Shape>,
        reservation: &Reservation,
        pages: Pages,
    ) -> Result<u64> {
        let pane = pages.pane().ok_or_else(|| Error::Internal("pages of no slice".into()))?;
        let Some(start) = pane.key else {
            return Err(Error::Internal("a row without a slice".into()));
        };
        let slice = self.number(start);
        if self.is_late(slice) {
            return Ok(pane.rows);
        }
        let mut places = self.places(slice);
        let Some(last) = places.pop() else {
            return Err(Error::Internal("a slice without a table".into()));
        };
        if places.is_empty() {
            self.table(last, shape, reservation)?.merge(pages.into_pages()?)?;
            return Ok(0);
        }
        // The pages go into one table; the others read them there.
        let mut late = AggregateTable::new(shape, reservation)?;
        late.merge(pages.into_pages()?)?;
        for place in places.into_iter().chain([last]) {
            self.table(place, shape, reservation)?.merge_table(&mut late)?;
        }
        Ok(0)
    }

    /// Groups in all tables; a group is in several of them.
    pub(super) fn groups(&self) -> usize {
        let tables = self.open.values().chain(self.blocks.values()).chain(self.from.values());
        tables.map(AggregateTable::len).sum()
    }

    /// Notes that the slices below a watermark are complete; whether windows may leave.
    pub(super) fn close(&mut self, Watermark(at): Watermark) -> Result<bool> {
        let bound = self.bound.at(Watermark(at))?;
        // Only whole slices are complete.
        self.complete = self.complete.max(self.number(bound));
        Ok(self.complete > self.absorbed)
    }

    /// Notes that no rows follow.
    pub(super) fn end(&mut self) {
        self.complete = NUMBER_MAX;
    }

    /// The groups of the next window that is complete.
    pub(super) fn next_window(
        &mut self,
        shape: &Arc<Shape>,
        reservation: &Reservation,
    ) -> Result<Option<AggregateTable>> {
        while self.absorbed < self.complete {
            if self.blocks.is_empty() && self.from.is_empty() {
                // No window has rows up to the next open slice.
                let next = self.open.keys().next().copied().unwrap_or(self.complete);
                self.absorbed = self.absorbed.max(next.min(self.complete));
                if self.absorbed == self.complete {
                    break;
                }
            }
            let table = match self.spec.cumulative {
                true => self.cumulate(shape, reservation)?,
                false => self.slide(shape, reservation)?,
            };
            if let Some(mut table) = table {
                table.finish();
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    /// The groups of the window that ends with the next slice.
    fn slide(
        &mut self,
        shape: &Arc<Shape>,
        reservation: &Reservation,
    ) -> Result<Option<AggregateTable>> {
        self.absorb(shape, reservation)?;
        let window = self.absorbed - self.count();
        let table = match window.rem_euclid(self.step()) {
            0 => self.gather(window, shape, reservation)?,
            _ => None,
        };
        self.blocks = self.blocks.split_off(&(window + 1, 0));
        self.from = self.from.split_off(&(window + 1));
        self.leaving = window;
        Ok(table)
    }

    /// As [`Self::slide`] where windows begin together: what was gathered from their beginning.
    fn cumulate(
        &mut self,
        shape: &Arc<Shape>,
        reservation: &Reservation,
    ) -> Result<Option<AggregateTable>> {
        let slice = self.absorbed;
        self.absorbed += 1;
        let first = self.beginning(slice);
        if let Some(mut table) = self.open.remove(&slice) {
            entry(&mut self.from, first, shape, reservation)?.merge_table(&mut table)?;
        }
        self.leaving = self.absorbed;
        if self.absorbed == first + self.count() {
            return Ok(self.from.remove(&first));
        }
        let mut copy = None;
        if let Some(gathered) = self.from.get_mut(&first) {
            merge_into(&mut copy, gathered, shape, reservation)?;
        }
        Ok(copy)
    }

    /// The first slice of the cumulative windows that hold a slice.
    fn beginning(&self, slice: i64) -> i64 {
        slice - slice.rem_euclid(self.count())
    }

    /// Completes rows of results by the start or end of the window that is leaving.
    pub(super) fn add_key(&self, columns: &mut Vec<ArrayRef>, rows: usize) -> Result<()> {
        let start = self.leaving.checked_mul(self.spec.length);
        let start = start.and_then(|start| start.checked_add(self.spec.origin));
        match start {
            Some(_) => self.key.add_to(columns, start, rows),
            None => Err(Error::user("window out of range of its timestamp type")),
        }
    }

    /// Whether all windows of a slice have left.
    fn is_late(&self, slice: i64) -> bool {
        let last_window = match self.spec.cumulative {
            true => self.beginning(slice),
            false => slice - slice.rem_euclid(self.step()),
        };
        last_window + self.count() <= self.absorbed
    }

    fn count(&self) -> i64 {
        i64::from(self.spec.count)
    }

    fn step(&self) -> i64 {
        i64::from(self.spec.step)
    }

    /// The number of the slice that holds a value.
    fn number(&self, value: i64) -> i64 {
        let from_origin = i128::from(value) - i128::from(self.spec.origin);
        let number = from_origin.div_euclid(i128::from(self.spec.length));
        let most = i128::from(NUMBER_MAX);
        i64::try_from(number.clamp(-most, most)).expect("it is between numbers of 64 bits")
    }

    /// The tables that a row of a slice belongs to, some window of which is still to leave.
    fn places(&self, slice: i64) -> Vec<Place> {
        if slice >= self.absorbed {
            return vec![Place::Open(slice)];
        }
        if self.spec.cumulative {
            return vec![Place::From(self.beginning(slice))];
        }
        let next_window = self.absorbed - self.count() + 1;
        let mut places = Vec::new();
        for level in 0..self.levels {
            let block = slice >> level;
            let first = block << level;
            if first + (1 << level) > self.absorbed || first < next_window {
                break;
            }
            // The left one of two waits for its neighbour.
            let neighbour_ends = ((block | 1) + 1) << level;
            let waits = level + 1 < self.levels && neighbour_ends > self.absorbed;
            if block & 1 == 1 || waits {
                places.push(Place::Block(first, level));
            }
        }
        places.extend(self.boundaries(next_window, slice).map(Place::From));
        places
    }

    /// The boundaries within some slices.
    fn boundaries(&self, first: i64, last: i64) -> impl Iterator<Item = i64> + use<> {
        let levels = self.levels;
        (boundary_from(first, levels)..=last).step_by(1 << levels)
    }

    fn table(
        &mut self,
        place: Place,
        shape: &Arc<Shape>,
        reservation: &Reservation,
    ) -> Result<&mut AggregateTable> {
        match place {
            Place::Open(slice) => entry(&mut self.open, slice, shape, reservation),
            Place::Block(first, level) => {
                entry(&mut self.blocks, (first, level), shape, reservation)
            }
            Place::From(boundary) => entry(&mut self.from, boundary, shape, reservation),
        }
    }

    /// Takes the next complete slice into blocks and what is gathered from boundaries.
    fn absorb(&mut self, shape: &Arc<Shape>, reservation: &Reservation) -> Result<()> {
        let slice = self.absorbed;
        self.absorbed += 1;
        let mut table = self.open.remove(&slice);
        if let Some(table) = &mut table {
            for boundary in self.boundaries(self.absorbed - self.count(), slice) {
                entry(&mut self.from, boundary, shape, reservation)?.merge_table(table)?;
            }
        }
        for level in 0..self.levels {
            let block = slice >> level;
            let first = block << level;
            let is_right = block & 1 == 1;
            // On the highest level the left half of two is never a part of what comes before a boundary.
            let wanted = is_right || level + 1 < self.levels;
            let left = match is_right {
                true => self.blocks.remove(&(first - (1 << level), level)),
                false => None,
            };
            let last = !is_right || level + 1 == self.levels;
            let joined = match (last, left, &mut table) {
                (true, ..) => None,
                (false, left, None) => left,
                (false, left, Some(right)) => {
                    let mut joined = match left {
                        Some(left) => left,
                        None => AggregateTable::new(shape, reservation)?,
                    };
                    joined.merge_table(right)?;
                    Some(joined)
                }
            };
            if let Some(table) = table.filter(|_| wanted) {
                self.blocks.insert((first, level), table);
            }
            if last {
                break;
            }
            table = joined;
        }
        Ok(())
    }

    /// The groups of a window, all of whose slices are absorbed. Uses up what no later window wants.
    fn gather(
        &mut self,
        window: i64,
        shape: &Arc<Shape>,
        reservation: &Reservation,
    ) -> Result<Option<AggregateTable>> {
        let boundary = boundary_from(window, self.levels);
        if boundary == window {
            return Ok(self.from.remove(&boundary));
        }
        let mut result = None;
        let mut first = window;
        while first < boundary {
            let level = first.trailing_zeros();
            if first == window {
                result = self.blocks.remove(&(first, level));
            } else if let Some(block) = self.blocks.get_mut(&(first, level)) {
                merge_into(&mut result, block, shape, reservation)?;
            }
            first += 1 << level;
        }
        if let Some(rest) = self.from.get_mut(&boundary) {
            merge_into(&mut result, rest, shape, reservation)?;
        }
        Ok(result)
    }

    /// Appends the tables to a snapshot; no window is leaving.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.absorbed.to_le_bytes());
        out.extend_from_slice(&self.complete.to_le_bytes());
        let open = self.open.iter_mut().map(|(slice, table)| (Place::Open(*slice), table));
        let blocks = self.blocks.iter_mut();
        let blocks = blocks.map(|((first, level), table)| (Place::Block(*first, *level), table));
        let from = self.from.iter_mut().map(|(boundary, table)| (Place::From(*boundary), table));
        for (place, table) in open.chain(blocks).chain(from) {
            let (kind, at) = place.code();
            out.extend_from_slice(&kind.to_le_bytes());
            out.extend_from_slice(&at.to_le_bytes());
            table.write_to(out)?;
        }
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(
        &mut self,
        shape: &Arc<Shape>,
        reservation: &Reservation,
        bytes: &mut &[u8],
    ) -> Result<()> {
        self.absorbed = i64::from_le_bytes(take_array(bytes)?);
        self.complete = i64::from_le_bytes(take_array(bytes)?);
        while !bytes.is_empty() {
            let kind = u32::from_le_bytes(take_array(bytes)?);
            let place = Place::of_code(kind, i64::from_le_bytes(take_array(bytes)?));
            self.table(place, shape, reservation)?.read_from(bytes)?;
        }
        Ok(())
    }
}

/// One of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Open(i64),
    Block(i64, u32),
    From(i64),
}

impl Place {
    /// A number for the kind of table, and where it begins.
    fn code(self) -> (u32, i64) {
        match self {
            Place::Open(slice) => (0, slice),
            Place::From(boundary) => (1, boundary),
            Place::Block(first, level) => (level + 2, first),
        }
    }

    fn of_code(kind: u32, at: i64) -> Self {
        match kind {
            0 => Place::Open(at),
            1 => Place::From(at),
            level => Place::Block(at, level - 2),
        }
    }
}

/// The least boundary from a slice on.
fn boundary_from(slice: i64, levels: u32) -> i64 {
    (slice + (1 << levels) - 1) >> levels << levels
}

fn entry<'a, K: Ord>(
    tables: &'a mut BTreeMap<K, AggregateTable>,
    key: K,
    shape: &Arc<Shape>,
    reservation: &Reservation,
) -> Result<&'a mut AggregateTable> {
    Ok(match tables.entry(key) {
        std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
        std::collections::btree_map::Entry::Vacant(vacant) => {
            vacant.insert(AggregateTable::new(shape, reservation)?)
        }
    })
}

fn merge_into(
    target: &mut Option<AggregateTable>,
    source: &mut AggregateTable,
    shape: &Arc<Shape>,
    reservation: &Reservation,
) -> Result<()> {
    if target.is_none() {
        *target = Some(AggregateTable::new(shape, reservation)?);
    }
    target.as_mut().map_or(Ok(()), |target| target.merge_table(source))
}
