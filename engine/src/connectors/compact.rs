//! Batches that are kept for long hold the bytes of their own rows, not those of the batches that they were cut from.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{ByteViewType, DataType};
use thalweg_runtime::Result;

/// Buffers may be so many times larger than the rows before they are copied.
const SLACK_FACTOR: usize = 2;

/// Views up to this length hold their text themselves.
const INLINE_BYTES_MAX: u32 = 12;

/// The same rows; columns whose buffers are much larger than their rows are copied.
pub(crate) fn compacted(batch: RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(compacted_column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

/// Bytes that batches keep alive, each array's buffers counted for itself.
pub(crate) fn held_bytes(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::get_array_memory_size).sum()
}

fn compacted_column(column: &ArrayRef) -> Result<ArrayRef> {
    let own = match column.data_type() {
        DataType::Utf8View => return Ok(compacted_views(column.as_string_view())),
        DataType::BinaryView => return Ok(compacted_views(column.as_binary_view())),
        _ => column.to_data().get_slice_memory_size()?,
    };
    if column.get_array_memory_size() <= own.saturating_mul(SLACK_FACTOR) {
        return Ok(column.clone());
    }
    let all = UInt32Array::from_iter_values((0..column.len()).map(|row| row as u32));
    Ok(take(column, &all, None)?)
}

fn compacted_views<T: ByteViewType>(column: &GenericByteViewArray<T>) -> ArrayRef {
    // The low half of a view is its length.
    let lengths = column.views().iter().map(|view| *view as u32);
    let referred: usize = lengths.filter(|&l| l > INLINE_BYTES_MAX).map(|l| l as usize).sum();
    let own = referred + column.len() * size_of::<u128>();
    if column.get_array_memory_size() <= own.saturating_mul(SLACK_FACTOR) {
        Arc::new(column.clone())
    } else {
        Arc::new(column.gc())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn slices_let_go_of_what_they_were_cut_from() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(
            (0..100_000).map(|i| format!("a text longer than a view {i}")),
        ));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("s", texts)]).unwrap();
        let cut = batch.slice(500, 1000);
        assert!(held_bytes(std::slice::from_ref(&cut)) > 1 << 20);
        let own = compacted(cut.clone()).unwrap();
        assert_eq!(own, cut);
        assert!(held_bytes(&[own]) < 200_000);
        assert_eq!(held_bytes(&[compacted(batch.clone()).unwrap()]), held_bytes(&[batch]));
    }
}
