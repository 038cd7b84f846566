//! Points in time as text, and in the zones of the world.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationNanosecondType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion_common::{DataFusionError, Result, exec_err};

use crate::{intervals, time_text};

/// The zone in which points in time are kept.
pub(super) const UTC: &str = "UTC";

/// Timestamps, intervals and durations in the form in which results show them.
pub(super) fn text(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Timestamp(unit, zone) => {
            let ticks = cast(values, &DataType::Int64)?;
            let (per_second, zoned) = (per_second(*unit), zone.is_some());
            let ticks = ticks.as_primitive::<Int64Type>().iter();
            Ok(texts(ticks, |ticks, out| {
                time_text::write_timestamp(ticks, per_second, zoned, out);
            }))
        }
        DataType::Interval(_) => {
            let whole = cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            Ok(texts(whole.as_primitive::<IntervalMonthDayNanoType>().iter(), intervals::write))
        }
        DataType::Duration(_) => {
            let whole = cast(values, &DataType::Duration(TimeUnit::Nanosecond))?;
            Ok(texts(whole.as_primitive::<DurationNanosecondType>().iter(), |nanoseconds, out| {
                intervals::write(IntervalMonthDayNano { months: 0, days: 0, nanoseconds }, out);
            }))
        }
        _ => Ok(cast(values, &DataType::Utf8View)?),
    }
}

fn texts<T>(
    values: impl ExactSizeIterator<Item = Option<T>>,
    write: impl Fn(T, &mut String),
) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut buffer = String::new();
    for value in values {
        match value {
            None => builder.append_null(),
            Some(value) => {
                buffer.clear();
                write(value, &mut buffer);
                builder.append_value(&buffer);
            }
        }
    }
    Arc::new(builder.finish())
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Points in time as local times of zones, and local times as points in time.
pub(super) fn in_zone(zones: &ArrayRef, times: &ArrayRef) -> Result<ArrayRef> {
    let zoned = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let micros = match zoned {
        // Only the label of the zone changes.
        true => cast(times, &DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())))?,
        false => cast(times, &DataType::Timestamp(TimeUnit::Microsecond, None))?,
    };
    let zones = cast(zones, &DataType::Utf8)?;
    let mut known: Option<(String, Tz)> = None;
    let pairs = zones
        .as_string::<i32>()
        .iter()
        .zip(micros.as_primitive::<TimestampMicrosecondType>().iter());
    let moved = pairs.map(|(name, micros)| {
        let (Some(name), Some(micros)) = (name, micros) else { return Ok(None) };
        if known.as_ref().is_none_or(|(before, _)| before != name) {
            known = Some((name.to_string(), zone(name)?));
        }
        let Some((_, zone)) = &known else { return Ok(None) };
        let moved = if zoned { local(micros, zone) } else { instant(micros, zone) };
        moved.map(Some).ok_or_else(|| DataFusionError::Execution("timestamp out of range".into()))
    });
    let moved = moved.collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(if zoned { Arc::new(moved) } else { Arc::new(moved.with_timezone(UTC)) })
}

fn zone(name: &str) -> Result<Tz> {
    let name = if name.eq_ignore_ascii_case("z") { UTC } else { name };
    match name.parse() {
        Ok(zone) => Ok(zone),
        Err(_) => exec_err!("there is no time zone \"{name}\""),
    }
}

fn offset_us(offset: &impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc()) * 1_000_000
}

/// The local time of a point in time, in microseconds.
fn local(micros: i64, zone: &Tz) -> Option<i64> {
    let utc = DateTime::from_timestamp_micros(micros)?.naive_utc();
    micros.checked_add(offset_us(&zone.offset_from_utc_datetime(&utc)))
}

/// The point in time of a local time, in microseconds. Of two, where clocks are turned back, it is the later one, in
/// standard time; a local time that clocks leave out is read by the offset before, both as in PostgreSQL.
fn instant(micros: i64, zone: &Tz) -> Option<i64> {
    let local = DateTime::from_timestamp_micros(micros)?.naive_utc();
    let offset = match zone.offset_from_local_datetime(&local) {
        LocalResult::Single(offset) | LocalResult::Ambiguous(_, offset) => offset_us(&offset),
        LocalResult::None => offset_before(&local, zone)?,
    };
    micros.checked_sub(offset)
}

fn offset_before(local: &NaiveDateTime, zone: &Tz) -> Option<i64> {
    let before = local.checked_sub_signed(TimeDelta::days(1))?;
    Some(offset_us(&zone.offset_from_utc_datetime(&before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap().and_utc().timestamp_micros()
    }

    #[test]
    fn zones_move_points_in_time_and_back() {
        let berlin = zone("Europe/Berlin").unwrap();
        assert_eq!(local(micros("2026-07-01 00:00"), &berlin), Some(micros("2026-07-01 02:00")));
        assert_eq!(instant(micros("2026-07-01 02:00"), &berlin), Some(micros("2026-07-01 00:00")));
        assert_eq!(instant(micros("2026-01-01 02:00"), &berlin), Some(micros("2026-01-01 01:00")));
        // Twice at the end of summer, never at its beginning.
        assert_eq!(instant(micros("2026-10-25 02:30"), &berlin), Some(micros("2026-10-25 01:30")));
        assert_eq!(instant(micros("2026-03-29 02:30"), &berlin), Some(micros("2026-03-29 01:30")));
        assert!(zone("Bogus/Zone").is_err());
        assert!(zone("+05:30").is_ok());
    }
}
