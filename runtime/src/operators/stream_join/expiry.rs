//! Expiry: which rows of a side can match nothing more.
//!
//! Rows are listed by their time in buckets, whose width grows with the range of the times, so that what expires is
//! found without a look at what stays but for one bucket. A time is a number of its type's unit; rows whose time is NULL
//! never expire. Invariant: every row that counts and has a time is in the bucket of its time; rows that count no more
//! may be listed too.

use std::collections::BTreeMap;

use arrow_schema::SchemaRef;

use super::spec::ExpirySpec;
use crate::batch::Batch;
use crate::element::Watermark;
use crate::error::Result;
use crate::expr::{CompiledExpr, compile};
use crate::job::JobContext;
use crate::operators::time_bound::{TimeBound, times};
use crate::rows::RowId;
use crate::state::{MovedRows, RowMultiset};

/// Buckets beyond this number are joined to wider ones.
const BUCKETS_MAX: usize = 4096;
/// The time of rows that never expire.
const NEVER: i64 = i64::MAX;

/// When rows of a side expire, compiled.
pub(super) struct Expiry {
    time: CompiledExpr,
    bound: TimeBound,
    own: Option<TimeBound>,
    /// The number beside each row that is its time.
    pub(super) slot: usize,
}

impl Expiry {
    /// Compiles the expressions; `schema` is that of the side.
    pub(super) fn new(
        spec: &ExpirySpec,
        schema: &SchemaRef,
        slot: usize,
        job: &JobContext,
    ) -> Result<Self> {
        let bound = |bound| TimeBound::new(bound, &spec.watermark_type, job);
        Ok(Expiry {
            time: compile(&spec.time, schema, &job.functions)?,
            bound: bound(&spec.bound)?,
            own: spec.own.as_ref().map(bound).transpose()?,
            slot,
        })
    }

    /// The times of a batch's rows.
    pub(super) fn times(&self, batch: &Batch) -> Result<Vec<i64>> {
        let times = times(&self.time.evaluate(batch)?)?;
        Ok(times.iter().map(|time| time.unwrap_or(NEVER)).collect())
    }

    /// The time below which rows match nothing that comes after a watermark.
    pub(super) fn bound_at(&self, watermark: Watermark) -> Result<i64> {
        self.bound.at(watermark)
    }

    /// The time below which rows are late when a watermark has passed.
    fn late_below(&self, watermark: Watermark) -> Result<i64> {
        let Some(own) = &self.own else { return Ok(i64::MIN) };
        Ok(own.at(watermark)?.min(self.bound_at(watermark)?))
    }
}

/// The rows of a side by their time, and what has expired.
#[derive(Debug)]
pub(super) struct Expiring {
    /// By time without its last `shift` bits.
    buckets: BTreeMap<i64, Vec<RowId>>,
    shift: u32,
    /// Rows below it are to be forgotten.
    pub(super) bound: i64,
    /// Rows that come with a time below it are late.
    pub(super) late_below: i64,
}

impl Default for Expiring {
    fn default() -> Self {
        Expiring { buckets: BTreeMap::new(), shift: 0, bound: i64::MIN, late_below: i64::MIN }
    }
}

impl Expiring {
    /// Event time has come to a watermark; whether rows may expire by it.
    pub(super) fn advance(&mut self, expiry: &Expiry, watermark: Watermark) -> Result<bool> {
        let bound = expiry.bound_at(watermark)?;
        if bound <= self.bound {
            return Ok(false);
        }
        self.bound = bound;
        self.late_below = self.late_below.max(expiry.late_below(watermark)?);
        Ok(true)
    }

    /// Rows below a time are to be forgotten from now on; whether there may be such.
    pub(super) fn forget_below(&mut self, bound: i64) -> bool {
        let rises = bound > self.bound;
        self.bound = self.bound.max(bound);
        rises
    }

    /// Lists rows with their times.
    pub(super) fn add(&mut self, ids: &[RowId], times: impl Iterator<Item = i64>) {
        let mut last: Option<(i64, Vec<RowId>)> = None;
        for (&id, time) in ids.iter().zip(times).filter(|&(_, time)| time != NEVER) {
            let bucket = time >> self.shift;
            match &mut last {
                // Times mostly come in order.
                Some((open, rows)) if *open == bucket => rows.push(id),
                _ => {
                    self.put(last.take());
                    last = Some((bucket, vec![id]));
                }
            }
        }
        self.put(last);
        while self.buckets.len() > BUCKETS_MAX {
            self.widen();
        }
    }

    fn put(&mut self, rows: Option<(i64, Vec<RowId>)>) {
        if let Some((bucket, mut rows)) = rows {
            self.buckets.entry(bucket).or_default().append(&mut rows);
        }
    }

    fn widen(&mut self) {
        self.shift += 4;
        for (bucket, rows) in std::mem::take(&mut self.buckets) {
            self.put(Some((bucket >> 4, rows)));
        }
    }

    /// Takes the rows with a time below the bound off the list.
    pub(super) fn take_expired(&mut self, state: &RowMultiset, slot: usize) -> Vec<RowId> {
        let mut expired = Vec::new();
        let last = self.bound >> self.shift;
        while let Some(entry) = self.buckets.first_entry().filter(|entry| *entry.key() < last) {
            // A row that came again is in the bucket of its later time, too.
            let rows = entry.remove();
            expired.extend(rows.into_iter().filter(|&id| state.number(id, slot) < self.bound));
        }
        if let Some(rows) = self.buckets.get_mut(&last) {
            let bound = self.bound;
            rows.retain(|&id| {
                let stays = state.number(id, slot) >= bound;
                if !stays {
                    expired.push(id);
                }
                stays
            });
            if rows.is_empty() {
                self.buckets.remove(&last);
            }
        }
        expired
    }

    /// Follows rows to their new ids.
    pub(super) fn follow(&mut self, moved: &MovedRows) {
        for rows in self.buckets.values_mut() {
            *rows = rows.iter().filter_map(|&id| moved.new_id(id)).collect();
        }
    }

    /// Lists all rows of a restored state.
    pub(super) fn rebuild(&mut self, state: &RowMultiset, slot: usize) {
        self.buckets.clear();
        let mut ids = Vec::new();
        state.scan(0, usize::MAX, &mut ids);
        self.add(&ids, ids.iter().map(|&id| state.number(id, slot)));
    }
}
