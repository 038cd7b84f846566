//! When rows that window functions are computed over are complete before the input ends, by event time.
//!
//! Whole partitions are where one of their keys has a bound. Single rows are where the window's order begins with a time
//! that has one, and the functions see rows before and a known stretch after. Sessions are when their last time is
//! further than the gap behind.

use std::cmp::Reverse;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::expr::NullTreatment;
use datafusion_expr::{Expr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use thalweg_planner::{opened_lists, shifted};

use super::bounds::Bounds;
use super::{contains, size};
use crate::physical::{ColumnId, ColumnTable, WindowCall};
use crate::properties::SortKey;

/// When rows of a window are complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// What is complete together.
    pub unit: CompletionUnit,
    /// The column whose time completes it.
    pub time: ColumnId,
    /// What no later time is below, over the watermark.
    pub bound: Expr,
    /// The column that stands for the watermark in the bound.
    pub watermark: ColumnId,
    /// Where results are told before they are complete: how far the watermark is past a partition when it is forgotten,
    /// in microseconds.
    pub early_us: Option<i64>,
}

impl Completion {
    /// Whether rows may be withdrawn that are not complete.
    pub(super) fn takes_changes(&self) -> bool {
        match self.unit {
            CompletionUnit::Partition | CompletionUnit::Row(_) => true,
            CompletionUnit::Session { .. } => false,
        }
    }
}

/// What is complete together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionUnit {
    /// A partition: the time is one of its keys.
    Partition,
    /// A row: the time is the first key of the window's order.
    Row(Reach),
    /// A session: rows by time, none of them further than the gap from the one before.
    Session {
        /// In units of the time.
        gap: i64,
    },
}

/// Which rows around a row its results depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// How many rows before it; none means all of them.
    pub rows_before: Option<usize>,
    /// How far back in time, in units of the time.
    pub time_before: i64,
    /// How many rows after it.
    pub rows_after: usize,
    /// How far ahead in time, in units of the time.
    pub time_after: i64,
    /// Whether rows of a partition are numbered.
    pub numbers: bool,
    /// Whether rows depend on all before them through one state of these.
    pub running: bool,
}

impl Reach {
    const NOTHING: Reach = Reach {
        rows_before: Some(0),
        time_before: 0,
        rows_after: 0,
        time_after: 0,
        numbers: false,
        running: false,
    };

    fn and(self, other: Self) -> Self {
        Reach {
            rows_before: self.rows_before.zip(other.rows_before).map(|(a, b)| a.max(b)),
            time_before: self.time_before.max(other.time_before),
            rows_after: self.rows_after.max(other.rows_after),
            time_after: self.time_after.max(other.time_after),
            numbers: self.numbers || other.numbers,
            running: self.running || other.running,
        }
    }
}

/// When the rows of a window are complete; `None` if no watermark completes them. Rows that others must follow, which may
/// never come, are waited for only if the query says so: `patient`.
pub(super) fn of_window(
    (partition_by, order_by): (&[ColumnId], &[SortKey]),
    functions: &[WindowCall],
    patient: bool,
    bounds: &Bounds,
    columns: &ColumnTable,
) -> Option<Completion> {
    if functions.iter().any(|call| call.function.name() == NUMBER_AT_ONCE) {
        return None;
    }
    let by = |time: ColumnId, unit| {
        let (bound, watermark) = bounds.of_expr(&time.expr(), columns)?;
        Some(Completion { unit, time, bound, watermark, early_us: None })
    };
    let ordered = order_by.first().filter(|key| !key.descending && !key.nulls_first);
    if let Some(gap) = session_gap(functions) {
        return by(ordered?.column, CompletionUnit::Session { gap });
    }
    let bounded = partition_by.iter().filter_map(|key| by(*key, CompletionUnit::Partition));
    let size_of = |completion: &Completion| {
        (opened_lists(&completion.bound), Reverse(size(&completion.bound)))
    };
    if let Some(completion) = bounded.max_by_key(size_of) {
        return Some(completion);
    }
    let time = ordered?.column;
    let data_type = &columns.get(time).data_type;
    let reach = functions
        .iter()
        .map(|call| reach_of(call, data_type))
        .try_fold(Reach::NOTHING, |all, one| Some(all.and(one?)))?;
    if reach.rows_after > 0 && !patient {
        return None;
    }
    by(time, CompletionUnit::Row(reach))
}

/// When rows of a stream are complete that no function is computed over: by the first column that has a bound.
pub(super) fn of_rows(
    output: &[ColumnId],
    bounds: &Bounds,
    columns: &ColumnTable,
) -> Option<Completion> {
    output.iter().find_map(|&time| {
        let (bound, watermark) = bounds.of_expr(&time.expr(), columns)?;
        let unit = CompletionUnit::Row(Reach::NOTHING);
        Some(Completion { unit, time, bound, watermark, early_us: None })
    })
}

/// The bounds that are left where rows leave when they are complete.
pub(super) fn keep_bounds(
    completion: &Completion,
    input: &[ColumnId],
    functions: &[WindowCall],
    bounds: &mut Bounds,
) {
    // Rows of a session, and those that wait for others after them, leave when their own times are long past.
    let in_time = match completion.unit {
        CompletionUnit::Partition => true,
        CompletionUnit::Row(reach) => reach.rows_after == 0 && reach.time_after == 0,
        CompletionUnit::Session { .. } => false,
    };
    for column in input {
        let implied = bounds.of(*column).is_some_and(|bound| contains(bound, &completion.bound));
        if !in_time || !implied {
            bounds.forget([*column]);
        }
    }
    if let CompletionUnit::Session { gap } = completion.unit {
        for call in functions.iter().filter(|call| call.function.name() == SESSION_LAST) {
            bounds.set(call.output, shifted(completion.bound.clone(), -gap));
        }
    }
}

const NUMBER_AT_ONCE: &str = "number_at_once";
const SESSION_FIRST: &str = "session_first";
const SESSION_LAST: &str = "session_last";

/// The gap of functions that give the edges of sessions, and no others.
fn session_gap(functions: &[WindowCall]) -> Option<i64> {
    let mut gaps = functions.iter().map(|call| {
        let edge = [SESSION_FIRST, SESSION_LAST].contains(&call.function.name());
        whole(call.args.get(1).filter(|_| edge)?)
    });
    let gap = gaps.next()??;
    gaps.all(|other| other == Some(gap)).then_some(gap)
}

/// What one function looks at, where the window's order begins with a time of the type; `None` if it may look at any row
/// after its own.
fn reach_of(call: &WindowCall, time: &DataType) -> Option<Reach> {
    let nothing = Reach::NOTHING;
    match call.function.name() {
        "row_number" | "rank" | "dense_rank" => return Some(Reach { numbers: true, ..nothing }),
        "percent_rank" | "cume_dist" | "ntile" | SESSION_FIRST | SESSION_LAST => return None,
        name @ ("lag" | "lead") => {
            let offset = call.args.get(1).map_or(Some(1), whole)?;
            let back = if name == "lag" { offset } else { offset.checked_neg()? };
            let rows = usize::try_from(back.unsigned_abs()).ok()?;
            let skips_nulls = call.null_treatment == Some(NullTreatment::IgnoreNulls);
            return match (back >= 0, skips_nulls) {
                (true, true) => Some(Reach { rows_before: None, ..nothing }),
                (true, false) => Some(Reach { rows_before: Some(rows), ..nothing }),
                (false, true) => None,
                (false, false) => Some(Reach { rows_after: rows, ..nothing }),
            };
        }
        _ => {}
    }
    let before = match begins_with_partition(&call.frame) {
        true if runs(call) => behind(&call.frame, time)?,
        true => Reach { rows_before: None, ..nothing },
        false => before(&call.frame, time)?,
    };
    Some(before.and(after(&call.frame, time)?))
}

fn begins_with_partition(frame: &WindowFrame) -> bool {
    matches!(&frame.start_bound, WindowFrameBound::Preceding(offset) if offset.is_null())
}

/// Whether one state of the rows before is all that a function with growing frames needs.
fn runs(call: &WindowCall) -> bool {
    call.function.name() != "nth_value" || call.args.get(1).is_none_or(|n| whole(n).is_some())
}

/// What a function looks at that has one state of the rows before: those that are not in the frame yet.
fn behind(frame: &WindowFrame, time: &DataType) -> Option<Reach> {
    let running = Reach { running: true, ..Reach::NOTHING };
    Some(match (&frame.end_bound, frame.units) {
        (WindowFrameBound::Preceding(offset), _) if offset.is_null() => return None,
        (WindowFrameBound::Preceding(offset), WindowFrameUnits::Rows) => {
            Reach { rows_before: Some(count(offset)?), ..running }
        }
        (WindowFrameBound::Preceding(offset), WindowFrameUnits::Range) => {
            Reach { time_before: units(offset, time)?, ..running }
        }
        (WindowFrameBound::Preceding(_), WindowFrameUnits::Groups) => {
            Reach { rows_before: None, ..Reach::NOTHING }
        }
        (WindowFrameBound::CurrentRow | WindowFrameBound::Following(_), _) => running,
    })
}

/// What the first row of a frame asks for.
fn before(frame: &WindowFrame, time: &DataType) -> Option<Reach> {
    let nothing = Reach::NOTHING;
    match &frame.start_bound {
        WindowFrameBound::Preceding(offset) => Some(match frame.units {
            WindowFrameUnits::Rows => Reach { rows_before: Some(count(offset)?), ..nothing },
            WindowFrameUnits::Range => Reach { time_before: units(offset, time)?, ..nothing },
            WindowFrameUnits::Groups => Reach { rows_before: None, ..nothing },
        }),
        WindowFrameBound::CurrentRow => Some(nothing),
        WindowFrameBound::Following(offset) if offset.is_null() => None,
        WindowFrameBound::Following(_) => Some(nothing),
    }
}

/// What the last row of a frame asks for.
fn after(frame: &WindowFrame, time: &DataType) -> Option<Reach> {
    let nothing = Reach::NOTHING;
    match &frame.end_bound {
        WindowFrameBound::Preceding(_) | WindowFrameBound::CurrentRow => Some(nothing),
        WindowFrameBound::Following(offset) if offset.is_null() => None,
        WindowFrameBound::Following(offset) => match frame.units {
            WindowFrameUnits::Rows => Some(Reach { rows_after: count(offset)?, ..nothing }),
            WindowFrameUnits::Range => Some(Reach { time_after: units(offset, time)?, ..nothing }),
            WindowFrameUnits::Groups => None,
        },
    }
}

fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(value, _) => whole_value(value),
        _ => None,
    }
}

fn whole_value(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int8(Some(n)) => Some(i64::from(*n)),
        ScalarValue::Int16(Some(n)) => Some(i64::from(*n)),
        ScalarValue::Int32(Some(n)) => Some(i64::from(*n)),
        ScalarValue::Int64(Some(n)) => Some(*n),
        ScalarValue::UInt32(Some(n)) => Some(i64::from(*n)),
        ScalarValue::UInt64(Some(n)) => i64::try_from(*n).ok(),
        _ => None,
    }
}

fn count(value: &ScalarValue) -> Option<usize> {
    usize::try_from(whole_value(value)?).ok()
}

/// A distance in units of a time, not shorter than it can be: months have up to 31 days, and where clocks are turned
/// days are longer.
fn units(offset: &ScalarValue, time: &DataType) -> Option<i64> {
    let ScalarValue::IntervalMonthDayNano(Some(length)) = offset else {
        return whole_value(offset);
    };
    let (nanos, zoned) = match time {
        DataType::Timestamp(TimeUnit::Second, zone) => (1_000_000_000, zone.is_some()),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => (1_000_000, zone.is_some()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => (1_000, zone.is_some()),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => (1, zone.is_some()),
        DataType::Date32 => (DAY_NANOS, false),
        _ => return None,
    };
    let days = i128::from(length.months) * 31 + i128::from(length.days);
    let turned = i128::from(zoned && days != 0);
    let total = (days + turned) * i128::from(DAY_NANOS) + i128::from(length.nanoseconds);
    let units = (total.max(0) + i128::from(nanos) - 1) / i128::from(nanos);
    i64::try_from(units).ok()
}

const DAY_NANOS: i64 = 86_400_000_000_000;
