//! How the rows of a relation come, and when results leave.

use datafusion_common::JoinType;
use datafusion_expr::Expr;
use thalweg_planner::Emit;

use crate::physical::ColumnId;

/// How the rows of a relation come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flow {
    /// As a stream: what is known so far has to be told before the last row has come.
    pub live: bool,
    /// Without an end.
    pub endless: bool,
    /// Rows may be withdrawn that came before.
    pub changes: bool,
}

impl Flow {
    /// What becomes of two flows in one operator.
    pub fn and(self, other: Self) -> Self {
        Flow {
            live: self.live || other.live,
            endless: self.endless || other.endless,
            changes: self.changes || other.changes,
        }
    }
}

/// The key by which groups are complete before the input ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    /// The output column of the key.
    pub key: ColumnId,
    /// What no later value of the key is below, over the watermark.
    pub bound: Expr,
    /// The column that stands for the watermark in the bound: the event-time column of a table.
    pub watermark: ColumnId,
    /// Where values of the key are starts of slices of windows: how windows lie over them. Results are those of windows,
    /// whose starts are then the values of the output column.
    pub slices: Option<Slices>,
}

impl Emission {
    /// Whether results leave that are withdrawn later.
    pub(crate) fn withdraws(&self) -> bool {
        match self {
            Emission::Changes | Emission::PeriodicChanges { .. } | Emission::Fired(..) => true,
            Emission::AtEnd | Emission::Closed(_) => false,
        }
    }

    /// The key that closes groups, where nothing leaves of a group behind its closing.
    pub(crate) fn done_when_closed(&self) -> Option<&Closing> {
        match self {
            Emission::Fired(closing, emit) => (emit.allow_lateness_us == 0).then_some(closing),
            other => other.closing(),
        }
    }

    /// The key that closes groups, where each leaves once.
    pub(crate) fn closing(&self) -> Option<&Closing> {
        match self {
            Emission::Closed(closing) => Some(closing),
            Emission::AtEnd
            | Emission::Changes
            | Emission::PeriodicChanges { .. }
            | Emission::Fired(..) => None,
        }
    }
}

/// How windows that overlap lie over slices of time; lengths are in units of the type of the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slices {
    /// Slices in a window.
    pub count: u32,
    /// Slices from the start of a window to that of the next.
    pub step: u32,
    /// How long a slice is.
    pub length: i64,
    /// Where a slice begins that a window begins with.
    pub origin: i64,
    /// Whether windows begin together, one after each `count` slices, and end one slice after the other; values of the
    /// output column are their ends then.
    pub cumulative: bool,
}

/// When the results of groups leave.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Emission {
    /// When the input ends.
    #[default]
    AtEnd,
    /// When a key is behind the watermark; each result once.
    Closed(Closing),
    /// As changes of what left before.
    Changes,
    /// As the changes of each stretch of time.
    PeriodicChanges {
        /// Its length in microseconds.
        every_us: i64,
    },
    /// As changes, of groups that a key closes; the query says when.
    Fired(Closing, Emit),
}

/// When rows of one side of a join can match nothing more.
#[derive(Debug, Clone, PartialEq)]
pub struct Expiry {
    /// A time over the columns of the side.
    pub time: Expr,
    /// Rows whose time is below this, over the watermark, match no row of the other side that is still to come.
    pub bound: Expr,
    /// What no later time of the side itself is below, over the watermark; `None` if nothing is known.
    pub own: Option<Expr>,
    /// The column that stands for the watermark in the bounds.
    pub watermark: ColumnId,
}

/// Whether a join of two streams withdraws rows although its inputs do not: an outer row when its first partner comes,
/// an anti row likewise, a mark when it turns.
pub(crate) fn join_withdraws(join_type: JoinType) -> bool {
    match join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => false,
        JoinType::Left
        | JoinType::Right
        | JoinType::Full
        | JoinType::LeftAnti
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => true,
    }
}
