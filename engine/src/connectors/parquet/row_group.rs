//! Reading one row group, in one of two ways.
//!
//! *Whole*: all columns are decoded and filtered together. *Late*: the columns of the filter are decoded first; of
//! the others only the rows that pass are decoded, and nothing is fetched if none does. Late pays when few rows pass
//! and the other columns are most of the bytes; how many pass is measured on the row groups before.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBufferBuilder};
use arrow::compute::concat;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use thalweg_runtime::Result;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::env::IoTask;
use thalweg_runtime::operators::OperatorContext;

use super::columns::Columns;
use super::decode::DecodedColumns;
use super::meta::ParquetMeta;
use super::narrow::{Narrowed, narrow};
use super::source::{SharedScan, Split};
use super::statistics::rows_of;
use crate::connectors::scan::{ScanFilter, apply_mask};

/// Late reading starts below this share of rows kept.
const KEPT_SHARE_MAX: f64 = 0.2;
/// Late reading wants at least this share of the bytes in columns that the filter does not look at.
const OTHER_SHARE_MIN: f64 = 0.3;

/// Rows that a batch of the other columns has at least; the reader joins small batches.
const OTHERS_ROWS_MIN: usize = 128;

/// What a step came to.
pub enum GroupProgress {
    /// Rows with the delivered columns.
    Rows(Batch),
    /// Nothing yet.
    Working,
    /// Bytes are on their way; the waker is registered.
    Wait,
    /// The row group is done.
    Finished,
}

/// A row group being read.
pub struct RowGroupScan {
    split: Split,
    rows: usize,
    batch_rows: usize,
    /// Rows in front that were delivered before a restore.
    skip: usize,

    /// The footer in use: with page indexes once they were read.
    meta: Arc<ParquetMeta>,
    /// The rows that are looked at; `None` for all.
    selection: Option<RowSelection>,
    stage: Stage,
    rows_done: usize,
}

enum Stage {
    /// Bloom filters and page indexes are looked at.
    Narrowing(IoTask<Narrowed>),
    /// All columns at once.
    Whole(Columns),
    /// The filter's columns; rows that pass are collected.
    Filtering(Columns, Passed),
    /// The other columns of the rows that passed.
    Others(Columns, Passed),
    Finished,
}

/// Rows that passed the filter.
struct Passed {
    places: Vec<usize>,
    bits: BooleanBufferBuilder,
    parts: Vec<Vec<ArrayRef>>,
    columns: Vec<ArrayRef>,
    delivered: usize,
}

impl RowGroupScan {
    /// Decides how to read a row group; fetches nothing yet. The first `skip` rows are left out.
    pub fn start(shared: &Arc<SharedScan>, split: Split, filter: &ScanFilter, skip: usize) -> Self {
        let rows = rows_of(split.plan.meta.metadata().row_group(split.group)) as usize;
        let all: Vec<usize> = (0..shared.layout.columns.len()).collect();
        let mut scan = RowGroupScan {
            batch_rows: split.plan.batch_rows(split.group, &all, shared.spec.batch_rows),
            skip: skip.min(rows),
            meta: split.plan.meta.clone(),
            selection: None,
            rows,
            stage: Stage::Finished,
            rows_done: 0,
            split,
        };
        scan.stage = match narrow(shared, &scan.split) {
            Some(task) => Stage::Narrowing(task),
            None => scan.first_stage(shared, filter, None),
        };
        scan
    }

    /// The stage in which columns are decoded first, given the rows that pages leave.
    fn first_stage(
        &mut self,
        shared: &Arc<SharedScan>,
        filter: &ScanFilter,
        pages: Option<RowSelection>,
    ) -> Stage {
        let rest = (self.skip > 0).then(|| {
            let (skipped, rest) =
                (RowSelector::skip(self.skip), RowSelector::select(self.rows - self.skip));
            RowSelection::from(vec![skipped, rest])
        });
        self.selection = match (pages, rest) {
            (Some(pages), Some(rest)) => Some(pages.intersection(&rest)),
            (pages, rest) => pages.or(rest),
        };
        let selection = self.selection.clone();
        if self.skip > 0 || !late_pays(shared, &self.split, filter) {
            return Stage::Whole(Columns::new(shared, needed(shared, filter), selection));
        }
        let places = filter.places();
        let kept: Vec<usize> =
            places.iter().copied().filter(|p| shared.layout.output.contains(p)).collect();
        Stage::Filtering(Columns::new(shared, places, selection), Passed::new(kept, self.rows))
    }

    /// The row group.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Rows before which everything was delivered.
    pub fn rows_done(&self) -> usize {
        let Some(selection) = &self.selection else { return self.rows_done };
        let (mut row, mut left) = (0, self.rows_done);
        for part in selection.iter() {
            if !part.skip && left < part.row_count {
                return row + left;
            }
            row += part.row_count;
            left -= if part.skip { 0 } else { part.row_count };
        }
        self.rows
    }

    /// Whether filters that have just arrived may join in: not when a part of the columns is decoded already.
    pub fn is_between_batches(&self) -> bool {
        matches!(&self.stage, Stage::Narrowing(_) | Stage::Whole(_))
    }

    /// Whether the columns chosen for the filter are still those that it looks at.
    pub fn suits(&self, filter: &ScanFilter) -> bool {
        match &self.stage {
            Stage::Filtering(columns, _) => {
                filter.is_active() && filter.places().iter().all(|p| columns.places.contains(p))
            }
            Stage::Narrowing(_) | Stage::Whole(_) | Stage::Others(..) | Stage::Finished => true,
        }
    }

    /// Starts fetching what is needed first, if there is memory for it.
    pub fn fetch(&mut self, shared: &SharedScan) {
        if let Stage::Whole(columns) | Stage::Filtering(columns, _) = &mut self.stage {
            columns.fetch_if_cheap(shared, &self.split, &self.meta);
        }
    }

    /// A batch's worth of work.
    pub fn step(
        &mut self,
        shared: &Arc<SharedScan>,
        filter: &mut ScanFilter,
        cx: &OperatorContext<'_>,
    ) -> Result<GroupProgress> {
        match &mut self.stage {
            Stage::Finished => Ok(GroupProgress::Finished),
            Stage::Narrowing(task) => {
                let Some(narrowed) = task.poll(cx.waker) else { return Ok(GroupProgress::Wait) };
                let narrowed = narrowed?;
                if let Some(meta) = narrowed.meta {
                    self.meta = meta;
                }
                self.stage = if narrowed.empty {
                    Stage::Finished
                } else {
                    self.first_stage(shared, filter, narrowed.selection)
                };
                Ok(GroupProgress::Working)
            }
            Stage::Whole(columns) => {
                if !columns.ready(shared, &self.split, &self.meta, self.batch_rows, cx)? {
                    return Ok(GroupProgress::Wait);
                }
                self.step_whole(shared, filter)
            }
            Stage::Filtering(columns, _) => {
                if !columns.ready(shared, &self.split, &self.meta, self.batch_rows, cx)? {
                    return Ok(GroupProgress::Wait);
                }
                self.step_filter(shared, filter)
            }
            Stage::Others(columns, _) => {
                if !columns.ready(shared, &self.split, &self.meta, self.batch_rows, cx)? {
                    return Ok(GroupProgress::Wait);
                }
                self.step_others(shared)
            }
        }
    }

    fn step_whole(
        &mut self,
        shared: &SharedScan,
        filter: &mut ScanFilter,
    ) -> Result<GroupProgress> {
        let Stage::Whole(columns) = &mut self.stage else { return Ok(GroupProgress::Working) };
        let Some((rows, decoded)) = columns.next()? else {
            self.stage = Stage::Finished;
            return Ok(GroupProgress::Working);
        };
        self.rows_done += rows;
        let mask = filter.mask(rows, &|p| decoded[&p].clone())?;
        let mut output = pick(&shared.layout.output, &decoded);
        let mut kept = rows;
        if let Some(bits) = mask {
            kept = bits.count_set_bits();
            if kept > 0 {
                apply_mask(&mut output, &bits)?;
            }
        }
        if filter.is_active() {
            shared.filtered(rows, kept);
        }
        Ok(if kept == 0 {
            GroupProgress::Working
        } else {
            GroupProgress::Rows(Batch::new(output, kept))
        })
    }

    fn step_filter(
        &mut self,
        shared: &SharedScan,
        filter: &mut ScanFilter,
    ) -> Result<GroupProgress> {
        let Stage::Filtering(columns, passed) = &mut self.stage else {
            return Ok(GroupProgress::Working);
        };
        if let Some((rows, decoded)) = columns.next()? {
            let mask = filter.mask(rows, &|p| decoded[&p].clone())?;
            let kept = passed.push(rows, &decoded, mask.as_ref())?;
            shared.filtered(rows, kept);
            return Ok(GroupProgress::Working);
        }
        let Stage::Filtering(_, mut passed) = std::mem::replace(&mut self.stage, Stage::Finished)
        else {
            return Ok(GroupProgress::Working);
        };
        let bits = passed.bits.finish();
        let kept = bits.count_set_bits();
        if kept > 0 {
            passed.join()?;
            // Rows between those that passed may be decoded too: a batch spans as many rows as any other.
            let share = self.batch_rows * kept / bits.len();
            self.batch_rows = share.max(OTHERS_ROWS_MIN).min(self.batch_rows);
            let others: Vec<usize> =
                needed_output(shared).into_iter().filter(|p| !passed.places.contains(p)).collect();
            let passed_rows = RowSelection::from_boolean_buffer(bits);
            let selection = match &self.selection {
                Some(looked_at) => looked_at.and_then(&passed_rows),
                None => passed_rows,
            };
            self.stage = Stage::Others(Columns::new(shared, others, Some(selection)), passed);
        }
        Ok(GroupProgress::Working)
    }

    fn step_others(&mut self, shared: &SharedScan) -> Result<GroupProgress> {
        let Stage::Others(columns, passed) = &mut self.stage else {
            return Ok(GroupProgress::Working);
        };
        let Some((rows, mut decoded)) = columns.next()? else {
            self.stage = Stage::Finished;
            return Ok(GroupProgress::Working);
        };
        for (place, column) in passed.places.iter().zip(&passed.columns) {
            decoded.insert(*place, column.slice(passed.delivered, rows));
        }
        passed.delivered += rows;
        Ok(GroupProgress::Rows(Batch::new(pick(&shared.layout.output, &decoded), rows)))
    }
}

fn pick(places: &[usize], columns: &DecodedColumns) -> Vec<ArrayRef> {
    places.iter().map(|p| columns[p].clone()).collect()
}

fn needed_output(shared: &SharedScan) -> Vec<usize> {
    let mut places = shared.layout.output.clone();
    places.sort_unstable();
    places.dedup();
    places
}

/// The columns delivered and those that a filter looks at or may come to look at.
fn needed(shared: &SharedScan, filter: &ScanFilter) -> Vec<usize> {
    let mut places = needed_output(shared);
    places.extend(filter.all_places());
    places.sort_unstable();
    places.dedup();
    places
}

fn late_pays(shared: &SharedScan, split: &Split, filter: &ScanFilter) -> bool {
    if !filter.is_active() || shared.kept_share().is_none_or(|share| share > KEPT_SHARE_MAX) {
        return false;
    }
    let filtered = split.plan.compressed_bytes(split.group, &filter.places());
    let all = split.plan.compressed_bytes(split.group, &needed(shared, filter));
    all > 0 && (all - filtered) as f64 >= OTHER_SHARE_MIN * all as f64
}

impl Passed {
    fn new(places: Vec<usize>, rows: usize) -> Self {
        Passed {
            parts: vec![Vec::new(); places.len()],
            places,
            bits: BooleanBufferBuilder::new(rows),
            columns: Vec::new(),
            delivered: 0,
        }
    }

    fn push(
        &mut self,
        rows: usize,
        decoded: &DecodedColumns,
        mask: Option<&arrow::buffer::BooleanBuffer>,
    ) -> Result<usize> {
        let mut columns = pick(&self.places, decoded);
        let kept = match mask {
            None => {
                self.bits.append_n(rows, true);
                rows
            }
            Some(bits) => {
                self.bits.append_buffer(bits);
                apply_mask(&mut columns, bits)?;
                bits.count_set_bits()
            }
        };
        if kept > 0 {
            self.parts.iter_mut().zip(columns).for_each(|(part, column)| part.push(column));
        }
        Ok(kept)
    }

    fn join(&mut self) -> Result<()> {
        self.columns = std::mem::take(&mut self.parts)
            .iter()
            .map(|part| {
                let arrays: Vec<&dyn arrow::array::Array> =
                    part.iter().map(|a| a.as_ref()).collect();
                concat(&arrays)
            })
            .collect::<Result<_, _>>()?;
        Ok(())
    }
}
