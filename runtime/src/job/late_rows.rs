//! Late rows: what operators dropped because everything it belongs to had left, kept for those who ask for it.
//!
//! A job that goes on keeps the newest of them within a number of bytes, and counts those that had to go. A job that is
//! run for its late rows keeps all of them until they are taken, within the memory budget. Invariant: a row that was
//! counted as late is kept here, was taken from here, or is counted as forgotten, unless the job keeps none at all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow_schema::DataType;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::error::Result;
use crate::graph::VertexId;
use crate::memory::{MemoryManager, Reservation};
use crate::operators::PortId;

/// Which late rows a job keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeepLate {
    /// None; they are counted all the same.
    #[default]
    Nothing,
    /// The newest, within so many bytes.
    Newest {
        /// Bytes that they may take together.
        bytes: usize,
    },
    /// All, until somebody takes them.
    All,
}

/// Rows of one input of an operator that were late together.
#[derive(Debug, Clone)]
pub struct LateBatch {
    /// The operator's vertex.
    pub vertex: VertexId,
    /// Its place in the vertex's chain.
    pub position: usize,
    /// The input that the rows came from.
    pub port: PortId,
    /// The watermark that the operator had seen when they came, in microseconds.
    pub watermark_us: Option<i64>,
    /// The rows, with the columns of that input.
    pub rows: Batch,
}

/// See the module.
#[derive(Debug)]
pub struct LateRows {
    keep: KeepLate,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    batches: VecDeque<(LateBatch, usize)>,
    bytes: usize,
    forgotten: u64,
    reservation: Reservation,
    reader: Option<Waker>,
}

impl LateRows {
    /// Nothing yet; what is kept is charged to the budget.
    pub fn new(keep: KeepLate, memory: &Arc<MemoryManager>) -> Self {
        let reservation = memory.reserve("late rows");
        let kept =
            Kept { batches: VecDeque::new(), bytes: 0, forgotten: 0, reservation, reader: None };
        LateRows { keep, kept: Mutex::new(kept) }
    }

    /// Whether late rows are kept at all.
    pub fn are_kept(&self) -> bool {
        self.keep != KeepLate::Nothing
    }

    /// Keeps rows.
    ///
    /// # Errors
    /// `ResourcesExhausted` where all are to be kept and the budget has no room for them.
    pub(crate) fn keep(&self, late: LateBatch) -> Result<()> {
        if !self.are_kept() || late.rows.num_rows() == 0 {
            return Ok(());
        }
        let late = LateBatch { rows: own_copy(late.rows)?, ..late };
        let bytes = late.rows.kept_bytes();
        let mut kept = self.kept.lock();
        match self.keep {
            KeepLate::Nothing => return Ok(()),
            KeepLate::All => kept.reservation.try_grow(bytes)?,
            KeepLate::Newest { bytes: most } => {
                while kept.bytes + bytes > most && kept.forget_oldest() {}
                while kept.reservation.try_grow(bytes).is_err() {
                    if !kept.forget_oldest() {
                        kept.forgotten += late.rows.num_rows() as u64;
                        return Ok(());
                    }
                }
            }
        }
        kept.bytes += bytes;
        kept.batches.push_back((late, bytes));
        let reader = kept.reader.take();
        drop(kept);
        reader.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Notes rows that were late and could not be kept.
    pub(crate) fn forget(&self, rows: u64) {
        if self.are_kept() && rows > 0 {
            self.kept.lock().forgotten += rows;
        }
    }

    /// The rows that are kept, oldest first, and how many there were beside them.
    pub fn now(&self) -> (Vec<LateBatch>, u64) {
        let kept = self.kept.lock();
        (kept.batches.iter().map(|(late, _)| late.clone()).collect(), kept.forgotten)
    }

    /// The next rows, which are no longer kept; registers the waker when there are none.
    pub fn take(&self, waker: &Waker) -> Option<LateBatch> {
        let mut kept = self.kept.lock();
        match kept.batches.pop_front() {
            Some((late, bytes)) => {
                kept.let_go(bytes);
                Some(late)
            }
            None => {
                kept.reader = Some(waker.clone());
                None
            }
        }
    }
}

impl Kept {
    fn let_go(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.reservation.shrink(bytes);
    }

    /// Whether there was anything to forget.
    fn forget_oldest(&mut self) -> bool {
        let Some((late, bytes)) = self.batches.pop_front() else { return false };
        self.let_go(bytes);
        self.forgotten += late.rows.num_rows() as u64;
        true
    }
}

/// Rows without the buffers of the batch that they were cut from.
fn own_copy(rows: Batch) -> Result<Batch> {
    let all: Arc<[u32]> = match rows.selection() {
        Some(selection) => selection.into(),
        None => (0..rows.num_rows() as u32).collect(),
    };
    let rows = rows.with_selection(all).compact()?;
    let columns = rows.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => column.clone(),
        }
    });
    Ok(rows.with_columns(columns.collect()))
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    fn late(first: i64, rows: usize) -> LateBatch {
        let values = Int64Array::from_iter_values((0..rows as i64).map(|row| first + row));
        LateBatch {
            vertex: VertexId(1),
            position: 0,
            port: PortId(0),
            watermark_us: Some(7),
            rows: Batch::new(vec![Arc::new(values)], rows),
        }
    }

    #[test]
    fn the_newest_stay_and_the_others_are_counted() {
        let memory = MemoryManager::unlimited();
        let rows = LateRows::new(KeepLate::Newest { bytes: 100 }, &memory);
        (0..5).for_each(|n| rows.keep(late(n * 10, 4)).unwrap());
        let (kept, forgotten) = rows.now();
        let all: usize = kept.iter().map(|late| late.rows.num_rows()).sum();
        assert_eq!(all as u64 + forgotten, 20, "none is lost unseen");
        assert!(all > 0 && forgotten > 0, "{all} {forgotten}");
        let last = kept.last().unwrap().rows.column(0).clone();
        assert_eq!(last.as_primitive::<arrow::datatypes::Int64Type>().value(0), 40);
        assert!(memory.used() <= 100, "{}", memory.used());
    }

    #[test]
    fn what_was_taken_is_kept_no_longer() {
        let memory = MemoryManager::unlimited();
        let rows = LateRows::new(KeepLate::All, &memory);
        rows.keep(late(1, 3)).unwrap();
        assert!(memory.used() > 0);
        assert_eq!(rows.take(Waker::noop()).map(|late| late.rows.num_rows()), Some(3));
        assert!(rows.take(Waker::noop()).is_none());
        assert_eq!((memory.used(), rows.now().1), (0, 0));
        let none = LateRows::new(KeepLate::Nothing, &memory);
        none.keep(late(1, 3)).unwrap();
        assert!(none.now().0.is_empty());
    }
}
