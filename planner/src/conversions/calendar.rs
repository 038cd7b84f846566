//! `date_trunc`, `date_bin` and `to_timestamp` in microseconds, for all years that those can hold.
//!
//! The library computes in nanoseconds, which end in 2262. Invariant: a result out of range is an error, never NULL
//! and never another time. What is no timestamp or date (intervals, times, zones with summer time) is left to the
//! library.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion_functions::datetime;

use super::instants::UTC;
use super::over_arrays;
use crate::time_text::{civil, days};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

/// Which of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Trunc,
    Bin,
    ToTimestamp,
}

/// The three functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let all = [
        (Kind::Trunc, datetime::date_trunc()),
        (Kind::Bin, datetime::date_bin()),
        (Kind::ToTimestamp, datetime::to_timestamp_micros(&ConfigOptions::default())),
    ];
    all.into_iter()
        .map(|(kind, library)| {
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(ScalarUDF::from(Calendar { kind, library, signature }))
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Calendar {
    kind: Kind,
    library: Arc<ScalarUDF>,
    signature: Signature,
}

fn micros(zone: Option<Arc<str>>) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, zone)
}

/// The type as which a point in time is taken, if it is one that is computed here.
fn instant(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(_, zone) => Some(micros(zone.clone())),
        DataType::Date32 | DataType::Date64 | DataType::Null => Some(micros(None)),
        text if text.is_string() => Some(micros(None)),
        _ => None,
    }
}

/// Whether days begin at the same time everywhere in a zone.
fn is_plain(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, None) => true,
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => {
            [UTC, "+00", "+00:00"].contains(&&**zone)
        }
        _ => false,
    }
}

impl Calendar {
    fn is_own(&self, args: &[DataType]) -> bool {
        match (self.kind, args) {
            (Kind::Trunc | Kind::Bin, [_, at, ..]) => is_plain(at),
            (Kind::ToTimestamp, [number]) => !number.is_string(),
            _ => false,
        }
    }

    fn wrong_arguments(&self) -> DataFusionError {
        let form = match self.kind {
            Kind::Trunc => "date_trunc takes the name of a unit and a timestamp",
            Kind::Bin => "date_bin takes an interval, a timestamp and perhaps an origin",
            Kind::ToTimestamp => "to_timestamp takes seconds since 1970, or a text and its formats",
        };
        DataFusionError::Plan(form.to_string())
    }
}

impl ScalarUDFImpl for Calendar {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Trunc => "date_trunc",
            Kind::Bin => "date_bin",
            Kind::ToTimestamp => "to_timestamp",
        }
    }

    fn aliases(&self) -> &[String] {
        match self.kind {
            Kind::Trunc | Kind::Bin => self.library.aliases(),
            Kind::ToTimestamp => &[],
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Times keep their order when they are rounded down, points in time with local hours that come twice aside.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let constant = |p: &ExprProperties| p.sort_properties == SortProperties::Singleton;
        Ok(match (self.kind, inputs) {
            (Kind::Trunc | Kind::Bin, [unit, at, origin @ ..])
                if constant(unit)
                    && origin.iter().all(constant)
                    && matches!(at.range.data_type(), DataType::Timestamp(_, None)) =>
            {
                at.sort_properties
            }
            _ => SortProperties::Unordered,
        })
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let whole_interval = DataType::Interval(IntervalUnit::MonthDayNano);
        Ok(match (self.kind, args) {
            (Kind::Trunc, [_, at]) => {
                vec![DataType::Utf8, instant(at).unwrap_or_else(|| at.clone())]
            }
            (Kind::Bin, [_, at]) => {
                vec![whole_interval, instant(at).unwrap_or_else(|| at.clone())]
            }
            (Kind::Bin, [_, at, _]) => {
                let at = instant(at).unwrap_or_else(|| at.clone());
                vec![whole_interval, at.clone(), at]
            }
            (Kind::ToTimestamp, [number]) if number.is_integer() || number.is_null() => {
                vec![DataType::Int64]
            }
            (Kind::ToTimestamp, [number]) if number.is_floating() => vec![DataType::Float64],
            (Kind::ToTimestamp, [DataType::Decimal128(..)]) => args.to_vec(),
            (Kind::ToTimestamp, [number]) if number.is_decimal() => vec![DataType::Float64],
            (Kind::ToTimestamp, [DataType::Date32 | DataType::Date64]) => vec![micros(None)],
            (Kind::ToTimestamp, [DataType::Timestamp(..)]) => vec![micros(None)],
            (Kind::ToTimestamp, [text, formats @ ..])
                if text.is_string() && formats.iter().all(DataType::is_string) =>
            {
                args.to_vec()
            }
            _ => return Err(self.wrong_arguments()),
        })
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match (self.kind, args) {
            (Kind::Trunc | Kind::Bin, [_, at, ..]) => Ok(at.clone()),
            (Kind::ToTimestamp, _) => Ok(micros(None)),
            _ => Err(self.wrong_arguments()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        if !self.is_own(&types) {
            return self.library_result(args, &types);
        }
        over_arrays(&args, |arrays| match (self.kind, arrays) {
            (Kind::Trunc, [unit, at]) => truncated(unit, at),
            (Kind::Bin, [stride, at]) => binned(stride, at, None),
            (Kind::Bin, [stride, at, origin]) => binned(stride, at, Some(origin)),
            (Kind::ToTimestamp, [seconds]) => from_seconds(seconds),
            _ => Err(self.wrong_arguments()),
        })
    }
}

impl Calendar {
    /// What the library computes, in our type.
    fn library_result(
        &self,
        args: ScalarFunctionArgs,
        types: &[DataType],
    ) -> Result<ColumnarValue> {
        let wanted = args.return_field.data_type().clone();
        let scalars: Vec<Option<&ScalarValue>> = args
            .args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Scalar(value) => Some(value),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let field = self.library.return_field_from_args(ReturnFieldArgs {
            arg_fields: &args.arg_fields,
            scalar_arguments: &scalars,
        })?;
        if types.is_empty() {
            return plan_err!("{} needs an argument", self.name());
        }
        let result =
            self.library.invoke_with_args(ScalarFunctionArgs { return_field: field, ..args })?;
        if result.data_type() == wanted { Ok(result) } else { result.cast_to(&wanted, None) }
    }
}

fn out_of_range() -> DataFusionError {
    DataFusionError::Execution("timestamp out of range".to_string())
}

/// The results of a computation on points in time, under the type of `at`.
fn mapped(at: &ArrayRef, compute: impl Fn(usize, i64) -> Result<Option<i64>>) -> Result<ArrayRef> {
    let times = at.as_primitive::<TimestampMicrosecondType>();
    let results = times.iter().enumerate().map(|(row, at)| match at {
        Some(at) => compute(row, at),
        None => Ok(None),
    });
    let results = results.collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(results.with_data_type(at.data_type().clone())))
}

/// A unit of `date_trunc`.
#[derive(Clone, Copy)]
enum Unit {
    /// Microseconds that it has everywhere, and the time at which one begins.
    Fixed(i64, i64),
    /// Months.
    Months(i64),
}

impl Unit {
    fn of(name: &str) -> Result<Self> {
        Ok(match name.to_lowercase().trim_end_matches('s') {
            "microsecond" | "u" => Unit::Fixed(1, 0),
            "millisecond" | "m" => Unit::Fixed(1_000, 0),
            "second" => Unit::Fixed(SECOND_US, 0),
            "minute" => Unit::Fixed(60 * SECOND_US, 0),
            "hour" => Unit::Fixed(3_600 * SECOND_US, 0),
            "day" => Unit::Fixed(DAY_US, 0),
            // The epoch was a Thursday; weeks begin on Mondays.
            "week" => Unit::Fixed(7 * DAY_US, -3 * DAY_US),
            "month" => Unit::Months(1),
            "quarter" => Unit::Months(3),
            "year" => Unit::Months(12),
            "decade" => Unit::Months(120),
            "century" | "centurie" => Unit::Months(1_200),
            "millennium" | "millennia" => Unit::Months(12_000),
            _ => return exec_err!("date_trunc knows no unit \"{name}\""),
        })
    }

    fn floor(self, at: i64) -> Option<i64> {
        match self {
            Unit::Fixed(length, start) => at.checked_sub(at.checked_sub(start)?.rem_euclid(length)),
            Unit::Months(months) => {
                let (year, month, _) = civil(at.div_euclid(DAY_US));
                // Centuries and millennia begin with the years 1 and 1001.
                let first = if months >= 1_200 { 12 } else { 0 };
                let index = year * 12 + month - 1 - first;
                start_of_month(index - index.rem_euclid(months) + first)
            }
        }
    }
}

/// The beginning of a month, counted from the year 0.
fn start_of_month(index: i64) -> Option<i64> {
    days(index.div_euclid(12), index.rem_euclid(12) + 1, 1).checked_mul(DAY_US)
}

fn truncated(units: &ArrayRef, at: &ArrayRef) -> Result<ArrayRef> {
    let units = cast(units, &DataType::Utf8)?;
    let units = units.as_string::<i32>();
    let same = units.iter().all(|unit| unit == units.iter().next().flatten());
    if let (true, Some(Some(name))) = (same, units.iter().next()) {
        let unit = Unit::of(name)?;
        let floor = |at| unit.floor(at).ok_or_else(out_of_range);
        let times = at.as_primitive::<TimestampMicrosecondType>();
        let results = times.try_unary::<_, TimestampMicrosecondType, _>(floor)?;
        return Ok(Arc::new(results.with_data_type(at.data_type().clone())));
    }
    mapped(at, |row, at| {
        if units.is_null(row) {
            return Ok(None);
        }
        Unit::of(units.value(row))?.floor(at).map(Some).ok_or_else(out_of_range)
    })
}

fn binned(strides: &ArrayRef, at: &ArrayRef, origins: Option<&ArrayRef>) -> Result<ArrayRef> {
    let strides = strides.as_primitive::<IntervalMonthDayNanoType>();
    let origins = origins.map(|origins| origins.as_primitive::<TimestampMicrosecondType>());
    mapped(at, |row, at| {
        let origin = match origins {
            Some(origins) if origins.is_null(row) => return Ok(None),
            Some(origins) => origins.value(row),
            None => 0,
        };
        if strides.is_null(row) {
            return Ok(None);
        }
        bin(strides.value(row), at, origin)?.map(Some).ok_or_else(out_of_range)
    })
}

fn bin(stride: IntervalMonthDayNano, at: i64, origin: i64) -> Result<Option<i64>> {
    let IntervalMonthDayNano { months, days, nanoseconds } = stride;
    if months != 0 && (days != 0 || nanoseconds != 0) {
        return exec_err!("the stride of date_bin has months or shorter units, not both");
    }
    if months < 0 || days < 0 || nanoseconds < 0 || stride == IntervalMonthDayNano::ZERO {
        return exec_err!("the stride of date_bin must be greater than zero");
    }
    if months == 0 {
        let length = i64::from(days).checked_mul(DAY_US);
        let length = length.and_then(|days| days.checked_add(nanoseconds / 1_000));
        if nanoseconds % 1_000 != 0 {
            return exec_err!("the stride of date_bin is no whole number of microseconds");
        }
        let behind = length.and_then(|length| Some(at.checked_sub(origin)?.rem_euclid(length)));
        return Ok(behind.and_then(|behind| at.checked_sub(behind)));
    }
    let stride = i64::from(months);
    let month_of = |at: i64| {
        let (year, month, _) = civil(at.div_euclid(DAY_US));
        year * 12 + month - 1
    };
    let bins = (month_of(at) - month_of(origin)).div_euclid(stride);
    Ok(match later(origin, bins * stride) {
        Some(start) if start <= at => Some(start),
        _ => later(origin, (bins - 1) * stride),
    })
}

/// So many months later, on the last day of a month that is too short.
fn later(at: i64, months: i64) -> Option<i64> {
    let (year, month, day) = civil(at.div_euclid(DAY_US));
    let index = year * 12 + month - 1 + months;
    let first = start_of_month(index)?;
    let length = (start_of_month(index + 1)? - first) / DAY_US;
    first.checked_add((day.min(length) - 1) * DAY_US)?.checked_add(at.rem_euclid(DAY_US))
}

fn from_seconds(seconds: &ArrayRef) -> Result<ArrayRef> {
    let results: TimestampMicrosecondArray = match seconds.data_type() {
        DataType::Timestamp(..) => return Ok(Arc::clone(seconds)),
        DataType::Int64 => seconds
            .as_primitive::<Int64Type>()
            .try_unary(|s| s.checked_mul(SECOND_US).ok_or_else(out_of_range))?,
        DataType::Float64 => seconds.as_primitive::<Float64Type>().try_unary(|s| {
            let micros = (s * SECOND_US as f64).round_ties_even();
            // Both bounds are exact doubles; NaN is within none.
            let fits = (-(2_f64.powi(63))..2_f64.powi(63)).contains(&micros);
            if fits { Ok(micros as i64) } else { Err(out_of_range()) }
        })?,
        DataType::Decimal128(_, scale) => {
            let (up, down) = if *scale <= 6 { (6 - scale, 0) } else { (0, scale - 6) };
            let (up, down) = (
                10_i128.checked_pow(up.unsigned_abs().into()).ok_or_else(out_of_range)?,
                10_i128.pow(down.unsigned_abs().into()),
            );
            seconds.as_primitive::<Decimal128Type>().try_unary(|digits| {
                let micros = digits.checked_mul(up).map(|digits| digits / down);
                micros.and_then(|m| i64::try_from(m).ok()).ok_or_else(out_of_range)
            })?
        }
        other => return plan_err!("to_timestamp takes no {other}"),
    };
    Ok(Arc::new(results))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(year: i64, month: i64, day: i64, hour: i64) -> i64 {
        days(year, month, day) * DAY_US + hour * 3_600 * SECOND_US
    }

    fn interval(months: i32, days: i32, hours: i64) -> IntervalMonthDayNano {
        let nanoseconds = hours * 3_600_000_000_000;
        IntervalMonthDayNano { months, days, nanoseconds }
    }

    #[test]
    fn units_begin_where_the_calendar_says() {
        let floor = |unit: &str, at| Unit::of(unit).unwrap().floor(at).unwrap();
        let t = at(2501, 5, 19, 13);
        assert_eq!(floor("hour", t + 5), t);
        assert_eq!(floor("day", t), at(2501, 5, 19, 0));
        assert_eq!(floor("month", t), at(2501, 5, 1, 0));
        assert_eq!(floor("quarter", t), at(2501, 4, 1, 0));
        assert_eq!(floor("year", t), at(2501, 1, 1, 0));
        assert_eq!(floor("decade", t), at(2500, 1, 1, 0));
        assert_eq!(floor("century", t), at(2501, 1, 1, 0));
        assert_eq!(floor("century", at(2500, 1, 1, 0)), at(2401, 1, 1, 0));
        assert_eq!(floor("week", at(2026, 7, 5, 3)), at(2026, 6, 29, 0), "a Sunday");
        assert_eq!(floor("week", at(1960, 1, 4, 3)), at(1960, 1, 4, 0), "a Monday before 1970");
        assert!(Unit::of("fortnight").is_err());
    }

    #[test]
    fn bins_begin_at_multiples_of_the_stride() {
        let hour = interval(0, 0, 1);
        assert_eq!(bin(hour, at(2500, 1, 1, 1) + 7, 0).unwrap(), Some(at(2500, 1, 1, 1)));
        assert_eq!(bin(hour, -1, 0).unwrap(), Some(at(1969, 12, 31, 23)));
        let quarter = interval(3, 0, 0);
        assert_eq!(bin(quarter, at(2026, 5, 31, 0), 0).unwrap(), Some(at(2026, 4, 1, 0)));
        let origin = at(2026, 1, 31, 0);
        assert_eq!(
            bin(interval(1, 0, 0), at(2026, 2, 28, 1), origin).unwrap(),
            Some(at(2026, 2, 28, 0))
        );
        assert_eq!(bin(interval(1, 0, 0), at(2026, 2, 27, 1), origin).unwrap(), Some(origin));
        assert!(bin(interval(0, 0, 0), 0, 0).is_err());
        assert!(bin(interval(1, 1, 0), 0, 0).is_err());
        assert_eq!(bin(hour, i64::MIN, i64::MAX).unwrap(), None);
    }

    #[test]
    fn seconds_beyond_the_range_are_errors() {
        let seconds = |s: f64| {
            from_seconds(&(Arc::new(arrow::array::Float64Array::from(vec![s])) as ArrayRef))
        };
        assert!(seconds(1e18).is_err());
        assert!(seconds(f64::NAN).is_err());
        let good = seconds(1e10).unwrap();
        assert_eq!(
            good.as_primitive::<TimestampMicrosecondType>().value(0),
            10_000_000_000_000_000
        );
    }
}
