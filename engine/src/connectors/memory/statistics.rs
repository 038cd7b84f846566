//! What is known of the rows of a table in memory: counts, sizes, least and greatest values. Nothing is sampled.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{SortOptions, sort_to_indices};
use arrow::datatypes::SchemaRef;
use datafusion_common::ScalarValue;
use thalweg_optimizer::physical::Provenance;
use thalweg_optimizer::{ColumnStatistics, TableStatistics};

/// Tables of more rows get no least and greatest values.
const BOUNDS_ROWS_MAX: usize = 2_000_000;

/// The statistics of all rows.
pub(super) fn measure(schema: &SchemaRef, batches: &[RecordBatch]) -> TableStatistics {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let columns: Vec<ColumnStatistics> = (0..schema.fields().len())
        .map(|i| {
            let parts: Vec<&ArrayRef> = batches.iter().map(|b| b.column(i)).collect();
            let nulls: usize = parts.iter().map(|p| p.logical_null_count()).sum();
            let bytes: usize =
                parts.iter().map(|p| p.to_data().get_slice_memory_size().unwrap_or(0)).sum();
            let bounded = rows <= BOUNDS_ROWS_MAX && !schema.field(i).data_type().is_nested();
            ColumnStatistics {
                null_count: Some(nulls as f64),
                min: bounded.then(|| extreme(&parts, false)).flatten(),
                max: bounded.then(|| extreme(&parts, true)).flatten(),
                distinct: None,
                avg_width: (rows > 0).then(|| bytes as f64 / rows as f64),
            }
        })
        .collect();
    let bytes = columns.iter().map(|c| c.avg_width.unwrap_or(0.0) * rows as f64).sum();
    TableStatistics {
        rows: Some(rows as f64),
        provenance: Provenance::Exact,
        bytes: Some(bytes),
        columns,
    }
}

/// The least or greatest value.
fn extreme(parts: &[&ArrayRef], greatest: bool) -> Option<ScalarValue> {
    let options = SortOptions { descending: greatest, nulls_first: false };
    let mut best: Option<ScalarValue> = None;
    for part in parts.iter().filter(|p| !p.is_empty()) {
        let first = sort_to_indices(part, Some(options), Some(1)).ok()?;
        let value = ScalarValue::try_from_array(part, first.value(0) as usize).ok()?;
        let better = best.as_ref().is_none_or(|b| if greatest { value > *b } else { value < *b });
        if !value.is_null() && better {
            best = Some(value);
        }
    }
    best
}
