//! `avg` of decimals as a double, where running totals do not serve: DISTINCT, and more than 38 digits.
//!
//! The exact sum and the number of values come from the library, and are divided once, at the end; the library's own
//! mean would be rounded to a decimal before. Sums have 76 digits, so that no frame can leave them.

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, Int64Type, i256};

use super::WindowFunctionSpec;
use super::accumulator::AccumulatorFunction;
use super::frame::Frames;
use crate::aggregates::SumResult;
use crate::error::{Error, Result};
use crate::expr::Expr;

/// The two aggregates that make a mean.
#[derive(Debug)]
pub(super) struct DecimalMean {
    sum: AccumulatorFunction,
    count: AccumulatorFunction,
    scale: i8,
}

impl DecimalMean {
    /// The mean that a specification asks for, if it is one of decimals as doubles.
    pub fn of(spec: &WindowFunctionSpec) -> Result<Option<Self>> {
        let scale = match spec.arg_types.as_slice() {
            [DataType::Decimal32(_, scale)]
            | [DataType::Decimal64(_, scale)]
            | [DataType::Decimal128(_, scale)]
            | [DataType::Decimal256(_, scale)] => *scale,
            _ => return Ok(None),
        };
        if !matches!(spec.function.as_str(), "avg" | "mean") || spec.result != DataType::Float64 {
            return Ok(None);
        }
        let wide = WindowFunctionSpec {
            function: "sum".into(),
            // The column that is evaluated for it, also where the argument is a constant.
            args: vec![Expr::Column(0)],
            arg_types: vec![wide_type(scale)],
            ..spec.clone()
        };
        let count = WindowFunctionSpec { function: "count".into(), ..wide.clone() };
        Ok(Some(DecimalMean {
            sum: AccumulatorFunction::new(&wide)?,
            count: AccumulatorFunction::new(&count)?,
            scale,
        }))
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
        self.of_parts(args, result, |_, part, values, data_type| {
            part.evaluate(frames, values, filter, expands, data_type)
        })
    }

    /// The two aggregates: the sum and the number of values.
    pub fn parts(&self) -> [&AccumulatorFunction; 2] {
        [&self.sum, &self.count]
    }

    /// The means of what `evaluate` makes of the parts, given the part's number, its argument and its type.
    pub fn of_parts(
        &self,
        args: &[ArrayRef],
        result: &DataType,
        mut evaluate: impl FnMut(
            usize,
            &AccumulatorFunction,
            &[ArrayRef],
            &DataType,
        ) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        let [values] = args else { return Err(Error::Internal("avg has one argument".into())) };
        let wide = wide_type(self.scale);
        let values = [cast(values, &wide)?];
        let sums = evaluate(0, &self.sum, &values, &wide)?;
        let counts = evaluate(1, &self.count, &values, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let sums = sums.as_primitive::<Decimal256Type>();
        let states = (0..counts.len()).map(|row| (sums.value(row), counts.value(row)));
        i256::averages(states, self.scale, result)
    }
}

fn wide_type(scale: i8) -> DataType {
    DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale)
}
