//! Timestamps of a column, most of which look alike.
//!
//! `YYYY-MM-DD HH:MM:SS` with up to six digits of a fraction is read eight bytes at a time, and the day is worked out only
//! when it is not that of the value before. Whatever looks different is left to [`value::timestamp`]; both give the same.

use super::digits::{digits, eight_digits};
use super::value;

const DAY_US: i64 = 86_400_000_000;

/// Reads the timestamps of one column, one after the other.
#[derive(Debug, Default)]
pub struct TimestampReader {
    /// The date of the last value as it was written; blank before the first.
    date: [u8; 10],
    /// Its beginning in microseconds since 1970.
    midnight_us: i64,
}

impl TimestampReader {
    /// Microseconds since 1970 of a text, those of UTC if it names a zone.
    #[inline]
    pub fn read(&mut self, text: &[u8]) -> Option<i64> {
        match self.usual(text) {
            Some(micros) => Some(micros),
            None => value::timestamp(text).map(|found| found.micros),
        }
    }

    fn usual(&mut self, text: &[u8]) -> Option<i64> {
        let (date, rest) = text.split_first_chunk::<10>()?;
        let (between, rest) = rest.split_first()?;
        let (time, fraction) = rest.split_first_chunk::<8>()?;
        if !matches!(between, b' ' | b'T') {
            return None;
        }
        let time_us = time_us(time)? + fraction_us(fraction)?;
        if *date != self.date {
            self.midnight_us = i64::from(value::date(date)?).checked_mul(DAY_US)?;
            self.date = *date;
        }
        self.midnight_us.checked_add(time_us)
    }
}

/// Microseconds of `HH:MM:SS`.
fn time_us(time: &[u8; 8]) -> Option<i64> {
    const COLONS: u64 = 0x0000_ff00_00ff_0000;
    const COLON: u64 = 0x3a3a_3a3a_3a3a_3a3a;
    let bytes = u64::from_le_bytes(*time);
    if bytes & COLONS != COLON & COLONS {
        return None;
    }
    let zeros = u64::from_le_bytes([b'0'; 8]) & COLONS;
    let together = eight_digits((bytes & !COLONS) | zeros)?;
    // The colons were read as zeros: HH0MM0SS.
    let (hour, minute, second) = (together / 1_000_000, together / 1_000 % 100, together % 100);
    let valid = hour <= 23 && minute <= 59 && second <= 59;
    valid.then_some(((hour * 60 + minute) * 60 + second) as i64 * 1_000_000)
}

/// Microseconds of nothing, or of a point and one to six digits.
fn fraction_us(text: &[u8]) -> Option<i64> {
    const UNITS: [u64; 7] = [0, 100_000, 10_000, 1_000, 100, 10, 1];
    match text {
        [] => Some(0),
        [b'.', text @ ..] => {
            let unit = *UNITS.get(text.len()).filter(|unit| **unit > 0)?;
            Some((digits(text)? * unit) as i64)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectors::testing::Random;

    #[test]
    fn texts_that_look_alike_and_others_are_read_as_one_by_one() {
        let mut random = Random(0x71e5);
        let mut reader = TimestampReader::default();
        let usual = b"2015-07-15 23:59:59.123456789";
        for round in 0..50_000 {
            let mut text = usual[..random.below(usual.len()) + 1].to_vec();
            for _ in 0..random.below(4) {
                let at = random.below(text.len());
                text[at] = b"0123456789 :-+TZ.,x"[random.below(19)];
            }
            let one_by_one = value::timestamp(&text).map(|found| found.micros);
            let shown = String::from_utf8_lossy(&text);
            assert_eq!(reader.read(&text), one_by_one, "round {round}: {shown}");
        }
    }

    #[test]
    fn the_usual_way_is_taken() {
        let mut reader = TimestampReader::default();
        for text in ["1970-01-02 00:00:01", "1970-01-02T00:00:01.0", "1970-01-02 00:00:01.000000"] {
            assert_eq!(reader.usual(text.as_bytes()), Some(86_401_000_000), "{text}");
        }
        assert_eq!(reader.usual(b"1969-12-31 23:59:59.999"), Some(-1_000));
        assert_eq!(reader.usual(b"1970-01-02 00:00:60"), None);
    }
}
