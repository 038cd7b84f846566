//! Reads the rows that a table in memory has when a job first looks at it.
//!
//! Invariant: all scans of a table in one job see the same rows, however late they begin.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::{ArrayRef, RecordBatch};
use parking_lot::Mutex;
use thalweg_runtime::Result;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceSpec};

use super::registry::Living;
use super::told::Telling;
use crate::connectors::scan::{
    ReadLayout, SplitFormat, SplitProgress, SplitScan, SplitSource, Wanted,
};

type Batches = Vec<RecordBatch>;

/// What jobs have seen of tables, by the numbers of both.
type Seen = HashMap<(usize, u64), Weak<Batches>>;

/// The rows that running jobs see, by the job's place in memory and the number of the table. A job keeps its sources,
/// and so the rows, as long as it lives; what a dead one has left stands for nothing.
static SEEN: LazyLock<Mutex<Seen>> = LazyLock::new(Mutex::default);

/// Opens the source of a table.
///
/// # Errors
/// What a changelog of the table reports.
pub(super) fn open(
    spec: &SourceSpec,
    table: &Living,
    job: &Arc<JobContext>,
) -> Result<Arc<dyn Source>> {
    let mut batches = seen_by(job, table);
    if let Some(telling) = Telling::of_options(&spec.options) {
        batches = Arc::new(telling.present(&batches, job.env.now_us())?);
    }
    let format = MemoryFormat { batches, batch_rows: spec.batch_rows.max(1) };
    Ok(SplitSource::open(spec, Box::new(format), job))
}

fn seen_by(job: &Arc<JobContext>, table: &Living) -> Arc<Batches> {
    let place = (Arc::as_ptr(job) as usize, table.id());
    let mut seen = SEEN.lock();
    if let Some(batches) = seen.get(&place).and_then(Weak::upgrade) {
        return batches;
    }
    seen.retain(|_, batches| batches.strong_count() > 0);
    let batches = table.batches();
    seen.insert(place, Arc::downgrade(&batches));
    batches
}

struct MemoryFormat {
    batches: Arc<Vec<RecordBatch>>,
    batch_rows: usize,
}

impl SplitFormat for MemoryFormat {
    fn splits(&self) -> Vec<(usize, u64)> {
        self.batches.iter().enumerate().map(|(i, b)| (i, b.num_rows() as u64)).collect()
    }

    fn open(
        &self,
        split: usize,
        layout: &ReadLayout,
        _job: &Arc<JobContext>,
    ) -> Result<Box<dyn SplitScan>> {
        let batch = &self.batches[split];
        let columns = layout.columns.iter().map(|&c| batch.column(c).clone()).collect();
        Ok(Box::new(MemoryScan {
            columns,
            rows: batch.num_rows(),
            at: 0,
            batch_rows: self.batch_rows,
        }))
    }
}

struct MemoryScan {
    columns: Vec<ArrayRef>,
    rows: usize,
    at: usize,
    batch_rows: usize,
}

impl SplitScan for MemoryScan {
    fn step(&mut self, _cx: &OperatorContext<'_>, _wanted: Wanted<'_>) -> Result<SplitProgress> {
        let rows = self.batch_rows.min(self.rows - self.at);
        if rows == 0 {
            return Ok(SplitProgress::Finished);
        }
        let columns = self.columns.iter().map(|c| c.slice(self.at, rows)).collect();
        self.at += rows;
        Ok(SplitProgress::Rows(columns, rows))
    }
}
