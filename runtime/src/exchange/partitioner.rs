//! Splitting a batch by the hash of its keys.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;

use super::buffer::OutputBuffer;
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::CompiledExpr;
use crate::rows::{Selected, hash_columns};

/// Seed of the hash that decides the subtask: another one than hash tables use, so that the rows of one
/// subtask still spread over its table.
const PARTITION_SEED: u64 = 0x5eed_7ab1_e0f5_17e5;

/// Decides the consumer of each row, and gathers rows for each until they make a batch.
pub struct HashPartitioner {
    keys: Vec<CompiledExpr>,
    gathered: Vec<OutputBuffer>,
    /// The rows of each consumer in the batch at hand.
    rows: Vec<Vec<u32>>,
    hashes: Vec<u64>,
}

impl HashPartitioner {
    /// Rows go to one of `consumers` by the hash of `keys`.
    pub fn new(keys: Vec<CompiledExpr>, consumers: usize, batch_rows: usize) -> Self {
        let gathered = (0..consumers).map(|_| OutputBuffer::new(batch_rows)).collect();
        HashPartitioner { keys, gathered, rows: vec![Vec::new(); consumers], hashes: Vec::new() }
    }

    /// Splits a batch; `ready` is called with what is worth sending.
    pub fn push(&mut self, batch: Batch, mut ready: impl FnMut(usize, Batch)) -> Result<()> {
        let batch = batch.compact()?;
        let consumers = self.gathered.len();
        if consumers == 1 {
            if let Some(full) = self.gathered[0].push(batch)? {
                ready(0, full);
            }
            return Ok(());
        }
        let keys: Vec<ArrayRef> =
            self.keys.iter().map(|k| k.evaluate(&batch)).collect::<Result<_>>()?;
        self.hashes.clear();
        hash_columns(&keys, Selected::All(batch.num_rows()), PARTITION_SEED, &mut self.hashes)?;
        for (row, hash) in self.hashes.iter().enumerate() {
            // The multiplication takes the high bits of the hash to a consumer without a division.
            let consumer = ((u128::from(*hash) * consumers as u128) >> 64) as usize;
            self.rows[consumer].push(row as u32);
        }
        for (consumer, rows) in self.rows.iter_mut().enumerate() {
            if rows.is_empty() {
                continue;
            }
            let room = rows.len();
            let part = select(&batch, std::mem::replace(rows, Vec::with_capacity(room)))?;
            if let Some(full) = self.gathered[consumer].push(part)? {
                ready(consumer, full);
            }
        }
        Ok(())
    }

    /// Whether rows wait for others to make a batch with.
    pub fn holds_rows(&self) -> bool {
        self.gathered.iter().any(OutputBuffer::holds_rows)
    }

    /// Hands out what is gathered.
    pub fn flush(&mut self, mut ready: impl FnMut(usize, Batch)) -> Result<()> {
        for (consumer, gathered) in self.gathered.iter_mut().enumerate() {
            if let Some(batch) = gathered.flush()? {
                ready(consumer, batch);
            }
        }
        Ok(())
    }
}

fn select(batch: &Batch, rows: Vec<u32>) -> Result<Batch> {
    let kinds = batch.kinds().map(|k| rows.iter().map(|&i| k[i as usize]).collect());
    let indices = UInt32Array::from(rows);
    let columns =
        batch.columns().iter().map(|c| take(c, &indices, None)).collect::<Result<Vec<_>, _>>()?;
    let mut part = Batch::new(columns, indices.len());
    part.ingest_time_us = batch.ingest_time_us;
    Ok(match kinds {
        Some(kinds) => part.with_kinds(kinds),
        None => part,
    })
}
