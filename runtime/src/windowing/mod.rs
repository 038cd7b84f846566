//! Windows as three parts that one may write oneself: an assigner says which windows rows are in, a trigger when a
//! window's rows leave, and an evictor which of them.
//!
//! All three are asked about batches and keep nothing themselves: what a trigger remembers of a window is handed to it,
//! so that it outlives a process with the operator's state. Times are numbers in the unit of the time column's type.
//! Invariant: an assigner and an evictor answer the same for the same times.

mod assigners;
mod evictors;
mod triggers;

use std::collections::HashMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;

pub use self::assigners::{EachValue, GlobalWindows, SlidingWindows};
pub use self::evictors::{KeepLastInterval, KeepLastRows};
pub use self::triggers::{CountTrigger, DeltaTrigger, EventTimeTrigger, PunctuationTrigger};

/// A stretch of time that rows are in. Rows of one key and one window are a *pane*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeWindow {
    /// The first time in it.
    pub start: i64,
    /// The first time after it.
    pub end: i64,
}

impl TimeWindow {
    /// The window that all times are in. It is never complete.
    pub const GLOBAL: TimeWindow = TimeWindow { start: i64::MIN, end: i64::MAX };
}

/// Says which windows rows are in.
pub trait WindowAssigner: Debug + Send + Sync {
    /// Appends the windows of rows with these times: for each the row's position and the window, by ascending positions.
    /// A row may be in none, and is left out then.
    fn assign(&self, times: &[i64], out: &mut Vec<(usize, TimeWindow)>);
}

/// Rows that have come for a pane.
#[derive(Debug, Clone, Copy)]
pub struct NewRows<'a> {
    /// How many rows the pane has before them.
    pub held: usize,
    /// Their times, in their order.
    pub times: &'a [i64],
    /// For each argument of the windows a column of their values.
    pub arguments: &'a [ArrayRef],
}

/// What becomes of rows that have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// They stay in their pane, unless they are evicted, and leave again with its next firing.
    Keep,
    /// The pane forgets them, and the trigger what it knew.
    Purge,
}

/// That rows of a pane leave, before it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firing {
    /// How many, from the pane's first on; more than none.
    pub rows: usize,
    /// What becomes of them.
    pub after: After,
    /// The first time after them, which is the end of the window that is told where the window itself is without bounds.
    pub end: i64,
}

/// Says when the rows of a pane leave. It is asked by pane, with a few numbers of its own for each, none at first.
pub trait Trigger: Debug + Send + Sync {
    /// Rows have come: when the first of them, or the one before, makes the pane fire. It is asked again about the rows
    /// that do not leave.
    fn on_rows(
        &self,
        window: TimeWindow,
        rows: NewRows<'_>,
        memory: &mut Vec<i64>,
    ) -> Option<Firing>;

    /// The time at which it wants to be asked again, if any: once no row of an earlier time follows.
    fn wakes_at(&self, window: TimeWindow, memory: &[i64]) -> Option<i64>;

    /// No row before a time follows: whether the pane fires.
    fn on_time(&self, window: TimeWindow, time: i64, memory: &mut Vec<i64>) -> Option<After>;

    /// No row follows: whether what is in the pane leaves.
    fn on_end(&self, window: TimeWindow, memory: &[i64]) -> bool;

    /// Whether a pane never fires with an end that times have passed when it is asked: with the end of a row that has
    /// just come, or of its window as soon as that is complete. Groups by the ends of windows can then leave when a
    /// watermark passes them. It is an error if that is said and not so.
    fn is_timely(&self) -> bool;
}

/// Says which rows of a pane that fires leave. The others are forgotten.
pub trait Evictor: Debug + Send + Sync {
    /// The rows that leave, of rows with these times in their order.
    fn kept(&self, times: &[i64]) -> Range<usize>;

    /// Whether a row that is evicted now would be at any later time too, so that none need be kept for long.
    fn is_final(&self) -> bool;
}

/// The three parts of one kind of windows.
#[derive(Debug, Clone)]
pub struct Windowing {
    /// Which windows rows are in.
    pub assigner: Arc<dyn WindowAssigner>,
    /// When rows leave.
    pub trigger: Arc<dyn Trigger>,
    /// Which rows leave; all where there is none.
    pub evictor: Option<Arc<dyn Evictor>>,
}

impl Windowing {
    /// Windows whose rows all leave.
    pub fn new(assigner: impl WindowAssigner + 'static, trigger: impl Trigger + 'static) -> Self {
        Windowing { assigner: Arc::new(assigner), trigger: Arc::new(trigger), evictor: None }
    }

    /// The same with an evictor.
    pub fn evictor(mut self, evictor: impl Evictor + 'static) -> Self {
        self.evictor = Some(Arc::new(evictor));
        self
    }
}

/// Kinds of windows by the names that job graphs know them by.
pub type WindowingRegistry = HashMap<String, Windowing>;
