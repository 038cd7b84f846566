//! `count`, `sum` and `avg` over frames.
//!
//! Counts and exact sums are differences of running totals, whatever the frame. Sums of floats are not, since a
//! difference would lose digits and an infinity would never go away: growing frames add up row by row, sliding
//! ones ask a tree of partial sums. Growing frames may go on from sums of rows that are not there any more.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use super::carried::Before;
use super::frame::Frames;
use crate::aggregates::SumResult;
use crate::error::{Error, Result};
use crate::operators::sort::ordinal::ordinals;

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    Count,
    Total,
    Avg,
}

impl Sum {
    /// The aggregate of a registered name over arguments of these types, if it is computed here.
    pub fn of(name: &str, args: &[DataType], result: &DataType) -> Option<Self> {
        match (name, args) {
            ("count", _) => Some(Sum::Count),
            ("sum", [arg]) if summed_exactly(arg) || arg == result && is_double(arg) => {
                Some(Sum::Total)
            }
            ("avg" | "mean", [arg]) if summed_exactly(arg) || is_double(arg) => Some(Sum::Avg),
            _ => None,
        }
    }

    /// The values of all rows. `expands` says that every frame begins with its partition.
    pub fn evaluate(
        self,
        frames: &Frames,
        args: &[ArrayRef],
        filter: Option<&BooleanArray>,
        expands: bool,
        result: &DataType,
    ) -> Result<ArrayRef> {
        let scale = args.first().map_or(0, |arg| scale(arg.data_type()));
        self.results(self.sums(frames, args, filter, expands, None)?, scale, result)
    }

    /// The sums of all frames. With the sums `before` the partitions of a chunk, which frames then begin with, they
    /// are those of all rows.
    pub fn sums(
        self,
        frames: &Frames,
        args: &[ArrayRef],
        filter: Option<&BooleanArray>,
        expands: bool,
        before: Option<Before<'_, Sums>>,
    ) -> Result<Sums> {
        let rows = args.first().map_or_else(|| frames.rows(), |arg| arg.len());
        let valid = included(args, filter, rows);
        let counts = running_counts(valid.clone(), rows);
        let count = |at: usize, frame: &Range<usize>| {
            counts[frame.end] - counts[frame.start]
                + before.map_or(0, |before| before.known.count(before.partitions[at]))
        };
        let numbered = || frames.ranges().enumerate();
        if self == Sum::Count {
            return Ok(Sums::Counts(numbered().map(|(at, f)| count(at, &f)).collect()));
        }
        let arg = args.first().ok_or_else(|| Error::Internal("a sum of nothing".into()))?;
        if let Some(values) = ordinals(arg).filter(|_| summed_exactly(arg.data_type())) {
            let totals = running_totals(&values, valid);
            let sums = numbered().map(|(at, f)| {
                let sum = totals[f.end].wrapping_sub(totals[f.start]);
                let known = before.map_or(0, |before| before.known.exact(before.partitions[at]));
                (known.wrapping_add(sum), count(at, &f))
            });
            return Ok(Sums::Exact(sums.collect()));
        }
        let values = doubles(arg, valid)?;
        let known =
            |at: usize| before.map_or(0.0, |before| before.known.double(before.partitions[at]));
        let sums = match expands {
            true => growing_sums(&values, frames, known),
            false => sliding_sums(&values, frames),
        };
        let sums = sums.into_iter().zip(numbered()).map(|(sum, (at, f))| (sum, count(at, &f)));
        Ok(Sums::Doubles(sums.collect()))
    }

    /// What is wanted of sums of arguments with `scale` digits behind the point.
    pub fn results(self, sums: Sums, scale: i8, result: &DataType) -> Result<ArrayRef> {
        match (sums, self) {
            (Sums::Counts(counts), _) => Ok(Arc::new(Int64Array::from(counts))),
            (Sums::Exact(sums), Sum::Avg) => i128::averages(sums.into_iter(), scale, result),
            (Sums::Exact(sums), Sum::Total | Sum::Count) => i128::sums(sums.into_iter(), result),
            (Sums::Doubles(sums), Sum::Avg) => f64::averages(sums.into_iter(), 0, result),
            (Sums::Doubles(sums), Sum::Total | Sum::Count) => f64::sums(sums.into_iter(), result),
        }
    }

    /// Whether sums of arguments of these types are doubles.
    pub fn is_of_doubles(self, args: &[DataType]) -> bool {
        self != Sum::Count && args.first().is_some_and(|arg| !summed_exactly(arg))
    }
}

/// Sums with the number of values in each.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sums {
    /// The numbers alone.
    Counts(Vec<i64>),
    /// Of whole numbers, modulo 2^128.
    Exact(Vec<(i128, i64)>),
    /// Of doubles.
    Doubles(Vec<(f64, i64)>),
}

impl Sums {
    fn count(&self, at: usize) -> i64 {
        match self {
            Sums::Counts(counts) => counts[at],
            Sums::Exact(sums) => sums[at].1,
            Sums::Doubles(sums) => sums[at].1,
        }
    }

    fn exact(&self, at: usize) -> i128 {
        match self {
            Sums::Exact(sums) => sums[at].0,
            Sums::Counts(_) | Sums::Doubles(_) => 0,
        }
    }

    fn double(&self, at: usize) -> f64 {
        match self {
            Sums::Doubles(sums) => sums[at].0,
            Sums::Counts(_) | Sums::Exact(_) => 0.0,
        }
    }
}

fn is_double(data_type: &DataType) -> bool {
    data_type == &DataType::Float64
}

/// Types whose sums are whole numbers.
fn summed_exactly(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Decimal32(_, _) | DataType::Decimal64(_, _) | DataType::Decimal128(_, _)
        )
}

/// Digits behind the point of a type's values.
pub(super) fn scale(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => *s,
        _ => 0,
    }
}

/// The rows that count: no argument is NULL and the filter is true. None means all of them.
pub(super) fn included(
    args: &[ArrayRef],
    filter: Option<&BooleanArray>,
    rows: usize,
) -> Option<BooleanBuffer> {
    let nulls = args
        .iter()
        .fold(None, |all, arg| NullBuffer::union(all.as_ref(), arg.logical_nulls().as_ref()))
        .filter(|nulls| nulls.null_count() > 0)
        .map(NullBuffer::into_inner);
    let kept = filter.map(|mask| match mask.nulls() {
        Some(nulls) => mask.values() & nulls.inner(),
        None => mask.values().clone(),
    });
    debug_assert!(kept.as_ref().is_none_or(|k| k.len() == rows), "a filter of the chunk's length");
    match (nulls, kept) {
        (Some(a), Some(b)) => Some(&a & &b),
        (a, b) => a.or(b),
    }
}

/// How many rows count before each row, and in all at the end.
fn running_counts(included: Option<BooleanBuffer>, rows: usize) -> Vec<i64> {
    match included {
        None => (0..=rows as i64).collect(),
        Some(included) => {
            let mut counts = Vec::with_capacity(rows + 1);
            let mut count = 0;
            counts.push(0);
            counts.extend(included.iter().map(|counted| {
                count += i64::from(counted);
                count
            }));
            counts
        }
    }
}

/// The sum of the values before each row, and of all at the end, modulo 2^128.
fn running_totals(values: &[i128], included: Option<BooleanBuffer>) -> Vec<i128> {
    let mut totals = Vec::with_capacity(values.len() + 1);
    let mut total = 0_i128;
    totals.push(0);
    let mut add = |value: i128| {
        total = total.wrapping_add(value);
        total
    };
    match included {
        None => totals.extend(values.iter().map(|&v| add(v))),
        Some(included) => totals.extend(
            values
                .iter()
                .zip(included.iter())
                .map(|(&v, counted)| add(if counted { v } else { 0 })),
        ),
    }
    totals
}

/// The values as doubles, 0 where they do not count.
fn doubles(arg: &ArrayRef, included: Option<BooleanBuffer>) -> Result<Vec<f64>> {
    let arg = cast(arg, &DataType::Float64)?;
    let values = arg.as_primitive::<Float64Type>().values();
    Ok(match included {
        None => values.to_vec(),
        Some(included) => values
            .iter()
            .zip(included.iter())
            .map(|(&v, counted)| if counted { v } else { 0.0 })
            .collect(),
    })
}

/// Sums of frames that begin with their partition, each row added once; to what is known at the partition's first frame.
fn growing_sums(values: &[f64], frames: &Frames, known: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut under_way = (usize::MAX, 0, 0.0);
    frames
        .ranges()
        .enumerate()
        .map(|(at, frame)| {
            let (begin, mut end, mut sum) = under_way;
            if begin != frame.start {
                (end, sum) = (frame.start, known(at));
            }
            sum = values[end.min(frame.end)..frame.end].iter().fold(sum, |sum, v| sum + v);
            under_way = (frame.start, end.max(frame.end), sum);
            sum
        })
        .collect()
}

/// Frames of up to so many rows are added up directly.
const DIRECT_ROWS: usize = 32;

fn sliding_sums(values: &[f64], frames: &Frames) -> Vec<f64> {
    let mut tree: Option<SumTree> = None;
    frames
        .ranges()
        .map(|frame| {
            if frame.len() <= DIRECT_ROWS {
                return values[frame].iter().sum();
            }
            tree.get_or_insert_with(|| SumTree::new(values)).sum(frame)
        })
        .collect()
}

/// Partial sums of 1, 2, 4, … neighbouring values.
struct SumTree {
    levels: Vec<Vec<f64>>,
}

impl SumTree {
    fn new(values: &[f64]) -> Self {
        let mut levels = vec![values.to_vec()];
        while let Some(last) = levels.last().filter(|last| last.len() > 1) {
            let next = last.chunks(2).map(|pair| pair.iter().sum()).collect();
            levels.push(next);
        }
        SumTree { levels }
    }

    /// The sum of a range, in O(log n).
    fn sum(&self, range: Range<usize>) -> f64 {
        let (mut begin, mut end, mut sum) = (range.start, range.end, 0.0);
        for level in &self.levels {
            if begin >= end {
                break;
            }
            if begin % 2 == 1 {
                sum += level[begin];
                begin += 1;
            }
            if end % 2 == 1 {
                end -= 1;
                sum += level[end];
            }
            (begin, end) = (begin / 2, end / 2);
        }
        sum
    }
}
