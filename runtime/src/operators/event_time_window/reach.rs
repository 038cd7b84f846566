//! Reach: how far from a row the functions of a window look.

use serde::{Deserialize, Serialize};

/// Which rows around a row, in the window's order, its results depend on. Rows of its own time are complete with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Reach {
    /// How many rows before it; none means all of them.
    pub rows_before: Option<usize>,
    /// How far back in time, in units of the time.
    pub time_before: i64,
    /// How many rows after it.
    pub rows_after: usize,
    /// How far ahead in time, in units of the time.
    pub time_after: i64,
}

impl Reach {
    /// Of functions that look at no other row.
    pub const NOTHING: Reach =
        Reach { rows_before: Some(0), time_before: 0, rows_after: 0, time_after: 0 };

    /// What two functions look at together.
    pub fn and(self, other: Self) -> Self {
        Reach {
            rows_before: self.rows_before.zip(other.rows_before).map(|(a, b)| a.max(b)),
            time_before: self.time_before.max(other.time_before),
            rows_after: self.rows_after.max(other.rows_after),
            time_after: self.time_after.max(other.time_after),
        }
    }
}
