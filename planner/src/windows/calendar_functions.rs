//! The windows of a calendar as scalar functions that plans call.
//!
//! All take a time, then the length of a part (a step or slide) and of a size, and the offset, each as months and units
//! of the time's type, and the zone whose clock is read, or an empty text for none. Invariant: results never fall where
//! times do not, so that a watermark closes windows; a NULL time is an error.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit};
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use super::calendar::Calendar;
use super::functions::{item, list_of, not_null};
use super::lengths::Length;

/// How many constants follow the time.
const CONSTANTS: usize = 7;

/// One of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CalendarFunction {
    /// The start of the window of a part that holds a time.
    Floor,
    /// The end of the window of the size that starts at a time. NULL for NULL.
    End,
    /// The starts of all windows of the size, one each part, that hold a time, in order.
    Starts,
    /// The ends of all windows that hold a time, which begin each size and end each part, in order.
    Ends,
}

/// The lengths and the zone of windows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CalendarWindows {
    pub(super) part: Length,
    pub(super) size: Length,
    pub(super) offset: Length,
    /// Whose clock is read; none where times are readings of a clock already.
    pub(super) zone: Option<String>,
}

impl CalendarFunction {
    /// All of them, for registries.
    pub(super) const ALL: [CalendarFunction; 4] = [
        CalendarFunction::Floor,
        CalendarFunction::End,
        CalendarFunction::Starts,
        CalendarFunction::Ends,
    ];

    fn name(self) -> &'static str {
        match self {
            CalendarFunction::Floor => "calendar_floor",
            CalendarFunction::End => "calendar_end",
            CalendarFunction::Starts => "calendar_starts",
            CalendarFunction::Ends => "calendar_ends",
        }
    }

    /// Whether a function of a name says which windows a time is in.
    pub(super) fn assigns(name: &str) -> bool {
        let assign = [CalendarFunction::Floor, CalendarFunction::Starts, CalendarFunction::Ends];
        assign.iter().any(|function| function.name() == name)
    }

    /// The function.
    pub(super) fn function(self) -> Arc<ScalarUDF> {
        let signature = Signature::any(1 + CONSTANTS, Volatility::Immutable);
        Arc::new(ScalarUDF::from(Function { function: self, signature }))
    }

    /// A call.
    pub(super) fn call(self, time: Expr, windows: &CalendarWindows) -> Expr {
        let lengths = [windows.part, windows.size, windows.offset];
        let numbers = lengths.into_iter().flat_map(|length| [length.months, length.units]);
        let zone = windows.zone.as_deref().unwrap_or_default();
        self.function()
            .call([time].into_iter().chain(numbers.map(lit)).chain([lit(zone)]).collect())
    }

    fn compute(self, times: &ArrayRef, windows: &CalendarWindows) -> Result<ArrayRef> {
        let data_type = times.data_type();
        let DataType::Timestamp(unit, _) = data_type else {
            return plan_err!("{} takes a timestamp", self.name());
        };
        let times = cast(times, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
        let calendar = calendar(self, windows, *unit)?;
        let result: Int64Array = match self {
            CalendarFunction::Floor => {
                not_null(&times)?;
                floors(&calendar, &times)?
            }
            CalendarFunction::End => times
                .try_unary::<_, Int64Type, datafusion_common::DataFusionError>(|time| {
                    calendar.end(time, windows.size)
                })?,
            CalendarFunction::Starts => {
                let starts = |time, out: &mut _| calendar.starts(time, windows.size, out);
                return list_of(&times, data_type, starts);
            }
            CalendarFunction::Ends => {
                let ends = |time, out: &mut _| calendar.ends(time, windows.part, out);
                return list_of(&times, data_type, ends);
            }
        };
        Ok(cast(&result, data_type)?)
    }
}

/// The starts of windows. Times mostly come in order, so that one is often in the window of the one before.
fn floors(calendar: &Calendar, times: &Int64Array) -> Result<Int64Array> {
    let (mut window, mut starts) = ((0, 0), Vec::with_capacity(times.len()));
    for time in times.values() {
        if !(window.0..window.1).contains(time) {
            window = calendar.window(*time)?;
        }
        starts.push(window.0);
    }
    Ok(Int64Array::from(starts))
}

fn calendar(
    function: CalendarFunction,
    windows: &CalendarWindows,
    unit: TimeUnit,
) -> Result<Calendar> {
    let step = match function {
        CalendarFunction::Floor | CalendarFunction::End | CalendarFunction::Starts => windows.part,
        CalendarFunction::Ends => windows.size,
    };
    if step.is_nothing() || windows.part.is_nothing() {
        return plan_err!("{} takes lengths longer than nothing", function.name());
    }
    let zone = match windows.zone.as_deref().map(str::parse::<Tz>) {
        None => None,
        Some(Ok(zone)) => Some(zone),
        Some(Err(_)) => return plan_err!("{} takes a time zone", function.name()),
    };
    Ok(Calendar { step, offset: windows.offset, unit, zone })
}

/// The lengths and the zone from the arguments after the time.
fn windows_of(name: &str, constants: &[ColumnarValue]) -> Result<CalendarWindows> {
    let Some((ColumnarValue::Scalar(zone), numbers)) = constants.split_last() else {
        return plan_err!("{name} takes constants");
    };
    let numbers = numbers.iter().map(|number| match number {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(number))) => Ok(*number),
        _ => plan_err!("{name} takes constant numbers"),
    });
    let numbers = numbers.collect::<Result<Vec<i64>>>()?;
    let length = |at: usize| Length { months: numbers[at], units: numbers[at + 1] };
    let zone = zone.try_as_str().flatten().filter(|zone| !zone.is_empty()).map(str::to_string);
    match numbers.len() {
        6 => Ok(CalendarWindows { part: length(0), size: length(2), offset: length(4), zone }),
        _ => plan_err!("{name} was called with other arguments than it takes"),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    function: CalendarFunction,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let Some(time @ DataType::Timestamp(..)) = args.first() else {
            return plan_err!("{} takes a timestamp", self.name());
        };
        Ok(match self.function {
            CalendarFunction::Floor | CalendarFunction::End => time.clone(),
            CalendarFunction::Starts | CalendarFunction::Ends => DataType::List(item(time)),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    /// All keep the order of times; lists do so by their first elements.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let constant = |p: &ExprProperties| p.sort_properties == SortProperties::Singleton;
        Ok(match inputs {
            [time, constants @ ..] if constants.iter().all(constant) => time.sort_properties,
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((time, constants)) = args.args.split_first() else {
            return plan_err!("{} takes a timestamp", self.name());
        };
        let windows = windows_of(self.name(), constants)?;
        Ok(match time {
            ColumnarValue::Scalar(time) => {
                let result = self.function.compute(&time.to_array()?, &windows)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)
            }
            ColumnarValue::Array(times) => {
                ColumnarValue::Array(self.function.compute(times, &windows)?)
            }
        })
    }
}
