//! Points in time as text, as results show them: `2026-01-31 12:30:00[.fraction][+00]`; offsets from UTC name minutes and
//! seconds only where they have some.
//!
//! Dates are those of the Gregorian calendar, continued into the past. Fractions have no trailing zeros.

const DAY_SECONDS: i64 = 86_400;

/// Year, month and day of days since 1970.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    // Eras of 400 years that begin on the first of March, so that leap days come last.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Days since 1970 of a year, month and day.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year
        - 719_468
}

/// Appends the text of a point in time, in ticks since 1970; with an offset from UTC, in seconds, it is the local time
/// there, followed by the offset.
pub(crate) fn write_timestamp(ticks: i64, per_second: i64, offset: Option<i32>, out: &mut String) {
    // At the very end of what ticks can count, the local time cannot be told.
    let shift = i64::from(offset.unwrap_or(0)).checked_mul(per_second);
    let local = shift.and_then(|shift| ticks.checked_add(shift));
    let (ticks, offset) = local.map_or((ticks, Some(0)), |local| (local, offset));
    let seconds = ticks.div_euclid(per_second);
    let (year, month, day) = civil(seconds.div_euclid(DAY_SECONDS));
    let clock = seconds.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (clock / 3_600, clock / 60 % 60, clock % 60);
    let sign = if year < 0 { "-" } else { "" };
    let year = year.unsigned_abs();
    out.push_str(&format!("{sign}{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"));
    let fraction = ticks.rem_euclid(per_second);
    if fraction > 0 {
        let width = per_second.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
    if let Some(offset) = offset {
        write_offset(offset, out);
    }
}

fn write_offset(offset: i32, out: &mut String) {
    let seconds = offset.unsigned_abs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let sign = if offset < 0 { '-' } else { '+' };
    out.push_str(&match (minutes, seconds) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ticks: i64, per_second: i64, offset: Option<i32>) -> String {
        let mut out = String::new();
        write_timestamp(ticks, per_second, offset, &mut out);
        out
    }

    #[test]
    fn timestamps_are_written_with_a_space() {
        assert_eq!(text(0, 1, None), "1970-01-01 00:00:00");
        assert_eq!(text(-1, 1_000_000, None), "1969-12-31 23:59:59.999999");
        assert_eq!(text(1_500, 1_000, Some(0)), "1970-01-01 00:00:01.5+00");
        assert_eq!(text(0, 1, Some(7_200)), "1970-01-01 02:00:00+02");
        assert_eq!(text(0, 1, Some(-12_600)), "1969-12-31 20:30:00-03:30");
        assert_eq!(text(0, 1, Some(3_208)), "1970-01-01 00:53:28+00:53:28");
        assert_eq!(text(-62_167_219_200 - 1, 1, None), "-0001-12-31 23:59:59");
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for at in (-1_000_000..3_000_000).step_by(997) {
            let (year, month, day) = civil(at);
            assert_eq!(days(year, month, day), at);
        }
        assert_eq!(civil(11_016), (2000, 2, 29));
    }
}
