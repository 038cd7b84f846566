//! Points in time as text, as results show them: `2026-01-31 12:30:00[.fraction][+00]`.
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

/// Appends the text of a point in time, in ticks since 1970.
pub(crate) fn write_timestamp(ticks: i64, per_second: i64, zoned: bool, out: &mut String) {
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
    if zoned {
        out.push_str("+00");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ticks: i64, per_second: i64, zoned: bool) -> String {
        let mut out = String::new();
        write_timestamp(ticks, per_second, zoned, &mut out);
        out
    }

    #[test]
    fn timestamps_are_written_with_a_space() {
        assert_eq!(text(0, 1, false), "1970-01-01 00:00:00");
        assert_eq!(text(-1, 1_000_000, false), "1969-12-31 23:59:59.999999");
        assert_eq!(text(1_500, 1_000, true), "1970-01-01 00:00:01.5+00");
        assert_eq!(text(-62_167_219_200 - 1, 1, false), "-0001-12-31 23:59:59");
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
