//! The arithmetic of windows as scalar functions that plans call.
//!
//! They count in the unit of the time column, whatever it is, and keep its type. Invariant: a NULL time and a result
//! that leaves the type's range are errors.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion_common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use super::calendar_functions::CalendarFunction;

/// One of the functions: times first, then numbers of units that are constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TimeFunction {
    /// `window_floor(time, size, origin)`: the start of the window of a size that holds a time.
    Floor,
    /// `window_shift(time, by)`: a later or earlier time; NULL for NULL.
    Shift,
    /// `hop_starts(time, slide, size, origin)`: the starts of all windows that hold a time, in order.
    HopStarts,
    /// `cumulate_ends(time, step, size, origin)`: the ends of all windows that hold a time, in order.
    CumulateEnds,
    /// `gap_times(time, next, step)`: the time and, before the next, one after each step; for NULL a list of NULL.
    GapTimes,
    /// `gap_share(time, from, to)`: how far between two times one lies, as a double.
    GapShare,
}

/// All of them, for registries.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let own = TimeFunction::ALL.into_iter().map(TimeFunction::function);
    let calendar = CalendarFunction::ALL.into_iter().map(CalendarFunction::function);
    own.chain(calendar).chain([super::first::function()]).collect()
}

impl TimeFunction {
    const ALL: [TimeFunction; 6] = [
        TimeFunction::Floor,
        TimeFunction::Shift,
        TimeFunction::HopStarts,
        TimeFunction::CumulateEnds,
        TimeFunction::GapTimes,
        TimeFunction::GapShare,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            TimeFunction::Floor => "window_floor",
            TimeFunction::Shift => "window_shift",
            TimeFunction::HopStarts => "hop_starts",
            TimeFunction::CumulateEnds => "cumulate_ends",
            TimeFunction::GapTimes => "gap_times",
            TimeFunction::GapShare => "gap_share",
        }
    }

    /// Whether a function of a name says which windows a time is in.
    pub(super) fn assigns(name: &str) -> bool {
        [TimeFunction::Floor, TimeFunction::HopStarts, TimeFunction::CumulateEnds]
            .iter()
            .any(|function| function.name() == name)
    }

    /// How many times and how many numbers it takes.
    fn arguments(self) -> (usize, usize) {
        match self {
            TimeFunction::Floor => (1, 2),
            TimeFunction::Shift => (1, 1),
            TimeFunction::HopStarts | TimeFunction::CumulateEnds => (1, 3),
            TimeFunction::GapTimes => (2, 1),
            TimeFunction::GapShare => (3, 0),
        }
    }

    fn function(self) -> Arc<ScalarUDF> {
        let (times, numbers) = self.arguments();
        let signature = Signature::any(times + numbers, Volatility::Immutable);
        Arc::new(ScalarUDF::from(Function { function: self, signature }))
    }

    /// A call.
    pub(super) fn call(self, times: Vec<Expr>, numbers: &[i64]) -> Expr {
        let numbers = numbers.iter().map(|number| lit(*number));
        self.function().call(times.into_iter().chain(numbers).collect())
    }

    fn compute(self, times: &[ArrayRef], numbers: &[i64]) -> Result<ArrayRef> {
        let data_type = times[0].data_type();
        let counts = times.iter().map(counted).collect::<Result<Vec<_>>>()?;
        let result: Int64Array = match (self, counts.as_slice(), numbers) {
            (TimeFunction::Shift, [times], [by]) => times
                .try_unary::<_, Int64Type, _>(|time| time.checked_add(*by).ok_or_else(range))?,
            (TimeFunction::Floor, [times], [size, origin]) => {
                not_null(times)?;
                times.try_unary::<_, Int64Type, _>(|time| floor(time, *size, *origin))?
            }
            (TimeFunction::GapTimes, [times, next], [step]) => {
                return gap_times(times, next, data_type, *step);
            }
            (TimeFunction::GapShare, [times, from, to], []) => {
                let share = |at: usize| {
                    let present = [times, from, to].iter().all(|column| column.is_valid(at));
                    let start = i128::from(from.value(at));
                    let way = |time: i64| (i128::from(time) - start) as f64;
                    present.then(|| way(times.value(at)) / way(to.value(at)))
                };
                return Ok(Arc::new((0..times.len()).map(share).collect::<Float64Array>()));
            }
            (TimeFunction::HopStarts, [times], [slide, size, origin]) => {
                let first = |time| {
                    let last = floor(time, *slide, *origin)?;
                    // Windows that begin within the size before the time, and at the time itself.
                    let before = i128::from(last) - i128::from(time) + i128::from(*size) - 1;
                    let count = i64::try_from(before / i128::from(*slide)).map_err(|_| range())?;
                    let back = slide.checked_mul(count).ok_or_else(range)?;
                    Ok((last.checked_sub(back).ok_or_else(range)?, count + 1))
                };
                return lists(times, data_type, *slide, first);
            }
            (TimeFunction::CumulateEnds, [times], [step, size, origin]) => {
                let first = |time| {
                    let start = floor(time, *size, *origin)?;
                    start.checked_add(*size).ok_or_else(range)?;
                    let done = (i128::from(time) - i128::from(start)) / i128::from(*step);
                    let done = i64::try_from(done).map_err(|_| range())?;
                    Ok((start + step * (done + 1), size / step - done))
                };
                return lists(times, data_type, *step, first);
            }
            _ => return plan_err!("{} was called with other arguments than it takes", self.name()),
        };
        Ok(cast(&result, data_type)?)
    }
}

/// The error for a window that the type of its times has no value for.
pub(super) fn range() -> DataFusionError {
    DataFusionError::Execution("window out of range of its timestamp type".to_string())
}

/// Times as numbers of their unit.
fn counted(times: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(times, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// Fails when a time is NULL.
pub(super) fn not_null(times: &Int64Array) -> Result<()> {
    match times.null_count() {
        0 => Ok(()),
        _ => exec_err!("a row without a time is in no window: leave rows out whose time is NULL"),
    }
}

/// The greatest number that is not above `time` and is `origin` and a multiple of `size`.
fn floor(time: i64, size: i64, origin: i64) -> Result<i64> {
    let (time, size) = (i128::from(time), i128::from(size));
    let floor = time - (time - i128::from(origin)).rem_euclid(size);
    i64::try_from(floor).map_err(|_| range())
}

/// For each time a list that begins with a number and goes on by `step`; `first` gives the number and the length.
fn lists(
    times: &Int64Array,
    data_type: &DataType,
    step: i64,
    first: impl Fn(i64) -> Result<(i64, i64)>,
) -> Result<ArrayRef> {
    list_of(times, data_type, |time, values| {
        let (start, count) = first(time)?;
        values.extend((0..count).map(|n| start + n * step));
        Ok(())
    })
}

/// For each time a list, whose elements `append` adds.
pub(super) fn list_of(
    times: &Int64Array,
    data_type: &DataType,
    append: impl Fn(i64, &mut Vec<i64>) -> Result<()>,
) -> Result<ArrayRef> {
    not_null(times)?;
    let mut values: Vec<i64> = Vec::with_capacity(times.len());
    let mut ends: Vec<i32> = Vec::with_capacity(times.len() + 1);
    ends.push(0);
    for time in times.values() {
        append(*time, &mut values)?;
        let Ok(end) = i32::try_from(values.len()) else {
            return exec_err!("a batch of rows is in too many windows");
        };
        ends.push(end);
    }
    let values = cast(&Int64Array::from(values), data_type)?;
    let field = item(data_type);
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::new(ends.into()), values, None)?))
}

/// Times that a batch may come to when gaps are filled: more are a step that was not meant.
const MAX_GAP_TIMES: usize = 1 << 26;

/// For each time a list of it and of those that follow it before the next, one after each step.
fn gap_times(
    times: &Int64Array,
    next: &Int64Array,
    data_type: &DataType,
    step: i64,
) -> Result<ArrayRef> {
    let mut values: Vec<Option<i64>> = Vec::with_capacity(times.len());
    let mut ends: Vec<i32> = Vec::with_capacity(times.len() + 1);
    ends.push(0);
    for (time, next) in times.iter().zip(next) {
        let between = match (time, next) {
            (Some(time), Some(next)) => i128::from(next) - i128::from(time) - 1,
            (Some(_) | None, _) => 0,
        };
        let added = usize::try_from(between.max(0) / i128::from(step)).unwrap_or(usize::MAX);
        if added >= MAX_GAP_TIMES - values.len().min(MAX_GAP_TIMES) {
            return exec_err!(
                "gaps are too long to be filled in so small steps: at most {MAX_GAP_TIMES} rows come from a batch"
            );
        }
        values.extend((0..=added as i64).map(|n| time.map(|time| time + n * step)));
        ends.push(values.len() as i32);
    }
    let values = cast(&Int64Array::from(values), data_type)?;
    let field = item(data_type);
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::new(ends.into()), values, None)?))
}

/// The field of the elements of lists of times.
pub(super) fn item(data_type: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(data_type.clone(), true))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    function: TimeFunction,
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
            TimeFunction::Floor | TimeFunction::Shift => time.clone(),
            TimeFunction::HopStarts | TimeFunction::CumulateEnds | TimeFunction::GapTimes => {
                DataType::List(item(time))
            }
            TimeFunction::GapShare => DataType::Float64,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    /// All but those for gaps keep the order of times; lists do so by their first elements.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let constant = |p: &ExprProperties| p.sort_properties == SortProperties::Singleton;
        Ok(match inputs {
            [time, numbers @ ..]
                if !matches!(self.function, TimeFunction::GapTimes | TimeFunction::GapShare)
                    && numbers.iter().all(constant) =>
            {
                time.sort_properties
            }
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (times, _) = self.function.arguments();
        let (times, numbers) = args.args.split_at(times);
        let numbers = numbers.iter().map(|number| match number {
            ColumnarValue::Scalar(ScalarValue::Int64(Some(number))) => Ok(*number),
            _ => plan_err!("{} takes constant numbers", self.name()),
        });
        let numbers = numbers.collect::<Result<Vec<i64>>>()?;
        let constant = times.iter().all(|time| matches!(time, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let times = times.iter().map(|time| time.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = self.function.compute(&times, &numbers)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}
