//! Windows by the calendar and the clock of a zone: months, quarters and years, and days of 23 or 25 hours.
//!
//! Windows begin at *boundaries*, readings of a clock: whole months, or whole lengths since 1970, and an offset. A
//! boundary lies at the first instant at which the clock of the zone shows it or, where clocks skip it, anything later.
//! Invariant: instants of boundaries never fall, so that each instant is in one window of a row of windows, whatever
//! clocks do; a window that would begin and end while clocks are turned forward is in no list.

use arrow::array::timezone::Tz;
use arrow::datatypes::TimeUnit;
use chrono::{DateTime, Datelike, LocalResult, NaiveDate, NaiveDateTime, Offset, TimeZone};
use datafusion_common::{Result, exec_err};

use super::functions::range;
use super::lengths::{Length, MAX_WINDOWS, per_second};

/// Seconds around an instant within which clocks show its reading in any zone, changes of the zone included.
const TURN_SECONDS: i64 = 50 * 3_600;
const MONTHS_A_YEAR: i64 = 12;

/// See the module. Numbers count units of the times' type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calendar {
    /// From a boundary to the next.
    pub(super) step: Length,
    /// What is added to whole steps.
    pub(super) offset: Length,
    pub(super) unit: TimeUnit,
    /// Whose clock is read; none where times are readings of a clock already.
    pub(super) zone: Option<Tz>,
}

impl Calendar {
    /// The number of the window that holds an instant.
    fn number(&self, at: i64) -> Result<i64> {
        let Some(zone) = &self.zone else { return self.number_of_reading(at) };
        let mut number = self.number_of_reading(self.reading(zone, at)?)?;
        // Clocks that were turned back may have shown later boundaries before.
        while self.instant(self.boundary(number + 1)?)? <= at {
            number += 1;
        }
        Ok(number)
    }

    /// Start and end of the window that holds an instant.
    pub(super) fn window(&self, at: i64) -> Result<(i64, i64)> {
        let number = self.number(at)?;
        Ok((self.instant(self.boundary(number)?)?, self.instant(self.boundary(number + 1)?)?))
    }

    /// The end of the window of a size that begins at an instant.
    pub(super) fn end(&self, start: i64, size: Length) -> Result<i64> {
        self.instant(self.boundary_after(self.number(start)?, size)?)
    }

    /// The starts of all windows of a size that hold an instant, in order.
    pub(super) fn starts(&self, at: i64, size: Length, out: &mut Vec<i64>) -> Result<()> {
        let first = out.len();
        let mut number = self.number(at)?;
        while self.instant(self.boundary_after(number, size)?)? > at {
            let start = self.instant(self.boundary(number)?)?;
            if out[first..].last() != Some(&start) {
                out.push(start);
            }
            if out.len() - first > MAX_WINDOWS as usize {
                return exec_err!("a row is in more than {MAX_WINDOWS} windows");
            }
            number = number.checked_sub(1).ok_or_else(range)?;
        }
        out[first..].reverse();
        Ok(())
    }

    /// The ends after an instant of windows that begin together and end one `part` after the other, up to the next
    /// boundary, in order.
    pub(super) fn ends(&self, at: i64, part: Length, out: &mut Vec<i64>) -> Result<()> {
        let first = out.len();
        let number = self.number(at)?;
        let (start, last) = (self.boundary(number)?, self.boundary(number + 1)?);
        let mut steps = match &self.zone {
            // Readings before those of the instant can be left out where clocks only go forward.
            None if part.months == 0 => (at - start) / part.units,
            _ => 0,
        };
        loop {
            steps += 1;
            let end = match part.months {
                0 => part.units.checked_mul(steps).and_then(|by| start.checked_add(by)),
                _ => Some(self.boundary_after(number, part.times(steps))?),
            };
            let end = end.ok_or_else(range)?.min(last);
            let instant = self.instant(end)?;
            if instant > at && out[first..].last() != Some(&instant) {
                out.push(instant);
            }
            if end == last {
                return Ok(());
            }
        }
    }

    fn number_of_reading(&self, reading: i64) -> Result<i64> {
        let reading = reading.checked_sub(self.offset.units).ok_or_else(range)?;
        Ok(match self.step.months {
            0 => reading.div_euclid(self.step.units),
            months => (month_of(reading, self.unit)? - self.offset.months).div_euclid(months),
        })
    }

    /// The reading at which a window begins.
    fn boundary(&self, number: i64) -> Result<i64> {
        let whole = match self.step.months {
            0 => self.step.units.checked_mul(number),
            months => {
                let month = months.checked_mul(number).ok_or_else(range)? + self.offset.months;
                Some(month_start(month, self.unit)?)
            }
        };
        whole.and_then(|whole| whole.checked_add(self.offset.units)).ok_or_else(range)
    }

    /// The reading a length after the start of a window.
    fn boundary_after(&self, number: i64, by: Length) -> Result<i64> {
        let start = self.boundary(number)?;
        if by.months == 0 {
            return start.checked_add(by.units).ok_or_else(range);
        }
        if self.step.months == 0 {
            return months_later(start, by.months, self.unit);
        }
        let months = self.step.months.checked_mul(number).ok_or_else(range)?;
        let month = months + self.offset.months + by.months;
        month_start(month, self.unit)?.checked_add(self.offset.units).ok_or_else(range)
    }

    /// What the clock shows.
    fn reading(&self, zone: &Tz, at: i64) -> Result<i64> {
        let offset = zone.offset_from_utc_datetime(&naive(at, self.unit)?).fix();
        let offset = i64::from(offset.local_minus_utc());
        at.checked_add(offset * per_second(self.unit)).ok_or_else(range)
    }

    /// The first instant at which the clock shows a reading or, if it is skipped, a later one.
    fn instant(&self, reading: i64) -> Result<i64> {
        let Some(zone) = &self.zone else { return Ok(reading) };
        let offset = match zone.offset_from_local_datetime(&naive(reading, self.unit)?) {
            LocalResult::Single(offset) => offset.fix(),
            // Of two offsets the greater is that of the earlier instant.
            LocalResult::Ambiguous(one, other) => {
                let (one, other) = (one.fix(), other.fix());
                if one.local_minus_utc() > other.local_minus_utc() { one } else { other }
            }
            LocalResult::None => return self.skipped(zone, reading),
        };
        let offset = i64::from(offset.local_minus_utc());
        reading.checked_sub(offset * per_second(self.unit)).ok_or_else(range)
    }

    /// The instant at which clocks are turned past a reading.
    fn skipped(&self, zone: &Tz, reading: i64) -> Result<i64> {
        let second = per_second(self.unit);
        let seconds = reading.div_euclid(second);
        let (mut before, mut after) = (seconds - TURN_SECONDS, seconds + TURN_SECONDS);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            let at = middle.checked_mul(second).ok_or_else(range)?;
            match self.reading(zone, at)? < reading {
                true => before = middle,
                false => after = middle,
            }
        }
        after.checked_mul(second).ok_or_else(range)
    }
}

fn naive(at: i64, unit: TimeUnit) -> Result<NaiveDateTime> {
    let second = per_second(unit);
    let nanoseconds = at.rem_euclid(second) * (per_second(TimeUnit::Nanosecond) / second);
    let nanoseconds = u32::try_from(nanoseconds).map_err(|_| range())?;
    let at = DateTime::from_timestamp(at.div_euclid(second), nanoseconds);
    Ok(at.ok_or_else(range)?.naive_utc())
}

/// The number of the month of a reading since January 1970.
fn month_of(reading: i64, unit: TimeUnit) -> Result<i64> {
    let date = naive(reading, unit)?.date();
    Ok((i64::from(date.year()) - 1970) * MONTHS_A_YEAR + i64::from(date.month0()))
}

/// The first day of a month.
fn first_day(month: i64) -> Result<NaiveDate> {
    let year = i32::try_from(1970 + month.div_euclid(MONTHS_A_YEAR)).map_err(|_| range())?;
    let in_year = u32::try_from(month.rem_euclid(MONTHS_A_YEAR)).map_err(|_| range())?;
    NaiveDate::from_ymd_opt(year, in_year + 1, 1).ok_or_else(range)
}

fn midnight(date: NaiveDate, unit: TimeUnit) -> Result<i64> {
    let seconds = date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp();
    seconds.checked_mul(per_second(unit)).ok_or_else(range)
}

/// The first reading of a month.
fn month_start(month: i64, unit: TimeUnit) -> Result<i64> {
    midnight(first_day(month)?, unit)
}

/// The same day and time of a later month, or its last day where it has no such day.
fn months_later(reading: i64, months: i64, unit: TimeUnit) -> Result<i64> {
    let date = naive(reading, unit)?.date();
    let months = u32::try_from(months).map_err(|_| range())?;
    let later = date.checked_add_months(chrono::Months::new(months)).ok_or_else(range)?;
    let time = reading.checked_sub(midnight(date, unit)?).ok_or_else(range)?;
    midnight(later, unit)?.checked_add(time).ok_or_else(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600;
    const DAY: i64 = 24 * HOUR;

    fn at(text: &str) -> i64 {
        let text = format!("{text}Z");
        DateTime::parse_from_rfc3339(&text).expect("a test writes times").timestamp()
    }

    fn months(months: i64) -> Length {
        Length { months, units: 0 }
    }

    fn seconds(units: i64) -> Length {
        Length { months: 0, units }
    }

    fn calendar(step: Length, zone: &str) -> Calendar {
        let zone = (!zone.is_empty()).then(|| zone.parse().expect("a test names zones"));
        Calendar { step, offset: seconds(0), unit: TimeUnit::Second, zone }
    }

    fn window(step: Length, zone: &str, time: &str) -> (i64, i64) {
        calendar(step, zone).window(at(time)).unwrap()
    }

    #[test]
    fn months_begin_at_their_first_day() {
        let of = |n, time| window(months(n), "", time);
        let february = (at("2024-02-01T00:00:00"), at("2024-03-01T00:00:00"));
        assert_eq!(of(1, "2024-02-29T23:59:59"), february);
        assert_eq!(of(3, "2024-02-29T23:59:59").0, at("2024-01-01T00:00:00"));
        assert_eq!(of(12, "1969-12-31T23:59:59").0, at("1969-01-01T00:00:00"));
        let fiscal =
            Calendar { offset: Length { months: 3, units: 5 * DAY }, ..calendar(months(12), "") };
        assert_eq!(fiscal.window(at("2024-04-05T23:59:59")).unwrap().0, at("2023-04-06T00:00:00"));
    }

    #[test]
    fn days_have_23_or_25_hours_where_clocks_are_turned() {
        let length = |time| {
            let (start, end) = window(seconds(DAY), "Europe/Berlin", time);
            (end - start) / HOUR
        };
        assert_eq!(length("2026-03-29T12:00:00"), 23);
        assert_eq!(length("2026-10-25T12:00:00"), 25);
        assert_eq!(length("2026-10-26T12:00:00"), 24);
    }

    #[test]
    fn a_midnight_that_is_skipped_or_there_twice_begins_one_day() {
        // Cairo skips midnight, Havana has it twice.
        let (start, end) = window(seconds(DAY), "Africa/Cairo", "2024-04-26T05:00:00");
        assert_eq!((start, end - start), (at("2024-04-25T22:00:00"), 23 * HOUR));
        let (start, end) = window(seconds(DAY), "America/Havana", "2024-11-03T12:00:00");
        assert_eq!((start, end - start), (at("2024-11-03T04:00:00"), 25 * HOUR));
        assert_eq!(window(seconds(DAY), "America/Havana", "2024-11-03T05:30:00").0, start);
    }

    #[test]
    fn windows_that_clocks_skip_hold_nothing() {
        let quarter = seconds(HOUR / 4);
        let calendar = calendar(quarter, "Europe/Berlin");
        let turned = at("2026-03-29T01:00:00");
        assert_eq!(calendar.window(turned).unwrap(), (turned, turned + HOUR / 4));
        assert_eq!(calendar.window(turned - 1).unwrap(), (turned - HOUR / 4, turned));
        let mut starts = Vec::new();
        calendar.starts(turned, seconds(HOUR / 2), &mut starts).unwrap();
        assert_eq!(starts, [turned]);
        starts.clear();
        calendar.starts(turned - 1, seconds(HOUR / 2), &mut starts).unwrap();
        assert_eq!(starts, [turned - HOUR / 2, turned - HOUR / 4]);
    }

    #[test]
    fn each_instant_is_in_one_window_of_each_zone() {
        for zone in ["Europe/Berlin", "Africa/Cairo", "Pacific/Apia", "Australia/Lord_Howe"] {
            for step in [seconds(4 * HOUR), seconds(DAY), seconds(7 * DAY), months(1), months(3)] {
                let calendar = calendar(step, zone);
                let mut time = at("2011-12-01T00:00:00");
                while time < at("2013-01-01T00:00:00") {
                    let (start, end) = calendar.window(time).unwrap();
                    assert!(start <= time && time < end, "{zone} {time}: {start} {end}");
                    assert_eq!(calendar.window(end - 1).unwrap(), (start, end), "{zone} {time}");
                    assert_eq!(calendar.window(end).unwrap().0, end, "{zone} {time}");
                    time = end + (end - start) / 3;
                }
            }
        }
    }

    #[test]
    fn ends_and_starts_follow_months() {
        let mut starts = Vec::new();
        calendar(months(1), "").starts(at("2024-03-15T00:00:00"), months(3), &mut starts).unwrap();
        let wanted = ["2024-01-01T00:00:00", "2024-02-01T00:00:00", "2024-03-01T00:00:00"];
        assert_eq!(starts, wanted.map(at));
        let mut ends = Vec::new();
        calendar(months(1), "").ends(at("2024-02-27T01:00:00"), seconds(DAY), &mut ends).unwrap();
        let wanted = ["2024-02-28T00:00:00", "2024-02-29T00:00:00", "2024-03-01T00:00:00"];
        assert_eq!(ends, wanted.map(at));
        let mut rolling = Vec::new();
        calendar(seconds(DAY), "")
            .starts(at("2024-03-01T12:00:00"), months(1), &mut rolling)
            .unwrap();
        // A month from 30 and 31 January ends on 29 February, one from 1 February on 1 March.
        assert_eq!(rolling.first(), Some(&at("2024-02-02T00:00:00")));
    }
}
