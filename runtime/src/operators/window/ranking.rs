//! Ranking functions: they depend on a row's place in its partition alone, never on a frame.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use super::pieces::Chunk;
use crate::error::{Error, Result};

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ranking {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
}

impl Ranking {
    /// The function of a registered name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "row_number" | "number_at_once" => Ranking::RowNumber,
            "rank" => Ranking::Rank,
            "dense_rank" => Ranking::DenseRank,
            "percent_rank" => Ranking::PercentRank,
            "cume_dist" => Ranking::CumeDist,
            "ntile" => Ranking::Ntile,
            _ => return None,
        })
    }

    /// The values of all rows.
    pub fn evaluate(self, chunk: &Chunk, args: &[ArrayRef]) -> Result<ArrayRef> {
        Ok(match self {
            Ranking::RowNumber => {
                let numbers = chunk.partition_ranges().flat_map(|p| 1..=p.len() as u64);
                Arc::new(UInt64Array::from_iter_values(numbers))
            }
            Ranking::Rank => {
                integers(chunk, |partition, peers, _| (peers.start - partition.start + 1) as u64)
            }
            Ranking::DenseRank => integers(chunk, |_, _, group| group as u64 + 1),
            Ranking::PercentRank => fractions(chunk, |partition, peers| {
                let others = partition.len() - 1;
                if others == 0 {
                    0.0
                } else {
                    (peers.start - partition.start) as f64 / others as f64
                }
            }),
            Ranking::CumeDist => fractions(chunk, |partition, peers| {
                (peers.end - partition.start) as f64 / partition.len() as f64
            }),
            Ranking::Ntile => ntile(chunk, args)?,
        })
    }
}

/// Calls `f` with the partition, the peer group and the group's number in its partition.
fn for_each_group(chunk: &Chunk, mut f: impl FnMut(&Range<usize>, &Range<usize>, usize)) {
    let mut groups = chunk.peer_ranges();
    for partition in chunk.partition_ranges() {
        for (number, group) in groups.by_ref().enumerate() {
            f(&partition, &group, number);
            if group.end == partition.end {
                break;
            }
        }
    }
}

fn integers(chunk: &Chunk, value: impl Fn(&Range<usize>, &Range<usize>, usize) -> u64) -> ArrayRef {
    let mut values = Vec::with_capacity(chunk.rows);
    for_each_group(chunk, |partition, peers, group| {
        values.resize(peers.end, value(partition, peers, group));
    });
    Arc::new(UInt64Array::from(values))
}

fn fractions(chunk: &Chunk, value: impl Fn(&Range<usize>, &Range<usize>) -> f64) -> ArrayRef {
    let mut values = Vec::with_capacity(chunk.rows);
    for_each_group(chunk, |partition, peers, _| values.resize(peers.end, value(partition, peers)));
    Arc::new(Float64Array::from(values))
}

/// Buckets of nearly equal size, the larger ones first; the number of buckets is that of the partition's first row.
fn ntile(chunk: &Chunk, args: &[ArrayRef]) -> Result<ArrayRef> {
    let buckets = args.first().ok_or_else(|| Error::user("ntile needs the number of buckets"))?;
    let buckets = cast(buckets, &DataType::Int64)?;
    let buckets = buckets.as_primitive::<Int64Type>();
    let mut values = Vec::with_capacity(chunk.rows);
    for partition in chunk.partition_ranges() {
        if buckets.is_null(partition.start) {
            return Err(Error::user("ntile needs a number of buckets that is not NULL"));
        }
        let n = usize::try_from(buckets.value(partition.start)).unwrap_or(0);
        if n == 0 {
            return Err(Error::user("ntile needs a number of buckets above 0"));
        }
        let (small, larger) = (partition.len() / n, partition.len() % n);
        let in_larger = larger * (small + 1);
        values.extend((0..partition.len()).map(|i| {
            let bucket = if i < in_larger {
                i / (small + 1)
            } else {
                larger + (i - in_larger) / small.max(1)
            };
            bucket as u64 + 1
        }));
    }
    Ok(Arc::new(UInt64Array::from(values)))
}
