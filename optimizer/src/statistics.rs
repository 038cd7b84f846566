//! Where numbers about tables come from.
//!
//! Invariant: a missing number is `None`, never a guess; guessing is the matter of `cardinality`.

use arrow::record_batch::RecordBatch;
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, TableSource};

use crate::physical::Provenance;

/// Answers questions about tables. The engine implements it over footers, samples and memory tables.
pub trait StatisticsProvider {
    /// What is known of a table without reading it.
    fn table(&self, source: &dyn TableSource) -> TableStatistics;

    /// Up to `limit` rows of some columns (indices in the source's schema), drawn at random.
    fn sample(
        &self,
        _source: &dyn TableSource,
        _columns: &[usize],
        _limit: usize,
    ) -> Option<RecordBatch> {
        None
    }

    /// How many distinct values a column (an index in the source's schema) has, if that is cheap to find out. Asked only
    /// for columns that a query reads and whose [`ColumnStatistics::distinct`] is not told.
    fn distinct(&self, _source: &dyn TableSource, _column: usize) -> Option<f64> {
        None
    }

    /// The share of rows that pass the filters, measured on a sample and on bounds. The filters name the columns of the
    /// source by their names.
    fn selectivity(&self, _source: &dyn TableSource, _filters: &[Expr]) -> Option<MeasuredShare> {
        None
    }
}

/// What a sample and bounds tell of the filters of a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredShare {
    /// The share of rows (0 to 1) that pass the filters which were measured.
    pub share: f64,
    /// For each filter whether it was measured; the others are left to guessing.
    pub measured: Vec<bool>,
    /// Rows of the sample; 0 if the share follows from bounds alone.
    pub sample_rows: usize,
    /// Runs of neighbouring rows of the sample in which some row passed: the fewer, the more the share depends on luck.
    /// Infinite if it does not, because it follows from bounds or all rows were looked at.
    pub hits: f64,
}

/// What is known of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableStatistics {
    /// How many rows it has; `None` when unknown.
    pub rows: Option<f64>,
    /// Where the number of rows comes from.
    pub provenance: Provenance,
    /// Bytes of all columns in memory.
    pub bytes: Option<f64>,
    /// One entry per column of the source's schema; may be empty when nothing is known.
    pub columns: Vec<ColumnStatistics>,
}

impl TableStatistics {
    /// Nothing is known.
    pub fn unknown() -> Self {
        Self { rows: None, provenance: Provenance::Default, bytes: None, columns: Vec::new() }
    }
}

/// What is known of one column of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnStatistics {
    /// Rows in which it is NULL.
    pub null_count: Option<f64>,
    /// The least value.
    pub min: Option<ScalarValue>,
    /// The greatest value.
    pub max: Option<ScalarValue>,
    /// How many distinct values there are.
    pub distinct: Option<f64>,
    /// Bytes of a value.
    pub avg_width: Option<f64>,
}
