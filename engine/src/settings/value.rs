//! The kinds of settings, their values, and how both are read from and written as text.
//!
//! Invariant: what [`SettingValue`] displays is read back by [`SettingKind::parse`] as the same value.

use std::path::Path;
use std::{fmt, fs, io};

use arrow::array::timezone::Tz;

use crate::error::{Error, Report, Result};

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// A whole number in a range, both ends included.
    Count {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// A number of bytes such as `512MB`, or `unlimited`.
    Bytes {
        /// The least value.
        min: u64,
    },
    /// A time such as `100 ms`; a bare number counts milliseconds.
    Duration {
        /// Whether −1 is a value too.
        minus_one: bool,
    },
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A directory that can be written to: it exists, or it can be made.
    Directory,
    /// The name of a time zone, or an offset such as `+02:00`.
    TimeZone,
}

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// See [`SettingKind::Count`].
    Count(u64),
    /// See [`SettingKind::Bytes`]; `None` is `unlimited`.
    Bytes(Option<u64>),
    /// See [`SettingKind::Duration`], in microseconds; −1 stands for itself.
    Duration(i64),
    /// See [`SettingKind::Switch`].
    Switch(bool),
    /// See [`SettingKind::Choice`].
    Choice(&'static str),
    /// See [`SettingKind::Directory`] and [`SettingKind::TimeZone`].
    Text(String),
}

/// Units of memory, the greatest first; 1 KB is 2^10 bytes.
const BYTE_UNITS: [(&str, u32); 5] = [("TB", 40), ("GB", 30), ("MB", 20), ("KB", 10), ("B", 0)];

/// Units of time in microseconds, the greatest first; the first name of a unit is the one that is shown.
const TIME_UNITS: [(&[&str], i64); 7] = [
    (&["w", "week", "weeks"], 604_800_000_000),
    (&["d", "day", "days"], 86_400_000_000),
    (&["h", "hour", "hours"], 3_600_000_000),
    (&["min", "m", "minute", "minutes"], 60_000_000),
    (&["s", "sec", "second", "seconds"], 1_000_000),
    (&["ms", "milli", "millis", "millisecond", "milliseconds"], 1_000),
    (&["us", "µs", "micro", "micros", "microsecond", "microseconds"], 1),
];

impl SettingKind {
    /// Reads the value of the setting `key`.
    pub fn parse(self, key: &str, text: &str) -> Result<SettingValue> {
        let text = text.trim();
        let value = match self {
            SettingKind::Count { min, max } => {
                text.parse().ok().filter(|n| (min..=max).contains(n)).map(SettingValue::Count)
            }
            SettingKind::Bytes { min } => parse_bytes(text)
                .filter(|bytes| bytes.is_none_or(|bytes| bytes >= min))
                .map(SettingValue::Bytes),
            SettingKind::Duration { minus_one } => parse_duration(text)
                .filter(|&us| us >= 0 || (us == -1 && minus_one))
                .map(SettingValue::Duration),
            SettingKind::Switch => parse_switch(text).map(SettingValue::Switch),
            SettingKind::Choice(words) => {
                words.iter().find(|w| w.eq_ignore_ascii_case(text)).map(|w| SettingValue::Choice(w))
            }
            SettingKind::Directory => {
                let checked = check_directory(Path::new(text));
                checked.map_err(|reason| self.refused(key, text, Some(reason)))?;
                Some(SettingValue::Text(text.to_string()))
            }
            SettingKind::TimeZone => time_zone(text).map(SettingValue::Text),
        };
        value.ok_or_else(|| self.refused(key, text, None))
    }

    fn refused(self, key: &str, text: &str, reason: Option<String>) -> Error {
        let report = Report::new(format!("invalid value for the setting {key}: \"{text}\""));
        let report = Report { detail: reason, ..report };
        Error::setting(report.with_hint(self.expectation()))
    }

    /// What the setting takes, as a sentence.
    fn expectation(self) -> String {
        match self {
            SettingKind::Count { min, max } => {
                format!("It takes a whole number from {min} to {max}.")
            }
            SettingKind::Bytes { min: 0 } => {
                "It takes a size such as 512MB (1 MB is 2^20 bytes), or unlimited.".to_string()
            }
            SettingKind::Bytes { min } => format!(
                "It takes a size of at least {}, such as 512MB (1 MB is 2^20 bytes), or unlimited.",
                SettingValue::Bytes(Some(min))
            ),
            SettingKind::Duration { minus_one } => {
                let units: Vec<&str> = TIME_UNITS.iter().map(|(names, _)| names[0]).collect();
                let or = if minus_one { ", or -1" } else { "" };
                format!(
                    "It takes a time of at least 0 such as 100 ms{or}; the units are {}.",
                    units.join(", ")
                )
            }
            SettingKind::Switch => "It takes on or off.".to_string(),
            SettingKind::Choice(words) => format!("It takes one of: {}.", words.join(", ")),
            SettingKind::Directory => {
                "It takes a directory that exists and can be written to, or an absolute path whose last part is to be made."
                    .to_string()
            }
            SettingKind::TimeZone => {
                "It takes the name of a time zone such as Europe/Berlin, or an offset such as +02:00."
                    .to_string()
            }
        }
    }
}

/// The time zone of a name in any letter case, as the list of zones spells it: `Europe/Berlin`, `America/Port_of_Spain`,
/// `UTC`.
fn time_zone(text: &str) -> Option<String> {
    let mut capitalised = String::with_capacity(text.len());
    for word in text.split_inclusive(['/', '_', '-']) {
        match word {
            "of_" | "es_" | "au_" | "OF_" | "ES_" | "AU_" => {
                capitalised.push_str(&word.to_ascii_lowercase());
            }
            word => {
                let mut chars = word.chars();
                capitalised.extend(chars.next().map(|c| c.to_ascii_uppercase()));
                capitalised.extend(chars.map(|c| c.to_ascii_lowercase()));
            }
        }
    }
    let spellings = [text.to_string(), capitalised, text.to_ascii_uppercase()];
    spellings.into_iter().find(|name| name.parse::<Tz>().is_ok())
}

/// Why a directory cannot be written to; one that is missing is made, if it has an absolute path and a parent.
fn check_directory(path: &Path) -> Result<(), String> {
    let made = match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) if path.is_absolute() => fs::create_dir(path),
        Ok(false) => return Err("There is no such directory.".to_string()),
        Err(error) => Err(error),
    };
    made.and_then(|()| match path.is_dir() {
        true => tempfile::tempfile_in(path).map(|_| ()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    })
    .map_err(|error| format!("A file cannot be made there: {error}."))
}

fn parse_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Number and unit of `12.5 ms`; the unit is in lower case and may be empty.
fn split_unit(text: &str) -> (&str, String) {
    let at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    (text[..at].trim(), text[at..].trim().to_lowercase())
}

/// Bytes of a size; the outer option is for failure, the inner one for `unlimited`.
fn parse_bytes(text: &str) -> Option<Option<u64>> {
    if ["unlimited", "none"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(None);
    }
    let (number, unit) = split_unit(text);
    // `MB`, `MiB` and `M` are one unit.
    let unit = unit.trim_end_matches('b').trim_end_matches('i').to_string();
    let shift = BYTE_UNITS
        .iter()
        .find(|(name, _)| name.trim_end_matches('B').eq_ignore_ascii_case(&unit))?
        .1;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).map(Some);
    }
    if shift == 0 {
        // There is no part of a byte: a unit is missing.
        return None;
    }
    let bytes = number.parse::<f64>().ok()? * (1u64 << shift) as f64;
    (bytes.is_finite() && (0.0..9e18).contains(&bytes)).then_some(Some(bytes as u64))
}

/// Microseconds of a time; a number without a unit counts milliseconds, but −1 is itself.
fn parse_duration(text: &str) -> Option<i64> {
    if text == "-1" {
        return Some(-1);
    }
    let (number, unit) = split_unit(text);
    let factor = match unit.as_str() {
        "" => 1_000,
        unit => TIME_UNITS.iter().find(|(names, _)| names.contains(&unit))?.1,
    };
    let micros = match number.parse::<i64>() {
        Ok(whole) => whole.checked_mul(factor)?,
        Err(_) => {
            let micros = number.parse::<f64>().ok()? * factor as f64;
            (micros.is_finite() && micros.abs() < 9e18).then_some(micros.round() as i64)?
        }
    };
    // A negative time with a unit must not be taken for the number −1.
    (micros >= 0).then_some(micros)
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Count(count) => write!(f, "{count}"),
            SettingValue::Bytes(None) => f.write_str("unlimited"),
            SettingValue::Bytes(Some(bytes)) => {
                let exact =
                    BYTE_UNITS.iter().find(|(_, shift)| *bytes > 0 && bytes % (1 << shift) == 0);
                let (unit, shift) = exact.unwrap_or(&("B", 0));
                write!(f, "{}{unit}", bytes >> shift)
            }
            SettingValue::Duration(0 | -1) => write!(f, "{}", self.micros()),
            SettingValue::Duration(micros) => {
                let exact = TIME_UNITS.iter().find(|(_, factor)| micros % factor == 0);
                let (names, factor) = exact.unwrap_or(&(&["us"], 1));
                write!(f, "{} {}", micros / factor, names[0])
            }
            SettingValue::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            SettingValue::Choice(word) => f.write_str(word),
            SettingValue::Text(text) => f.write_str(text),
        }
    }
}

impl SettingValue {
    /// The time of a duration in microseconds.
    fn micros(&self) -> i64 {
        match self {
            SettingValue::Duration(micros) => *micros,
            SettingValue::Count(_)
            | SettingValue::Bytes(_)
            | SettingValue::Switch(_)
            | SettingValue::Choice(_)
            | SettingValue::Text(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: SettingKind = SettingKind::Duration { minus_one: true };

    fn shown(kind: SettingKind, text: &str) -> Option<String> {
        let value = kind.parse("k", text).ok()?;
        let text = value.to_string();
        assert_eq!(kind.parse("k", &text).unwrap(), value, "{text} is read back");
        Some(text)
    }

    #[test]
    fn sizes_are_powers_of_two() {
        const SIZE: SettingKind = SettingKind::Bytes { min: 0 };
        assert_eq!(SIZE.parse("k", "512MB").unwrap(), SettingValue::Bytes(Some(512 << 20)));
        assert_eq!(SIZE.parse("k", "1.5 GiB").unwrap(), SettingValue::Bytes(Some(3 << 29)));
        assert_eq!(shown(SIZE, "4096 k").as_deref(), Some("4MB"));
        assert_eq!(shown(SIZE, "1000").as_deref(), Some("1000B"));
        assert_eq!(shown(SIZE, "UNLIMITED").as_deref(), Some("unlimited"));
        for bad in ["", "MB", "-1MB", "12 XB", "12.x MB", "99999999TB", "1.5"] {
            assert_eq!(shown(SIZE, bad), None, "{bad}");
        }
    }

    #[test]
    fn times_have_units_or_count_milliseconds() {
        assert_eq!(TIME.parse("k", "100 ms").unwrap(), SettingValue::Duration(100_000));
        assert_eq!(shown(TIME, "250").as_deref(), Some("250 ms"));
        assert_eq!(shown(TIME, "90s").as_deref(), Some("90 s"));
        assert_eq!(shown(TIME, "1.5 min").as_deref(), Some("90 s"));
        assert_eq!(shown(TIME, "0").as_deref(), Some("0"));
        assert_eq!(shown(TIME, "-1").as_deref(), Some("-1"));
        assert_eq!(shown(TIME, "1 week").as_deref(), Some("1 w"));
        for bad in ["-2", "-1 us", "-1 ms", "ms", "5 parsecs", ""] {
            assert_eq!(shown(TIME, bad), None, "{bad}");
        }
        let error = TIME.parse("k", "5 parsecs").unwrap_err();
        assert_eq!(
            error.hint(),
            Some(
                "It takes a time of at least 0 such as 100 ms, or -1; the units are w, d, h, min, s, ms, us."
            )
        );
        assert!(SettingKind::Duration { minus_one: false }.parse("k", "-1").is_err());
    }

    #[test]
    fn zones_exist_and_memory_has_a_least_size() {
        assert!(SettingKind::TimeZone.parse("k", "Europe/Berlin").is_ok());
        assert!(SettingKind::TimeZone.parse("k", "+02:00").is_ok());
        assert!(SettingKind::TimeZone.parse("k", "Bogus/Zone").is_err());
        for (text, name) in [
            ("europe/berlin", "Europe/Berlin"),
            ("AMERICA/PORT_OF_SPAIN", "America/Port_of_Spain"),
            ("utc", "UTC"),
        ] {
            assert_eq!(shown(SettingKind::TimeZone, text).as_deref(), Some(name));
        }
        let memory = SettingKind::Bytes { min: 1 << 20 };
        assert!(memory.parse("k", "1MB").is_ok() && memory.parse("k", "unlimited").is_ok());
        let error = memory.parse("k", "0").unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.contains("at least 1MB")), "{error}");
    }

    #[test]
    fn directories_can_be_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let set = |text: &str| SettingKind::Directory.parse("k", text);
        assert_eq!(set(&path("")).unwrap(), SettingValue::Text(path("")));
        assert!(set(&path("made")).is_ok() && folder.path().join("made").is_dir());
        fs::write(folder.path().join("file"), "").unwrap();
        for bad in [&path("file"), &path("file/x"), &path("no/such"), "", "5", "no/such"] {
            assert!(
                set(bad).unwrap_err().to_string().contains("HINT: It takes a directory"),
                "{bad}"
            );
        }
    }

    #[test]
    fn errors_say_what_is_expected() {
        let error = SettingKind::Count { min: 1, max: 8 }.parse("threads", "0").unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid value for the setting threads: \"0\"\nHINT: It takes a whole number from 1 to 8."
        );
        let error = SettingKind::Choice(&["a", "b"]).parse("mode", "c").unwrap_err();
        assert_eq!(error.hint(), Some("It takes one of: a, b."));
    }
}
