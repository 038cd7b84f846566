//! Triggers: by event time, by the number of rows, by how far a value has moved, and by rows that end windows.
//!
//! Invariant: a trigger by rows finds the same firings however the rows are cut into batches.

use arrow::array::{Array, AsArray};
use arrow::datatypes::Float64Type;

use super::{After, Firing, NewRows, TimeWindow, Trigger};

/// Fires once, when a window is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTimeTrigger;

impl Trigger for EventTimeTrigger {
    fn on_rows(&self, _: TimeWindow, _: NewRows<'_>, _: &mut Vec<i64>) -> Option<Firing> {
        None
    }

    fn wakes_at(&self, window: TimeWindow, _: &[i64]) -> Option<i64> {
        (window != TimeWindow::GLOBAL).then_some(window.end)
    }

    fn on_time(&self, window: TimeWindow, time: i64, _: &mut Vec<i64>) -> Option<After> {
        (window.end <= time).then_some(After::Purge)
    }

    fn on_end(&self, _: TimeWindow, _: &[i64]) -> bool {
        true
    }

    fn is_timely(&self) -> bool {
        true
    }
}

/// Fires with each so many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountTrigger {
    rows: usize,
    after: After,
    partial: bool,
}

impl CountTrigger {
    /// Fires with each so many rows, at least 1, and keeps them. Rows that are too few when the input ends do not leave.
    pub fn new(rows: usize) -> Self {
        CountTrigger { rows: rows.max(1), after: After::Keep, partial: false }
    }

    /// The same, but rows that have left are forgotten.
    pub fn purging(mut self) -> Self {
        self.after = After::Purge;
        self
    }

    /// The same, but when the input ends what came since the last firing leaves too.
    pub fn with_partial(mut self) -> Self {
        self.partial = true;
        self
    }
}

impl Trigger for CountTrigger {
    fn on_rows(&self, _: TimeWindow, rows: NewRows<'_>, memory: &mut Vec<i64>) -> Option<Firing> {
        memory.resize(1, 0);
        let counted = usize::try_from(memory[0]).unwrap_or_default();
        let wanted = self.rows - counted.min(self.rows - 1);
        if rows.times.len() < wanted {
            memory[0] += rows.times.len() as i64;
            return None;
        }
        memory[0] = 0;
        let end = rows.times[wanted - 1].saturating_add(1);
        Some(Firing { rows: rows.held + wanted, after: self.after, end })
    }

    fn wakes_at(&self, _: TimeWindow, _: &[i64]) -> Option<i64> {
        None
    }

    fn on_time(&self, _: TimeWindow, _: i64, _: &mut Vec<i64>) -> Option<After> {
        None
    }

    fn on_end(&self, _: TimeWindow, memory: &[i64]) -> bool {
        self.partial && memory.first().is_some_and(|counted| *counted > 0)
    }

    fn is_timely(&self) -> bool {
        true
    }
}

/// Fires when a value is further than a threshold from that of the window's first row. The row that has it begins the
/// next window. The value is the first argument, a double; rows without a value stay in the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeltaTrigger {
    threshold: f64,
}

impl DeltaTrigger {
    /// Fires when a value has moved by more than this.
    pub fn new(threshold: f64) -> Self {
        DeltaTrigger { threshold }
    }
}

impl Trigger for DeltaTrigger {
    fn on_rows(&self, _: TimeWindow, rows: NewRows<'_>, memory: &mut Vec<i64>) -> Option<Firing> {
        let values = rows.arguments.first()?.as_primitive_opt::<Float64Type>()?;
        for (row, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let Some(first) = memory.first() else {
                memory.push(value.to_bits() as i64);
                continue;
            };
            let moved = (value - f64::from_bits(*first as u64)).abs();
            if moved > self.threshold && rows.held + row > 0 {
                let (rows, end) = (rows.held + row, rows.times[row]);
                return Some(Firing { rows, after: After::Purge, end });
            }
        }
        None
    }

    fn wakes_at(&self, _: TimeWindow, _: &[i64]) -> Option<i64> {
        None
    }

    fn on_time(&self, _: TimeWindow, _: i64, _: &mut Vec<i64>) -> Option<After> {
        None
    }

    fn on_end(&self, _: TimeWindow, _: &[i64]) -> bool {
        true
    }

    fn is_timely(&self) -> bool {
        true
    }
}

/// Fires at each row for which a condition holds; that row is the last of its window. The condition is the first
/// argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PunctuationTrigger {
    begins: bool,
}

impl PunctuationTrigger {
    /// The row for which the condition holds ends a window.
    pub fn ending() -> Self {
        PunctuationTrigger { begins: false }
    }

    /// The row for which the condition holds begins a window.
    pub fn beginning() -> Self {
        PunctuationTrigger { begins: true }
    }
}

impl Trigger for PunctuationTrigger {
    fn on_rows(&self, _: TimeWindow, rows: NewRows<'_>, _: &mut Vec<i64>) -> Option<Firing> {
        let holds = rows.arguments.first()?.as_boolean_opt()?;
        let held = rows.held;
        let ends = |row: usize| holds.is_valid(row) && holds.value(row);
        let firing = |rows, end| Some(Firing { rows, after: After::Purge, end });
        match self.begins {
            false => {
                let row = (0..holds.len()).find(|&row| ends(row))?;
                firing(held + row + 1, rows.times[row].saturating_add(1))
            }
            true => {
                let row = (0..holds.len()).find(|&row| held + row > 0 && ends(row))?;
                firing(held + row, rows.times[row])
            }
        }
    }

    fn wakes_at(&self, _: TimeWindow, _: &[i64]) -> Option<i64> {
        None
    }

    fn on_time(&self, _: TimeWindow, _: i64, _: &mut Vec<i64>) -> Option<After> {
        None
    }

    fn on_end(&self, _: TimeWindow, _: &[i64]) -> bool {
        true
    }

    fn is_timely(&self) -> bool {
        true
    }
}
