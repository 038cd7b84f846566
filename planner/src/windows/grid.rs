//! How windows lie on the times of a column: where they begin, and in which clock.
//!
//! Windows over points in time begin at local times of the session's zone. Where all offsets of the zone differ by
//! whole windows, that is arithmetic in UTC. Otherwise windows of whole days are laid over local times, and their
//! bounds turned back into points in time. What is left is refused: local hours that clocks skip or repeat.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::Result;
use datafusion_expr::{Expr, cast, lit};

use super::arguments::Arguments;
use super::functions::TimeFunction;
use super::input::Input;
use super::lengths::per_second;
use super::zones::{alignment, has_days};
use crate::bind::carry;
use crate::conversions::Conversion;
use crate::error::PlannerError;

const DAY_SECONDS: i64 = 86_400;

/// See the module.
pub(super) struct Grid {
    /// Where a window begins, as an offset from 1970.
    pub(super) origin: i64,
    /// The zone whose local times are counted, and the type of the points in time; none counts the column itself.
    local: Option<(String, DataType)>,
}

impl Grid {
    /// The grid of windows that begin each `length` from an offset on, and end whole steps later.
    pub(super) fn new(
        input: &Input,
        arguments: &Arguments,
        length: i64,
        step: i64,
        offset: i64,
    ) -> Result<Self> {
        let Some(zone) = &input.zone else {
            return Ok(Grid { origin: offset % length, local: None });
        };
        if let Some(shift) = alignment(zone, length, input.unit) {
            return Ok(Grid {
                origin: (shift % length).saturating_add(offset % length) % length,
                local: None,
            });
        }
        let second = per_second(input.unit);
        let days = step % (DAY_SECONDS * second) == 0 && offset % second == 0;
        if days && input.unit == TimeUnit::Microsecond && has_days(zone, offset / second) {
            let local = Some((zone.clone(), input.data_type.clone()));
            return Ok(Grid { origin: offset % length, local });
        }
        let what = format!("{} with such windows in the zone {zone}", arguments.function.name());
        let error = PlannerError::not_supported(what)
            .with_detail("Clocks are turned there, so that some hours are left out or twice.".to_string())
            .with_hint(format!(
                "use windows of whole days, or of an hour at most, or local times: (SELECT {} AT TIME ZONE '{zone}' AS …)",
                arguments.time.as_ref().map_or("ts".to_string(), ToString::to_string)
            ))
            .with_span(arguments.span);
        Err(carry(error))
    }

    /// The time by which a row's windows are found.
    pub(super) fn time(&self, input: &Input) -> Expr {
        match &self.local {
            None => input.time.clone(),
            Some((zone, _)) => {
                Conversion::TimeZone.call(vec![lit(zone.as_str()), input.time.clone()])
            }
        }
    }

    /// Start, end and time of windows of one size whose start is known.
    pub(super) fn of_size(&self, start: Expr, size: i64) -> [Expr; 3] {
        let end = TimeFunction::Shift.call(vec![start.clone()], &[size]);
        if self.local.is_some() {
            return self.bounds(start, end);
        }
        let time = TimeFunction::Shift.call(vec![start.clone()], &[size - 1]);
        [start, end, time]
    }

    /// Start, end and time of windows whose start and end are known.
    pub(super) fn bounds(&self, start: Expr, end: Expr) -> [Expr; 3] {
        let (start, end) = (self.instant(start), self.instant(end));
        let time = TimeFunction::Shift.call(vec![end.clone()], &[-1]);
        [start, end, time]
    }

    fn instant(&self, time: Expr) -> Expr {
        match &self.local {
            None => time,
            Some((zone, data_type)) => {
                let instant = Conversion::TimeZone.call(vec![lit(zone.as_str()), time]);
                cast(instant, data_type.clone())
            }
        }
    }
}
