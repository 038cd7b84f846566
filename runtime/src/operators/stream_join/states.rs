//! What a stream join keeps: the rows of both sides, when they expire, and what a NOT IN must know of its list.

use arrow::array::{Array, UInt32Array};
use arrow::compute::take;

use super::expiry::Expiring;
use super::shape::Shape;
use crate::batch::Batch;
use crate::element::{RowKind, Watermark};
use crate::error::Result;
use crate::memory::Reservation;
use crate::rows::{RowId, take_array};
use crate::state::{RowChanges, RowMultiset};

/// What a NOT IN says of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Regime {
    /// The list is empty: every row comes out.
    Empty,
    /// Rows come out whose key is not NULL and not in the list.
    Open,
    /// There is a NULL in the list: no row comes out.
    Shut,
}

/// The state of both sides, by port.
pub(super) struct States {
    /// The rows.
    pub(super) rows: [RowMultiset; 2],
    /// Their times.
    pub(super) expiring: [Expiring; 2],
    /// Rows in the list of a NOT IN.
    list_rows: i64,
    /// Those whose key is NULL.
    list_nulls: i64,
}

/// The rows of a batch that take part.
pub(super) struct Arrived {
    /// The side's fields of the rows that may find a match; one row for rows that are equal where they are counted.
    pub(super) fields: Batch,
    /// What they changed.
    pub(super) changes: RowChanges,
    /// The fields of the rows that match nothing, since a key is NULL.
    pub(super) keyless: Option<Batch>,
    /// Rows that were dropped because they came too late.
    pub(super) late: Option<Batch>,
}

impl States {
    /// Nothing yet.
    pub(super) fn new(shape: &Shape, reservation: &Reservation) -> Result<Self> {
        let [left, right] = &shape.sides;
        Ok(States {
            rows: [left.state(reservation)?, right.state(reservation)?],
            expiring: Default::default(),
            list_rows: 0,
            list_nulls: 0,
        })
    }

    /// Takes the rows of a batch into the state of their side.
    pub(super) fn arrive(
        &mut self,
        shape: &Shape,
        side: usize,
        batch: Batch,
        now_us: i64,
    ) -> Result<Arrived> {
        let of_side = &shape.sides[side];
        let batch = batch.compact()?;
        let mut times = match &of_side.expiry {
            Some(expiry) => expiry.times(&batch)?,
            None => Vec::new(),
        };
        let (batch, late) = match &of_side.expiry {
            Some(_) if !of_side.withdrawn => {
                let below = self.expiring[side].late_below;
                keep_rows(batch, &mut times, |time| time >= below)?
            }
            Some(_) | None => (batch, None),
        };
        let fields = of_side.fields_of(&batch)?;
        let (fields, keyless) = self.split_keyless(shape, side, fields, &mut times)?;
        let mut changes = RowChanges::default();
        let (columns, rows) = (fields.columns(), fields.num_rows());
        self.rows[side].apply(columns, rows, fields.kinds(), &mut changes)?;
        if let Some(expiry) = &of_side.expiry {
            let times: Vec<i64> =
                changes.positions.iter().map(|&row| times[row as usize]).collect();
            for (&id, &time) in changes.ids.iter().zip(&times) {
                self.rows[side].set_number(id, expiry.slot, time);
            }
            self.expiring[side].add(&changes.ids, times.into_iter());
        }
        if let Some(ttl) = &of_side.ttl {
            for &id in &changes.ids {
                self.rows[side].set_number(id, ttl.slot, now_us);
            }
            let times = std::iter::repeat_n(now_us, changes.ids.len());
            self.expiring[side].add(&changes.ids, times);
        }
        let fields = changed_rows(fields, &changes)?;
        if shape.null_aware && !shape.tracked[side] {
            self.count_list(&fields, &changes, shape.sides[side].key_fields[0]);
        }
        Ok(Arrived { fields, changes, keyless, late })
    }

    /// Sets the rows apart that match nothing, where a key is NULL.
    fn split_keyless(
        &self,
        shape: &Shape,
        side: usize,
        fields: Batch,
        times: &mut Vec<i64>,
    ) -> Result<(Batch, Option<Batch>)> {
        if shape.null_equal || shape.null_aware {
            return Ok((fields, None));
        }
        let nulls: Vec<_> =
            shape.sides[side].keys_of(&fields).iter().filter_map(|k| k.logical_nulls()).collect();
        if nulls.iter().all(|nulls| nulls.null_count() == 0) {
            return Ok((fields, None));
        }
        let rows = 0..fields.num_rows() as u32;
        let (keyless, keyed): (Vec<u32>, Vec<u32>) =
            rows.partition(|&row| nulls.iter().any(|nulls| nulls.is_null(row as usize)));
        if !times.is_empty() {
            *times = keyed.iter().map(|&row| times[row as usize]).collect();
        }
        let comes_out = shape.tracked[side] && shape.alone.wants(false);
        let keyless = if comes_out { Some(rows_of(&fields, &keyless)?) } else { None };
        Ok((rows_of(&fields, &keyed)?, keyless))
    }

    fn count_list(&mut self, fields: &Batch, changes: &RowChanges, key: usize) {
        let nulls = fields.column(key).logical_nulls();
        for (row, &delta) in changes.deltas.iter().enumerate() {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            self.list_rows += delta;
            self.list_nulls += if is_null { delta } else { 0 };
        }
    }

    /// What the list of a NOT IN says of all rows.
    pub(super) fn regime(&self) -> Regime {
        match (self.list_rows, self.list_nulls) {
            (0, _) => Regime::Empty,
            (_, 0) => Regime::Open,
            _ => Regime::Shut,
        }
    }

    /// Event time has come to a watermark; whether rows may expire by it, by side.
    pub(super) fn advance(&mut self, shape: &Shape, watermark: Watermark) -> Result<[bool; 2]> {
        let mut due = [false; 2];
        for (side, due) in due.iter_mut().enumerate() {
            if let Some(expiry) = &shape.sides[side].expiry {
                *due = self.expiring[side].advance(expiry, watermark)?;
            }
        }
        Ok(due)
    }

    /// It is so late; whether rows may have been kept for long enough, by side.
    pub(super) fn grow_old(&mut self, shape: &Shape, now_us: i64) -> [bool; 2] {
        let mut due = [false; 2];
        for (side, due) in due.iter_mut().enumerate() {
            if let Some(ttl) = &shape.sides[side].ttl {
                *due = self.expiring[side].forget_below(now_us.saturating_sub(ttl.length_us));
            }
        }
        due
    }

    /// Takes the rows of a side off the list that have expired; they still count.
    pub(super) fn take_expired(&mut self, shape: &Shape, side: usize) -> Vec<RowId> {
        match shape.sides[side].time_slot() {
            Some(slot) => self.expiring[side].take_expired(&self.rows[side], slot),
            None => Vec::new(),
        }
    }

    /// Gives the places of a side's rows back that count no more, when it pays; ids are new ones then.
    pub(super) fn compact(&mut self, side: usize) -> Result<()> {
        if let Some(moved) = self.rows[side].compact()?.rows {
            self.expiring[side].follow(&moved);
        }
        Ok(())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.rows.iter_mut().for_each(RowMultiset::clear);
        self.expiring = Default::default();
        (self.list_rows, self.list_nulls) = (0, 0);
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        for expiring in &self.expiring {
            out.extend_from_slice(&expiring.bound.to_le_bytes());
            out.extend_from_slice(&expiring.late_below.to_le_bytes());
        }
        out.extend_from_slice(&self.list_rows.to_le_bytes());
        out.extend_from_slice(&self.list_nulls.to_le_bytes());
        self.rows.iter().for_each(|rows| rows.snapshot(out));
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, shape: &Shape, bytes: &mut &[u8]) -> Result<()> {
        for expiring in &mut self.expiring {
            expiring.bound = i64::from_le_bytes(take_array(bytes)?);
            expiring.late_below = i64::from_le_bytes(take_array(bytes)?);
        }
        self.list_rows = i64::from_le_bytes(take_array(bytes)?);
        self.list_nulls = i64::from_le_bytes(take_array(bytes)?);
        for (side, rows) in self.rows.iter_mut().enumerate() {
            rows.restore(bytes)?;
            if let Some(slot) = shape.sides[side].time_slot() {
                self.expiring[side].rebuild(rows, slot);
            }
        }
        Ok(())
    }
}

/// The rows whose times are wanted, with the times of those alone, and how many they are.
fn keep_rows(
    batch: Batch,
    times: &mut Vec<i64>,
    wanted: impl Fn(i64) -> bool,
) -> Result<(Batch, Option<Batch>)> {
    if times.iter().all(|&time| wanted(time)) {
        return Ok((batch, None));
    }
    let (kept, others): (Vec<u32>, Vec<u32>) =
        (0..times.len() as u32).partition(|&row| wanted(times[row as usize]));
    times.retain(|&time| wanted(time));
    Ok((rows_of(&batch, &kept)?, Some(rows_of(&batch, &others)?)))
}

/// Some rows of a compact batch, with their kinds.
pub(super) fn rows_of(batch: &Batch, rows: &[u32]) -> Result<Batch> {
    let kinds = batch.kinds().map(|kinds| rows.iter().map(|&row| kinds[row as usize]).collect());
    let rows = UInt32Array::from(rows.to_vec());
    let columns =
        batch.columns().iter().map(|c| take(c, &rows, None)).collect::<Result<Vec<_>, _>>()?;
    let mut taken = Batch::new(columns, rows.len());
    taken.ingest_time_us = batch.ingest_time_us;
    Ok(match kinds {
        Some(kinds) => taken.with_kinds(kinds),
        None => taken,
    })
}

/// The rows that changed, as inserts and deletes; how often is for others to say.
fn changed_rows(fields: Batch, changes: &RowChanges) -> Result<Batch> {
    let inserts = changes.deltas.iter().all(|&delta| delta > 0);
    if inserts && fields.kinds().is_none() && changes.len() == fields.num_rows() {
        return Ok(fields);
    }
    let mut changed = Batch::new(fields.columns().to_vec(), fields.num_rows());
    changed.ingest_time_us = fields.ingest_time_us;
    let changed = rows_of(&changed, &changes.positions)?;
    if inserts {
        return Ok(changed);
    }
    let kind = |&delta: &i64| if delta > 0 { RowKind::Insert } else { RowKind::Delete };
    Ok(changed.with_kinds(changes.deltas.iter().map(kind).collect()))
}
