//! `date_format(t, pattern)`: points in time as text, by patterns of Java's letters as Flink takes them.
//!
//! A letter that is repeated says how wide a number is, or how long a name: `MM`, `MMM`, `MMMM`. Text between quotes
//! and all that is no letter stand for themselves; `''` is a quote. A letter without a meaning is an error, never itself.
//! Points in time of a zone are shown as its local time. Names are English.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion_common::{DataFusionError, Result, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::instants::{local, zone};
use super::over_arrays;
use crate::time_text::{civil, days};

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const DAY_US: i64 = 86_400 * SECOND_US;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The function.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::user_defined(Volatility::Immutable);
    vec![Arc::new(ScalarUDF::from(DateFormat { signature }))]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateFormat {
    signature: Signature,
}

impl ScalarUDFImpl for DateFormat {
    fn name(&self) -> &str {
        "date_format"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let micros = |zone| DataType::Timestamp(TimeUnit::Microsecond, zone);
        match args {
            [time, pattern] if pattern.is_string() || pattern.is_null() => {
                let time = match time {
                    DataType::Timestamp(_, zone) => micros(zone.clone()),
                    DataType::Date32 | DataType::Date64 | DataType::Null => micros(None),
                    text if text.is_string() => micros(None),
                    _ => return plan_err!("date_format takes a timestamp and a pattern"),
                };
                Ok(vec![time, DataType::Utf8View])
            }
            _ => plan_err!("date_format takes a timestamp and a pattern, as 'yyyy-MM-dd'"),
        }
    }

    fn return_type(&self, _args: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(&args, |arrays| match arrays {
            [times, patterns] => formatted(times, patterns),
            _ => plan_err!("date_format takes a timestamp and a pattern"),
        })
    }
}

fn formatted(times: &ArrayRef, patterns: &ArrayRef) -> Result<ArrayRef> {
    let zone = match times.data_type() {
        DataType::Timestamp(_, Some(name)) => Some(zone(name)?),
        _ => None,
    };
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let patterns = patterns.as_string_view();
    let mut builder = StringViewBuilder::with_capacity(times.len());
    let mut form: Option<(String, Pattern)> = None;
    let mut last = Last::default();
    for (time, pattern) in times.iter().zip(patterns.iter()) {
        let (Some(time), Some(text)) = (time, pattern) else {
            builder.append_null();
            continue;
        };
        if form.as_ref().is_none_or(|(before, _)| before != text) {
            form = Some((text.to_string(), Pattern::new(text)?));
            last = Last::default();
        }
        let Some((_, pattern)) = &form else { continue };
        builder.append_value(last.text(pattern, in_zone(time, zone.as_ref())?));
    }
    Ok(Arc::new(builder.finish()))
}

fn in_zone(micros: i64, zone: Option<&Tz>) -> Result<i64> {
    let local = zone.map_or(Some(micros), |zone| local(micros, zone));
    local.ok_or_else(|| DataFusionError::Execution("timestamp out of range".to_string()))
}

/// The last text, which stays the same as long as times do in what the pattern shows of them.
#[derive(Default)]
struct Last {
    granule: Option<i64>,
    text: String,
}

impl Last {
    fn text(&mut self, pattern: &Pattern, micros: i64) -> &str {
        let granule = micros.div_euclid(pattern.granule_us);
        if self.granule != Some(granule) {
            self.granule = Some(granule);
            self.text.clear();
            pattern.write(micros, &mut self.text);
        }
        &self.text
    }
}

/// A part of a pattern.
#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    /// A number, filled with zeros to this width.
    Number(Number, usize),
    /// The last two digits of the year.
    ShortYear,
    MonthName {
        whole: bool,
    },
    WeekdayName {
        whole: bool,
    },
    HalfDay,
    /// So many digits of the fraction of the second.
    Fraction(usize),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Year,
    Quarter,
    Month,
    Day,
    DayOfYear,
    /// 0 to 23.
    Hour,
    /// 1 to 24.
    HourFromOne,
    /// 0 to 11.
    HalfDayHour,
    /// 1 to 12.
    HalfDayHourFromOne,
    Minute,
    Second,
}

/// A pattern that has been read.
#[derive(Debug)]
struct Pattern {
    parts: Vec<Part>,
    /// The time within which the text is the same.
    granule_us: i64,
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut rest = pattern;
        while let Some(next) = rest.chars().next() {
            if next == '\'' {
                let (text, after) = quoted(rest, pattern)?;
                parts.push(Part::Text(text));
                rest = after;
            } else if next.is_ascii_alphabetic() {
                let after = rest.trim_start_matches(next);
                parts.push(part(next, rest.len() - after.len(), pattern)?);
                rest = after;
            } else {
                parts.push(Part::Text(next.to_string()));
                rest = &rest[next.len_utf8()..];
            }
        }
        let granule_us = parts.iter().map(Part::granule_us).min().unwrap_or(DAY_US);
        Ok(Pattern { parts, granule_us })
    }

    fn write(&self, micros: i64, out: &mut String) {
        let fields = Fields::of(micros);
        self.parts.iter().for_each(|part| part.write(&fields, out));
    }
}

/// The text that begins with a quote, and what follows it.
fn quoted<'a>(rest: &'a str, pattern: &str) -> Result<(String, &'a str)> {
    let mut text = String::new();
    let mut rest = &rest[1..];
    if let Some(after) = rest.strip_prefix('\'') {
        return Ok(("'".to_string(), after));
    }
    loop {
        let Some((before, after)) = rest.split_once('\'') else {
            return exec_err!(
                "date_format: the pattern \"{pattern}\" has a quote that does not end"
            );
        };
        text.push_str(before);
        match after.strip_prefix('\'') {
            Some(more) => {
                text.push('\'');
                rest = more;
            }
            None => return Ok((text, after)),
        }
    }
}

/// What a letter means that stands so many times.
fn part(letter: char, times: usize, pattern: &str) -> Result<Part> {
    let most = match letter {
        'S' => 9,
        'y' | 'u' => 10,
        'M' | 'L' | 'E' => 4,
        'D' => 3,
        'a' | 'Q' | 'q' | 'd' | 'H' | 'h' | 'K' | 'k' | 'm' | 's' => 2,
        _ => {
            return exec_err!(
                "date_format: the letter \"{letter}\" means nothing in the pattern \"{pattern}\"; the letters are \
                 y M d H m s S E a h k K D Q; put text between quotes, and write to_char for patterns with %"
            );
        }
    };
    if times > most {
        return exec_err!(
            "date_format: the letter \"{letter}\" may stand {most} times at most in the pattern \"{pattern}\""
        );
    }
    let number = |number| Part::Number(number, times);
    Ok(match (letter, times) {
        ('y' | 'u', 2) => Part::ShortYear,
        ('y' | 'u', _) => number(Number::Year),
        ('M' | 'L', 3) => Part::MonthName { whole: false },
        ('M' | 'L', 4) => Part::MonthName { whole: true },
        ('M' | 'L', _) => number(Number::Month),
        ('E', 4) => Part::WeekdayName { whole: true },
        ('E', _) => Part::WeekdayName { whole: false },
        ('Q' | 'q', _) => number(Number::Quarter),
        ('d', _) => number(Number::Day),
        ('D', _) => number(Number::DayOfYear),
        ('a', _) => Part::HalfDay,
        ('H', _) => number(Number::Hour),
        ('k', _) => number(Number::HourFromOne),
        ('K', _) => number(Number::HalfDayHour),
        ('h', _) => number(Number::HalfDayHourFromOne),
        ('m', _) => number(Number::Minute),
        ('s', _) => number(Number::Second),
        (_, digits) => Part::Fraction(digits),
    })
}

impl Part {
    fn granule_us(&self) -> i64 {
        match self {
            Part::Text(_) | Part::ShortYear | Part::MonthName { .. } | Part::WeekdayName { .. } => {
                DAY_US
            }
            Part::HalfDay => MINUTE_US,
            Part::Fraction(_) => 1,
            Part::Number(number, _) => match number {
                Number::Year
                | Number::Quarter
                | Number::Month
                | Number::Day
                | Number::DayOfYear => DAY_US,
                Number::Hour
                | Number::HourFromOne
                | Number::HalfDayHour
                | Number::HalfDayHourFromOne
                | Number::Minute => MINUTE_US,
                Number::Second => SECOND_US,
            },
        }
    }

    fn write(&self, fields: &Fields, out: &mut String) {
        // Writing to a string does not fail.
        let _ = match self {
            Part::Text(text) => out.write_str(text),
            Part::Number(number, width) => {
                let value = number.of(fields);
                let sign = if value < 0 { "-" } else { "" };
                write!(out, "{sign}{:0width$}", value.unsigned_abs())
            }
            Part::ShortYear => write!(out, "{:02}", fields.year.rem_euclid(100)),
            Part::MonthName { whole } => out.write_str(name(&MONTHS, fields.month - 1, *whole)),
            Part::WeekdayName { whole } => out.write_str(name(&WEEKDAYS, fields.weekday, *whole)),
            Part::HalfDay => out.write_str(if fields.clock_us < DAY_US / 2 { "AM" } else { "PM" }),
            Part::Fraction(digits) => {
                let fraction = format!("{:06}000", fields.clock_us % SECOND_US);
                out.write_str(&fraction[..*digits])
            }
        };
    }
}

fn name(names: &[&'static str], at: i64, whole: bool) -> &'static str {
    let name = usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or_default();
    if whole { name } else { &name[..3.min(name.len())] }
}

impl Number {
    fn of(self, fields: &Fields) -> i64 {
        let hour = fields.clock_us / (60 * MINUTE_US);
        let from_one = |hours: i64| if hour % hours == 0 { hours } else { hour % hours };
        match self {
            Number::Year => fields.year,
            Number::Quarter => (fields.month + 2) / 3,
            Number::Month => fields.month,
            Number::Day => fields.day,
            Number::DayOfYear => fields.day_of_year,
            Number::Hour => hour,
            Number::HourFromOne => from_one(24),
            Number::HalfDayHour => hour % 12,
            Number::HalfDayHourFromOne => from_one(12),
            Number::Minute => fields.clock_us / MINUTE_US % 60,
            Number::Second => fields.clock_us / SECOND_US % 60,
        }
    }
}

/// A local time by the calendar.
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    /// 0 for Monday.
    weekday: i64,
    clock_us: i64,
}

impl Fields {
    fn of(micros: i64) -> Self {
        let day_number = micros.div_euclid(DAY_US);
        let (year, month, day) = civil(day_number);
        Fields {
            year,
            month,
            day,
            day_of_year: day_number - days(year, 1, 1) + 1,
            // The first day of 1970 was a Thursday.
            weekday: (day_number + 3).rem_euclid(7),
            clock_us: micros.rem_euclid(DAY_US),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pattern: &str, micros: i64) -> String {
        let mut out = String::new();
        Pattern::new(pattern).unwrap().write(micros, &mut out);
        out
    }

    fn at(year: i64, month: i64, day: i64, clock: i64) -> i64 {
        days(year, month, day) * DAY_US + clock
    }

    #[test]
    fn letters_say_what_is_shown_and_how_wide() {
        let time = at(2024, 2, 9, 13 * 3_600 * SECOND_US + 5 * MINUTE_US + 7 * SECOND_US + 42_000);
        for (pattern, wanted) in [
            ("yyyy-MM-dd", "2024-02-09"),
            ("yy/M/d", "24/2/9"),
            ("HH:mm:ss.SSS", "13:05:07.042"),
            ("h 'o''clock' a", "1 o'clock PM"),
            ("EEE, EEEE, MMM, MMMM", "Fri, Friday, Feb, February"),
            ("DDD Q K k SSSSSSSSS ''", "040 1 1 13 042000000 '"),
            ("y年", "2024年"),
            ("", ""),
        ] {
            assert_eq!(text(pattern, time), wanted, "{pattern}");
        }
        assert_eq!(text("yyyy h k H", at(-5, 1, 1, 0)), "-0005 12 24 0");
        assert_eq!(text("E yyyy-MM-dd", -1), "Wed 1969-12-31");
    }

    #[test]
    fn letters_without_a_meaning_are_errors() {
        for pattern in ["YYYY", "%Y-%m", "yyyy 'open", "ddd", "b"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_text_is_kept_only_while_nothing_that_it_shows_changes() {
        let pattern = Pattern::new("HH:mm").unwrap();
        let mut last = Last::default();
        assert_eq!(last.text(&pattern, 0), "00:00");
        assert_eq!(last.text(&pattern, MINUTE_US - 1), "00:00");
        assert_eq!(last.text(&pattern, MINUTE_US), "00:01");
        assert_eq!(last.text(&pattern, -1), "23:59");
    }
}
