//! Dates, times and intervals as text.

use arrow::datatypes::IntervalMonthDayNano;
use thalweg_planner::intervals;

use super::number::write_padded;
use crate::connectors::text::value::civil_from_days;

const DAY_SECONDS: i64 = 86_400;

/// Writes days since 1970 as `YYYY-MM-DD`; years beyond 9999 get more digits, those before 0 a sign.
pub fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    if year < 0 {
        out.push(b'-');
    }
    write_padded(year.unsigned_abs(), 4, out);
    out.push(b'-');
    write_padded(month.into(), 2, out);
    out.push(b'-');
    write_padded(day.into(), 2, out);
}

/// Writes a point in time, in ticks since 1970, as `YYYY-MM-DD HH:MM:SS[.fraction]`.
pub fn write_timestamp(ticks: i64, ticks_per_second: i64, utc: bool, out: &mut Vec<u8>) {
    let seconds = ticks.div_euclid(ticks_per_second);
    write_date(seconds.div_euclid(DAY_SECONDS), out);
    out.push(b' ');
    write_clock(seconds.rem_euclid(DAY_SECONDS), out);
    write_fraction(ticks.rem_euclid(ticks_per_second), ticks_per_second, out);
    if utc {
        out.extend_from_slice(b"+00");
    }
}

/// Writes a time of day, in ticks, as `HH:MM:SS[.fraction]`.
pub fn write_time(ticks: i64, ticks_per_second: i64, out: &mut Vec<u8>) {
    write_clock(ticks.div_euclid(ticks_per_second), out);
    write_fraction(ticks.rem_euclid(ticks_per_second), ticks_per_second, out);
}

fn write_clock(seconds: i64, out: &mut Vec<u8>) {
    let seconds = seconds.unsigned_abs();
    write_padded(seconds / 3_600, 2, out);
    out.push(b':');
    write_padded(seconds / 60 % 60, 2, out);
    out.push(b':');
    write_padded(seconds % 60, 2, out);
}

/// A fraction without trailing zeros; nothing if it is zero.
fn write_fraction(ticks: i64, ticks_per_second: i64, out: &mut Vec<u8>) {
    if ticks == 0 {
        return;
    }
    let digits = ticks_per_second.ilog10() as usize;
    out.push(b'.');
    write_padded(ticks.unsigned_abs(), digits, out);
    while out.last() == Some(&b'0') {
        out.pop();
    }
}

/// Writes an interval as PostgreSQL does: `1 year 2 mons -3 days +04:05:06.7`.
pub fn write_interval(interval: IntervalMonthDayNano, out: &mut Vec<u8>) {
    let mut text = String::new();
    intervals::write(interval, &mut text);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn points_in_time() {
        assert_eq!(text(|o| write_date(-1, o)), "1969-12-31");
        assert_eq!(
            text(|o| write_timestamp(-1, 1_000_000, false, o)),
            "1969-12-31 23:59:59.999999"
        );
        assert_eq!(text(|o| write_timestamp(1_500, 1_000, true, o)), "1970-01-01 00:00:01.5+00");
        assert_eq!(text(|o| write_time(3_661_000_000, 1_000_000, o)), "01:01:01");
    }
}
