//! Whether windows at local times of a zone are windows of UTC: whether its offsets differ by whole windows.

use arrow::array::timezone::Tz;
use arrow::datatypes::TimeUnit;
use chrono::{DateTime, Offset, TimeZone};

use super::lengths::per_second;

/// The years whose offsets count, from 1970 on: before it, most zones had local mean time for a while.
const YEARS: i64 = 130;
const WEEK_SECONDS: i64 = 7 * 86_400;

/// What to add to local times of a zone's windows, so that windows of a length begin there in UTC; `None` where there
/// is no such number, or no such zone.
pub(super) fn alignment(zone: &str, length: i64, unit: TimeUnit) -> Option<i64> {
    let zone: Tz = zone.parse().ok()?;
    let mut first = None;
    for week in 0..YEARS * 365 / 7 {
        let utc = DateTime::from_timestamp_secs(week * WEEK_SECONDS)?.naive_utc();
        let seconds = i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc());
        let offset = seconds.checked_mul(per_second(unit))?;
        if (offset - *first.get_or_insert(offset)) % length != 0 {
            return None;
        }
    }
    first.map(|offset| -offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600;

    #[test]
    fn zones_that_turn_clocks_have_hours_but_no_days() {
        let alignment = |zone, hours: i64| alignment(zone, hours * HOUR, TimeUnit::Second);
        assert_eq!(alignment("UTC", 24), Some(0));
        assert_eq!(alignment("+02:00", 24), Some(-2 * HOUR));
        assert_eq!(alignment("Asia/Kolkata", 24), Some(-11 * HOUR / 2));
        assert_eq!(alignment("Europe/Berlin", 24), None);
        assert_eq!(alignment("Europe/Berlin", 4), None);
        assert_eq!(alignment("Europe/Berlin", 1).map(|at| at % HOUR), Some(0));
        assert_eq!(alignment("Australia/Lord_Howe", 1), None);
        assert_eq!(alignment("No/Zone", 1), None);
    }
}
