//! Partitions and peers: where they begin in the sorted input, and chunks of whole partitions.
//!
//! Input batches become pieces with their boundaries; once a new partition begins, the pieces before it form a
//! chunk of one or more whole partitions. Rows are never copied: a chunk's batches are emitted with more columns.
//! Only what functions read is concatenated.

use arrow::array::{Array, ArrayRef};
use arrow::compute::{concat, partition};

use crate::batch::Batch;
use crate::error::Result;

/// A batch, what functions read of it, and where partitions and peer groups begin in it.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub batch: Batch,
    /// The evaluated arguments, filters and range keys.
    pub columns: Vec<ArrayRef>,
    /// Ascending rows of the piece; a partition's start is also a peer group's.
    partition_starts: Vec<usize>,
    peer_starts: Vec<usize>,
}

/// The keys of the row before a piece.
#[derive(Debug, Default)]
pub(super) struct LastRow {
    keys: Option<(Vec<ArrayRef>, Vec<ArrayRef>)>,
}

impl LastRow {
    /// Whether row 0 of the keys begins a partition, and whether it begins a peer group.
    fn seam(&self, partition_keys: &[ArrayRef], order_keys: &[ArrayRef]) -> Result<(bool, bool)> {
        let Some((last_partition, last_order)) = &self.keys else { return Ok((true, true)) };
        let new_partition = differs(last_partition, partition_keys)?;
        Ok((new_partition, new_partition || differs(last_order, order_keys)?))
    }
}

/// Whether the only row of `last` differs from the first of `next`.
fn differs(last: &[ArrayRef], next: &[ArrayRef]) -> Result<bool> {
    let pairs = last
        .iter()
        .zip(next)
        .map(|(last, next)| concat(&[last.as_ref(), next.slice(0, 1).as_ref()]))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(!pairs.is_empty() && partition(&pairs)?.len() > 1)
}

/// Rows other than the first where any key differs from the row before.
fn changes(keys: &[ArrayRef]) -> Result<Vec<usize>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    Ok(partition(keys)?.ranges().into_iter().skip(1).map(|range| range.start).collect())
}

/// The union of two ascending lists.
fn union(a: &[usize], b: &[usize]) -> Vec<usize> {
    let mut all: Vec<usize> = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Piece {
    /// A piece of a compact batch with at least one row; `last` moves on to its last row.
    pub fn new(
        batch: Batch,
        columns: Vec<ArrayRef>,
        partition_keys: Vec<ArrayRef>,
        order_keys: Vec<ArrayRef>,
        last: &mut LastRow,
    ) -> Result<Self> {
        let (new_partition, new_peers) = last.seam(&partition_keys, &order_keys)?;
        let mut partition_starts = changes(&partition_keys)?;
        let mut peer_starts = union(&partition_starts, &changes(&order_keys)?);
        if new_partition {
            partition_starts.insert(0, 0);
        }
        if new_peers {
            peer_starts.insert(0, 0);
        }
        let last_row = batch.num_rows() - 1;
        let of_last = |keys: &[ArrayRef]| keys.iter().map(|k| k.slice(last_row, 1)).collect();
        last.keys = Some((of_last(&partition_keys), of_last(&order_keys)));
        Ok(Piece { batch, columns, partition_starts, peer_starts })
    }

    /// Bytes that the piece holds.
    pub fn memory_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(|c| c.get_array_memory_size()).sum();
        let starts = self.partition_starts.len() + self.peer_starts.len();
        self.batch.data_bytes() + columns + starts * size_of::<usize>()
    }

    /// Where the last partition that begins in the piece begins.
    pub fn last_partition_start(&self) -> Option<usize> {
        self.partition_starts.last().copied()
    }

    /// The rows before `at`, and the others; `at` is a partition's start.
    pub fn split(self, at: usize) -> (Piece, Piece) {
        let rows = self.batch.num_rows();
        let part = |from: usize, to: usize| Piece {
            batch: self.batch.slice(from, to - from),
            columns: self.columns.iter().map(|c| c.slice(from, to - from)).collect(),
            partition_starts: shifted(&self.partition_starts, from, to),
            peer_starts: shifted(&self.peer_starts, from, to),
        };
        (part(0, at), part(at, rows))
    }
}

fn shifted(starts: &[usize], from: usize, to: usize) -> Vec<usize> {
    starts.iter().filter(|&&s| s >= from && s < to).map(|s| s - from).collect()
}

/// Whole partitions, as functions see them.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Rows of all partitions.
    pub rows: usize,
    /// Where each partition begins, and the number of rows at the end.
    pub partitions: Vec<usize>,
    /// Where each peer group begins, and the number of rows at the end.
    pub peers: Vec<usize>,
    /// What functions read.
    pub columns: Vec<ArrayRef>,
}

impl Chunk {
    /// The chunk of pieces that hold whole partitions; at least one piece.
    pub fn new(pieces: &[Piece]) -> Result<Self> {
        let (mut partitions, mut peers, mut rows) = (Vec::new(), Vec::new(), 0);
        for piece in pieces {
            partitions.extend(piece.partition_starts.iter().map(|s| s + rows));
            peers.extend(piece.peer_starts.iter().map(|s| s + rows));
            rows += piece.batch.num_rows();
        }
        partitions.push(rows);
        peers.push(rows);
        let columns = (0..pieces[0].columns.len())
            .map(|i| {
                let parts: Vec<&dyn Array> = pieces.iter().map(|p| p.columns[i].as_ref()).collect();
                if let [_] = parts.as_slice() {
                    return Ok(pieces[0].columns[i].clone());
                }
                concat(&parts)
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Chunk { rows, partitions, peers, columns })
    }

    /// The rows of each partition.
    pub fn partition_ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.partitions.windows(2).map(|w| w[0]..w[1])
    }

    /// The rows of each peer group.
    pub fn peer_ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.peers.windows(2).map(|w| w[0]..w[1])
    }
}
