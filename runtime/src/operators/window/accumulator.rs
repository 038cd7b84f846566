//! Any other aggregate over frames, through DataFusion's accumulators.
//!
//! Growing frames add rows. Sliding ones are computed from scratch while they are small, since taking values back
//! costs floats their last digits; large ones take rows back where the accumulator can. Accumulators of growing frames
//! may outlive the rows that they have taken in. It works a value at a time: what is used often has a module of its own.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array, new_null_array};
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion_common::ScalarValue;
use datafusion_expr::Accumulator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{Column, Literal as PhysicalLiteral};

use super::WindowFunctionSpec;
use super::carried::PartitionPass;
use super::frame::Frames;
use crate::error::{Error, Result};
use crate::expr::{Expr, positional_schema};

/// An aggregate and what it needs to be made anew.
#[derive(Debug)]
pub(super) struct AccumulatorFunction {
    aggregate: AggregateFunctionExpr,
}

impl AccumulatorFunction {
    /// Looks the aggregate up by its registered name.
    pub fn new(spec: &WindowFunctionSpec) -> Result<Self> {
        let name = spec.function.as_str();
        let function = datafusion_functions_aggregate::all_default_aggregate_functions()
            .into_iter()
            .find(|f| f.name() == name || f.aliases().iter().any(|alias| alias == name))
            .ok_or_else(|| Error::Unsupported(format!("{name} as a window function")))?;
        let args = spec
            .args
            .iter()
            .enumerate()
            .map(|(i, arg)| -> Arc<dyn PhysicalExpr> {
                match arg {
                    Expr::Literal(value) => Arc::new(PhysicalLiteral::new(value.0.clone())),
                    _ => Arc::new(Column::new(&format!("c{i}"), i)),
                }
            })
            .collect();
        let aggregate = AggregateExprBuilder::new(function, args)
            .schema(positional_schema(&spec.arg_types))
            .alias(name)
            .with_distinct(spec.distinct)
            .with_ignore_nulls(spec.ignore_nulls)
            .build()?;
        Ok(AccumulatorFunction { aggregate })
    }

    /// The values of all rows. `expands` says that every frame begins with its partition.
    pub fn evaluate(
        &self,
        frames: &Frames,
        args: &[ArrayRef],
        filter: Option<&BooleanArray>,
        expands: bool,
        result: &DataType,
    ) -> Result<ArrayRef> {
        let mut sliding = Sliding { function: self, args, filter, window: None, retracts: false };
        let mut last: Option<(Range<usize>, ScalarValue)> = None;
        let mut values = Vec::new();
        for frame in frames.ranges() {
            if let Some((range, value)) = &last
                && range == &frame
            {
                values.push(value.clone());
                continue;
            }
            let value = sliding.value(frame.clone(), expands)?;
            values.push(value.clone());
            last = Some((frame, value));
        }
        if values.is_empty() {
            return Ok(new_null_array(result, 0));
        }
        let array = ScalarValue::iter_to_array(values)?;
        Ok(if array.data_type() == result { array } else { cast(&array, result)? })
    }
}

/// Sliding frames of up to so many rows are computed from scratch.
const SCRATCH_ROWS: usize = 512;

struct Sliding<'a> {
    function: &'a AccumulatorFunction,
    args: &'a [ArrayRef],
    filter: Option<&'a BooleanArray>,
    window: Option<(Range<usize>, Box<dyn Accumulator>)>,
    retracts: bool,
}

impl Sliding<'_> {
    fn value(&mut self, frame: Range<usize>, expands: bool) -> Result<ScalarValue> {
        let reusable = match &self.window {
            Some((range, _)) => {
                // Taking back all rows would leave what floats have lost on the way: start anew then.
                let overlaps = range.start < frame.start
                    && range.end > frame.start
                    && frame.len() > SCRATCH_ROWS;
                range.end <= frame.end
                    && (range.start == frame.start || (overlaps && self.retracts))
            }
            None => false,
        };
        if !reusable {
            let accumulator = self.accumulator(expands)?;
            self.window = Some((frame.start..frame.start, accumulator));
        }
        let Some((range, mut accumulator)) = self.window.take() else {
            return Err(Error::Internal("a window without an accumulator".into()));
        };
        let rows = |range| counted_rows(self.args, self.filter, range);
        if range.end < frame.end {
            accumulator.update_batch(&rows(range.end..frame.end)?)?;
        }
        if range.start < frame.start {
            accumulator.retract_batch(&rows(range.start..frame.start)?)?;
        }
        let value = accumulator.evaluate()?;
        self.window = Some((frame, accumulator));
        Ok(value)
    }

    /// A new accumulator: for sliding frames one that takes rows back, if there is one.
    fn accumulator(&mut self, expands: bool) -> Result<Box<dyn Accumulator>> {
        if !expands
            && let Ok(sliding) = self.function.aggregate.create_sliding_accumulator()
            && sliding.supports_retract_batch()
        {
            self.retracts = true;
            return Ok(sliding);
        }
        Ok(self.function.aggregate.create_accumulator()?)
    }
}

/// The arguments of the rows that count.
fn counted_rows(
    args: &[ArrayRef],
    filter_by: Option<&BooleanArray>,
    range: Range<usize>,
) -> Result<Vec<ArrayRef>> {
    let slice = |array: &ArrayRef| array.slice(range.start, range.len());
    let args = args.iter().map(slice);
    match filter_by {
        None => Ok(args.collect()),
        Some(mask) => {
            let mask = mask.slice(range.start, range.len());
            Ok(args.map(|arg| filter(&arg, &mask)).collect::<Result<Vec<_>, _>>()?)
        }
    }
}

/// The accumulator of a partition, whose frames all begin with it.
#[derive(Debug)]
pub(super) struct Running {
    accumulator: Box<dyn Accumulator>,
    /// How many rows of the partition it has taken in, from the first one that ever was.
    rows: u64,
}

impl Running {
    /// Bytes of the accumulator.
    pub fn memory_bytes(&self) -> usize {
        self.accumulator.size()
    }
}

impl AccumulatorFunction {
    /// An accumulator that has taken nothing in.
    pub fn running(&self) -> Result<Running> {
        Ok(Running { accumulator: self.aggregate.create_accumulator()?, rows: 0 })
    }

    /// The values of the rows that leave, and NULL for others; `running` has the accumulators of all partitions.
    pub fn evaluate_running(
        &self,
        frames: &Frames,
        args: &[ArrayRef],
        filter: Option<&BooleanArray>,
        passes: &[PartitionPass],
        running: &mut [Running],
        result: &DataType,
    ) -> Result<ArrayRef> {
        let null = ScalarValue::try_from(self.aggregate.field().data_type())?;
        let mut values = Vec::with_capacity(frames.rows());
        for pass in passes {
            let running = running.get_mut(pass.partition as usize);
            let running =
                running.ok_or_else(|| Error::Internal("a partition unheard of".into()))?;
            let mut last: Option<ScalarValue> = None;
            for row in pass.rows.clone() {
                if !pass.leaving.contains(&row) {
                    values.push(null.clone());
                    continue;
                }
                let is_new = running.take_in(frames.end(row), pass, args, filter)?;
                let value = match last.take().filter(|_| !is_new) {
                    Some(value) => value,
                    None => running.accumulator.evaluate()?,
                };
                values.push(value.clone());
                last = Some(value);
            }
            running.take_in(pass.rows.start + pass.forgotten, pass, args, filter)?;
        }
        if values.is_empty() {
            return Ok(new_null_array(result, 0));
        }
        let array = ScalarValue::iter_to_array(values)?;
        Ok(if array.data_type() == result { array } else { cast(&array, result)? })
    }

    /// The types of the columns that accumulators are written in: the number of rows, and the function's state.
    pub fn state_types(&self) -> Result<Vec<DataType>> {
        let fields = self.aggregate.state_fields()?;
        let state = fields.iter().map(|field| field.data_type().clone());
        Ok([DataType::UInt64].into_iter().chain(state).collect())
    }

    /// What accumulators have taken in, a row for each; they go on as they were.
    pub fn states(&self, running: &mut [Running]) -> Result<Vec<ArrayRef>> {
        let types = self.state_types()?;
        let rows = UInt64Array::from_iter_values(running.iter().map(|running| running.rows));
        let mut columns: Vec<Vec<ScalarValue>> = vec![Vec::new(); types.len() - 1];
        for running in running.iter_mut() {
            let state = running.accumulator.state()?;
            columns.iter_mut().zip(state).for_each(|(column, value)| column.push(value));
        }
        let mut out: Vec<ArrayRef> = vec![Arc::new(rows)];
        for (values, wanted) in columns.into_iter().zip(&types[1..]) {
            let column = match values.is_empty() {
                true => new_null_array(wanted, 0),
                false => ScalarValue::iter_to_array(values)?,
            };
            out.push(if column.data_type() == wanted { column } else { cast(&column, wanted)? });
        }
        // The library may use its state up when it tells it.
        for (at, running) in running.iter_mut().enumerate() {
            *running = self.of_state(&out, at)?;
        }
        Ok(out)
    }

    /// The accumulator that a row of [`Self::states`] tells of.
    pub fn of_state(&self, columns: &[ArrayRef], at: usize) -> Result<Running> {
        let mut running = self.running()?;
        let state: Vec<ArrayRef> = columns[1..].iter().map(|c| c.slice(at, 1)).collect();
        running.accumulator.merge_batch(&state)?;
        running.rows = columns[0].as_primitive::<UInt64Type>().value(at);
        Ok(running)
    }
}

impl Running {
    /// Takes in the rows of a chunk before `end` that are not yet; tells whether there are such.
    fn take_in(
        &mut self,
        end: usize,
        pass: &PartitionPass,
        args: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<bool> {
        let known = self.rows.checked_sub(pass.before);
        let known = known.ok_or_else(|| Error::Internal("rows that no accumulator saw".into()))?;
        let start = pass.rows.start + known as usize;
        if start >= end {
            return Ok(false);
        }
        self.accumulator.update_batch(&counted_rows(args, filter, start..end)?)?;
        self.rows += (end - start) as u64;
        Ok(true)
    }
}
