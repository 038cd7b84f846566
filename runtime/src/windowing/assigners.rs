//! Assigners: one window for all rows, windows that overlap, and one window for each value.
//!
//! Invariant: windows of one size begin at whole slides from 0 and an offset, before 0 too.

use super::{TimeWindow, WindowAssigner};

/// All rows of a key are in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalWindows;

impl WindowAssigner for GlobalWindows {
    fn assign(&self, times: &[i64], out: &mut Vec<(usize, TimeWindow)>) {
        out.extend((0..times.len()).map(|row| (row, TimeWindow::GLOBAL)));
    }
}

/// Windows of one size, one beginning each slide; a slide as long as the size makes them follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindows {
    size: i64,
    slide: i64,
    offset: i64,
}

impl SlidingWindows {
    /// Windows of a size and slide, in units of the time column's type. Both are at least 1.
    pub fn new(size: i64, slide: i64) -> Self {
        SlidingWindows { size: size.max(1), slide: slide.max(1), offset: 0 }
    }

    /// The same, moved.
    pub fn offset(mut self, offset: i64) -> Self {
        self.offset = offset % self.slide;
        self
    }
}

impl WindowAssigner for SlidingWindows {
    fn assign(&self, times: &[i64], out: &mut Vec<(usize, TimeWindow)>) {
        for (row, &time) in times.iter().enumerate() {
            let into = (i128::from(time) - i128::from(self.offset)).rem_euclid(self.slide.into());
            let mut start = i128::from(time) - into;
            while start + i128::from(self.size) > i128::from(time) {
                let end = start + i128::from(self.size);
                // A window that reaches beyond the type's range is none.
                if let (Ok(start), Ok(end)) = (i64::try_from(start), i64::try_from(end)) {
                    out.push((row, TimeWindow { start, end }));
                }
                start -= i128::from(self.slide);
            }
        }
    }
}

/// Rows with one value are in one window, which is complete when no such value follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EachValue;

impl WindowAssigner for EachValue {
    fn assign(&self, times: &[i64], out: &mut Vec<(usize, TimeWindow)>) {
        let of = |time: i64| TimeWindow { start: time, end: time.saturating_add(1) };
        out.extend(times.iter().enumerate().map(|(row, &time)| (row, of(time))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_overlap_begin_each_slide() {
        let mut out = Vec::new();
        SlidingWindows::new(6, 2).assign(&[-1, 4], &mut out);
        let window = |row, start| (row, TimeWindow { start, end: start + 6 });
        let wanted = [(0, -2), (0, -4), (0, -6), (1, 4), (1, 2), (1, 0)];
        assert_eq!(out, wanted.map(|(row, start)| window(row, start)));
        out.clear();
        SlidingWindows::new(10, 10).offset(3).assign(&[2, i64::MAX], &mut out);
        assert_eq!(out, [(0, TimeWindow { start: -7, end: 3 })]);
    }
}
