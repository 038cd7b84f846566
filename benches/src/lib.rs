//! Data for the benchmarks in `benches/`: run them with `cargo bench -p thalweg-benches`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::error::ArrowError;

/// Rows in a batch.
const BATCH_ROWS: usize = 8192;

/// A table of `rows` rows: `k` with `keys` values in no order, `v` counting up, and `s`, a short text of `k`.
///
/// # Errors
/// Those of Arrow for columns that do not fit together, which these do.
pub fn table(rows: usize, keys: u64) -> Result<Vec<RecordBatch>, ArrowError> {
    (0..rows)
        .step_by(BATCH_ROWS)
        .map(|start| {
            let range = start..rows.min(start + BATCH_ROWS);
            // A multiplicative hash spreads the row numbers over the keys.
            let key = |row: usize| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
            let k: ArrayRef =
                Arc::new(Int64Array::from_iter_values(range.clone().map(|r| key(r) as i64)));
            let v: ArrayRef =
                Arc::new(Int64Array::from_iter_values(range.clone().map(|r| r as i64)));
            let s: ArrayRef = Arc::new(StringViewArray::from_iter_values(
                range.map(|r| format!("text of {}", key(r))),
            ));
            RecordBatch::try_from_iter([("k", k), ("v", v), ("s", s)])
        })
        .collect()
}
