//! Series of whole numbers: `generate_series` and `range` in FROM.
//!
//! Numbers are made as they are read; a series of any length takes no memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{Constraints, ScalarValue};
use serde::{Deserialize, Serialize};
use thalweg_optimizer::physical::Provenance;
use thalweg_optimizer::{ColumnStatistics, TableStatistics};
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::scan::{ReadLayout, SplitFormat, SplitProgress, SplitScan, SplitSource, Wanted};
use crate::catalog::Table;

/// The connector's registered name.
pub const CONNECTOR: &str = "series";
/// Splits that a series is cut into at most.
const SPLITS_MAX: u64 = 1024;
/// Numbers that a split has at least, unless it is the last.
const SPLIT_ROWS_MIN: u64 = 1 << 16;

/// `count` numbers, the first of which is `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    start: i64,
    step: i64,
    count: u64,
}

impl Series {
    /// The numbers from `start` by `step` up to `stop`, which is one of them only if `inclusive`.
    pub fn new(start: i64, stop: i64, step: i64, inclusive: bool) -> Result<Self> {
        if step == 0 {
            return Err(Error::user("the step of a series must not be 0"));
        }
        let span = (i128::from(stop) - i128::from(start)) * i128::from(step.signum());
        let width = i128::from(step).abs();
        let count = match span {
            ..0 => 0,
            span if inclusive => span / width + 1,
            span => (span + width - 1) / width,
        };
        let count = u64::try_from(count).map_err(|_| Error::user("the series is too long"))?;
        Ok(Series { start, step, count })
    }

    /// The number at a position below `count`.
    fn at(&self, position: u64) -> i64 {
        // Every number of the series lies between its start and its end, so that wrapping comes out right.
        self.start.wrapping_add(self.step.wrapping_mul(position as i64))
    }

    fn split_rows(&self) -> u64 {
        self.count.div_ceil(SPLITS_MAX).max(SPLIT_ROWS_MIN)
    }
}

/// A series as a table of one column, `value`.
#[derive(Debug)]
pub struct SeriesTable {
    series: Series,
    schema: SchemaRef,
}

impl SeriesTable {
    /// The table of a series.
    pub fn new(series: Series) -> Self {
        let fields = vec![Field::new("value", DataType::Int64, false)];
        SeriesTable { series, schema: Arc::new(Schema::new(fields)) }
    }
}

impl Table for SeriesTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn connector(&self) -> &str {
        CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        serde_json::to_value(self.series).expect("three numbers can be written as JSON")
    }

    fn statistics(&self) -> TableStatistics {
        let rows = self.series.count as f64;
        let ends = (self.series.count > 0).then(|| {
            let (first, last) = (self.series.start, self.series.at(self.series.count - 1));
            (first.min(last), first.max(last))
        });
        let column = ColumnStatistics {
            null_count: Some(0.0),
            min: ends.map(|(least, _)| ScalarValue::Int64(Some(least))),
            max: ends.map(|(_, greatest)| ScalarValue::Int64(Some(greatest))),
            distinct: Some(rows),
            avg_width: Some(8.0),
        };
        TableStatistics {
            rows: Some(rows),
            provenance: Provenance::Exact,
            bytes: Some(rows * 8.0),
            columns: vec![column],
        }
    }

    fn constraints(&self) -> Option<&Constraints> {
        None
    }
}

/// Reads series.
#[derive(Debug, Default)]
pub struct SeriesConnector;

impl SourceConnector for SeriesConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let series = serde_json::from_value(spec.options.clone())
            .map_err(|e| Error::Internal(format!("the options of a series: {e}")))?;
        let format = SeriesFormat { series, batch_rows: spec.batch_rows.max(1) as u64 };
        Ok(SplitSource::open(spec, Box::new(format), job))
    }
}

struct SeriesFormat {
    series: Series,
    batch_rows: u64,
}

impl SplitFormat for SeriesFormat {
    fn splits(&self) -> Vec<(usize, u64)> {
        let rows = self.series.split_rows();
        let split = |i: u64| (i as usize, rows.min(self.series.count - i * rows));
        (0..self.series.count.div_ceil(rows)).map(split).collect()
    }

    fn open(
        &self,
        split: usize,
        layout: &ReadLayout,
        _job: &Arc<JobContext>,
    ) -> Result<Box<dyn SplitScan>> {
        let next = split as u64 * self.series.split_rows();
        let end = (next + self.series.split_rows()).min(self.series.count);
        let (series, batch_rows) = (self.series, self.batch_rows);
        Ok(Box::new(SeriesScan { series, columns: layout.columns.len(), next, end, batch_rows }))
    }
}

struct SeriesScan {
    series: Series,
    columns: usize,
    next: u64,
    end: u64,
    batch_rows: u64,
}

impl SplitScan for SeriesScan {
    fn step(&mut self, _cx: &OperatorContext<'_>, _wanted: Wanted<'_>) -> Result<SplitProgress> {
        let end = self.end.min(self.next + self.batch_rows);
        if self.next == end {
            return Ok(SplitProgress::Finished);
        }
        let numbers = (self.next..end).map(|position| self.series.at(position));
        let rows = (end - self.next) as usize;
        let columns: Vec<ArrayRef> = match self.columns {
            0 => Vec::new(),
            _ => vec![Arc::new(Int64Array::from_iter_values(numbers))],
        };
        self.next = end;
        Ok(SplitProgress::Rows(columns, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(start: i64, stop: i64, step: i64, inclusive: bool) -> Vec<i64> {
        let series = Series::new(start, stop, step, inclusive).unwrap();
        (0..series.count).map(|position| series.at(position)).collect()
    }

    #[test]
    fn the_end_belongs_to_generate_series_alone() {
        assert_eq!(numbers(1, 5, 2, true), [1, 3, 5]);
        assert_eq!(numbers(1, 5, 2, false), [1, 3]);
        assert_eq!(numbers(1, 6, 2, false), [1, 3, 5]);
        assert_eq!(numbers(3, 1, -1, true), [3, 2, 1]);
        assert_eq!(numbers(3, 1, -1, false), [3, 2]);
        assert_eq!(numbers(1, 0, 1, true), [0i64; 0]);
        assert_eq!(numbers(1, 1, 1, false), [0i64; 0]);
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(numbers(i64::MAX - 1, i64::MAX, 1, true), [i64::MAX - 1, i64::MAX]);
        assert_eq!(numbers(i64::MIN, i64::MAX, i64::MAX, true).len(), 3);
        assert!(Series::new(i64::MIN, i64::MAX, 1, true).is_err());
        assert!(Series::new(1, 2, 0, true).is_err());
    }

    #[test]
    fn splits_cover_the_series() {
        for count in [0, 1, SPLIT_ROWS_MIN, SPLIT_ROWS_MIN + 1, 1 << 40] {
            let format =
                SeriesFormat { series: Series { start: 0, step: 1, count }, batch_rows: 7 };
            let splits = format.splits();
            assert!(splits.len() as u64 <= SPLITS_MAX);
            assert_eq!(splits.iter().map(|(_, rows)| rows).sum::<u64>(), count);
        }
    }
}
