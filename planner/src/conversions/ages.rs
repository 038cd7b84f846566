//! `age(end, start)`: the time between two points in years, months and days of the calendar; and `last_day(t)`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Date32Array, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion_common::{DataFusionError, Result, plan_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::over_arrays;
use crate::time_text::{civil, days};

const DAY_US: i64 = 86_400_000_000;
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Both functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let forms = [DataType::Date32, TIMESTAMP];
    let pairs = forms.iter().flat_map(|end| {
        forms.iter().map(|start| TypeSignature::Exact(vec![end.clone(), start.clone()]))
    });
    let age = Signature::one_of(pairs.collect(), Volatility::Immutable);
    let forms = [DataType::Date32, TIMESTAMP].map(|form| TypeSignature::Exact(vec![form]));
    let last_day = Signature::one_of(forms.to_vec(), Volatility::Immutable);
    [("age", age), ("last_day", last_day)]
        .map(|(name, signature)| Arc::new(ScalarUDF::from(Function { name, signature })))
        .to_vec()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(match args.len() {
            1 => DataType::Date32,
            _ => DataType::Interval(IntervalUnit::MonthDayNano),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(&args, |arrays| match arrays {
            [dates] => last_days(dates),
            [ends, starts] => ages(ends, starts),
            _ => plan_err!("{} takes one or two points in time", self.name),
        })
    }
}

fn last_days(dates: &ArrayRef) -> Result<ArrayRef> {
    let dates = cast(dates, &DataType::Date32)?;
    let last = dates.as_primitive::<Date32Type>().try_unary::<_, Date32Type, _>(|at| {
        let (year, month, _) = civil(at.into());
        let last = days(year + month / 12, month % 12 + 1, 1) - 1;
        i32::try_from(last).map_err(|_| DataFusionError::Execution("date out of range".into()))
    })?;
    let last: Date32Array = last;
    Ok(Arc::new(last))
}

fn ages(ends: &ArrayRef, starts: &ArrayRef) -> Result<ArrayRef> {
    let (ends, starts) = (cast(ends, &TIMESTAMP)?, cast(starts, &TIMESTAMP)?);
    let ends = ends.as_primitive::<TimestampMicrosecondType>();
    let starts = starts.as_primitive::<TimestampMicrosecondType>();
    let ages = ends.iter().zip(starts).map(|(end, start)| match (end, start) {
        (Some(end), Some(start)) => age(end, start)
            .map(Some)
            .ok_or_else(|| DataFusionError::Execution("interval out of range".to_string())),
        _ => Ok(None),
    });
    Ok(Arc::new(ages.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

fn age(end: i64, start: i64) -> Option<IntervalMonthDayNano> {
    if end < start {
        let IntervalMonthDayNano { months, days, nanoseconds } = age(start, end)?;
        return Some(IntervalMonthDayNano {
            months: -months,
            days: -days,
            nanoseconds: -nanoseconds,
        });
    }
    let (end_day, start_day) = (end.div_euclid(DAY_US), start.div_euclid(DAY_US));
    let mut time = end.rem_euclid(DAY_US) - start.rem_euclid(DAY_US);
    let ((year, month, day), (from_year, from_month, from_day)) =
        (civil(end_day), civil(start_day));
    let mut between = day - from_day;
    let mut months = (year - from_year) * 12 + month - from_month;
    if time < 0 {
        time += DAY_US;
        between -= 1;
    }
    if between < 0 {
        // The days of the month in which the start lies, as PostgreSQL counts.
        between += days(from_year + from_month / 12, from_month % 12 + 1, 1)
            - days(from_year, from_month, 1);
        months -= 1;
    }
    Some(IntervalMonthDayNano {
        months: i32::try_from(months).ok()?,
        days: i32::try_from(between).ok()?,
        nanoseconds: time.checked_mul(1_000)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_count_in_the_calendar() {
        let at = |year, month, day| days(year, month, day) * DAY_US;
        let parts =
            |age: Option<IntervalMonthDayNano>| age.map(|a| (a.months, a.days, a.nanoseconds));
        assert_eq!(parts(age(at(2001, 4, 10), at(1957, 6, 13))), Some((43 * 12 + 9, 27, 0)));
        assert_eq!(parts(age(at(2001, 1, 1), at(2001, 1, 2))), Some((0, -1, 0)));
        assert_eq!(
            parts(age(at(2001, 1, 2), at(2001, 1, 1) + 1_000)),
            Some((0, 0, 86_399_999_000_000))
        );
    }

    #[test]
    fn months_end_where_the_next_begin() {
        let of = |year, month, day| {
            let dates: ArrayRef = Arc::new(Date32Array::from(vec![days(year, month, day) as i32]));
            civil(last_days(&dates).unwrap().as_primitive::<Date32Type>().value(0).into())
        };
        assert_eq!(of(2024, 2, 3), (2024, 2, 29));
        assert_eq!(of(2026, 12, 31), (2026, 12, 31));
    }
}
