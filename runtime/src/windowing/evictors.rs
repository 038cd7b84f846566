//! Evictors: the last rows of a window, and those of its last stretch of time.

use std::ops::Range;

use super::Evictor;

/// The last rows leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepLastRows {
    rows: usize,
}

impl KeepLastRows {
    /// So many.
    pub fn new(rows: usize) -> Self {
        KeepLastRows { rows }
    }
}

impl Evictor for KeepLastRows {
    fn kept(&self, times: &[i64]) -> Range<usize> {
        times.len().saturating_sub(self.rows)..times.len()
    }

    fn is_final(&self) -> bool {
        true
    }
}

/// The rows leave that are less than an interval before the last one. Rows are in the order of their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepLastInterval {
    length: i64,
}

impl KeepLastInterval {
    /// In units of the time column's type.
    pub fn new(length: i64) -> Self {
        KeepLastInterval { length }
    }
}

impl Evictor for KeepLastInterval {
    fn kept(&self, times: &[i64]) -> Range<usize> {
        let last = times.iter().max().copied().unwrap_or_default();
        let after = last.saturating_sub(self.length);
        let first = times.iter().position(|time| *time > after).unwrap_or(times.len());
        first..times.len()
    }

    fn is_final(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rows_are_kept() {
        assert_eq!(KeepLastRows::new(2).kept(&[1, 2, 3]), 1..3);
        assert_eq!(KeepLastRows::new(5).kept(&[1, 2, 3]), 0..3);
        assert_eq!(KeepLastInterval::new(2).kept(&[1, 2, 3]), 1..3);
        assert_eq!(KeepLastInterval::new(2).kept(&[]), 0..0);
    }
}
