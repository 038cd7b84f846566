//! `min` and `max` over frames: for each row the place of the extreme value, then one kernel for all values.
//!
//! Candidates stand in a queue whose values grow worse towards its front's opposite end, so that each row enters
//! and leaves once, however frames slide.

use std::cmp::Ordering;
use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;

use super::carried::Before;
use super::frame::Frames;
use super::sums::included;
use crate::error::Result;
use crate::operators::sort::ordinal::ordinals;
use crate::rows::{SortColumn, SortKeyEncoder, canonical_key};

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extreme {
    Min,
    Max,
}

impl Extreme {
    /// The aggregate of a registered name over arguments of these types, if it is computed here.
    pub fn of(name: &str, args: &[DataType], result: &DataType) -> Option<Self> {
        match (name, args) {
            ("min", [arg]) if arg == result => Some(Extreme::Min),
            ("max", [arg]) if arg == result => Some(Extreme::Max),
            _ => None,
        }
    }

    /// The values of all frames. With the extreme values `before` the partitions of a chunk, which frames then begin
    /// with, they are those of all rows.
    pub fn evaluate(
        self,
        frames: &Frames,
        values: &ArrayRef,
        filter: Option<&BooleanArray>,
        before: Option<Before<'_, ArrayRef>>,
    ) -> Result<ArrayRef> {
        let valid = included(std::slice::from_ref(values), filter, values.len());
        let counts = |row: usize| valid.as_ref().is_none_or(|v| v.value(row));
        let rows = values.len();
        let with_known = match before {
            Some(before) => &concat(&[values.as_ref(), before.known.as_ref()])?,
            None => values,
        };
        let values = with_known;
        let first = |at: usize| {
            let known = before.map(|before| (before.partitions[at], before.known));
            known.filter(|(partition, known)| known.is_valid(*partition)).map(|(at, _)| rows + at)
        };
        let wanted = match self {
            Extreme::Min => Ordering::Less,
            Extreme::Max => Ordering::Greater,
        };
        let keys = canonical_key(values)?;
        let rows = match ordinals(&keys) {
            Some(ordinals) => {
                let better = |a: usize, b: usize| ordinals[a].cmp(&ordinals[b]) == wanted;
                match before {
                    Some(_) => growing_extreme_rows(frames, first, counts, better),
                    None => extreme_rows(frames, counts, better),
                }
            }
            None => {
                let column = SortColumn {
                    data_type: keys.data_type().clone(),
                    descending: false,
                    // Also where NULL elements of nested values stand; whole NULLs are left out.
                    nulls_first: false,
                };
                let keys = SortKeyEncoder::new(&[column])?.encode(&[keys])?;
                let better = |a: usize, b: usize| keys.key(a).cmp(keys.key(b)) == wanted;
                match before {
                    Some(_) => growing_extreme_rows(frames, first, counts, better),
                    None => extreme_rows(frames, counts, better),
                }
            }
        };
        Ok(take(values, &rows, None)?)
    }
}

/// The row of the best value of each frame. `better(a, b)` says whether row `a` beats row `b`.
fn extreme_rows(
    frames: &Frames,
    counts: impl Fn(usize) -> bool,
    better: impl Fn(usize, usize) -> bool,
) -> UInt64Array {
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut seen = 0;
    frames
        .ranges()
        .map(|frame| {
            if seen < frame.start {
                // Rows between two frames are in neither.
                queue.clear();
                seen = frame.start;
            }
            for row in seen..frame.end {
                if counts(row) {
                    while queue.back().is_some_and(|&back| better(row, back)) {
                        queue.pop_back();
                    }
                    queue.push_back(row);
                }
            }
            seen = seen.max(frame.end);
            while queue.front().is_some_and(|&front| front < frame.start) {
                queue.pop_front();
            }
            // The queue may hold rows after an empty frame at its begin.
            queue.front().filter(|&&front| front < frame.end).map(|&front| front as u64)
        })
        .collect()
}

/// The row of the best value of each frame, where frames begin with their partition and go on from a `first` row that may
/// stand for those before it.
fn growing_extreme_rows(
    frames: &Frames,
    first: impl Fn(usize) -> Option<usize>,
    counts: impl Fn(usize) -> bool,
    better: impl Fn(usize, usize) -> bool,
) -> UInt64Array {
    let (mut begin, mut seen, mut best) = (usize::MAX, 0, None);
    frames
        .ranges()
        .enumerate()
        .map(|(at, frame)| {
            if begin != frame.start {
                (begin, seen, best) = (frame.start, frame.start, first(at));
            }
            for row in seen..frame.end {
                if counts(row) && best.is_none_or(|best| better(row, best)) {
                    best = Some(row);
                }
            }
            seen = seen.max(frame.end);
            best.map(|row| row as u64)
        })
        .collect()
}
