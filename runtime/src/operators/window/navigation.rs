//! Navigation functions: each row's value is the argument's at some other row of its partition or frame.
//!
//! They compute the row to look at for all rows, then take all values with one kernel.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast, cast_with_options, concat, interleave, take};
use arrow::datatypes::{DataType, Int64Type};

use super::carried::Before;
use super::frame::Frames;
use super::pieces::Chunk;
use crate::error::{Error, Result};

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Navigation {
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
}

impl Navigation {
    /// The function of a registered name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "lag" => Navigation::Lag,
            "lead" => Navigation::Lead,
            "first_value" => Navigation::FirstValue,
            "last_value" => Navigation::LastValue,
            "nth_value" => Navigation::NthValue,
            _ => return None,
        })
    }

    /// Whether the function looks at the frame, not at the whole partition.
    pub fn uses_frame(self) -> bool {
        match self {
            Navigation::Lag | Navigation::Lead => false,
            Navigation::FirstValue | Navigation::LastValue | Navigation::NthValue => true,
        }
    }

    /// `lag` and `lead` over whole partitions.
    pub fn shift(self, chunk: &Chunk, args: &[ArrayRef], ignore_nulls: bool) -> Result<ArrayRef> {
        let values = first(args)?;
        let offsets = integers(args.get(1), 1, chunk.rows)?;
        let forward = self == Navigation::Lead;
        let step = |row: usize| {
            offsets.is_valid(row).then(|| {
                let offset = offsets.value(row);
                if forward { offset } else { offset.saturating_neg() }
            })
        };
        let valued = ignore_nulls.then(|| Valued::new(values));
        let mut found: Vec<Found> = Vec::with_capacity(chunk.rows);
        for partition in chunk.partition_ranges() {
            for row in partition.clone() {
                let at = match (step(row), &valued) {
                    (None, _) => {
                        found.push(Found::Null);
                        continue;
                    }
                    (Some(step), Some(valued)) if step != 0 => valued.moved(row, step),
                    (Some(step), _) => row.checked_add_signed(step as isize),
                };
                let inside = at.filter(|at| partition.contains(at));
                found.push(inside.map_or(Found::Default(row), Found::Row));
            }
        }
        fetch(values, args.get(2), &found)
    }

    /// `first_value`, `last_value` and `nth_value` of each frame. With what is known `before` the partitions of a chunk,
    /// which frames then begin with, they are those of all rows; the place of `nth_value` is the same for all then.
    pub fn in_frame(
        self,
        frames: &Frames,
        args: &[ArrayRef],
        ignore_nulls: bool,
        before: Option<Before<'_, Seen>>,
    ) -> Result<ArrayRef> {
        let values = first(args)?;
        let places = self.places(args)?;
        let valued = ignore_nulls.then(|| Valued::new(values));
        let place_of = |at: usize| match before {
            // One frame a partition is no row's.
            Some(_) => places.is_valid(0).then(|| places.value(0)),
            None => places.is_valid(at).then(|| places.value(at)),
        };
        let rows: UInt64Array = frames
            .ranges()
            .enumerate()
            .map(|(at, frame)| {
                let place = place_of(at)?;
                let known = before.map(|b| (b.known.counts[b.partitions[at]], b.partitions[at]));
                let (seen, partition) = known.unwrap_or((0, 0));
                let inside = valued.as_ref().map(|v| v.between(frame.start, frame.end));
                let len = inside.map_or(frame.len(), <[usize]>::len);
                let is_known = if place > 0 { place <= seen } else { len == 0 && seen > 0 };
                if is_known {
                    return Some((values.len() + partition) as u64);
                }
                let place = if place > 0 { place - seen } else { place };
                let row = nth(len, place)?;
                Some(inside.map_or(frame.start + row, |inside| inside[row]) as u64)
            })
            .collect();
        Ok(match before {
            Some(before) => {
                take(&concat(&[values.as_ref(), before.known.values.as_ref()])?, &rows, None)?
            }
            None => take(values, &rows, None)?,
        })
    }

    /// How many values count in each frame.
    pub fn counts(frames: &Frames, values: &ArrayRef, ignore_nulls: bool) -> Vec<i64> {
        let valued = ignore_nulls.then(|| Valued::new(values));
        let len = |frame: Range<usize>| match &valued {
            Some(valued) => valued.between(frame.start, frame.end).len() as i64,
            None => frame.len() as i64,
        };
        frames.ranges().map(len).collect()
    }

    /// Which value of a frame is wanted, from its last one where negative.
    fn places(self, args: &[ArrayRef]) -> Result<Int64Array> {
        let rows = first(args)?.len();
        match self {
            Navigation::LastValue => integers(None, -1, rows),
            Navigation::NthValue => positive(integers(args.get(1), 1, rows)?),
            Navigation::FirstValue | Navigation::Lag | Navigation::Lead => integers(None, 1, rows),
        }
    }
}

/// What is known of the values before the partitions of a chunk.
#[derive(Debug)]
pub(super) struct Seen {
    /// How many count, by partition.
    pub counts: Vec<i64>,
    /// The one that is wanted, by partition; of a first or n-th one once there are as many, else of no meaning.
    pub values: ArrayRef,
}

/// The position of the n-th of `len` things, from the end for negative n.
fn nth(len: usize, place: i64) -> Option<usize> {
    let distance = usize::try_from(place.unsigned_abs()).ok()?;
    if distance > len {
        return None;
    }
    Some(if place > 0 { distance - 1 } else { len - distance })
}

/// The places of `nth_value`, which count from 1.
fn positive(places: Int64Array) -> Result<Int64Array> {
    if places.iter().flatten().any(|place| place < 1) {
        return Err(Error::user("the second argument of nth_value must be greater than zero"));
    }
    Ok(places)
}

fn first(args: &[ArrayRef]) -> Result<&ArrayRef> {
    args.first().ok_or_else(|| Error::Internal("a window function without its argument".into()))
}

/// An integer argument, or a constant where it was left out.
fn integers(arg: Option<&ArrayRef>, otherwise: i64, rows: usize) -> Result<Int64Array> {
    match arg {
        Some(array) => Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone()),
        None => Ok(Int64Array::from_value(otherwise, rows)),
    }
}

/// Rows with a value, for IGNORE NULLS.
struct Valued {
    /// Rows with a value, ascending.
    rows: Vec<usize>,
    /// Number of rows with a value before each row, and of all at the end.
    before: Vec<usize>,
}

impl Valued {
    fn new(values: &ArrayRef) -> Self {
        let nulls = values.logical_nulls().unwrap_or_else(|| NullBuffer::new_valid(values.len()));
        let mut before = Vec::with_capacity(values.len() + 1);
        let mut rows = Vec::new();
        for (row, valid) in nulls.iter().enumerate() {
            before.push(rows.len());
            if valid {
                rows.push(row);
            }
        }
        before.push(rows.len());
        Valued { rows, before }
    }

    /// The rows with a value among `begin..end`.
    fn between(&self, begin: usize, end: usize) -> &[usize] {
        &self.rows[self.before[begin]..self.before[end]]
    }

    /// The row with a value that lies `step` such rows after (before, if negative) a row.
    fn moved(&self, row: usize, step: i64) -> Option<usize> {
        let step = isize::try_from(step).ok()?;
        let at = if step > 0 {
            self.before[row + 1].checked_add_signed(step - 1)
        } else {
            self.before[row].checked_add_signed(step)
        };
        self.rows.get(at?).copied()
    }
}

/// Where a shifted value comes from.
enum Found {
    Row(usize),
    /// The default of this row.
    Default(usize),
    Null,
}

fn fetch(values: &ArrayRef, defaults: Option<&ArrayRef>, found: &[Found]) -> Result<ArrayRef> {
    let Some(defaults) = defaults.filter(|d| d.null_count() < d.len()) else {
        let rows: UInt64Array = found
            .iter()
            .map(|f| match f {
                Found::Row(row) => Some(*row as u64),
                Found::Default(_) | Found::Null => None,
            })
            .collect();
        return Ok(take(values, &rows, None)?);
    };
    // A default that is no value of the type is an error, not NULL.
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let defaults = cast_with_options(defaults, values.data_type(), &strict)?;
    let null: ArrayRef = Arc::clone(&new_null_array(values.data_type(), 1));
    let places: Vec<(usize, usize)> = found
        .iter()
        .map(|f| match f {
            Found::Row(row) => (0, *row),
            Found::Default(row) => (1, *row),
            Found::Null => (2, 0),
        })
        .collect();
    Ok(interleave(&[values.as_ref(), defaults.as_ref(), null.as_ref()], &places)?)
}
