//! How windows lie on the times of a column: where they begin, and in which clock.
//!
//! Windows over points in time begin at local times of a zone. Where windows have one length at all times, and all
//! offsets of the zone differ by whole windows, that is arithmetic in UTC. All others are those of a calendar.

use arrow::array::timezone::Tz;
use datafusion_common::Result;
use datafusion_expr::Expr;

use super::arguments::Arguments;
use super::calendar_functions::{CalendarFunction, CalendarWindows};
use super::functions::TimeFunction;
use super::input::Input;
use super::lengths::Length;
use super::zones::alignment;
use crate::bind::carry;
use crate::error::PlannerError;

/// See the module.
pub(super) enum Grid {
    /// Lengths are numbers of units, and windows begin at an offset from 1970.
    Fixed { part: i64, size: i64, origin: i64 },
    /// By months or local times.
    Calendar(CalendarWindows),
}

impl Grid {
    /// The grid of windows that begin each `step` from an offset on, which is one of `part` and `size`.
    pub(super) fn new(
        input: &Input,
        arguments: &Arguments,
        step: Length,
        [part, size]: [Length; 2],
        offset: Length,
    ) -> Result<Self> {
        if let Some(zone) = &input.zone
            && zone.parse::<Tz>().is_err()
        {
            let hint = "write a name such as 'Europe/Berlin', or an offset such as '+02:00'";
            let error = PlannerError::invalid(format!("there is no time zone {zone}"))
                .with_hint(hint.to_string());
            return Err(carry(error.with_span(arguments.span)));
        }
        let fixed = [step, part, size, offset].map(Length::fixed);
        if let [Some(step), Some(part), Some(size), Some(offset)] = fixed {
            let shift = match &input.zone {
                None => Some(0),
                Some(zone) => alignment(zone, step, input.unit),
            };
            if let Some(shift) = shift {
                let origin = (shift % step).saturating_add(offset % step) % step;
                return Ok(Grid::Fixed { part, size, origin });
            }
        }
        Ok(Grid::Calendar(CalendarWindows { part, size, offset, zone: input.zone.clone() }))
    }

    /// The start of the window of a size, one after the other, that holds a row.
    pub(super) fn floor(&self, input: &Input) -> Expr {
        let time = input.time.clone();
        match self {
            Grid::Fixed { size, origin, .. } => {
                TimeFunction::Floor.call(vec![time], &[*size, *origin])
            }
            Grid::Calendar(windows) => {
                let windows = CalendarWindows { part: windows.size, ..windows.clone() };
                CalendarFunction::Floor.call(time, &windows)
            }
        }
    }

    /// A list of the starts of all windows of a size, one each part, that hold a row.
    pub(super) fn starts(&self, input: &Input) -> Expr {
        let time = input.time.clone();
        match self {
            Grid::Fixed { part, size, origin } => {
                TimeFunction::HopStarts.call(vec![time], &[*part, *size, *origin])
            }
            Grid::Calendar(windows) => CalendarFunction::Starts.call(time, windows),
        }
    }

    /// A list of the ends of all windows, one each part of a size, that hold a row.
    pub(super) fn ends(&self, input: &Input) -> Expr {
        let time = input.time.clone();
        match self {
            Grid::Fixed { part, size, origin } => {
                TimeFunction::CumulateEnds.call(vec![time], &[*part, *size, *origin])
            }
            Grid::Calendar(windows) => CalendarFunction::Ends.call(time, windows),
        }
    }

    /// Start, end and time of windows of a size, one each part, whose start is known.
    pub(super) fn of_start(&self, start: Expr) -> [Expr; 3] {
        match self {
            Grid::Fixed { size, .. } => {
                let end = TimeFunction::Shift.call(vec![start.clone()], &[*size]);
                let time = TimeFunction::Shift.call(vec![start.clone()], &[size - 1]);
                [start, end, time]
            }
            Grid::Calendar(windows) => {
                let end = CalendarFunction::End.call(start.clone(), windows);
                bounds(start, end)
            }
        }
    }
}

/// Start, end and time of windows whose start and end are known.
pub(super) fn bounds(start: Expr, end: Expr) -> [Expr; 3] {
    let time = TimeFunction::Shift.call(vec![end.clone()], &[-1]);
    [start, end, time]
}
