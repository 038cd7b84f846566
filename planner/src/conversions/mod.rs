//! Conversions of values that PostgreSQL does otherwise than the library, as functions that plans call.
//!
//! `rewrite::conversions` puts the calls in place of the library's casts and comparisons; `timezone` is what
//! AT TIME ZONE means, and users may call it too. Beside them are functions for users which the library lacks or computes
//! in too small a range. Invariant: constants are converted by the same code as columns.

mod ages;
mod calendar;
mod counts;
mod date_format;
mod instants;
mod intervals;
mod md5;
mod nested;
mod numbers;
mod processing_time;
mod sha;
mod text_parts;
mod texts;
mod zone_bound;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub use instants::zoned_text;
pub(crate) use intervals::IntervalPlanner;
pub(crate) use processing_time::PROCTIME;
pub use processing_time::{Clock, processing_time};
pub use texts::limit_results;
pub use zone_bound::zone_bound;

/// One of the conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Conversion {
    /// Timestamps, intervals and durations as text.
    AsText,
    /// Text as an interval.
    AsInterval,
    /// The text of a point in time, with the seconds that it may leave out.
    WithSeconds,
    /// A number with a fraction as a whole number of the same kind: doubles half to even, decimals half away from
    /// zero.
    AsWhole,
    /// The number by which an interval is compared, in nanoseconds.
    IntervalLength,
    /// How a list or struct is ordered before another: a number below, at or above zero.
    NestedOrder,
    /// An interval times a number.
    IntervalTimes,
    /// `timezone(zone, t)`: a point in time as the local time of a zone, or the other way round.
    TimeZone,
}

impl Conversion {
    const ALL: [Conversion; 8] = [
        Conversion::AsText,
        Conversion::AsInterval,
        Conversion::WithSeconds,
        Conversion::AsWhole,
        Conversion::IntervalLength,
        Conversion::NestedOrder,
        Conversion::IntervalTimes,
        Conversion::TimeZone,
    ];

    /// The name under which plans and the runtime know the function.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Conversion::AsText => "as_text",
            Conversion::AsInterval => "as_interval",
            Conversion::WithSeconds => "with_seconds",
            Conversion::AsWhole => "as_whole",
            Conversion::IntervalLength => "interval_length",
            Conversion::NestedOrder => "nested_order",
            Conversion::IntervalTimes => "interval_times",
            Conversion::TimeZone => "timezone",
        }
    }

    /// A call.
    pub(crate) fn call(self, args: Vec<Expr>) -> Expr {
        self.function().call(args)
    }

    fn function(self) -> Arc<ScalarUDF> {
        let args = match self {
            Conversion::AsText
            | Conversion::AsInterval
            | Conversion::WithSeconds
            | Conversion::AsWhole
            | Conversion::IntervalLength => 1,
            Conversion::NestedOrder | Conversion::IntervalTimes | Conversion::TimeZone => 2,
        };
        let signature = Signature::any(args, Volatility::Immutable);
        Arc::new(ScalarUDF::from(Function { conversion: self, signature }))
    }

    fn result(self, args: &[DataType]) -> Result<DataType> {
        Ok(match (self, args) {
            (Conversion::AsText | Conversion::WithSeconds, _) => DataType::Utf8View,
            (Conversion::AsInterval | Conversion::IntervalTimes, _) => {
                DataType::Interval(IntervalUnit::MonthDayNano)
            }
            (Conversion::AsWhole, [number]) => numbers::whole_type(number),
            (Conversion::IntervalLength, _) => intervals::LENGTH,
            (Conversion::NestedOrder, _) => DataType::Int8,
            (Conversion::TimeZone, [_, DataType::Timestamp(_, Some(_))]) => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            (
                Conversion::TimeZone,
                [_, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64],
            ) => DataType::Timestamp(TimeUnit::Microsecond, Some(instants::UTC.into())),
            (Conversion::AsWhole | Conversion::TimeZone, _) => {
                return plan_err!("AT TIME ZONE takes a timestamp and the name of a time zone");
            }
        })
    }

    fn compute(self, args: &[ArrayRef]) -> Result<ArrayRef> {
        match (self, args) {
            (Conversion::AsText, [values]) => instants::text(values),
            (Conversion::WithSeconds, [text]) => instants::with_seconds(text),
            (Conversion::AsInterval, [text]) => intervals::parse_all(text),
            (Conversion::AsWhole, [numbers]) => numbers::whole(numbers),
            (Conversion::IntervalLength, [values]) => intervals::lengths(values),
            (Conversion::NestedOrder, [left, right]) => nested::order(left, right),
            (Conversion::IntervalTimes, [values, factors]) => intervals::times(values, factors),
            (Conversion::TimeZone, [zones, times]) => instants::in_zone(zones, times),
            _ => plan_err!("{} was called with other arguments than it takes", self.name()),
        }
    }
}

/// All of them and the functions of the calendar and of text, for registries.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = calendar::functions();
    all.extend(ages::functions());
    all.extend(counts::functions());
    all.extend(date_format::functions());
    all.extend(processing_time::functions());
    all.extend(text_parts::functions());
    all.extend(texts::functions());
    all.extend(sha::functions());
    all.push(zone_bound::function());
    all.extend(Conversion::ALL.into_iter().map(Conversion::function));
    all
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    conversion: Conversion,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.conversion.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.conversion.result(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(&args, |arrays| self.conversion.compute(arrays))
    }
}

/// Computes with arrays; constants alone are arrays of one value.
pub(crate) fn over_arrays(
    args: &ScalarFunctionArgs,
    compute: impl Fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let result = compute(&arrays)?;
    Ok(match constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    })
}
