//! Held rows: those that are not complete yet, by time.
//!
//! Each batch is a run in the order of its times, so that what a bound completes is a slice of each. Rows of equal times
//! stay in the order of their coming. Rows without a time are kept apart and come out at the end, last.

use arrow::array::{Array, ArrayRef, Int64Array, UInt32Array};
use arrow::compute::take;

use crate::batch::{Batch, concat};
use crate::error::Result;
use crate::operators::sort_key_spec::compact_strings;

/// Runs beyond this number are put together where they are short.
const RUNS_MAX: usize = 64;

struct Run {
    batch: Batch,
    /// Ascending.
    times: Vec<i64>,
}

/// See the module.
pub(super) struct Held {
    runs: Vec<Run>,
    timeless: Vec<Batch>,
    /// Runs of so many rows are not put together.
    long: usize,
}

impl Held {
    /// Nothing yet.
    pub(super) fn new(batch_rows: usize) -> Self {
        Held { runs: Vec::new(), timeless: Vec::new(), long: batch_rows }
    }

    /// Bytes of the rows.
    pub(super) fn memory_bytes(&self) -> usize {
        let times: usize = self.runs.iter().map(|run| run.times.len() * size_of::<i64>()).sum();
        let batches = self.runs.iter().map(|run| &run.batch).chain(&self.timeless);
        times + batches.map(Batch::data_bytes).sum::<usize>()
    }

    /// How many rows are held.
    pub(super) fn rows(&self) -> usize {
        let timed: usize = self.runs.iter().map(|run| run.times.len()).sum();
        timed + self.timeless.iter().map(Batch::num_rows).sum::<usize>()
    }

    /// Takes a compact batch with the times of its rows.
    pub(super) fn add(&mut self, batch: Batch, times: &Int64Array) -> Result<()> {
        if times.null_count() == times.len() {
            self.timeless.push(batch);
            return Ok(());
        }
        if times.null_count() > 0 {
            let without = (0..times.len() as u32).filter(|&row| times.is_null(row as usize));
            self.timeless.push(rows_of(&batch, without.collect())?);
        }
        let values = times.values();
        let sorted = times.null_count() == 0 && values.is_sorted();
        let run = if sorted {
            Run { batch, times: values.to_vec() }
        } else {
            let mut rows: Vec<u32> =
                (0..times.len() as u32).filter(|&row| times.is_valid(row as usize)).collect();
            rows.sort_by_key(|&row| values[row as usize]);
            let times = rows.iter().map(|&row| values[row as usize]).collect();
            Run { batch: rows_of(&batch, rows)?, times }
        };
        self.runs.push(run);
        if self.runs.len() > RUNS_MAX {
            self.join_short_runs()?;
        }
        Ok(())
    }

    /// Takes the rows below a bound out, or all rows without one.
    pub(super) fn take_below(&mut self, bound: Option<i64>) -> Result<Option<Batch>> {
        let mut complete = Vec::new();
        for run in &mut self.runs {
            let rows = run.times.len();
            let end = bound.map_or(rows, |bound| run.times.partition_point(|&time| time < bound));
            if end == 0 {
                continue;
            }
            complete.push(run.batch.slice(0, end));
            run.times.drain(..end);
            run.batch = run.batch.slice(end, rows - end);
        }
        self.runs.retain(|run| !run.times.is_empty());
        if bound.is_none() {
            complete.append(&mut self.timeless);
        }
        Ok(match complete.len() {
            0 => None,
            1 => complete.pop(),
            _ => Some(concat(&complete)?),
        })
    }

    /// Short runs are what is left of longer ones, whose memory they keep. Neighbours are put together, so that runs stay
    /// in the order of their coming.
    fn join_short_runs(&mut self) -> Result<()> {
        let mut groups: Vec<Vec<Run>> = Vec::new();
        let mut rows = 0;
        for run in std::mem::take(&mut self.runs) {
            rows += run.times.len();
            match groups.last_mut() {
                Some(group) if rows <= self.long => group.push(run),
                _ => {
                    rows = run.times.len();
                    groups.push(vec![run]);
                }
            }
        }
        self.runs = groups.into_iter().map(joined).collect::<Result<_>>()?;
        Ok(())
    }

    /// All rows, for a snapshot.
    pub(super) fn batches(&self) -> Vec<Batch> {
        self.runs.iter().map(|run| &run.batch).chain(&self.timeless).cloned().collect()
    }

    /// Lets go of everything.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.timeless.clear();
    }
}

/// One run with the rows of several, of which there is at least one.
fn joined(mut runs: Vec<Run>) -> Result<Run> {
    if runs.len() == 1 {
        return Ok(runs.remove(0));
    }
    let batches: Vec<Batch> = runs.iter().map(|run| run.batch.clone()).collect();
    let times: Vec<i64> = runs.iter().flat_map(|run| run.times.iter().copied()).collect();
    let mut rows: Vec<u32> = (0..times.len() as u32).collect();
    rows.sort_by_key(|&row| times[row as usize]);
    let times = rows.iter().map(|&row| times[row as usize]).collect();
    Ok(Run { batch: compact_rows(&concat(&batches)?, rows)?, times })
}

/// Some rows of a compact batch.
pub(super) fn rows_of(batch: &Batch, rows: Vec<u32>) -> Result<Batch> {
    let len = rows.len();
    let rows = UInt32Array::from(rows);
    let columns = batch.columns().iter().map(|column| take(column, &rows, None));
    Ok(Batch::new(columns.collect::<Result<Vec<ArrayRef>, _>>()?, len))
}

/// Some rows of a compact batch, without the bytes of the others.
pub(super) fn compact_rows(batch: &Batch, rows: Vec<u32>) -> Result<Batch> {
    Ok(compact_strings(rows_of(batch, rows)?))
}
