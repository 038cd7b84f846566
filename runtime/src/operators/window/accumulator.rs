//! Any other aggregate over frames, through DataFusion's accumulators.
//!
//! Growing frames add rows. Sliding ones are computed from scratch while they are small, since taking values back
//! costs floats their last digits; large ones take rows back where the accumulator can. It works a value at a time:
//! what is used often has a module of its own.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow::compute::{cast, filter};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::Accumulator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{Column, Literal as PhysicalLiteral};

use super::WindowFunctionSpec;
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
        if range.end < frame.end {
            accumulator.update_batch(&self.rows(range.end..frame.end)?)?;
        }
        if range.start < frame.start {
            accumulator.retract_batch(&self.rows(range.start..frame.start)?)?;
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

    /// The arguments of the rows that count.
    fn rows(&self, range: Range<usize>) -> Result<Vec<ArrayRef>> {
        let slice = |array: &ArrayRef| array.slice(range.start, range.len());
        let args = self.args.iter().map(slice);
        match self.filter {
            None => Ok(args.collect()),
            Some(mask) => {
                let mask = mask.slice(range.start, range.len());
                Ok(args.map(|arg| filter(&arg, &mask)).collect::<Result<Vec<_>, _>>()?)
            }
        }
    }
}
