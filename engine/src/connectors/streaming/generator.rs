//! A source whose rows follow from their numbers.
//!
//! Split `s` of `n` has the rows `s`, `s + n`, `s + 2n`, …, so that the rows of a table do not depend on how many splits,
//! threads or batches there are, and each split has its rows in their order.

use std::sync::Arc;

use arrow::array::ArrayRef;
use serde_json::Value;
use thalweg_runtime::Result;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceSpec};

use super::pace::Pace;
use super::reader::{StreamFormat, StreamProgress, StreamSource, StreamSplit};
use crate::connectors::scan::ReadLayout;

/// Rows by their numbers: `first`, `first + stride`, ….
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// The first.
    pub first: u64,
    /// From one to the next.
    pub stride: u64,
    /// How many.
    pub count: usize,
}

impl Rows {
    /// The row behind these.
    pub fn behind(self) -> u64 {
        self.first.saturating_add(self.stride.saturating_mul(self.count as u64))
    }

    /// The numbers.
    pub fn iter(self) -> impl Iterator<Item = u64> {
        (0..self.count as u64).map(move |i| self.first + i * self.stride)
    }
}

/// Makes rows.
pub trait Generator: Send + Sync {
    /// The columns of the layout, in its order and types, for these rows. `now_us` is the time as it is now.
    fn columns(&self, layout: &ReadLayout, rows: Rows, now_us: i64) -> Result<Vec<ArrayRef>>;
}

/// How many rows a generator makes, and how fast.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// How many; `None` is without an end.
    pub rows: Option<u64>,
    /// How many a second; `None` and 0 are as fast as possible.
    pub rows_per_second: Option<u64>,
    /// Among how many splits they are dealt out; at least 1.
    pub splits: u64,
}

/// Opens the source of a generator.
pub fn open(
    spec: &SourceSpec,
    generator: Arc<dyn Generator>,
    extent: Extent,
    job: &Arc<JobContext>,
) -> Arc<dyn Source> {
    let format = GeneratorFormat {
        generator,
        extent,
        pace: Arc::new(Pace::new(extent.rows_per_second)),
        batch_rows: spec.batch_rows.max(1) as u64,
    };
    StreamSource::open(spec, Box::new(format), job)
}

struct GeneratorFormat {
    generator: Arc<dyn Generator>,
    extent: Extent,
    pace: Arc<Pace>,
    batch_rows: u64,
}

impl StreamFormat for GeneratorFormat {
    fn splits(&self) -> u64 {
        self.extent.splits.max(1)
    }

    fn open(
        &self,
        split: u64,
        position: Option<&Value>,
        layout: &ReadLayout,
        job: &Arc<JobContext>,
    ) -> Result<Box<dyn StreamSplit>> {
        let next = position.and_then(Value::as_u64).unwrap_or(split);
        self.pace.start(next, &*job.env);
        Ok(Box::new(GeneratorSplit {
            generator: self.generator.clone(),
            pace: self.pace.clone(),
            layout: layout.clone(),
            stride: self.splits(),
            end: self.extent.rows.unwrap_or(u64::MAX),
            batch_rows: self.batch_rows,
            next,
        }))
    }

    fn rows(&self) -> Option<u64> {
        self.extent.rows
    }
}

struct GeneratorSplit {
    generator: Arc<dyn Generator>,
    pace: Arc<Pace>,
    layout: ReadLayout,
    stride: u64,
    /// Rows from here on do not exist.
    end: u64,
    batch_rows: u64,
    /// The row that comes next.
    next: u64,
}

impl StreamSplit for GeneratorSplit {
    fn step(&mut self, cx: &OperatorContext<'_>) -> Result<StreamProgress> {
        if self.next >= self.end {
            return Ok(StreamProgress::Finished);
        }
        let due = self.pace.due(&*cx.job.env).min(self.end);
        if self.next >= due {
            self.pace.wake(self.next, cx);
            // The clock will bring more: such a split is not idle.
            return Ok(StreamProgress::Wait { caught_up: false });
        }
        let count = (due - self.next).div_ceil(self.stride).min(self.batch_rows) as usize;
        let rows = Rows { first: self.next, stride: self.stride, count };
        let columns = self.generator.columns(&self.layout, rows, cx.job.env.now_us())?;
        self.next = rows.behind();
        Ok(StreamProgress::Rows(columns, count))
    }

    fn position(&self) -> Value {
        Value::from(self.next)
    }
}
