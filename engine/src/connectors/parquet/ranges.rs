//! The share of rows whose values lie in an interval, row group by row group: exact enough where the rows are sorted by
//! the column, which is where a sample would be at its worst.

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Float64Type};
use thalweg_runtime::expr::{BinaryOperator, Expr};

use crate::connectors::scan::prune::Bounds;

/// Row groups that each span less than this share of all values are in some order.
const CLUSTERED_SPAN: f64 = 0.5;

/// Values from `low` on and below `high` or up to it; missing ends are open.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Interval {
    low: Option<f64>,
    high: Option<f64>,
}

impl Interval {
    /// The values in both.
    pub fn and(self, other: Interval) -> Interval {
        let low = self.low.into_iter().chain(other.low).reduce(f64::max);
        let high = self.high.into_iter().chain(other.high).reduce(f64::min);
        Interval { low, high }
    }
}

/// The column and the interval of a conjunction of comparisons of one column with constants. Whole numbers and days
/// stand for the interval up to the next one.
pub fn interval(filter: &Expr) -> Option<(usize, Interval)> {
    let Expr::Binary { op, left, right } = filter else { return None };
    if *op == BinaryOperator::And {
        let ((a, left), (b, right)) = (interval(left)?, interval(right)?);
        return (a == b).then(|| (a, left.and(right)));
    }
    let (column, literal, op) = match (&**left, &**right) {
        (Expr::Column(c), Expr::Literal(l)) => (*c, l, *op),
        (Expr::Literal(l), Expr::Column(c)) => (*c, l, mirrored(*op)?),
        _ => return None,
    };
    let array = literal.0.to_array().ok()?;
    let step = if is_discrete(array.data_type()) { 1.0 } else { 0.0 };
    let values = numbers(&array)?;
    let value = values.is_valid(0).then(|| values.value(0))?;
    let interval = match op {
        BinaryOperator::Lt => Interval { high: Some(value), low: None },
        BinaryOperator::LtEq => Interval { high: Some(value + step), low: None },
        BinaryOperator::Gt => Interval { low: Some(value + step), high: None },
        BinaryOperator::GtEq => Interval { low: Some(value), high: None },
        _ => return None,
    };
    Some((column, interval))
}

fn mirrored(op: BinaryOperator) -> Option<BinaryOperator> {
    match op {
        BinaryOperator::Lt => Some(BinaryOperator::Gt),
        BinaryOperator::LtEq => Some(BinaryOperator::GtEq),
        BinaryOperator::Gt => Some(BinaryOperator::Lt),
        BinaryOperator::GtEq => Some(BinaryOperator::LtEq),
        _ => None,
    }
}

/// A column's bounds as numbers.
pub struct NumberBounds {
    min: Float64Array,
    max: Float64Array,
    /// What a value stands for beyond itself.
    step: f64,
}

impl NumberBounds {
    /// `None` for types that are no numbers or times.
    pub fn new(bounds: &Bounds) -> Option<Self> {
        let step = if is_discrete(bounds.min.data_type()) { 1.0 } else { 0.0 };
        Some(NumberBounds { min: numbers(&bounds.min)?, max: numbers(&bounds.max)?, step })
    }

    /// Whether the rows are in some order by this column, so that a row group holds a part of the values.
    pub fn is_clustered(&self) -> bool {
        if self.min.len() < 2 || self.min.null_count() + self.max.null_count() > 0 {
            return false;
        }
        let least = self.min.values().iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.max.values().iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let spans: f64 = self.min.values().iter().zip(self.max.values()).map(|(a, b)| b - a).sum();
        let all = greatest - least;
        all > 0.0 && spans / self.min.len() as f64 / all < CLUSTERED_SPAN
    }

    /// Whether all groups have bounds.
    pub fn is_complete(&self) -> bool {
        self.min.null_count() + self.max.null_count() == 0
    }

    /// The share of a group's values in an interval, taking them to be spread evenly; 1 without bounds.
    pub fn share(&self, group: usize, interval: Interval) -> f64 {
        if self.min.is_null(group) || self.max.is_null(group) {
            return 1.0;
        }
        let (min, max) = (self.min.value(group), self.max.value(group) + self.step);
        let low = interval.low.unwrap_or(min).max(min);
        let high = interval.high.unwrap_or(max).min(max);
        if max <= min {
            return f64::from(u8::from(low <= high));
        }
        ((high - low) / (max - min)).clamp(0.0, 1.0)
    }
}

fn is_discrete(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type == &DataType::Date32
}

/// Numbers and times on the number line, times in units of their type.
pub fn numbers(array: &ArrayRef) -> Option<Float64Array> {
    let cast = |array: &ArrayRef, to: DataType| {
        cast_with_options(array, &to, &CastOptions::default()).ok()
    };
    let whole = match array.data_type() {
        DataType::Date32 => cast(array, DataType::Int32)?,
        DataType::Timestamp(..) => cast(array, DataType::Int64)?,
        t if t.is_integer() || t.is_floating() || t.is_decimal() => array.clone(),
        _ => return None,
    };
    let numbers = cast(&whole, DataType::Float64)?.as_primitive::<Float64Type>().clone();
    numbers.iter().flatten().all(f64::is_finite).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, UInt64Array};
    use datafusion_common::ScalarValue;

    use super::*;

    fn bounds(min: [i32; 2], max: [i32; 2]) -> NumberBounds {
        let array = |values: [i32; 2]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
        let nulls = UInt64Array::from(vec![0, 0]);
        NumberBounds::new(&Bounds { min: array(min), max: array(max), nulls }).unwrap()
    }

    fn compare(op: BinaryOperator, value: i32) -> Expr {
        let value = ScalarValue::Int32(Some(value));
        Expr::Binary { op, left: Box::new(Expr::Column(3)), right: Box::new(Expr::literal(value)) }
    }

    #[test]
    fn whole_numbers_are_counted_whole() {
        let sorted = bounds([0, 10], [9, 19]);
        assert!(sorted.is_clustered());
        let (column, five) = interval(&Expr::Binary {
            op: BinaryOperator::And,
            left: Box::new(compare(BinaryOperator::GtEq, 5)),
            right: Box::new(compare(BinaryOperator::Lt, 12)),
        })
        .unwrap();
        assert_eq!(column, 3);
        assert_eq!((sorted.share(0, five), sorted.share(1, five)), (0.5, 0.2));
        let above = interval(&compare(BinaryOperator::Gt, 18)).unwrap().1;
        assert_eq!((sorted.share(0, above), sorted.share(1, above)), (0.0, 0.1));
        assert!(!bounds([0, 1], [9, 10]).is_clustered());
        assert_eq!(interval(&compare(BinaryOperator::Eq, 1)), None);
    }
}
