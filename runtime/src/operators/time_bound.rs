//! What a watermark says of a time that operators complete or forget rows by.
//!
//! Times are numbers of their type's unit, so that operators compare them without a look at the type. Invariant: the
//! bound of a later watermark is not smaller.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::Int64Type;
use arrow_schema::{DataType, TimeUnit};

use crate::batch::Batch;
use crate::element::Watermark;
use crate::error::{Error, Result};
use crate::expr::{CompiledExpr, Expr, compile, positional_schema};
use crate::job::JobContext;

/// An expression over the watermark, compiled.
#[derive(Debug)]
pub(super) struct TimeBound {
    bound: CompiledExpr,
    watermark_type: DataType,
}

impl TimeBound {
    /// Compiles an expression over the watermark as its only column, which is a timestamp of the given type there.
    pub(super) fn new(bound: &Expr, watermark_type: &DataType, job: &JobContext) -> Result<Self> {
        let schema = positional_schema(std::slice::from_ref(watermark_type));
        Ok(TimeBound {
            bound: compile(bound, &schema, &job.functions)?,
            watermark_type: watermark_type.clone(),
        })
    }

    /// Its value at a watermark; the least and the greatest watermark are bounds themselves.
    pub(super) fn at(&self, Watermark(at): Watermark) -> Result<i64> {
        if at == i64::MIN || at == i64::MAX {
            return Ok(at);
        }
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let at = cast(&Int64Array::from(vec![at]), &micros)?;
        let plain = match &self.watermark_type {
            DataType::Timestamp(unit, _) => cast(&at, &DataType::Timestamp(*unit, None))?,
            other => return Err(Error::Internal(format!("a watermark of the type {other}"))),
        };
        // A zone changes nothing about the number: the watermark is a point in time already.
        let typed = cast(&cast(&plain, &DataType::Int64)?, &self.watermark_type)?;
        let bound = times(&self.bound.evaluate(&Batch::new(vec![typed], 1))?)?;
        Ok(if bound.is_valid(0) { bound.value(0) } else { i64::MIN })
    }
}

/// Timestamps, dates and integers as numbers in the same order.
pub(super) fn times(values: &ArrayRef) -> Result<Int64Array> {
    let values = match values.data_type() {
        // Days have 32 bits, and no cast to 64.
        DataType::Date32 => &cast(values, &DataType::Int32)?,
        _ => values,
    };
    Ok(cast(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}
