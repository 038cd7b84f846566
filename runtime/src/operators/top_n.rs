//! Top-n: the first few rows of a bounded input, in order.
//!
//! Candidates are gathered and pruned to the wanted number whenever there are a few times more of them. Once a
//! pruning has happened, the worst candidate's key is a threshold: what comes later and is not better is dropped,
//! first by the leading key alone with one comparison kernel, then by the full key. Equal keys keep their order,
//! so the earlier row wins. Many wanted rows are the business of [`sort`](super::sort). Every kept row is charged
//! to a reservation; a watermark passes without effect, since order is owed only at the end.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Datum, Scalar, UInt32Array};
use arrow::compute::kernels::cmp;
use arrow::compute::{is_not_null, is_null, or, take};
use arrow_schema::{DataType, SortOptions};
use serde::{Deserialize, Serialize};

use super::contract::restore_batches;
use super::prelude::*;
use super::sort::Sort;
use super::sort::buffer::gather;
use super::sort_key_spec::{SortKeyColumns, SortKeySpec, compact_strings, inserts_only};
use crate::batch::BATCH_BYTES_MAX;
use crate::expr::positional_schema;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::rows::{SortKeyEncoder, SortKeys};

/// More wanted rows than this are sorted instead.
pub const TOP_N_ROWS_MAX: u64 = 64 << 10;

/// Candidates are pruned when there are this many times the wanted rows…
const SLACK_FACTOR: usize = 2;
/// … and at least this many more.
const SLACK_ROWS: usize = 4 << 10;

/// What to order by and how many rows to give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopNSpec {
    /// Types of the input's columns, which are the output's.
    pub input: Vec<DataType>,
    /// The keys, the first deciding first.
    pub keys: Vec<SortKeySpec>,
    /// Rows to leave out at the start.
    pub skip: u64,
    /// Rows to give after them.
    pub fetch: u64,
}

impl TopNSpec {
    /// The operator that does it: a sort where many rows are wanted.
    pub fn build(&self, job: &JobContext) -> Result<Box<dyn Operator>> {
        if self.skip.saturating_add(self.fetch) > TOP_N_ROWS_MAX {
            return Ok(Box::new(Sort::new(
                &self.input,
                &self.keys,
                self.skip,
                Some(self.fetch),
                job,
            )?));
        }
        Ok(Box::new(TopN::new(self, job)?))
    }
}

/// The running operator.
pub struct TopN {
    types: Vec<DataType>,
    keys: SortKeyColumns,
    encoder: Option<SortKeyEncoder>,
    skip: usize,
    wanted: usize,
    batch_rows: usize,

    reservation: Reservation,
    candidates: Vec<Candidates>,
    rows: usize,
    threshold: Option<Threshold>,
    phase: Phase,
}

enum Phase {
    Collecting { input: Option<Batch> },
    Emitting { result: Option<Batch>, offset: usize },
}

/// Rows that may be among the wanted ones.
struct Candidates {
    batch: Batch,
    /// None if there is nothing to order by.
    keys: Option<SortKeys>,
}

/// The key of the worst candidate after a pruning.
struct Threshold {
    /// The leading key's value, as an array of one row.
    leading: ArrayRef,
    key: Box<[u8]>,
}

impl TopN {
    /// Compiles the keys. The number of wanted rows must fit the memory.
    pub(super) fn new(spec: &TopNSpec, job: &JobContext) -> Result<Self> {
        let keys =
            SortKeyColumns::new(&spec.keys, &positional_schema(&spec.input), &job.functions)?;
        let encoder = keys.encoder(0)?;
        let rows = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Ok(TopN {
            types: spec.input.clone(),
            keys,
            encoder,
            skip: rows(spec.skip),
            wanted: rows(spec.skip.saturating_add(spec.fetch)),
            batch_rows: job.options.batch_rows,
            reservation: job.memory.reserve("TopN"),
            candidates: Vec::new(),
            rows: 0,
            threshold: None,
            phase: Phase::Collecting { input: None },
        })
    }

    fn add(&mut self, batch: Batch) -> Result<()> {
        let key_columns = self.keys.evaluate(&batch)?;
        let Some((batch, key_columns)) = self.drop_by_leading_key(batch, key_columns)? else {
            return Ok(());
        };
        let Some(encoder) = &self.encoder else {
            return self.keep(batch.slice(0, batch.num_rows().min(self.wanted - self.rows)), None);
        };
        let keys = encoder.encode(&key_columns)?;
        let Some(threshold) = &self.threshold else {
            return self.keep(batch, Some(keys));
        };
        let better: Vec<u32> =
            (0..keys.len() as u32).filter(|&i| keys.key(i as usize) < &*threshold.key).collect();
        if better.len() == keys.len() {
            return self.keep(batch, Some(keys));
        }
        if better.is_empty() {
            return Ok(());
        }
        let better = UInt32Array::from(better);
        let key_columns =
            key_columns.iter().map(|c| take(c, &better, None)).collect::<Result<Vec<_>, _>>()?;
        let keys = encoder.encode(&key_columns)?;
        self.keep(take_rows(&batch, &better)?, Some(keys))
    }

    /// The rows whose leading key is not worse than the threshold's; none if there are none.
    fn drop_by_leading_key(
        &self,
        batch: Batch,
        key_columns: Vec<ArrayRef>,
    ) -> Result<Option<(Batch, Vec<ArrayRef>)>> {
        let (Some(threshold), Some(leading)) = (&self.threshold, key_columns.first()) else {
            return Ok(Some((batch, key_columns)));
        };
        let Some(mask) = not_worse(leading, &threshold.leading, self.keys.options()[0])? else {
            return Ok(Some((batch, key_columns)));
        };
        match mask.true_count() {
            0 => Ok(None),
            n if n == mask.len() => Ok(Some((batch, key_columns))),
            _ => {
                let key_columns = key_columns
                    .iter()
                    .map(|c| arrow::compute::filter(c, &mask))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(Some((batch.filter(&mask)?, key_columns)))
            }
        }
    }

    fn keep(&mut self, batch: Batch, keys: Option<SortKeys>) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = compact_strings(batch);
        self.reservation
            .try_grow(batch.kept_bytes() + keys.as_ref().map_or(0, SortKeys::memory_bytes))?;
        self.rows += batch.num_rows();
        self.candidates.push(Candidates { batch, keys });
        if self.rows > self.wanted.saturating_mul(SLACK_FACTOR).max(self.wanted + SLACK_ROWS) {
            self.prune()?;
        }
        Ok(())
    }

    /// The wanted candidates' places, in order.
    fn best(&self) -> Vec<(usize, usize)> {
        let mut places: Vec<(usize, usize)> = self
            .candidates
            .iter()
            .enumerate()
            .flat_map(|(b, c)| (0..c.batch.num_rows()).map(move |row| (b, row)))
            .collect();
        let key = |place: &(usize, usize)| {
            self.candidates[place.0].keys.as_ref().map_or(&[][..], |keys| keys.key(place.1))
        };
        let compare =
            |a: &(usize, usize), b: &(usize, usize)| key(a).cmp(key(b)).then_with(|| a.cmp(b));
        if places.len() > self.wanted && self.wanted > 0 {
            places.select_nth_unstable_by(self.wanted - 1, compare);
        }
        places.truncate(self.wanted);
        places.sort_unstable_by(compare);
        places
    }

    /// Keeps the wanted candidates alone, in one batch, and takes the last one's key as the threshold.
    fn prune(&mut self) -> Result<()> {
        let places = self.best();
        if places.is_empty() {
            self.clear();
            return Ok(());
        }
        let batches: Vec<Batch> = self.candidates.iter().map(|c| c.batch.clone()).collect();
        let best = compact_strings(gather(&batches, &places)?);
        self.clear();
        let key_columns = self.keys.evaluate(&best)?;
        let keys = self.encoder.as_ref().map(|e| e.encode(&key_columns)).transpose()?;
        if let (Some(keys), Some(leading)) = (&keys, key_columns.first())
            && best.num_rows() == self.wanted
        {
            let last = self.wanted - 1;
            self.threshold =
                Some(Threshold { leading: leading.slice(last, 1), key: keys.key(last).into() });
        }
        self.reservation
            .try_grow(best.kept_bytes() + keys.as_ref().map_or(0, SortKeys::memory_bytes))?;
        self.rows = best.num_rows();
        self.candidates.push(Candidates { batch: best, keys });
        Ok(())
    }

    fn clear(&mut self) {
        self.candidates = Vec::new();
        self.rows = 0;
        self.threshold = None;
        self.reservation.shrink(usize::MAX);
    }

    fn finish(&mut self) -> Result<()> {
        self.prune()?;
        let result = self.candidates.pop().map(|c| c.batch);
        self.phase = Phase::Emitting { result, offset: self.skip };
        Ok(())
    }

    /// Without an order any rows do, so enough is enough; with none wanted nothing needs to come.
    fn is_satisfied(&self) -> bool {
        self.wanted == 0 || (self.encoder.is_none() && self.rows >= self.wanted)
    }
}

/// Rows whose leading key is as good as the threshold's or better; none if the kernel cannot tell.
fn not_worse(
    leading: &ArrayRef,
    threshold: &ArrayRef,
    options: SortOptions,
) -> Result<Option<BooleanArray>> {
    if leading.data_type().is_nested() || leading.data_type().is_null() {
        return Ok(None);
    }
    if threshold.is_null(0) {
        // NULLs at the end: every row is as good. NULLs first: only other NULLs are.
        return if options.nulls_first { Ok(Some(is_null(leading)?)) } else { Ok(None) };
    }
    let scalar = Scalar::new(Arc::clone(threshold));
    let scalar: &dyn Datum = &scalar;
    let mask = if options.descending {
        cmp::gt_eq(leading, scalar)?
    } else {
        cmp::lt_eq(leading, scalar)?
    };
    if leading.null_count() == 0 {
        return Ok(Some(mask));
    }
    let mask = BooleanArray::new(mask.values() & is_not_null(leading)?.values(), None);
    Ok(Some(if options.nulls_first { or(&mask, &is_null(leading)?)? } else { mask }))
}

fn take_rows(batch: &Batch, rows: &UInt32Array) -> Result<Batch> {
    let columns =
        batch.columns().iter().map(|c| take(c, rows, None)).collect::<Result<Vec<_>, _>>()?;
    let mut taken = Batch::new(columns, rows.len());
    taken.ingest_time_us = batch.ingest_time_us;
    Ok(taken)
}

impl Operator for TopN {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.phase = Phase::Collecting { input: Some(batch) },
            StreamElement::End => self.finish()?,
            other => return Err(Error::Internal(format!("a top-n cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let Phase::Collecting { input } = &mut self.phase {
            if let Some(batch) = input.take() {
                self.add(inserts_only(batch, "top-n")?)?;
            }
            if !self.is_satisfied() {
                return Ok(Output::NeedInput(PortSet::Any));
            }
            self.finish()?;
        }
        let Phase::Emitting { result, offset } = &mut self.phase else {
            return Err(Error::Internal("a top-n without a phase".into()));
        };
        let Some(result) = result.as_ref().filter(|r| *offset < r.num_rows()) else {
            return Ok(Output::Finished);
        };
        let row_bytes = (result.data_bytes() / result.num_rows()).max(1);
        let rows_max = self.batch_rows.min(BATCH_BYTES_MAX / row_bytes).max(1);
        let rows = rows_max.min(result.num_rows() - *offset);
        let batch = result.slice(*offset, rows);
        *offset += rows;
        Ok(Output::Element(PortId(0), StreamElement::Batch(batch)))
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn on_timer(
        &mut self,
        _domain: TimeDomain,
        _time_us: i64,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        Ok(())
    }

    fn on_barrier(&mut self, _id: CheckpointId, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn on_superstep(&mut self, _superstep: Superstep, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn revoke(&mut self, _bytes: usize, _cx: &mut OperatorContext<'_>) -> Result<usize> {
        let before = self.reservation.size();
        if self.rows > self.wanted {
            self.prune()?;
        }
        Ok(before.saturating_sub(self.reservation.size()))
    }

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let batches: Vec<Batch> = self.candidates.iter().map(|c| c.batch.clone()).collect();
        StateSnapshot::of_batches(&batches, &self.types)
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        restore_batches(&snapshot)?.into_iter().try_for_each(|batch| self.add(batch))
    }

    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn checkpoint_aborted(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.clear();
        self.phase = Phase::Collecting { input: None };
        Ok(())
    }
}
