//! A buffer of an exchange: gathers the rows for one consumer until they are worth sending.
//!
//! It is full when it has half of the rows of a batch, or the bytes of one. A large batch passes without a copy; the rows
//! of small ones are copied once, when the buffer leaves. Order is kept. It knows no time: who owns it decides when an
//! incomplete buffer leaves.

use crate::batch::{BATCH_BYTES_MAX, Batch, Coalescer};
use crate::error::Result;

/// See the module.
#[derive(Debug)]
pub struct OutputBuffer {
    rows: Coalescer,
    /// Bytes of the rows that wait.
    bytes: usize,
}

impl OutputBuffer {
    /// An empty buffer for batches of up to `batch_rows` rows.
    pub fn new(batch_rows: usize) -> Self {
        OutputBuffer { rows: Coalescer::new(batch_rows), bytes: 0 }
    }

    /// Takes a batch without a selection; gives one back when the buffer is full.
    pub fn push(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let bytes = batch.data_bytes();
        self.bytes += bytes;
        let ready = self.rows.push(batch)?;
        if ready.is_some() {
            // What did not fit any more has stayed.
            self.bytes = if self.holds_rows() { bytes } else { 0 };
        } else if self.bytes >= BATCH_BYTES_MAX {
            return self.flush();
        }
        Ok(ready)
    }

    /// Whether rows wait.
    pub fn holds_rows(&self) -> bool {
        !self.rows.pending().is_empty()
    }

    /// The rows that wait, if any do.
    pub fn flush(&mut self) -> Result<Option<Batch>> {
        self.bytes = 0;
        self.rows.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;

    use super::*;

    fn texts(rows: usize, length: usize) -> Batch {
        let text = "x".repeat(length);
        let column = StringArray::from_iter_values(std::iter::repeat_n(&text, rows));
        Batch::new(vec![Arc::new(column)], rows)
    }

    #[test]
    fn a_buffer_is_full_by_rows_or_by_bytes() {
        let mut buffer = OutputBuffer::new(100);
        assert!(buffer.push(texts(30, 10)).unwrap().is_none());
        assert_eq!(buffer.push(texts(30, 10)).unwrap().map(|b| b.num_rows()), Some(60));
        assert!(!buffer.holds_rows());
        assert!(buffer.push(texts(1, BATCH_BYTES_MAX / 2)).unwrap().is_none());
        let wide = buffer.push(texts(1, BATCH_BYTES_MAX / 2)).unwrap();
        assert_eq!(wide.map(|b| b.num_rows()), Some(2));
        assert!(buffer.push(texts(1, 1)).unwrap().is_none(), "and is empty after that");
        assert_eq!(buffer.flush().unwrap().map(|b| b.num_rows()), Some(1));
    }
}
