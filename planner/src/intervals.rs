//! Intervals: their text, and the one number by which they are compared.
//!
//! The text is PostgreSQL's: `1 year 2 mons -3 days +04:05:06.7`. Invariant: [`parse`] reads every text that [`write()`]
//! writes as the same interval. A month has 30 days and a day 24 hours where intervals are compared; arithmetic with
//! points in time keeps the three parts apart.

use arrow::datatypes::IntervalMonthDayNano;

const SECOND_NS: i128 = 1_000_000_000;
const HOUR_NS: i128 = 3_600 * SECOND_NS;
const DAY_NS: i128 = 24 * HOUR_NS;
const MONTH_DAYS: i128 = 30;

/// The nanoseconds of an interval whose months have 30 days and whose days have 24 hours.
pub fn length_ns(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * MONTH_DAYS + i128::from(interval.days);
    days * DAY_NS + i128::from(interval.nanoseconds)
}

/// The text of an interval. After a negative part the sign of a positive one is written.
pub fn write(interval: IntervalMonthDayNano, out: &mut String) {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let start = out.len();
    let mut negative_before = false;
    let mut part = |value: i32, one: &str, many: &str| {
        if value == 0 {
            return;
        }
        if out.len() > start {
            out.push(' ');
        }
        if negative_before && value > 0 {
            out.push('+');
        }
        negative_before = value < 0;
        out.push_str(&format!("{value} {}", if value == 1 { one } else { many }));
    };
    part(months / 12, "year", "years");
    part(months % 12, "mon", "mons");
    part(days, "day", "days");
    if nanoseconds == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(' ');
    }
    if nanoseconds < 0 {
        out.push('-');
    } else if negative_before {
        out.push('+');
    }
    write_clock(nanoseconds.unsigned_abs(), out);
}

fn write_clock(nanoseconds: u64, out: &mut String) {
    let (seconds, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    out.push_str(&format!("{hours:02}:{minutes:02}:{:02}", seconds % 60));
    if fraction > 0 {
        out.push_str(format!(".{fraction:09}").trim_end_matches('0'));
    }
}

/// The interval that a text stands for: numbers with units and a time of hours, minutes and seconds, each with a sign
/// if it has one, and `ago` at the end to turn all signs. `None` when it is no such text or leaves the range.
pub fn parse(text: &str) -> Option<IntervalMonthDayNano> {
    let text = text.trim().trim_start_matches('@').to_ascii_lowercase();
    let (text, ago) = match text.strip_suffix("ago") {
        Some(rest) => (rest, true),
        None => (text.as_str(), false),
    };
    let mut sum = Parts::default();
    let mut words = text.split_whitespace().peekable();
    words.peek()?;
    while let Some(word) = words.next() {
        if word.contains(':') {
            sum.nanoseconds = sum.nanoseconds.checked_add(clock(word)?)?;
            continue;
        }
        let letters = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (number, unit) = word.split_at(letters);
        let unit = if unit.is_empty() { words.next()? } else { unit };
        sum.add(Decimal::parse(number)?, unit)?;
    }
    sum.interval(ago)
}

/// The three parts while they are added up.
#[derive(Default)]
struct Parts {
    months: i128,
    days: i128,
    nanoseconds: i128,
}

impl Parts {
    /// Adds a number of a unit; what a fraction of months or days is worth goes into the next smaller part.
    fn add(&mut self, number: Decimal, unit: &str) -> Option<()> {
        let months = match unit.trim_end_matches('s') {
            "millennium" | "millennia" => 12_000,
            "century" | "centurie" => 1_200,
            "decade" => 120,
            "year" | "yr" | "y" => 12,
            "quarter" => 3,
            "month" | "mon" => 1,
            _ => 0,
        };
        if months > 0 {
            let (whole, rest) = number.times(months)?;
            self.months += whole;
            let (days, rest) = rest.times(MONTH_DAYS)?;
            self.days += days;
            self.nanoseconds += rest.rounded(DAY_NS)?;
            return Some(());
        }
        let days = match unit.trim_end_matches('s') {
            "week" | "w" => 7,
            "day" | "d" => 1,
            _ => 0,
        };
        if days > 0 {
            let (whole, rest) = number.times(days)?;
            self.days += whole;
            self.nanoseconds += rest.rounded(DAY_NS)?;
            return Some(());
        }
        let nanoseconds = match unit {
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1_000_000,
            "us" | "µs" | "usec" | "usecs" | "microsecond" | "microseconds" => 1_000,
            "ns" | "nanosecond" | "nanoseconds" => 1,
            "hour" | "hours" | "hr" | "hrs" | "h" => HOUR_NS,
            "minute" | "minutes" | "min" | "mins" | "m" => 60 * SECOND_NS,
            "second" | "seconds" | "sec" | "secs" | "s" => SECOND_NS,
            _ => return None,
        };
        self.nanoseconds += number.rounded(nanoseconds)?;
        Some(())
    }

    fn interval(&self, negated: bool) -> Option<IntervalMonthDayNano> {
        let sign = if negated { -1 } else { 1 };
        Some(IntervalMonthDayNano {
            months: i32::try_from(sign * self.months).ok()?,
            days: i32::try_from(sign * self.days).ok()?,
            nanoseconds: i64::try_from(sign * self.nanoseconds).ok()?,
        })
    }
}

/// The number `digits` / 10^`scale`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (negative, text) = sign(text);
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let all = [whole, fraction].concat();
        if all.is_empty() || all.len() > 18 || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = all.parse::<i128>().ok()?;
        let digits = if negative { -digits } else { digits };
        Some(Decimal { digits, scale: u32::try_from(fraction.len()).ok()? })
    }

    /// The whole part of the product, and what is left of it.
    fn times(self, factor: i128) -> Option<(i128, Self)> {
        let product = self.digits.checked_mul(factor)?;
        let unit = 10_i128.pow(self.scale);
        Some((product / unit, Decimal { digits: product % unit, scale: self.scale }))
    }

    /// The product, rounded half away from zero.
    fn rounded(self, factor: i128) -> Option<i128> {
        let unit = 10_i128.pow(self.scale);
        let (whole, rest) = self.times(factor)?;
        let up = 2 * rest.digits.abs() >= unit && self.scale > 0;
        Some(if up { whole + rest.digits.signum() } else { whole })
    }
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Nanoseconds of `[-]HH:MM[:SS[.fraction]]`.
fn clock(text: &str) -> Option<i128> {
    let (negative, text) = sign(text);
    let mut fields = text.split(':');
    let hours = plain(fields.next()?)?;
    let minutes = plain(fields.next()?).filter(|minutes| *minutes < 60)?;
    let seconds = match fields.next() {
        Some(seconds) if seconds.starts_with(|c: char| c.is_ascii_digit()) => {
            Decimal::parse(seconds)?.rounded(SECOND_NS).filter(|ns| *ns < 60 * SECOND_NS)?
        }
        Some(_) => return None,
        None => 0,
    };
    if fields.next().is_some() {
        return None;
    }
    let all = hours * HOUR_NS + minutes * 60 * SECOND_NS + seconds;
    Some(if negative { -all } else { all })
}

/// A number of digits alone.
fn plain(text: &str) -> Option<i128> {
    let digits = !text.is_empty() && text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano { months, days, nanoseconds }
    }

    fn text(interval: IntervalMonthDayNano) -> String {
        let mut out = String::new();
        write(interval, &mut out);
        out
    }

    #[test]
    fn what_is_written_is_read_back() {
        let hour = 3_600_000_000_000;
        for (parts, expected) in [
            ((14, -3, hour), "1 year 2 mons -3 days +01:00:00"),
            ((0, 0, 0), "00:00:00"),
            ((0, -1, -hour), "-1 days -01:00:00"),
            ((-1, 2, 0), "-1 mons +2 days"),
            ((0, 1, -1_500_000_000), "1 day -00:00:01.5"),
            ((-13, 0, 0), "-1 years -1 mons"),
            ((0, 0, 123 * hour + 1), "123:00:00.000000001"),
        ] {
            let value = interval(parts.0, parts.1, parts.2);
            assert_eq!(text(value), expected);
            assert_eq!(parse(expected), Some(value), "{expected}");
        }
        let extremes = [i32::MIN, -1, 0, 1, i32::MAX];
        for (months, days) in extremes.into_iter().flat_map(|m| extremes.map(|d| (m, d))) {
            for nanoseconds in [i64::MIN, -1, 0, i64::MAX] {
                let value = interval(months, days, nanoseconds);
                assert_eq!(parse(&text(value)), Some(value), "{}", text(value));
            }
        }
    }

    #[test]
    fn other_forms_are_read() {
        let minute = 60_000_000_000;
        assert_eq!(parse("1.5 hours"), Some(interval(0, 0, 90 * minute)));
        assert_eq!(parse("2weeks 90m"), Some(interval(0, 14, 90 * minute)));
        assert_eq!(parse("1.5 months"), Some(interval(1, 15, 0)));
        assert_eq!(parse("0.5 days ago"), Some(interval(0, 0, -720 * minute)));
        for bad in ["", "1", "x", "1 parsec", "1:60", "1:00:60", "1 day day", "3000000000 days"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn lengths_count_months_of_30_days() {
        assert_eq!(length_ns(interval(1, 0, 0)), length_ns(interval(0, 30, 0)));
        assert_eq!(length_ns(interval(0, 1, 0)), length_ns(interval(0, 0, 86_400_000_000_000)));
    }
}
