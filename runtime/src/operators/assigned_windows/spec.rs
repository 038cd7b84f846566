//! What lowering says of windows that an assigner, a trigger and an evictor make: plain data.

use std::sync::Arc;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::job::JobContext;
use crate::operators::hash_aggregate::ClosingSpec;
use crate::windowing::{
    CountTrigger, DeltaTrigger, EachValue, EventTimeTrigger, GlobalWindows, KeepLastInterval,
    KeepLastRows, PunctuationTrigger, Windowing,
};

/// Which windows there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum WindowingSpec {
    /// Of a number of rows, one each so many.
    Count {
        /// Rows in a window at most.
        size: u64,
        /// Rows from the end of a window to that of the next.
        slide: u64,
    },
    /// Until the argument is further than this from its value in the first row.
    Delta {
        /// How far it may be.
        threshold: f64,
    },
    /// Until the argument is true.
    Punctuation {
        /// Whether the row for which it is true is the first of the next window, not the last of its own.
        begins: bool,
    },
    /// The last rows of each value of the time, once no such time follows.
    LastRows {
        /// How many.
        rows: u64,
    },
    /// The rows of the last stretch of each value of the time, once no such time follows.
    LastInterval {
        /// How long it is, in units of the row time.
        length: i64,
    },
    /// What is registered in the process under a name.
    Registered(String),
}

/// In which order rows go into their windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowOrder {
    /// By their times, and rows of one time by their ties: each waits until no earlier row can follow. Where
    /// nothing tells, until the end.
    Time,
    /// As they come; where they leave, rows of a window are in the order of their row times and ties.
    Arrival {
        /// Whether rows of a window leave in order, or as they came.
        sorted: bool,
    },
}

/// See the operator. Output columns: the input's, then, if wanted, start and end of the window, of the type of the time,
/// and the number of the firing of its pane, from 1 on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssignedWindowsSpec {
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// Rows of one value of these have windows of their own.
    pub keys: Vec<Expr>,
    /// The time by which rows are in windows: a timestamp, date or integer. Without, all are in one window of their key.
    pub time: Option<Expr>,
    /// The type of bounds of windows.
    pub time_type: DataType,
    /// The time by which rows of a window are in order, a timestamp.
    pub row_time: Expr,
    /// What no later time is below; its key means nothing. Without, nothing is complete before the end.
    pub closing: Option<ClosingSpec>,
    /// What triggers look at.
    pub arguments: Vec<Expr>,
    /// Which windows there are.
    pub windowing: WindowingSpec,
    /// In which order rows go into them.
    pub order: RowOrder,
    /// The columns that put rows of one time in order, the first one deciding first.
    pub ties: Vec<usize>,
    /// Whether the columns of windows are wanted.
    pub columns: bool,
}

impl WindowingSpec {
    /// The parts by name.
    pub(super) fn build(&self, job: &JobContext) -> Result<Windowing> {
        let rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let count = |size| CountTrigger::new(rows(size)).with_partial();
        Ok(match self {
            WindowingSpec::Count { size, slide } if size == slide => {
                Windowing::new(GlobalWindows, count(*size).purging())
            }
            WindowingSpec::Count { size, slide } => {
                Windowing::new(GlobalWindows, count(*slide)).evictor(KeepLastRows::new(rows(*size)))
            }
            WindowingSpec::Delta { threshold } => {
                Windowing::new(GlobalWindows, DeltaTrigger::new(*threshold))
            }
            WindowingSpec::Punctuation { begins } => {
                let trigger = match begins {
                    true => PunctuationTrigger::beginning(),
                    false => PunctuationTrigger::ending(),
                };
                Windowing::new(GlobalWindows, trigger)
            }
            WindowingSpec::LastRows { rows: last } => {
                Windowing::new(EachValue, EventTimeTrigger).evictor(KeepLastRows::new(rows(*last)))
            }
            WindowingSpec::LastInterval { length } => {
                Windowing::new(EachValue, EventTimeTrigger).evictor(KeepLastInterval::new(*length))
            }
            WindowingSpec::Registered(name) => job.windowing(name).cloned().ok_or_else(|| {
                Error::Unsupported(format!("windows \"{name}\", which this process does not know"))
            })?,
        })
    }
}

/// The parts, shared by the panes.
pub(super) type Parts = Arc<Windowing>;
