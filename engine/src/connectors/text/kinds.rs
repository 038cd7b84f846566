//! What a value's text may be, beside text: the basis of guessing columns' types, and of quoting text that would be
//! guessed to be something else.
//!
//! Only forms that nobody writes by chance count: numbers without leading zeros, ISO dates and times, `true` and
//! `false`, bytes as `\x…`. Numbers are decimals where digits ask for it, so that none is lost: integers beyond
//! 64 bits, and numbers of one scale of which a double would drop digits.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};

use super::value;

/// Digits that a decimal has at most.
const DECIMAL_DIGITS: usize = 38;
/// Digits that a double always keeps.
const DOUBLE_DIGITS: usize = 15;

/// The types of which a text is a value; the types that all texts of a column share are the intersection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u16);

impl Kinds {
    const BOOLEAN: u16 = 1;
    const INTEGER: u16 = 1 << 1;
    const UNSIGNED: u16 = 1 << 2;
    const WIDE: u16 = 1 << 3;
    const FIXED: u16 = 1 << 4;
    const DOUBLE: u16 = 1 << 5;
    const DATE: u16 = 1 << 6;
    const TIMESTAMP: u16 = 1 << 7;
    const ZONED: u16 = 1 << 8;
    const TIME: u16 = 1 << 9;
    const BINARY: u16 = 1 << 10;
    /// Digits of any kind, among them codes such as 007 and numbers such as 1.234,5: no type, but no words either.
    const NUMBER: u16 = 1 << 11;
    const TEMPORAL: u16 = Kinds::DATE | Kinds::TIMESTAMP | Kinds::ZONED | Kinds::TIME;

    /// What says nothing, such as white space.
    pub const ANY: Kinds = Kinds((1 << 12) - 1);
    /// Text and nothing else.
    pub const TEXT: Kinds = Kinds(0);

    /// The types of a value.
    pub fn of(text: &[u8]) -> Self {
        let text = text.trim_ascii();
        Kinds(match text.first() {
            None => return Kinds::ANY,
            Some(b'0'..=b'9' | b'-' | b'+' | b'.') => of_digits(text),
            Some(b't' | b'T' | b'f' | b'F') if is_boolean(text) => Kinds::BOOLEAN,
            Some(b'N' | b'n' | b'I' | b'i') if is_unusual_double(text) => {
                Kinds::DOUBLE | Kinds::NUMBER
            }
            Some(b'\\') if is_binary(text) => Kinds::BINARY,
            Some(_) => 0,
        })
    }

    /// Whether a text of these kinds can be nothing but text.
    pub fn is_text(self) -> bool {
        self.0 & !Kinds::NUMBER == 0
    }

    /// Whether a text of these kinds is none that looks like values: it may be a name.
    pub fn is_wording(self) -> bool {
        self == Kinds::TEXT
    }

    /// Whether texts of these kinds and of others look alike: as numbers, as dates and times, or of one type.
    pub fn looks_like(self, other: Kinds) -> bool {
        let temporal = |kinds: Kinds| kinds.0 & Kinds::TEMPORAL != 0;
        !self.and(other).is_wording() || (temporal(self) && temporal(other))
    }

    /// The types that both have.
    pub fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    /// The narrowest type. `decimals` is what [`FixedPoint::scale`] tells.
    pub fn data_type(self, decimals: Option<i8>) -> DataType {
        let has = |kind| self.0 & kind != 0;
        let micros =
            |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Arc::from));
        if has(Kinds::BOOLEAN) {
            DataType::Boolean
        } else if has(Kinds::INTEGER) {
            DataType::Int64
        } else if has(Kinds::UNSIGNED) {
            DataType::UInt64
        } else if has(Kinds::WIDE) {
            DataType::Decimal128(DECIMAL_DIGITS as u8, 0)
        } else if let (true, Some(scale)) = (has(Kinds::FIXED), decimals) {
            DataType::Decimal128(DECIMAL_DIGITS as u8, scale)
        } else if has(Kinds::DOUBLE) {
            DataType::Float64
        } else if has(Kinds::DATE) {
            DataType::Date32
        } else if has(Kinds::TIMESTAMP) {
            micros(None)
        } else if has(Kinds::ZONED) {
            micros(Some("+00:00"))
        } else if has(Kinds::TIME) {
            DataType::Time64(TimeUnit::Nanosecond)
        } else if has(Kinds::BINARY) {
            DataType::BinaryView
        } else {
            DataType::Utf8View
        }
    }
}

/// The digits behind the point of numbers that are written without an exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedPoint {
    scale: Option<i8>,
    differs: bool,
    /// Whether a double would lose digits, be it zeros at the end: nobody writes a double with them.
    lossy: bool,
}

impl FixedPoint {
    /// No value is known.
    pub const NEW: FixedPoint = FixedPoint { scale: None, differs: false, lossy: false };

    /// Adds a value that is not NULL.
    pub fn add(&mut self, text: &[u8]) {
        let text = text.trim_ascii();
        let scale = text.iter().position(|b| *b == b'.').map_or(0, |at| text.len() - at - 1);
        let scale = i8::try_from(scale).unwrap_or(i8::MAX);
        self.differs |= self.scale.is_some_and(|known| known != scale);
        self.scale = Some(scale);
        self.lossy |= scale > 1 && text.ends_with(b"0");
        self.lossy |= text.len() > DOUBLE_DIGITS && loses_digits(text);
    }

    /// More values may follow that nobody has looked at: they need not have the same scale.
    pub fn leave_open(&mut self) {
        self.differs = true;
    }

    /// The scale of the decimals that the values ask for; `None` where doubles hold them.
    pub fn scale(self) -> Option<i8> {
        self.scale.filter(|scale| {
            self.lossy && !self.differs && usize::from(scale.unsigned_abs()) <= DECIMAL_DIGITS
        })
    }
}

/// Whether the shortest text of the double is another number than the text.
fn loses_digits(text: &[u8]) -> bool {
    let Some(number) = value::double(text) else { return false };
    let plain = |text: &str| {
        let text = text.trim_start_matches(['+', '-']).trim_start_matches('0');
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
            false => text.to_string(),
        }
    };
    plain(&String::from_utf8_lossy(text)) != plain(&number.to_string())
}

fn of_digits(text: &[u8]) -> u16 {
    let digits = text.iter().filter(|b| b.is_ascii_digit()).count();
    let signed = matches!(text[0], b'-' | b'+');
    if digits > 0 && digits + usize::from(signed) == text.len() {
        return of_integer(text, digits);
    }
    if value::double(text).is_some() {
        let fixed = text.iter().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.'));
        let fits = digits <= DECIMAL_DIGITS;
        let double = Kinds::DOUBLE | Kinds::NUMBER;
        return if fixed && fits { double | Kinds::FIXED } else { double };
    }
    if value::date(text).is_some() {
        return Kinds::DATE | Kinds::TIMESTAMP;
    }
    match value::timestamp(text) {
        Some(time) if time.zoned => Kinds::ZONED,
        Some(_) => Kinds::TIMESTAMP,
        None if value::time(text).is_some() => Kinds::TIME,
        None if is_foreign_number(text) => Kinds::NUMBER,
        None => 0,
    }
}

/// Whether a text is a number by the conventions of some country.
fn is_foreign_number(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    unsigned.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b','))
        && unsigned.iter().any(u8::is_ascii_digit)
}

/// An integer; one with a needless zero in front is a code such as 007.
fn of_integer(text: &[u8], digits: usize) -> u16 {
    let first = text.len() - digits;
    if digits > 1 && text[first] == b'0' || digits > DECIMAL_DIGITS {
        return Kinds::NUMBER;
    }
    let mut kinds = Kinds::WIDE | Kinds::DOUBLE | Kinds::NUMBER;
    if value::integer(text).is_some() {
        kinds |= Kinds::INTEGER;
    }
    if value::unsigned(text).is_some() {
        kinds |= Kinds::UNSIGNED;
    }
    kinds
}

fn is_boolean(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"false")
}

fn is_unusual_double(text: &[u8]) -> bool {
    matches!(text, b"NaN" | b"Infinity" | b"inf" | b"nan")
}

fn is_binary(text: &[u8]) -> bool {
    text.starts_with(b"\\x") && value::binary(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(texts: &[&str]) -> DataType {
        let (mut kinds, mut fixed) = (Kinds::ANY, FixedPoint::NEW);
        for text in texts {
            kinds = kinds.and(Kinds::of(text.as_bytes()));
            fixed.add(text.as_bytes());
        }
        kinds.data_type(fixed.scale())
    }

    #[test]
    fn digits_ask_for_types() {
        assert_eq!(common(&["1", "-2"]), DataType::Int64);
        assert_eq!(common(&["1", "18446744073709551615"]), DataType::UInt64);
        assert_eq!(common(&["-1", "18446744073709551615"]), DataType::Decimal128(38, 0));
        assert_eq!(common(&["99999999999999999999999"]), DataType::Decimal128(38, 0));
        assert_eq!(common(&["1.50", "2.25"]), DataType::Decimal128(38, 2));
        assert_eq!(common(&["1.50", "2.5"]), DataType::Float64);
        assert_eq!(common(&["1.0", "2.5"]), DataType::Float64);
        assert_eq!(common(&["1.75", "2.25"]), DataType::Float64);
        assert_eq!(common(&["12345678901234567.89", "0.10"]), DataType::Decimal128(38, 2));
        assert_eq!(common(&["12345678901234567.89", "0.1"]), DataType::Float64);
        assert_eq!(common(&["0.30000000000000004"]), DataType::Float64);
        assert_eq!(common(&["1e5", "2"]), DataType::Float64);
        assert_eq!(common(&["007"]), DataType::Utf8View);
        assert_eq!(common(&[&"9".repeat(39)]), DataType::Utf8View);
        assert_eq!(common(&["-Infinity", "-inf", "NaN", "1"]), DataType::Float64);
    }

    #[test]
    fn codes_are_text_that_looks_like_numbers() {
        let (code, number) = (Kinds::of(b"007"), Kinds::of(b"12"));
        assert!(code.is_text() && !code.is_wording() && code.looks_like(number));
        assert!(Kinds::of(b"-1.234,5").is_text() && Kinds::of(b"-1.234,5").looks_like(number));
        let (date, time) = (Kinds::of(b"2024-01-31"), Kinds::of(b"2024-01-31T10:00:00Z"));
        assert!(date.looks_like(time) && !date.looks_like(number));
        assert!(Kinds::of(b"x").is_wording() && !Kinds::of(b"NaN").is_wording());
    }

    #[test]
    fn times_and_bytes() {
        assert_eq!(common(&["10:00:00", "23:59:59.5"]), DataType::Time64(TimeUnit::Nanosecond));
        assert_eq!(common(&["10:00"]), DataType::Utf8View);
        assert_eq!(common(&["24:00:00"]), DataType::Utf8View);
        assert_eq!(common(&["\\x00fF", "\\x"]), DataType::BinaryView);
        assert_eq!(common(&["\\x0"]), DataType::Utf8View);
        assert_eq!(common(&["\\section"]), DataType::Utf8View);
        assert_eq!(common(&["true", "FALSE"]), DataType::Boolean);
        assert_eq!(common(&["t"]), DataType::Utf8View);
    }
}
