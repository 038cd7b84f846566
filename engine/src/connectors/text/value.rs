//! Values in text: numbers, truth values, dates and times in ISO form.

use super::digits::digits as eight_or_fewer;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// A time and whether the text named a zone; with one, the microseconds are UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampText {
    /// Microseconds since 1970.
    pub micros: i64,
    /// Whether an offset was written.
    pub zoned: bool,
}

/// A 64-bit integer.
#[inline]
pub fn integer(text: &[u8]) -> Option<i64> {
    match eight_or_fewer(text) {
        Some(value) => Some(value as i64),
        None => any_integer(text),
    }
}

fn any_integer(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Downwards, so that the least integer can be read.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// A 64-bit integer without a sign.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

/// A double, with `NaN` and `Infinity`.
pub fn double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

/// A decimal of a scale, in units of its last digit. Digits beyond the scale are none of its values.
pub fn decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let text = text.trim_ascii();
    let (negative, number) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let point = number.iter().position(|b| *b == b'.').unwrap_or(number.len());
    let fraction = number.get(point + 1..).unwrap_or_default();
    let missing = usize::try_from(scale).ok()?.checked_sub(fraction.len())?;
    if point + fraction.len() == 0 {
        return None;
    }
    let digits = number[..point].iter().chain(fraction);
    let all = digits.chain(std::iter::repeat_n(&b'0', missing));
    let value = all.copied().try_fold(0_i128, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        let value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
        (digit <= 9).then_some(value)
    })?;
    let fits = value < 10_i128.checked_pow(u32::from(precision))?;
    fits.then_some(if negative { -value } else { value })
}

/// A truth value.
pub fn boolean(text: &[u8]) -> Option<bool> {
    let text = text.trim_ascii();
    let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
    if is(b"true") || is(b"t") {
        Some(true)
    } else if is(b"false") || is(b"f") {
        Some(false)
    } else {
        None
    }
}

/// Bytes as `\x…`, or the text itself.
pub fn binary(text: &[u8]) -> Option<Vec<u8>> {
    let Some(hex) = text.strip_prefix(b"\\x") else { return Some(text.to_vec()) };
    if hex.len() % 2 != 0 {
        return None;
    }
    let digit = |b: u8| (b as char).to_digit(16);
    hex.chunks_exact(2).map(|p| Some((digit(p[0])? * 16 + digit(p[1])?) as u8)).collect()
}

/// Days since 1970 of `YYYY-MM-DD`.
pub fn date(text: &[u8]) -> Option<i32> {
    let text = text.trim_ascii();
    let (days, rest) = date_prefix(text)?;
    rest.is_empty().then_some(days)
}

/// A date at the beginning of a text, and what follows it. Years may have a sign and more than four digits.
fn date_prefix(text: &[u8]) -> Option<(i32, &[u8])> {
    let (negative, text) = match text.first()? {
        b'-' => (true, &text[1..]),
        _ => (false, text),
    };
    let year_digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(4..=6).contains(&year_digits) || text.get(year_digits) != Some(&b'-') {
        return None;
    }
    let year = digits(&text[..year_digits])?;
    let rest = &text[year_digits + 1..];
    let month = digits(rest.get(..2)?)?;
    if rest.get(2) != Some(&b'-') {
        return None;
    }
    let day = digits(rest.get(3..5)?)?;
    let year = if negative { -year } else { year };
    if !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) {
        return None;
    }
    Some((i32::try_from(days_from_civil(year, month, day)).ok()?, &rest[5..]))
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |value, b| b.is_ascii_digit().then(|| value * 10 + i64::from(b - b'0')))
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970 of a day in the Gregorian calendar; years count from March, so that leap days come last.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of days since 1970.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days - era * 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// `YYYY-MM-DD[ T]HH:MM[:SS[.fraction]][ ][Z|±HH[[:]MM]]`, or a date alone.
pub fn timestamp(text: &[u8]) -> Option<TimestampText> {
    let text = text.trim_ascii();
    let (days, rest) = date_prefix(text)?;
    let midnight = i64::from(days).checked_mul(DAY_US)?;
    if rest.is_empty() {
        return Some(TimestampText { micros: midnight, zoned: false });
    }
    if !matches!(rest[0], b' ' | b'T' | b't') {
        return None;
    }
    let (time, rest) = time_prefix(&rest[1..])?;
    let micros = midnight.checked_add(time)?;
    let rest = rest.trim_ascii_start();
    match rest.first() {
        None => Some(TimestampText { micros, zoned: false }),
        Some(b'Z' | b'z') if rest.len() == 1 => Some(TimestampText { micros, zoned: true }),
        Some(sign @ (b'+' | b'-')) => {
            let offset = offset(&rest[1..])?;
            let offset = if *sign == b'-' { -offset } else { offset };
            Some(TimestampText { micros: micros.checked_sub(offset)?, zoned: true })
        }
        Some(_) => None,
    }
}

/// Nanoseconds since midnight of `HH:MM:SS[.fraction]`.
pub fn time(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    if text.get(5) != Some(&b':') {
        return None;
    }
    let (micros, _) = time_prefix(text.get(..8)?)?;
    let nanos = match &text[8..] {
        [] => 0,
        [b'.', fraction @ ..] if (1..=9).contains(&fraction.len()) => {
            digits(fraction)? * 10_i64.pow(9 - fraction.len() as u32)
        }
        _ => return None,
    };
    Some(micros * 1_000 + nanos)
}

/// Microseconds of `HH:MM[:SS[.fraction]]` and what follows. Fractions are rounded to microseconds.
fn time_prefix(text: &[u8]) -> Option<(i64, &[u8])> {
    let hour = digits(text.get(..2)?)?;
    let minute = digits(text.get(3..5)?)?;
    if text[2] != b':' || hour > 23 || minute > 59 {
        return None;
    }
    let mut micros = (hour * 60 + minute) * 60_000_000;
    let mut rest = &text[5..];
    if rest.first() == Some(&b':') {
        let second = digits(rest.get(1..3)?)?;
        if second > 59 {
            return None;
        }
        micros += second * 1_000_000;
        rest = &rest[3..];
        if matches!(rest.first(), Some(b'.' | b',')) {
            let n = rest[1..].iter().take_while(|b| b.is_ascii_digit()).count();
            if n == 0 || n > 9 {
                return None;
            }
            let scaled = digits(&rest[1..=n])? * 10_i64.pow(9 - n as u32);
            micros += (scaled + 500) / 1_000;
            rest = &rest[n + 1..];
        }
    }
    Some((micros, rest))
}

/// Microseconds of `HH`, `HHMM` or `HH:MM`.
fn offset(text: &[u8]) -> Option<i64> {
    let hours = digits(text.get(..2)?)?;
    let minutes = match &text[2..] {
        [] => 0,
        [b':', rest @ ..] | rest if rest.len() == 2 => digits(rest)?,
        _ => return None,
    };
    (hours <= 18 && minutes <= 59).then_some((hours * 60 + minutes) * 60_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(integer(b" -9223372036854775808 "), Some(i64::MIN));
        assert_eq!(integer(b"9223372036854775808"), None);
        assert_eq!(integer(b"+7"), Some(7));
        assert_eq!(integer(b"1.0"), None);
        assert_eq!(double(b"-Infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(decimal(b"-1.5", 38, 2), Some(-150));
        assert_eq!(decimal(b"12", 38, 0), Some(12));
        assert_eq!(decimal(b"1.234", 38, 2), None);
        assert_eq!(decimal(b"1e2", 38, 2), None);
        assert_eq!(decimal(b".", 38, 2), None);
        assert_eq!(decimal(&[b'9'; 39], 38, 0), None);
        assert_eq!(binary(b"\\x00ff"), Some(vec![0, 255]));
    }

    #[test]
    fn dates_and_times() {
        assert_eq!(date(b"1970-01-01"), Some(0));
        assert_eq!(date(b"2000-02-29"), Some(11_016));
        assert_eq!(date(b"1900-02-29"), None);
        for days in [-800_000_i64, -1, 0, 59, 60, 11_016, 2_932_896] {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, i64::from(m), i64::from(d)), days);
        }
        let at = |t: &str| timestamp(t.as_bytes()).map(|t| (t.micros, t.zoned));
        assert_eq!(at("1970-01-01 00:00:01.5"), Some((1_500_000, false)));
        assert_eq!(at("1970-01-01T01:00:00+01:00"), Some((0, true)));
        assert_eq!(at("1970-01-01 00:00:00+00"), Some((0, true)));
        assert_eq!(at("1970-01-01T00:00Z"), Some((0, true)));
        assert_eq!(at("1970-01-01 24:00:00"), None);
        assert_eq!(at("1970-01-01x"), None);
        assert_eq!(time(b"00:00:01.000000005"), Some(1_000_000_005));
        assert_eq!(time(b"23:59:59.9999999"), Some(86_399_999_999_900));
        assert_eq!(time(b"10:00"), None);
    }
}
