//! Frames: which rows of its partition each row's function sees.
//!
//! A frame is computed for all rows of a chunk at once, as a begin and an end for each row. Invariant: inside a
//! partition begins never decrease and neither do ends, so that functions can slide; an empty frame has its end at
//! its begin. Rows whose range key is NULL have their peers as the offset part of a RANGE frame.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, Scalar};
use arrow::compute::cast;
use arrow::compute::kernels::numeric::{add, sub};
use arrow::datatypes::{DataType, TimeUnit};
use arrow_schema::SortOptions;
use datafusion_common::ScalarValue;
use serde::{Deserialize, Serialize};

use super::pieces::Chunk;
use crate::error::{Error, Result};
use crate::expr::Literal;
use crate::operators::sort::ordinal::ordinals;
use crate::rows::canonical_key;

/// What offsets count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FrameUnits {
    /// Rows.
    Rows,
    /// Distances of the only sort key.
    Range,
    /// Groups of rows with equal sort keys.
    Groups,
}

/// One end of a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FrameBound {
    /// The partition's first row.
    UnboundedPreceding,
    /// So far before the current row.
    Preceding(Literal),
    /// The current row; for RANGE and GROUPS with its peers.
    CurrentRow,
    /// So far after the current row.
    Following(Literal),
    /// The partition's last row.
    UnboundedFollowing,
}

/// The rows that a function sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowFrameSpec {
    /// What offsets count.
    pub units: FrameUnits,
    /// The first row.
    pub start: FrameBound,
    /// The last row.
    pub end: FrameBound,
}

impl WindowFrameSpec {
    /// Whether every frame begins with its partition.
    pub fn expands(&self) -> bool {
        self.start == FrameBound::UnboundedPreceding
    }

    /// Whether a bound is a distance of the sort key, so that the key must be known.
    pub fn needs_range_key(&self) -> bool {
        let offset =
            |b: &FrameBound| matches!(b, FrameBound::Preceding(_) | FrameBound::Following(_));
        self.units == FrameUnits::Range && (offset(&self.start) || offset(&self.end))
    }
}

/// Frames over a chunk's rows: one for each row, or others that are wanted.
#[derive(Debug)]
pub(super) struct Frames {
    begins: Vec<usize>,
    ends: Vec<usize>,
    rows: usize,
}

impl Frames {
    /// Frames that are given, over a chunk of so many rows.
    pub fn of_ranges(ranges: impl Iterator<Item = Range<usize>>, rows: usize) -> Self {
        let (begins, ends) = ranges.map(|range| (range.start, range.end)).unzip();
        Frames { begins, ends, rows }
    }

    /// Number of rows of the chunk.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Where the frame of a row ends.
    pub fn end(&self, row: usize) -> usize {
        self.ends[row]
    }

    /// All frames, row by row.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.begins.iter().zip(&self.ends).map(|(&begin, &end)| begin..end)
    }

    /// The frames of all rows; `key` is the range key with its direction, where the frame needs it.
    pub fn new(
        spec: &WindowFrameSpec,
        chunk: &Chunk,
        key: Option<(&ArrayRef, SortOptions)>,
    ) -> Result<Self> {
        let begins = Bounds { spec, chunk, key }.of(&spec.start, Side::Begin)?;
        let mut ends = Bounds { spec, chunk, key }.of(&spec.end, Side::End)?;
        ends.iter_mut().zip(&begins).for_each(|(end, &begin)| *end = begin.max(*end));
        Ok(Frames { begins, ends, rows: chunk.rows })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Begin,
    End,
}

struct Bounds<'a> {
    spec: &'a WindowFrameSpec,
    chunk: &'a Chunk,
    key: Option<(&'a ArrayRef, SortOptions)>,
}

impl Bounds<'_> {
    fn of(&self, bound: &FrameBound, side: Side) -> Result<Vec<usize>> {
        Ok(match bound {
            FrameBound::UnboundedPreceding => self.per_partition(|p| p.start),
            FrameBound::UnboundedFollowing => self.per_partition(|p| p.end),
            FrameBound::CurrentRow => match self.spec.units {
                FrameUnits::Rows => self.rows(0, side),
                FrameUnits::Range | FrameUnits::Groups => self.groups(0, side),
            },
            FrameBound::Preceding(offset) => self.offset(&offset.0, true, side)?,
            FrameBound::Following(offset) => self.offset(&offset.0, false, side)?,
        })
    }

    fn per_partition(&self, edge: impl Fn(Range<usize>) -> usize) -> Vec<usize> {
        let mut bounds = Vec::with_capacity(self.chunk.rows);
        for partition in self.chunk.partition_ranges() {
            bounds.resize(partition.end, edge(partition.clone()));
        }
        bounds
    }

    fn offset(&self, offset: &ScalarValue, preceding: bool, side: Side) -> Result<Vec<usize>> {
        if offset.is_null() {
            let edge = |p: Range<usize>| if preceding { p.start } else { p.end };
            return Ok(self.per_partition(edge));
        }
        let signed = |n: isize| if preceding { n.saturating_neg() } else { n };
        match self.spec.units {
            FrameUnits::Rows => Ok(self.rows(signed(count(offset)?), side)),
            FrameUnits::Groups => Ok(self.groups(signed(count(offset)?), side)),
            FrameUnits::Range => self.range(offset, preceding, side),
        }
    }

    /// `distance` rows from each row, inside its partition.
    fn rows(&self, distance: isize, side: Side) -> Vec<usize> {
        let mut bounds = Vec::with_capacity(self.chunk.rows);
        for partition in self.chunk.partition_ranges() {
            for row in partition.clone() {
                let at = (row + usize::from(side == Side::End)).saturating_add_signed(distance);
                bounds.push(at.clamp(partition.start, partition.end));
            }
        }
        bounds
    }

    /// `distance` peer groups from each row's, inside its partition.
    fn groups(&self, distance: isize, side: Side) -> Vec<usize> {
        let peers = &self.chunk.peers;
        let mut bounds = Vec::with_capacity(self.chunk.rows);
        let mut first_group = 0;
        for partition in self.chunk.partition_ranges() {
            let mut group = first_group;
            while peers[group] < partition.end {
                let at = (group + usize::from(side == Side::End)).saturating_add_signed(distance);
                let at = peers.get(at).copied().unwrap_or(partition.end);
                bounds.resize(peers[group + 1], at.clamp(partition.start, partition.end));
                group += 1;
            }
            first_group = group;
        }
        bounds
    }

    /// The first row whose key is not before (for an end: is after) the current one moved by the offset.
    fn range(&self, offset: &ScalarValue, preceding: bool, side: Side) -> Result<Vec<usize>> {
        let (key, options) =
            self.key.ok_or_else(|| Error::Internal("a RANGE frame without its sort key".into()))?;
        let (keys, targets) = moved(key, offset, preceding != options.descending)?;
        let peers = self.groups(0, side);
        let nulls = key.logical_nulls();
        let is_null = |row: usize| nulls.as_ref().is_some_and(|n| n.is_null(row));
        // Whether a row of key `k` still lies before the bound of target `t`.
        let before = |k: i128, t: i128| match (side, options.descending) {
            (Side::Begin, false) => k < t,
            (Side::Begin, true) => k > t,
            (Side::End, false) => k <= t,
            (Side::End, true) => k >= t,
        };
        let mut bounds = Vec::with_capacity(self.chunk.rows);
        for partition in self.chunk.partition_ranges() {
            let valued = without_nulls(partition.clone(), &is_null);
            let mut at = valued.start;
            for row in partition {
                if is_null(row) {
                    bounds.push(peers[row]);
                    continue;
                }
                while at < valued.end && before(keys[at], targets[row]) {
                    at += 1;
                }
                bounds.push(at);
            }
        }
        Ok(bounds)
    }
}

/// The rows of a sorted partition whose key is not NULL: NULLs stand at one end.
fn without_nulls(partition: Range<usize>, is_null: &impl Fn(usize) -> bool) -> Range<usize> {
    let start = partition.clone().find(|&row| !is_null(row)).unwrap_or(partition.end);
    let end = (start..partition.end).find(|&row| is_null(row)).unwrap_or(partition.end);
    start..end
}

/// An offset in rows or groups.
fn count(offset: &ScalarValue) -> Result<isize> {
    let value = offset.cast_to(&DataType::Int64)?;
    match value {
        ScalarValue::Int64(Some(n)) if n >= 0 => Ok(isize::try_from(n).unwrap_or(isize::MAX)),
        _ => Err(Error::user("the offset of a window frame must not be negative")),
    }
}

/// The keys' ordinals, and those of the keys moved by the offset (down or up the values).
fn moved(key: &ArrayRef, offset: &ScalarValue, down: bool) -> Result<(Vec<i128>, Vec<i128>)> {
    let unsupported = || {
        Error::Unsupported(format!(
            "a RANGE frame with an offset of type {} over a sort key of type {}",
            offset.data_type(),
            key.data_type()
        ))
    };
    let of = |array: &ArrayRef| ordinals(array).ok_or_else(unsupported);
    let by_kernel = |key: &ArrayRef, offset: ArrayRef| -> Result<(Vec<i128>, Vec<i128>)> {
        let offset = Scalar::new(offset);
        let moved = if down { sub(key, &offset)? } else { add(key, &offset)? };
        Ok((of(key)?, of(&canonical_key(&moved)?)?))
    };
    match (key.data_type(), offset.data_type()) {
        (DataType::Float16 | DataType::Float32, _) => {
            moved(&cast(key, &DataType::Float64)?, offset, down)
        }
        (DataType::Float64, _) => {
            let offset = offset.cast_to(&DataType::Float64)?;
            if offset < ScalarValue::Float64(Some(0.0)) {
                return Err(negative());
            }
            by_kernel(key, offset.to_array()?)
        }
        (DataType::Date32 | DataType::Date64, DataType::Interval(_)) => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
            moved(&cast(key, &micros)?, offset, down)
        }
        (
            DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone),
            DataType::Interval(_),
        ) => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            moved(&cast(key, &micros)?, offset, down)
        }
        (DataType::Timestamp(_, _), DataType::Interval(_) | DataType::Duration(_)) => {
            by_kernel(key, offset.to_array()?)
        }
        (to, _) => {
            let offset = offset.cast_to(to).map_err(|_| unsupported())?.to_array()?;
            let offset = of(&offset)?.first().copied().ok_or_else(unsupported)?;
            if offset < 0 {
                return Err(negative());
            }
            let keys = of(key)?;
            let step = if down { -offset } else { offset };
            let targets = keys.iter().map(|k| k.saturating_add(step)).collect();
            Ok((keys, targets))
        }
    }
}

fn negative() -> Error {
    Error::user("the offset of a window frame must not be negative")
}
