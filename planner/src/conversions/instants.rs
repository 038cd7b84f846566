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

/// Timestamps, intervals and durations in the form in which results show them; points in time are shown in the zone of
/// their type.
pub(super) fn text(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Timestamp(unit, zone_name) => {
            let ticks = cast(values, &DataType::Int64)?;
            let per_second = per_second(*unit);
            let zone = zone_name.as_deref().map(zone).transpose()?;
            let ticks = ticks.as_primitive::<Int64Type>().iter();
            Ok(texts(ticks, |ticks, out| {
                let offset =
                    zone.as_ref().map(|zone| offset_at(ticks.div_euclid(per_second), zone));
                time_text::write_timestamp(ticks, per_second, offset, out);
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

/// Texts of points in time for the library, which wants seconds where there are minutes: `2026-01-01 10:00` gets `:00`.
pub(super) fn with_seconds(values: &ArrayRef) -> Result<ArrayRef> {
    let values = cast(values, &DataType::Utf8View)?;
    let complete = |text: Option<&str>| text.is_none_or(|text| minutes_end(text).is_none());
    if values.as_string_view().iter().all(complete) {
        return Ok(values);
    }
    Ok(texts(values.as_string_view().iter(), |text, out| match minutes_end(text) {
        Some(end) => {
            let (minutes, zone) = text.split_at(end);
            out.extend([minutes, ":00", zone]);
        }
        None => out.push_str(text),
    }))
}

/// Where the seconds of a point in time are missing: behind `YYYY-MM-DD HH:MM`, before a zone or the end.
fn minutes_end(text: &str) -> Option<usize> {
    const FORM: &[u8] = b"0000-00-00 00:00";
    let begin = text.len() - text.trim_start().len();
    let bytes = text.as_bytes().get(begin..)?;
    let fits = bytes.len() >= FORM.len()
        && FORM.iter().zip(bytes).all(|(form, byte)| match form {
            b'0' => byte.is_ascii_digit(),
            b' ' => matches!(byte, b' ' | b'T' | b't'),
            other => byte == other,
        });
    let ends = bytes.get(FORM.len()).is_none_or(|next| !matches!(next, b':' | b'0'..=b'9'));
    (fits && ends).then_some(begin + FORM.len())
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

/// The zone of this name.
pub(super) fn zone(name: &str) -> Result<Tz> {
    let name = if name.eq_ignore_ascii_case("z") { UTC } else { name };
    match name.parse() {
        Ok(zone) => Ok(zone),
        Err(_) => exec_err!("there is no time zone \"{name}\""),
    }
}

/// Seconds by which clocks of a zone are before UTC at a point in time, in seconds since 1970; none where the calendar
/// of zones ends.
pub(super) fn offset_at(seconds: i64, zone: &Tz) -> i32 {
    let utc = DateTime::from_timestamp_secs(seconds).map(|utc| utc.naive_utc());
    utc.map_or(0, |utc| zone.offset_from_utc_datetime(&utc).fix().local_minus_utc())
}

/// Points in time of any zone as texts that show them in one.
pub fn zoned_text(values: &ArrayRef, zone: &str) -> Result<ArrayRef> {
    match values.data_type() {
        // Only the label of the zone changes.
        DataType::Timestamp(unit, Some(_)) => {
            text(&cast(values, &DataType::Timestamp(*unit, Some(zone.into())))?)
        }
        _ => text(values),
    }
}

fn offset_us(offset: &impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc()) * 1_000_000
}

/// The local time of a point in time, in microseconds.
pub(super) fn local(micros: i64, zone: &Tz) -> Option<i64> {
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
    fn missing_seconds_are_zero() {
        let end = |text| minutes_end(text).map(|end| &text[..end]);
        assert_eq!(end("2026-01-01 10:00"), Some("2026-01-01 10:00"));
        assert_eq!(end(" 2026-01-01T10:00+02"), Some(" 2026-01-01T10:00"));
        for whole in ["2026-01-01 10:00:01", "2026-01-01", "", "10:00", "2026-01-01 10:000", "ü"] {
            assert_eq!(end(whole), None, "{whole}");
        }
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
        let times: ArrayRef = Arc::new(
            TimestampMicrosecondArray::from(vec![micros("2026-07-01 00:00"), i64::MAX, i64::MIN])
                .with_timezone(UTC),
        );
        let texts = zoned_text(&times, "Asia/Kolkata").unwrap();
        let texts = texts.as_string_view();
        assert_eq!(texts.value(0), "2026-07-01 05:30:00+05:30");
        assert_eq!(texts.value(1), "294247-01-10 04:00:54.775807+00");
        assert!(zone("+05:30").is_ok());
    }
}
