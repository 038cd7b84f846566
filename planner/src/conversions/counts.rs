//! `bit_count(n)`, `make_timestamp(…)`, and `date_diff(unit, start, end)`.
//!
//! `date_diff` counts the beginnings of the unit between two points in time: from 23:59 to 00:01 it is one day. A week
//! begins on Monday.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion_common::{DataFusionError, Result, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::over_arrays;
use crate::time_text::{civil, days};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Which of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    BitCount,
    MakeTimestamp,
    DateDiff,
}

/// All of them.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let integers = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64];
    let integers = integers.map(|t| TypeSignature::Exact(vec![t])).to_vec();
    let mut parts = vec![DataType::Int64; 5];
    parts.push(DataType::Float64);
    let forms = [DataType::Date32, TIMESTAMP];
    let spans = forms.iter().flat_map(|start| {
        forms
            .iter()
            .map(|end| TypeSignature::Exact(vec![DataType::Utf8View, start.clone(), end.clone()]))
    });
    let all = [
        (Kind::BitCount, TypeSignature::OneOf(integers)),
        (Kind::MakeTimestamp, TypeSignature::Exact(parts)),
        (Kind::DateDiff, TypeSignature::OneOf(spans.collect())),
    ];
    all.into_iter()
        .map(|(kind, signature)| {
            let signature = Signature::new(signature, Volatility::Immutable);
            let aliases = match kind {
                Kind::DateDiff => vec!["datediff".to_string()],
                Kind::BitCount | Kind::MakeTimestamp => Vec::new(),
            };
            Arc::new(ScalarUDF::from(Function { kind, aliases, signature }))
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.kind {
            Kind::BitCount => "bit_count",
            Kind::MakeTimestamp => "make_timestamp",
            Kind::DateDiff => "date_diff",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::BitCount | Kind::DateDiff => DataType::Int64,
            Kind::MakeTimestamp => TIMESTAMP,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(&args, |arrays| match (self.kind, arrays) {
            (Kind::BitCount, [numbers]) => bit_counts(numbers),
            (Kind::MakeTimestamp, [date @ .., seconds]) if date.len() == 5 => {
                timestamps(date, seconds)
            }
            (Kind::DateDiff, [units, starts, ends]) => differences(units, starts, ends),
            _ => plan_err!("{} was called with other arguments than it takes", self.name()),
        })
    }
}

/// The bits that are one, of as many as the type has.
fn bit_counts(numbers: &ArrayRef) -> Result<ArrayRef> {
    let width = 8 * numbers.data_type().primitive_width().unwrap_or(size_of::<i64>());
    let mask = u64::MAX >> (u64::BITS as usize - width);
    let wide = cast(numbers, &DataType::Int64)?;
    let counts: Int64Array = wide
        .as_primitive::<Int64Type>()
        .unary(|number| i64::from((number as u64 & mask).count_ones()));
    Ok(Arc::new(counts))
}

fn timestamps(date: &[ArrayRef], seconds: &ArrayRef) -> Result<ArrayRef> {
    let parts: Vec<&Int64Array> = date.iter().map(|a| a.as_primitive::<Int64Type>()).collect();
    let times = seconds.as_primitive::<Float64Type>().iter().enumerate().map(|(row, seconds)| {
        let part = |part: &&Int64Array| part.is_valid(row).then(|| part.value(row));
        let whole: Option<Vec<i64>> = parts.iter().map(part).collect();
        let (Some(whole), Some(seconds)) = (whole, seconds) else { return Ok(None) };
        let [year, month, day, hour, minute] = whole.as_slice() else { return Ok(None) };
        timestamp([*year, *month, *day, *hour, *minute], seconds).map(Some).ok_or_else(|| {
            DataFusionError::Execution("make_timestamp: a part is out of its range".to_string())
        })
    });
    Ok(Arc::new(times.collect::<Result<TimestampMicrosecondArray>>()?))
}

fn timestamp([year, month, day, hour, minute]: [i64; 5], seconds: f64) -> Option<i64> {
    let fits = (-290_000..=290_000).contains(&year)
        && (1..=12).contains(&month)
        && (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..=60.0).contains(&seconds);
    if !fits || civil(days(year, month, day)) != (year, month, day) {
        return None;
    }
    let micros = (seconds * SECOND_US as f64).round() as i64;
    let time = (hour * 60 + minute) * 60 * SECOND_US + micros;
    (time <= DAY_US).then(|| days(year, month, day) * DAY_US + time)
}

fn differences(units: &ArrayRef, starts: &ArrayRef, ends: &ArrayRef) -> Result<ArrayRef> {
    let (starts, ends) = (cast(starts, &TIMESTAMP)?, cast(ends, &TIMESTAMP)?);
    let times = starts
        .as_primitive::<TimestampMicrosecondType>()
        .iter()
        .zip(ends.as_primitive::<TimestampMicrosecondType>());
    let rows = units.as_string_view().iter().zip(times);
    let differences = rows.map(|(unit, times)| match (unit, times) {
        (Some(unit), (Some(start), Some(end))) => {
            let unit = unit.to_ascii_lowercase();
            match (ordinal(&unit, start), ordinal(&unit, end)) {
                (Some(start), Some(end)) => Ok(Some(end - start)),
                _ => exec_err!("date_diff: there is no unit \"{unit}\""),
            }
        }
        _ => Ok(None),
    });
    Ok(Arc::new(differences.collect::<Result<Int64Array>>()?))
}

/// The number of the unit in which a point in time lies; `None` for a unit that is none.
fn ordinal(unit: &str, micros: i64) -> Option<i64> {
    let day = micros.div_euclid(DAY_US);
    let (year, month, _) = civil(day);
    Some(match unit.strip_suffix('s').unwrap_or(unit) {
        "millennium" => (year - 1).div_euclid(1_000),
        "century" => (year - 1).div_euclid(100),
        "decade" => year.div_euclid(10),
        "year" => year,
        "quarter" => year * 4 + (month - 1) / 3,
        "month" => year * 12 + month,
        // The first day of 1970 was a Thursday.
        "week" => (day + 3).div_euclid(7),
        "day" => day,
        "hour" => micros.div_euclid(3_600 * SECOND_US),
        "minute" => micros.div_euclid(60 * SECOND_US),
        "second" => micros.div_euclid(SECOND_US),
        "millisecond" => micros.div_euclid(1_000),
        "microsecond" => micros,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int8Array, Int64Array};

    use super::*;

    #[test]
    fn units_are_counted_by_their_beginnings() {
        let at = |year, month, day, second| days(year, month, day) * DAY_US + second * SECOND_US;
        let difference = |unit, start, end| Some(ordinal(unit, end)? - ordinal(unit, start)?);
        let (late, early) = (at(1999, 12, 31, 86_399), at(2000, 1, 1, 1));
        for unit in ["year", "quarter", "months", "day", "hour", "decade"] {
            assert_eq!(difference(unit, late, early), Some(1), "{unit}");
        }
        assert_eq!(difference("week", late, early), Some(0));
        assert_eq!(difference("century", late, at(2001, 1, 1, 0)), Some(1));
        assert_eq!(difference("second", late, early), Some(2));
        assert_eq!(difference("parsec", late, early), None);
    }

    #[test]
    fn timestamps_are_made_of_parts_in_their_ranges() {
        let noon = days(2024, 2, 29) * DAY_US + DAY_US / 2;
        assert_eq!(timestamp([2024, 2, 29, 12, 0], 0.5), Some(noon + 500_000));
        assert_eq!(timestamp([2024, 2, 28, 24, 0], 0.0), Some(noon - DAY_US / 2));
        for bad in [[2023, 2, 29, 0, 0], [2024, 13, 1, 0, 0], [2024, 1, 1, 24, 1]] {
            assert_eq!(timestamp(bad, 0.0), None, "{bad:?}");
        }
    }

    #[test]
    fn bits_are_those_of_the_type() {
        let counts = |array: ArrayRef| {
            bit_counts(&array).unwrap().as_primitive::<Int64Type>().values().to_vec()
        };
        assert_eq!(counts(Arc::new(Int8Array::from(vec![-1, 5]))), [8, 2]);
        assert_eq!(counts(Arc::new(Int64Array::from(vec![-1, 0]))), [64, 0]);
    }
}
