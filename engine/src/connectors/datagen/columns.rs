//! What the options `fields.COLUMN.…` say about a column.

use arrow::datatypes::{DataType, Field, TimeUnit};
use serde::{Deserialize, Serialize};
use thalweg_planner::{intervals, sql_type_name};

use crate::connectors::streaming::ConnectorOptions;
use crate::connectors::streaming::options::wrong_value;
use crate::connectors::text::value as text;
use crate::error::{Error, Report, Result};

/// Length of texts, when the user does not say.
const TEXT_LENGTH: u64 = 100;
/// Bytes that a text may have.
const TEXT_LENGTH_MAX: u64 = 1 << 20;
/// A sequence of so many values has no end: a million rows a second would take 35 years.
const ENDLESS_ROWS: u64 = 1 << 50;
/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;
/// Microseconds between the values of a sequence of times, when the user does not say.
const TIME_STEP_US: i64 = 1_000;

/// How the values of a column are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnSpec {
    /// The values.
    pub values: ValuesSpec,
    /// The share of NULLs, from 0 to 1.
    pub null_rate: f64,
}

/// Values by the kind of column. Whole numbers are in the unit of the column: days for dates, ticks for times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ValuesSpec {
    /// Any whole number between two, both included.
    Integers {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// `start`, `start + step`, …; at most `count` of them.
    Sequence {
        /// The first.
        start: i64,
        /// From one to the next.
        step: i64,
        /// How many there are, unless they are more than anyone waits for.
        count: Option<u64>,
    },
    /// Decimals as whole numbers of their last digit.
    Decimals {
        /// The least.
        #[serde(with = "as_text")]
        min: i128,
        /// The greatest.
        #[serde(with = "as_text")]
        max: i128,
    },
    /// Any number from `min` up to, but without, `max`.
    Doubles {
        /// The least.
        min: f64,
        /// The end.
        max: f64,
    },
    /// True and false.
    Booleans,
    /// Text of hexadecimal digits.
    Text {
        /// Digits.
        length: usize,
    },
    /// Bytes.
    Bytes {
        /// How many.
        length: usize,
    },
    /// Times up to so many microseconds before the moment at which they are made.
    Past {
        /// How long ago at most.
        max_us: i64,
    },
}

/// Whole numbers of 128 bits as texts: numbers of JSON are shorter.
mod as_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(number: &i128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i128, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl ColumnSpec {
    /// Takes the options of a column.
    pub fn new(field: &Field, options: &mut ConnectorOptions<'_>) -> Result<Self> {
        let mut options = ColumnOptions { field, options };
        let null_rate = options.value("null-rate", "a number from 0 to 1")?.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&null_rate) {
            let key = options.key("null-rate");
            return Err(wrong_value(&key, &null_rate.to_string(), "a number from 0 to 1"));
        }
        let values = match options.text("kind").map(|kind| kind.to_lowercase()).as_deref() {
            None | Some("random") => options.random()?,
            Some("sequence") => options.sequence()?,
            Some(other) => {
                return Err(wrong_value(&options.key("kind"), other, "random or sequence"));
            }
        };
        Ok(ColumnSpec { values, null_rate })
    }

    /// How many rows there can be, if the column has an end.
    pub fn rows(&self) -> Option<u64> {
        match &self.values {
            ValuesSpec::Sequence { count, .. } => *count,
            ValuesSpec::Integers { .. }
            | ValuesSpec::Decimals { .. }
            | ValuesSpec::Doubles { .. }
            | ValuesSpec::Booleans
            | ValuesSpec::Text { .. }
            | ValuesSpec::Bytes { .. }
            | ValuesSpec::Past { .. } => None,
        }
    }
}

/// The options of one column.
struct ColumnOptions<'a, 'b> {
    field: &'a Field,
    options: &'a mut ConnectorOptions<'b>,
}

impl ColumnOptions<'_, '_> {
    fn key(&self, option: &str) -> String {
        format!("fields.{}.{option}", self.field.name())
    }

    fn text(&mut self, option: &str) -> Option<String> {
        self.options.text(&self.key(option))
    }

    fn value<T: std::str::FromStr>(&mut self, option: &str, what: &str) -> Result<Option<T>> {
        let key = self.key(option);
        self.options.value(&key, what)
    }

    fn random(&mut self) -> Result<ValuesSpec> {
        let data_type = self.field.data_type().clone();
        Ok(match &data_type {
            DataType::Boolean => ValuesSpec::Booleans,
            DataType::Float32 | DataType::Float64 => {
                let min = self.value("min", "a number")?.unwrap_or(0.0);
                let max = self.value("max", "a number")?.unwrap_or(if min < 1.0 {
                    1.0
                } else {
                    f64::MAX
                });
                self.ordered(min <= max && f64::is_finite(max - min))?;
                ValuesSpec::Doubles { min, max }
            }
            DataType::Decimal128(precision, scale) => {
                let greatest = 10_i128.pow(u32::from(*precision)) - 1;
                let min = self.decimal("min", *precision, *scale)?.unwrap_or(-greatest);
                let max = self.decimal("max", *precision, *scale)?.unwrap_or(greatest);
                self.ordered(min <= max)?;
                ValuesSpec::Decimals { min, max }
            }
            DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => {
                ValuesSpec::Text { length: self.length()? }
            }
            DataType::BinaryView | DataType::Binary | DataType::LargeBinary => {
                ValuesSpec::Bytes { length: self.length()? }
            }
            DataType::Timestamp(..) => self.random_time()?,
            other => {
                let Some((least, greatest)) = range(other) else { return Err(self.no_generator()) };
                let min = self.whole("min")?.unwrap_or(least);
                let max = self.whole("max")?.unwrap_or(greatest);
                self.ordered(min <= max && least <= min && max <= greatest)?;
                ValuesSpec::Integers { min, max }
            }
        })
    }

    /// Times between two, or else a short while ago.
    fn random_time(&mut self) -> Result<ValuesSpec> {
        let (min, max) = (self.whole("min")?, self.whole("max")?);
        let max_us = self.duration("max-past")?;
        match (min, max) {
            (None, None) => Ok(ValuesSpec::Past { max_us: max_us.unwrap_or(0) }),
            (Some(min), Some(max)) if max_us.is_none() => {
                self.ordered(min <= max)?;
                Ok(ValuesSpec::Integers { min, max })
            }
            _ => {
                let report = Report::new(format!(
                    "column \"{}\" needs both a least and a greatest time, or how long ago it may be",
                    self.field.name()
                ));
                Err(Error::catalog(report.with_hint(format!(
                    "Give {} and {}, or {} alone.",
                    self.key("min"),
                    self.key("max"),
                    self.key("max-past")
                ))))
            }
        }
    }

    fn sequence(&mut self) -> Result<ValuesSpec> {
        let data_type = self.field.data_type().clone();
        let is_text =
            matches!(data_type, DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8);
        let is_time = matches!(data_type, DataType::Timestamp(..));
        let limits =
            if is_text || is_time { Some((i64::MIN, i64::MAX)) } else { range(&data_type) };
        let Some((least, greatest)) = limits else { return Err(self.no_generator()) };
        let Some(start) = self.whole("start")? else {
            let key = self.key("start");
            let report = Report::new(format!("a sequence needs a start: \"{key}\""));
            return Err(Error::catalog(report));
        };
        let last = self.whole("end")?.unwrap_or(greatest);
        let step = match ticks_per_us(&data_type) {
            Some(per_us) => {
                let us = self.duration("step")?.unwrap_or(TIME_STEP_US);
                per_us.of_us(us).filter(|step| *step > 0)
            }
            None => Some(self.value("step", "a whole number from 1")?.unwrap_or(1)),
        };
        let Some(step) = step.filter(|step| *step > 0) else {
            let key = self.key("step");
            return Err(Error::catalog(Report::new(format!("{key} must be greater than 0"))));
        };
        self.ordered(least <= start && start <= last && last <= greatest)?;
        let count = (i128::from(last) - i128::from(start)) / i128::from(step) + 1;
        let count = u64::try_from(count).ok().filter(|count| *count < ENDLESS_ROWS);
        Ok(ValuesSpec::Sequence { start, step, count })
    }

    fn length(&mut self) -> Result<usize> {
        let length = self.options.number(&self.key("length"), 0)?.unwrap_or(TEXT_LENGTH);
        match usize::try_from(length) {
            Ok(bytes) if length <= TEXT_LENGTH_MAX => Ok(bytes),
            _ => {
                let what = format!("at most {TEXT_LENGTH_MAX}");
                Err(wrong_value(&self.key("length"), &length.to_string(), &what))
            }
        }
    }

    /// A value of the column as a whole number of its unit.
    fn whole(&mut self, option: &str) -> Result<Option<i64>> {
        let Some(given) = self.text(option) else { return Ok(None) };
        let bytes = given.trim().as_bytes();
        let data_type = self.field.data_type();
        let parsed = match data_type {
            DataType::Date32 => text::date(bytes).map(i64::from),
            DataType::Timestamp(unit, _) => text::timestamp(bytes).and_then(|time| {
                let us = time.micros;
                match unit {
                    TimeUnit::Nanosecond => us.checked_mul(1_000),
                    TimeUnit::Microsecond => Some(us),
                    TimeUnit::Millisecond => Some(us.div_euclid(1_000)),
                    TimeUnit::Second => Some(us.div_euclid(1_000_000)),
                }
            }),
            DataType::Time64(TimeUnit::Nanosecond) => text::time(bytes),
            _ => text::integer(bytes),
        };
        parsed.map(Some).ok_or_else(|| {
            let what = format!("a value of {}", sql_type_name(data_type));
            wrong_value(&self.key(option), &given, &what)
        })
    }

    fn decimal(&mut self, option: &str, precision: u8, scale: i8) -> Result<Option<i128>> {
        let Some(given) = self.text(option) else { return Ok(None) };
        let parsed = text::decimal(given.trim().as_bytes(), precision, scale);
        parsed.map(Some).ok_or_else(|| {
            let what = format!("a value of {}", sql_type_name(self.field.data_type()));
            wrong_value(&self.key(option), &given, &what)
        })
    }

    /// Microseconds of a text such as `5 s`.
    fn duration(&mut self, option: &str) -> Result<Option<i64>> {
        let Some(given) = self.text(option) else { return Ok(None) };
        let parsed = intervals::parse(&given).filter(|interval| interval.months == 0);
        let us = parsed.and_then(|interval| {
            i64::from(interval.days).checked_mul(DAY_US)?.checked_add(interval.nanoseconds / 1_000)
        });
        match us.filter(|us| *us >= 0) {
            Some(us) => Ok(Some(us)),
            None => Err(wrong_value(&self.key(option), &given, "a time such as '5 s'")),
        }
    }

    fn ordered(&self, well: bool) -> Result<()> {
        if well {
            return Ok(());
        }
        let (name, data_type) = (self.field.name(), sql_type_name(self.field.data_type()));
        let report =
            Report::new(format!("the limits of column \"{name}\" enclose no value of {data_type}"));
        Err(Error::catalog(report))
    }

    fn no_generator(&self) -> Error {
        let data_type = sql_type_name(self.field.data_type());
        let report = Report::new(format!(
            "datagen makes no such values of {data_type} (column \"{}\")",
            self.field.name()
        ));
        Error::Unsupported(Box::new(report))
    }
}

/// The least and the greatest value of columns that are whole numbers inside; doubles, decimals, texts and timestamps
/// are not among them.
fn range(data_type: &DataType) -> Option<(i64, i64)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN, i64::MAX),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, i64::MAX),
        // From 1970 to 2099.
        DataType::Date32 => (0, 47_481),
        DataType::Time64(TimeUnit::Nanosecond) => (0, DAY_US * 1_000 - 1),
        _ => return None,
    })
}

/// How ticks of a time and microseconds convert.
struct PerUs(TimeUnit);

impl PerUs {
    fn of_us(&self, us: i64) -> Option<i64> {
        match self.0 {
            TimeUnit::Nanosecond => us.checked_mul(1_000),
            TimeUnit::Microsecond => Some(us),
            TimeUnit::Millisecond => Some(us / 1_000),
            TimeUnit::Second => Some(us / 1_000_000),
        }
    }
}

fn ticks_per_us(data_type: &DataType) -> Option<PerUs> {
    match data_type {
        DataType::Timestamp(unit, _) | DataType::Time64(unit) => Some(PerUs(*unit)),
        _ => None,
    }
}
