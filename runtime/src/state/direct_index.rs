//! Keys that are one integer of a small range: a table addressed by key.
//!
//! Invariant: slot `key − base` holds the row of the key plus one, 0 where there is none. The table may grow while it
//! is short or well filled; a batch that would make it long and sparse does not fit.

use std::ops::{Range, RangeInclusive};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::index::{Batch, Fit};
use super::int_key::{IntColumn, IntKey, dispatch_int};
use crate::error::Result;
use crate::memory::{Reservation, SegmentArray};
use crate::rows::{NO_ROW, RowId, Selected};

/// Tables up to this many slots are kept however sparse they are.
const SHORT_SLOTS: usize = 1 << 16;
/// Longer tables have at most this many slots for each key.
const SLOTS_PER_KEY: usize = 8;

/// A table addressed by key.
#[derive(Debug)]
pub(super) struct DirectIndex {
    data_type: DataType,
    base: i64,
    slots: Option<SegmentArray<u32>>,
    /// The row of the NULL key plus one.
    null_slot: u32,
    keys: usize,
}

impl DirectIndex {
    pub(super) fn new(data_type: &DataType) -> Self {
        Self { data_type: data_type.clone(), base: 0, slots: None, null_slot: 0, keys: 0 }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(&self.data_type);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.as_ref().map_or(0, SegmentArray::bytes)
    }

    pub(super) fn find<const INSERT: bool>(
        &mut self,
        reservation: &Reservation,
        first: RowId,
        batch: &mut Batch<'_>,
    ) -> Result<Fit> {
        let data_type = self.data_type.clone();
        dispatch_int!(&data_type, N => self.find_native::<N, INSERT>(reservation, first, batch))
    }

    fn find_native<T: IntKey, const INSERT: bool>(
        &mut self,
        reservation: &Reservation,
        first: RowId,
        batch: &mut Batch<'_>,
    ) -> Result<Fit> {
        let column = IntColumn::<T>::new(&batch.keys[0]);
        if INSERT
            && let Some(range) = column.range(batch.rows)
            && self.cover(reservation, range, batch.rows.len())? == Fit::No
        {
            return Ok(Fit::No);
        }
        let slots: &mut [u32] = self.slots.as_deref_mut().unwrap_or_default();
        let base = self.base;
        let mut next = first + 1;
        let mut visit = |row: u32| {
            let null = column.is_null(row as usize);
            let slot = if null {
                Some(&mut self.null_slot)
            } else {
                slots.get_mut(column.values[row as usize].as_key().wrapping_sub(base) as u64 as usize)
            };
            let Some(slot) = slot else { return NO_ROW };
            if *slot == 0 {
                if !INSERT {
                    return NO_ROW;
                }
                *slot = next;
                next += 1;
                batch.new.push(row);
            }
            *slot - 1
        };
        match batch.rows {
            Selected::All(rows) => batch.out.extend((0..rows as u32).map(&mut visit)),
            Selected::Rows(rows) => batch.out.extend(rows.iter().map(|&row| visit(row))),
        }
        self.keys += batch.new.len();
        Ok(Fit::Yes)
    }

    pub(super) fn adopt(
        &mut self,
        reservation: &Reservation,
        keys: &[ArrayRef],
        ids: Range<RowId>,
    ) -> Result<Fit> {
        let (mut out, mut new) = (Vec::new(), Vec::new());
        let rows = Selected::All(ids.len());
        let mut batch = Batch { keys, hashes: None, rows, out: &mut out, new: &mut new };
        self.find::<true>(reservation, ids.start, &mut batch)
    }

    /// Makes the table cover `range`, if it stays short or well filled when `rows` more rows are new keys.
    fn cover(
        &mut self,
        reservation: &Reservation,
        range: RangeInclusive<i64>,
        rows: usize,
    ) -> Result<Fit> {
        let old = self.slots.as_ref().map_or(0, |slots| slots.len());
        let (mut low, mut high) = (i128::from(*range.start()), i128::from(*range.end()));
        let (base, end) = (i128::from(self.base), i128::from(self.base) + old as i128 - 1);
        if old > 0 && base <= low && high <= end {
            return Ok(Fit::Yes);
        }
        let grows_down = old > 0 && low < base;
        if old > 0 {
            low = low.min(base);
            high = high.max(end);
        }
        let needed = high - low + 1;
        let allowed = SHORT_SLOTS.max(SLOTS_PER_KEY * (self.keys + rows));
        if needed > allowed as i128 {
            return Ok(Fit::No);
        }
        // Room beyond the need on the side that grows, so that rising keys do not copy the table at every batch.
        let slots = (needed as usize).next_power_of_two();
        let spare = slots as i128 - needed;
        let new_base = if grows_down { low - spare } else { low };
        let Ok(new_base) = i64::try_from(new_base.max(i128::from(i64::MIN))) else {
            return Ok(Fit::No);
        };
        let mut larger = SegmentArray::<u32>::zeroed(reservation, slots)?;
        if let Some(old_slots) = &self.slots {
            let at = (base - i128::from(new_base)) as usize;
            larger[at..at + old].copy_from_slice(old_slots);
        }
        self.base = new_base;
        self.slots = Some(larger);
        Ok(Fit::Yes)
    }
}
