//! The unit of data between operators: Arrow columns of equal length.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use arrow::compute::{filter, take};
use arrow_schema::{DataType, SchemaRef};

use crate::element::RowKind;
use crate::error::Result;

/// Bytes that a batch may hold before an operator should cut it (about; one row may be larger).
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// Columns of `rows` rows, with an optional selection and an optional kind a row.
///
/// Without kinds all rows are inserts. With a selection only the rows it lists exist, in its order.
#[derive(Debug, Clone)]
pub struct Batch {
    columns: Vec<ArrayRef>,
    rows: usize,
    selection: Option<Arc<[u32]>>,
    kinds: Option<Arc<[RowKind]>>,
    /// When the oldest row came in from a source: microseconds of the environment's clock; 0 if unknown.
    pub ingest_time_us: i64,
}

impl Batch {
    /// A batch of `rows` rows; every column must have that length (a batch may have no column).
    pub fn new(columns: Vec<ArrayRef>, rows: usize) -> Self {
        debug_assert!(columns.iter().all(|c| c.len() == rows), "columns of one length");
        Batch { columns, rows, selection: None, kinds: None, ingest_time_us: 0 }
    }

    /// The batch with a selection: positions into the columns, each below their length.
    pub fn with_selection(mut self, selection: Arc<[u32]>) -> Self {
        debug_assert!(selection.iter().all(|&i| (i as usize) < self.rows));
        self.selection = Some(selection);
        self
    }

    /// The batch with one kind for each physical row.
    pub fn with_kinds(mut self, kinds: Arc<[RowKind]>) -> Self {
        debug_assert_eq!(kinds.len(), self.rows);
        self.kinds = Some(kinds);
        self
    }

    /// Rows that exist: the selection's length if there is one.
    pub fn num_rows(&self) -> usize {
        self.selection.as_ref().map_or(self.rows, |s| s.len())
    }

    /// Length of the columns, selected or not.
    pub fn physical_rows(&self) -> usize {
        self.rows
    }

    /// The columns, before the selection.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// One column, before the selection.
    pub fn column(&self, index: usize) -> &ArrayRef {
        &self.columns[index]
    }

    /// The selection, if there is one.
    pub fn selection(&self) -> Option<&[u32]> {
        self.selection.as_deref()
    }

    /// The kinds of the physical rows; none means that all are inserts.
    pub fn kinds(&self) -> Option<&[RowKind]> {
        self.kinds.as_deref()
    }

    /// The same rows without a selection.
    pub fn compact(self) -> Result<Batch> {
        let Some(selection) = self.selection else { return Ok(self) };
        let indices = UInt32Array::from_iter_values(selection.iter().copied());
        let columns =
            self.columns.iter().map(|c| take(c, &indices, None)).collect::<Result<Vec<_>, _>>()?;
        let kinds = self.kinds.map(|k| selection.iter().map(|&i| k[i as usize]).collect());
        Ok(Batch {
            columns,
            rows: selection.len(),
            selection: None,
            kinds,
            ingest_time_us: self.ingest_time_us,
        })
    }

    /// The rows for which `mask` is true (NULL counts as false); there must be no selection.
    pub fn filter(&self, mask: &BooleanArray) -> Result<Batch> {
        debug_assert!(self.selection.is_none());
        let columns =
            self.columns.iter().map(|c| filter(c, mask)).collect::<Result<Vec<_>, _>>()?;
        let rows = match columns.first() {
            Some(column) => column.len(),
            None => mask.iter().filter(|v| *v == Some(true)).count(),
        };
        let kinds = self.kinds.as_ref().map(|kinds| {
            kinds
                .iter()
                .zip(mask.iter())
                .filter(|(_, m)| *m == Some(true))
                .map(|(k, _)| *k)
                .collect()
        });
        Ok(Batch { columns, rows, selection: None, kinds, ingest_time_us: self.ingest_time_us })
    }

    /// Rows `offset .. offset + length` without copying; there must be no selection.
    pub fn slice(&self, offset: usize, length: usize) -> Batch {
        debug_assert!(self.selection.is_none());
        Batch {
            columns: self.columns.iter().map(|c| c.slice(offset, length)).collect(),
            rows: length,
            selection: None,
            kinds: self.kinds.as_ref().map(|k| k[offset..offset + length].into()),
            ingest_time_us: self.ingest_time_us,
        }
    }

    /// The same rows with other columns of the same length.
    pub fn with_columns(&self, columns: Vec<ArrayRef>) -> Batch {
        debug_assert!(columns.iter().all(|c| c.len() == self.rows), "columns of one length");
        Batch {
            columns,
            rows: self.rows,
            selection: self.selection.clone(),
            kinds: self.kinds.clone(),
            ingest_time_us: self.ingest_time_us,
        }
    }

    /// Bytes that the columns keep alive, buffers shared inside the batch counted once each array.
    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(|c| c.get_array_memory_size()).sum()
    }

    /// Bytes of the rows themselves, as a slice of larger buffers counts only its part. Strings outside of their views
    /// count as often as rows have them, but no more than the buffers they are in.
    pub fn data_bytes(&self) -> usize {
        self.bytes_with(&|rows, buffers| rows.min(buffers))
    }

    /// The same for rows that are kept: strings outside of their views count as the buffers that they keep alive.
    pub fn kept_bytes(&self) -> usize {
        self.bytes_with(&|_, buffers| buffers)
    }

    /// Bytes of the rows, where `strings` decides between the bytes that views point to and those of their buffers.
    fn bytes_with(&self, strings: &dyn Fn(usize, usize) -> usize) -> usize {
        let bytes = |column: &ArrayRef| {
            let data = column.to_data();
            match data.get_slice_memory_size() {
                Ok(fixed) => fixed + string_bytes(&data, strings),
                Err(_) => column.get_array_memory_size(),
            }
        };
        self.columns.iter().map(bytes).sum()
    }

    /// The batch as Arrow's own, for expressions, scans and sinks.
    pub fn to_record_batch(&self, schema: SchemaRef) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok(RecordBatch::try_new_with_options(schema, self.columns.clone(), &options)?)
    }
}

/// Bytes of a string that its view holds.
const INLINE_BYTES: usize = 12;

/// Bytes of strings outside of their views, at any depth of a column.
fn string_bytes(data: &ArrayData, strings: &dyn Fn(usize, usize) -> usize) -> usize {
    let own = match data.data_type() {
        DataType::Utf8View | DataType::BinaryView => {
            let buffers = data.buffers()[1..].iter().map(|buffer| buffer.capacity()).sum();
            strings(long_string_bytes(data), buffers)
        }
        _ => 0,
    };
    own + data.child_data().iter().map(|child| string_bytes(child, strings)).sum::<usize>()
}

/// Bytes of the strings of a view array that are longer than a view holds.
pub(crate) fn long_string_bytes(data: &ArrayData) -> usize {
    let views: &[u128] = data.buffer(0);
    let lengths = views[..data.len()].iter().map(|&view| view as u32 as usize);
    lengths.filter(|&length| length > INLINE_BYTES).sum()
}

impl From<RecordBatch> for Batch {
    fn from(batch: RecordBatch) -> Self {
        let rows = batch.num_rows();
        Batch::new(batch.columns().to_vec(), rows)
    }
}

/// Joins small batches until they are worth handing on. Batches must have no selection.
#[derive(Debug)]
pub struct Coalescer {
    pending: Vec<Batch>,
    rows: usize,
    rows_target: usize,
}

impl Coalescer {
    /// Hands on once half of `rows_target` rows are there.
    pub fn new(rows_target: usize) -> Self {
        Coalescer { pending: Vec::new(), rows: 0, rows_target }
    }

    /// Takes a batch; gives one back when enough rows are there. A large batch passes without a copy.
    pub fn push(&mut self, batch: Batch) -> Result<Option<Batch>> {
        if self.rows > 0 && self.rows + batch.num_rows() > self.rows_target {
            // Together they would exceed the target: what is there leaves, the new one stays.
            let ready = self.flush()?;
            self.keep(batch);
            return Ok(ready);
        }
        self.keep(batch);
        if self.rows * 2 >= self.rows_target || self.pending.len() >= PENDING_MAX {
            return self.flush();
        }
        Ok(None)
    }

    /// Takes a batch without handing on.
    pub fn keep(&mut self, batch: Batch) {
        if batch.num_rows() > 0 {
            self.rows += batch.num_rows();
            self.pending.push(batch);
        }
    }

    /// Everything that is there, if anything is.
    pub fn flush(&mut self) -> Result<Option<Batch>> {
        self.rows = 0;
        match self.pending.len() {
            0 => Ok(None),
            1 => Ok(self.pending.pop()),
            _ => concat(&std::mem::take(&mut self.pending)).map(Some),
        }
    }

    /// What is held, for a snapshot.
    pub fn pending(&self) -> &[Batch] {
        &self.pending
    }

    /// Lets go of everything.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.rows = 0;
    }
}

/// Batches held before they are joined however few their rows are.
const PENDING_MAX: usize = 256;

/// One batch with the rows of all, in order. They must agree in types and have no selection.
pub fn concat(batches: &[Batch]) -> Result<Batch> {
    let Some(first) = batches.first() else { return Ok(Batch::new(Vec::new(), 0)) };
    let rows = batches.iter().map(Batch::num_rows).sum();
    let columns = (0..first.columns.len())
        .map(|i| {
            let parts: Vec<&dyn Array> = batches.iter().map(|b| b.columns[i].as_ref()).collect();
            arrow::compute::concat(&parts)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let kinds = batches.iter().any(|b| b.kinds.is_some()).then(|| {
        batches
            .iter()
            .flat_map(|b| match &b.kinds {
                Some(kinds) => kinds.to_vec(),
                None => vec![RowKind::Insert; b.rows],
            })
            .collect()
    });
    let ingest_time_us = batches.iter().map(|b| b.ingest_time_us).min().unwrap_or(0);
    Ok(Batch { columns, rows, selection: None, kinds, ingest_time_us })
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringViewArray, StringViewBuilder, StructArray};
    use arrow_schema::{Field, Fields};

    use super::*;

    fn views(strings: usize) -> ArrayRef {
        Arc::new((0..strings).map(|i| Some(format!("{i:040}"))).collect::<StringViewArray>())
    }

    #[test]
    fn long_strings_are_bytes_of_their_rows() {
        let column = views(1_000);
        let batch = Batch::new(vec![column.clone()], 1_000);
        assert_eq!(batch.data_bytes(), 1_000 * (16 + 40));
        assert!(batch.kept_bytes() >= batch.data_bytes());
        let part = batch.slice(10, 5);
        assert_eq!(part.data_bytes(), 5 * (16 + 40), "a slice counts its own strings");
        assert!(part.kept_bytes() >= 40_000, "and keeps all of them alive");
        let fields = Fields::from(vec![Field::new("s", DataType::Utf8View, true)]);
        let nested: ArrayRef = Arc::new(StructArray::new(fields, vec![column], None));
        assert_eq!(Batch::new(vec![nested], 1_000).data_bytes(), 1_000 * (16 + 40));
    }

    #[test]
    fn strings_that_rows_share_are_held_once() {
        let mut builder = StringViewBuilder::new().with_deduplicate_strings();
        (0..1_000).for_each(|_| builder.append_value("the same long text in every row"));
        let batch = Batch::new(vec![Arc::new(builder.finish())], 1_000);
        let beside = batch.data_bytes() - 16 * 1_000;
        assert!(beside < 32 << 10, "the block of one string, not a thousand strings: {beside}");
    }
}
