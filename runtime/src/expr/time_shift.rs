//! Timestamps and a constant interval of hours or less, added or subtracted: what watermarks are made of.
//!
//! Arrow takes each value apart into a date and a time of day. An interval without months moves every timestamp by the
//! same number of units, as long as its days have 24 hours, which they do where there is no zone. Invariant: results are
//! those of Arrow, and whatever is out of range is left to it, so that its error is the one users see.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_schema::{DataType, Schema, TimeUnit};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Literal};

use super::BinaryOperator;

const DAY_NS: i128 = 86_400_000_000_000;

/// `time ± interval`.
#[derive(Debug, Clone, Eq)]
pub struct TimeShift {
    /// Arrow's way to the same result.
    whole: Arc<BinaryExpr>,
    unit: TimeUnit,
    /// Units by which each value moves.
    by: i64,
}

impl TimeShift {
    /// The expression in a form that moves all values alike, if it has one.
    pub fn try_new(
        op: BinaryOperator,
        whole: &BinaryExpr,
        schema: &Schema,
    ) -> Result<Option<Self>> {
        let sign = match op {
            BinaryOperator::Plus => 1,
            BinaryOperator::Minus => -1,
            _ => return Ok(None),
        };
        let DataType::Timestamp(unit, zone) = whole.left().data_type(schema)? else {
            return Ok(None);
        };
        let Some(literal) = whole.right().downcast_ref::<Literal>() else { return Ok(None) };
        let ScalarValue::IntervalMonthDayNano(Some(length)) = literal.value() else {
            return Ok(None);
        };
        let even_days = zone.is_none() || length.days == 0;
        let length_ns = i128::from(length.days) * DAY_NS + i128::from(length.nanoseconds);
        let unit_ns = match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        };
        if length.months != 0 || !even_days || length_ns % unit_ns != 0 {
            return Ok(None);
        }
        let by = i64::try_from(sign * length_ns / unit_ns).ok();
        Ok(by.map(|by| TimeShift { whole: Arc::new(whole.clone()), unit, by }))
    }

    /// The moved values; `None` if one is near the end of its range.
    fn moved(&self, times: &ArrayRef) -> Option<ArrayRef> {
        match self.unit {
            TimeUnit::Second => moved::<TimestampSecondType>(times, self.by),
            TimeUnit::Millisecond => moved::<TimestampMillisecondType>(times, self.by),
            TimeUnit::Microsecond => moved::<TimestampMicrosecondType>(times, self.by),
            TimeUnit::Nanosecond => moved::<TimestampNanosecondType>(times, self.by),
        }
    }
}

fn moved<T: ArrowPrimitiveType<Native = i64>>(times: &ArrayRef, by: i64) -> Option<ArrayRef> {
    let times = times.as_primitive::<T>();
    let mut out_of_range = false;
    let values: Vec<i64> = times
        .values()
        .iter()
        .map(|&time| {
            let (moved, overflown) = time.overflowing_add(by);
            out_of_range |= overflown;
            moved
        })
        .collect();
    if out_of_range {
        return None;
    }
    let moved = PrimitiveArray::<T>::new(values.into(), times.nulls().cloned());
    Some(Arc::new(moved.with_data_type(times.data_type().clone())))
}

impl PartialEq for TimeShift {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole
    }
}

impl Hash for TimeShift {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.whole.hash(state);
    }
}

impl fmt::Display for TimeShift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole.fmt(f)
    }
}

impl PhysicalExpr for TimeShift {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.whole.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.whole.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let ColumnarValue::Array(times) = self.whole.left().evaluate(batch)? else {
            return self.whole.evaluate(batch);
        };
        match self.moved(&times) {
            Some(moved) => Ok(ColumnarValue::Array(moved)),
            None => self.whole.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![self.whole.left(), self.whole.right()]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.whole.clone().with_new_children(children)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::compute::kernels::numeric;
    use arrow::datatypes::IntervalMonthDayNano;
    use arrow_schema::Field;
    use datafusion_physical_expr::expressions::Column;

    use super::*;

    fn shifted(op: BinaryOperator, times: &ArrayRef, by: IntervalMonthDayNano) -> Option<ArrayRef> {
        let schema = Arc::new(Schema::new(vec![Field::new("t", times.data_type().clone(), true)]));
        let interval = ScalarValue::IntervalMonthDayNano(Some(by));
        let whole = BinaryExpr::new(
            Arc::new(Column::new("t", 0)),
            op.into(),
            Arc::new(Literal::new(interval)),
        );
        let batch = RecordBatch::try_new(schema.clone(), vec![times.clone()]).unwrap();
        let shift = TimeShift::try_new(op, &whole, &schema).unwrap()?;
        Some(shift.evaluate(&batch).unwrap().into_array(times.len()).unwrap())
    }

    #[test]
    fn moved_times_are_those_of_arrow() {
        let day = IntervalMonthDayNano::new(0, -1, 0);
        let odd = IntervalMonthDayNano::new(0, 0, 4_000_001_000);
        let values = vec![Some(0), None, Some(-1), Some(1_436_918_400_000_001)];
        let plain: ArrayRef =
            Arc::new(PrimitiveArray::<TimestampMicrosecondType>::from(values.clone()));
        let zoned: ArrayRef = Arc::new(
            PrimitiveArray::<TimestampMicrosecondType>::from(values).with_timezone("Europe/Berlin"),
        );
        for (times, by, has_form) in
            [(&plain, day, true), (&plain, odd, true), (&zoned, odd, true), (&zoned, day, false)]
        {
            let interval = ScalarValue::IntervalMonthDayNano(Some(by)).to_scalar().unwrap();
            let sum = shifted(BinaryOperator::Plus, times, by);
            let difference = shifted(BinaryOperator::Minus, times, by);
            assert_eq!(sum.is_some(), has_form);
            let Some((sum, difference)) = sum.zip(difference) else { continue };
            assert_eq!(&sum, &numeric::add(times, &interval).unwrap());
            assert_eq!(&difference, &numeric::sub(times, &interval).unwrap());
        }
    }

    #[test]
    fn months_and_parts_of_a_unit_are_left_to_arrow() {
        let times: ArrayRef = Arc::new(PrimitiveArray::<TimestampSecondType>::from(vec![0]));
        let month = IntervalMonthDayNano::new(1, 0, 0);
        let half = IntervalMonthDayNano::new(0, 0, 500_000_000);
        assert!(shifted(BinaryOperator::Plus, &times, month).is_none());
        assert!(shifted(BinaryOperator::Minus, &times, half).is_none());
    }
}
