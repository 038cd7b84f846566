//! Session functions: the first and the last time of a row's session.
//!
//! Rows of a partition are in one session while none is further than the gap from the one before. The window's order is
//! the time, ascending. They compute the row to look at, then take all values with one kernel.

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Int64Type};

use super::pieces::Chunk;
use crate::error::{Error, Result};
use crate::operators::time_bound::times;

/// Which end of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionEdge {
    First,
    Last,
}

impl SessionEdge {
    /// The function of a registered name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "session_first" => Some(SessionEdge::First),
            "session_last" => Some(SessionEdge::Last),
            _ => None,
        }
    }

    /// The time for each row; the arguments are the time and the gap in units of it.
    ///
    /// # Errors
    /// `User` for a row without a time: it is in no session.
    pub fn evaluate(self, chunk: &Chunk, args: &[ArrayRef]) -> Result<ArrayRef> {
        let [values, gap] = args else {
            return Err(Error::Internal("a session has a time and a gap".into()));
        };
        if values.null_count() > 0 {
            return Err(without_time());
        }
        let times = times(values)?;
        let times = times.values();
        let gap = cast(gap, &DataType::Int64)?;
        let gap = gap.as_primitive::<Int64Type>();
        let mut rows: Vec<u64> = Vec::with_capacity(chunk.rows);
        for partition in chunk.partition_ranges() {
            let mut first = partition.start;
            for row in partition.clone() {
                let goes_on = row + 1 < partition.end
                    && times[row + 1] <= times[row].saturating_add(gap.value(row));
                if !goes_on {
                    let edge = match self {
                        SessionEdge::First => first,
                        SessionEdge::Last => row,
                    };
                    rows.extend((first..=row).map(|_| edge as u64));
                    first = row + 1;
                }
            }
        }
        Ok(take(values, &UInt64Array::from(rows), None)?)
    }
}

/// The error for a row without a time.
pub(crate) fn without_time() -> Error {
    Error::user(
        "a row whose time is NULL is in no session; leave such rows out in a subquery: (SELECT … WHERE … IS NOT NULL)",
    )
}
