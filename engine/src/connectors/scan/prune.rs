//! Can a container (file, row group, page) hold a row for which a predicate is true?
//!
//! Works on least and greatest values and null counts, for many containers at once. Every answer errs on the side
//! of "yes": what is not understood, not known or not comparable may match. Floating-point bounds leave NaN out, and
//! NaN is the greatest value, so an upper bound of such a column proves nothing.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Datum, Scalar, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::CastOptions;
use arrow::compute::kernels::cmp;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion_common::ScalarValue;
use thalweg_runtime::expr::{BinaryOperator, Expr, IsTest, canonical, cast_column};

/// Values of an IN list that are looked at one by one; of longer ones only the least and the greatest are.
const LIST_MAX: usize = 64;

/// What is known of one column in each container.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// No value is less; NULL if unknown.
    pub min: ArrayRef,
    /// No value is greater; NULL if unknown.
    pub max: ArrayRef,
    /// NULLs in the container; NULL if unknown.
    pub nulls: UInt64Array,
}

/// Gives the bounds of columns in a fixed number of containers.
pub trait BoundsSource {
    /// How many containers there are.
    fn containers(&self) -> usize;
    /// Rows of each container.
    fn rows(&self) -> UInt64Array;
    /// The bounds of a column of the table, in the table's type; `None` if nothing is known.
    fn bounds(&self, column: usize) -> Option<Bounds>;
}

/// For each container whether all predicates can be true in one of its rows.
pub fn may_match_all(predicates: &[Expr], source: &dyn BoundsSource) -> BooleanBuffer {
    let mut all = BooleanBuffer::new_set(source.containers());
    for predicate in predicates {
        all = &all & &may_match(predicate, source);
    }
    all
}

/// For each container whether the predicate can be true in one of its rows.
pub fn may_match(predicate: &Expr, source: &dyn BoundsSource) -> BooleanBuffer {
    let n = source.containers();
    match predicate {
        Expr::Binary { op: BinaryOperator::And, left, right } => {
            &may_match(left, source) & &may_match(right, source)
        }
        Expr::Binary { op: BinaryOperator::Or, left, right } => {
            &may_match(left, source) | &may_match(right, source)
        }
        Expr::Binary { op, left, right } => comparison(*op, left, right, source),
        Expr::Literal(value) => match value.0 {
            ScalarValue::Boolean(Some(true)) => BooleanBuffer::new_set(n),
            ScalarValue::Boolean(_) | ScalarValue::Null => BooleanBuffer::new_unset(n),
            _ => BooleanBuffer::new_set(n),
        },
        Expr::Is { test, expr } => is_test(*test, expr, source),
        Expr::InList { expr, list, negated: false } => in_list(expr, list, source),
        _ => BooleanBuffer::new_set(n),
    }
}

/// For each container whether its values of `column` can lie between two keys.
pub fn may_lie_between(
    key: &Expr,
    least: &ScalarValue,
    greatest: &ScalarValue,
    source: &dyn BoundsSource,
) -> BooleanBuffer {
    &compare(BinaryOperator::GtEq, key, least, source)
        & &compare(BinaryOperator::LtEq, key, greatest, source)
}

fn comparison(
    op: BinaryOperator,
    left: &Expr,
    right: &Expr,
    source: &dyn BoundsSource,
) -> BooleanBuffer {
    if let Some(value) = constant(right) {
        return compare(op, left, &value, source);
    }
    match (constant(left), mirrored(op)) {
        (Some(value), Some(op)) => compare(op, right, &value, source),
        _ => BooleanBuffer::new_set(source.containers()),
    }
}

fn mirrored(op: BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::*;
    match op {
        Eq | IsNotDistinctFrom => Some(op),
        Lt => Some(Gt),
        LtEq => Some(GtEq),
        Gt => Some(Lt),
        GtEq => Some(LtEq),
        NotEq | Plus | Minus | Multiply | Divide | Modulo | And | Or | IsDistinctFrom
        | RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch | BitwiseAnd | BitwiseOr
        | BitwiseXor | BitwiseShiftRight | BitwiseShiftLeft | StringConcat => None,
    }
}

/// The value of an expression without columns that is a literal or casts of one.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value) => Some(value.0.clone()),
        Expr::Cast { expr, to, .. } => {
            let value = exact_cast(&constant(expr)?.to_array().ok()?, to)?;
            ScalarValue::try_from_array(&value, 0).ok()
        }
        _ => None,
    }
}

fn compare(
    op: BinaryOperator,
    key: &Expr,
    value: &ScalarValue,
    source: &dyn BoundsSource,
) -> BooleanBuffer {
    let all = BooleanBuffer::new_set(source.containers());
    if value.is_null() {
        let null_never_matches = mirrored(op).is_some() && op != BinaryOperator::IsNotDistinctFrom;
        return if null_never_matches {
            BooleanBuffer::new_unset(source.containers())
        } else {
            all
        };
    }
    let Some(bounds) = key_bounds(key, source) else { return all };
    let Ok(value) = value.to_array() else { return all };
    let Some((min, max, value)) = alike(&bounds, &value) else { return all };
    let value = Scalar::new(value);
    let floating = min.data_type().is_floating();
    let below = |kernel: Kernel| unknown_matches(kernel(&min, &value));
    // NaN may stand above what the file calls the greatest value.
    let above =
        |kernel: Kernel| if floating { all.clone() } else { unknown_matches(kernel(&max, &value)) };
    let result = match op {
        BinaryOperator::Eq | BinaryOperator::IsNotDistinctFrom => {
            let is_nan = floating && is_nan(value.get().0);
            let upper =
                if is_nan { all.clone() } else { unknown_matches(cmp::gt_eq(&max, &value)) };
            &below(cmp::lt_eq) & &upper
        }
        BinaryOperator::Lt => below(cmp::lt),
        BinaryOperator::LtEq => below(cmp::lt_eq),
        BinaryOperator::Gt => above(cmp::gt),
        BinaryOperator::GtEq => above(cmp::gt_eq),
        _ => return all,
    };
    // A container of NULLs alone has no bounds and no match either.
    &result & &has_values(&bounds, source)
}

type Kernel = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>;

fn unknown_matches(result: Result<BooleanArray, ArrowError>) -> BooleanBuffer {
    match result {
        Ok(truth) => match truth.nulls() {
            Some(nulls) => truth.values() | &!nulls.inner(),
            None => truth.values().clone(),
        },
        // The caller made both sides of one type, so this is a type without an order.
        Err(_) => BooleanBuffer::new_set(0),
    }
}

fn is_nan(value: &dyn Array) -> bool {
    match ScalarValue::try_from_array(value, 0) {
        Ok(ScalarValue::Float64(Some(v))) => v.is_nan(),
        Ok(ScalarValue::Float32(Some(v))) => v.is_nan(),
        Ok(ScalarValue::Float16(Some(v))) => v.is_nan(),
        _ => false,
    }
}

/// Bounds and value in one type that has an order; `None` if there is none.
fn alike(bounds: &Bounds, value: &ArrayRef) -> Option<(ArrayRef, ArrayRef, ArrayRef)> {
    let to = bounds.min.data_type();
    let ordered = to.is_primitive()
        || matches!(
            to,
            DataType::Boolean
                | DataType::Utf8View
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::BinaryView
                | DataType::Binary
        );
    if !ordered || matches!(to, DataType::Interval(_)) {
        return None;
    }
    let value = if value.data_type() == to {
        value.clone()
    } else if is_text(value.data_type()) && is_text(to) {
        exact_cast(value, to)?
    } else {
        return None;
    };
    Some((canonical(&bounds.min), canonical(&bounds.max), canonical(&value)))
}

fn is_text(t: &DataType) -> bool {
    matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn exact_cast(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    cast_column(array, to, &CastOptions { safe: false, ..Default::default() }).ok()
}

/// Bounds of a column, or of a cast of one that keeps the order.
fn key_bounds(key: &Expr, source: &dyn BoundsSource) -> Option<Bounds> {
    match key {
        Expr::Column(column) => source.bounds(*column),
        Expr::Cast { expr, to, .. } => {
            let inner = key_bounds(expr, source)?;
            if !keeps_order(inner.min.data_type(), to) {
                return None;
            }
            let cast = |a: &ArrayRef| cast_column(a, to, &CastOptions::default()).ok();
            Some(Bounds { min: cast(&inner.min)?, max: cast(&inner.max)?, nulls: inner.nulls })
        }
        _ => None,
    }
}

/// Whether a cast maps greater values to greater or equal ones.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (a, b) if a == b => true,
        (a, Decimal128(..) | Float32 | Float64) if a.is_integer() => true,
        (a, b) if a.is_integer() && b.is_integer() => true,
        (Decimal128(..), Decimal128(..) | Float32 | Float64) => true,
        (Float32, Float64) => true,
        (Date32, Timestamp(..)) | (Timestamp(..), Timestamp(..)) => true,
        (a, b) => is_text(a) && is_text(b),
    }
}

fn has_values(bounds: &Bounds, source: &dyn BoundsSource) -> BooleanBuffer {
    let rows = source.rows();
    BooleanBuffer::collect_bool(rows.len(), |i| {
        bounds.nulls.is_null(i) || bounds.nulls.value(i) < rows.value(i)
    })
}

fn is_test(test: IsTest, expr: &Expr, source: &dyn BoundsSource) -> BooleanBuffer {
    let all = BooleanBuffer::new_set(source.containers());
    let Expr::Column(column) = expr else { return all };
    let Some(bounds) = source.bounds(*column) else { return all };
    match test {
        IsTest::Null | IsTest::Unknown => BooleanBuffer::collect_bool(source.containers(), |i| {
            bounds.nulls.is_null(i) || bounds.nulls.value(i) > 0
        }),
        IsTest::NotNull | IsTest::NotUnknown => has_values(&bounds, source),
        IsTest::True | IsTest::NotTrue | IsTest::False | IsTest::NotFalse => all,
    }
}

fn in_list(expr: &Expr, list: &[Expr], source: &dyn BoundsSource) -> BooleanBuffer {
    let all = BooleanBuffer::new_set(source.containers());
    let Some(mut values) = list.iter().map(constant).collect::<Option<Vec<_>>>() else {
        return all;
    };
    values.retain(|v| !v.is_null());
    if values.len() <= LIST_MAX {
        return values.iter().fold(BooleanBuffer::new_unset(source.containers()), |any, value| {
            &any | &compare(BinaryOperator::Eq, expr, value, source)
        });
    }
    let comparable = values.windows(2).all(|w| w[0].partial_cmp(&w[1]).is_some());
    if !comparable || values[0].data_type().is_floating() {
        return all;
    }
    let by =
        |a: &&ScalarValue, b: &&ScalarValue| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
    match (values.iter().min_by(by), values.iter().max_by(by)) {
        (Some(least), Some(greatest)) => may_lie_between(expr, least, greatest, source),
        _ => all,
    }
}

/// The literals that a row must equal one of, if the predicate says so of a plain column: for bloom filters.
pub fn required_values(predicate: &Expr) -> Option<(usize, Vec<ScalarValue>)> {
    match predicate {
        Expr::Binary { op: BinaryOperator::Eq, left, right } => match (&**left, &**right) {
            (Expr::Column(c), other) | (other, Expr::Column(c)) => {
                Some((*c, vec![constant(other)?]))
            }
            _ => None,
        },
        Expr::InList { expr, list, negated: false } if list.len() <= LIST_MAX => match &**expr {
            Expr::Column(c) => Some((*c, list.iter().map(constant).collect::<Option<_>>()?)),
            _ => None,
        },
        _ => None,
    }
}

/// Bounds that are one value in every container.
pub fn constant_bounds(value: &ScalarValue, rows: &UInt64Array) -> Option<Bounds> {
    let array = value.to_array_of_size(rows.len()).ok()?;
    let nulls: UInt64Array =
        if value.is_null() { rows.clone() } else { UInt64Array::from(vec![0; rows.len()]) };
    Some(Bounds { min: Arc::clone(&array), max: array, nulls })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringViewArray};

    use super::*;

    struct Fixed(Vec<Bounds>);

    impl BoundsSource for Fixed {
        fn containers(&self) -> usize {
            3
        }
        fn rows(&self) -> UInt64Array {
            vec![10, 10, 10].into()
        }
        fn bounds(&self, column: usize) -> Option<Bounds> {
            self.0.get(column).cloned()
        }
    }

    fn fixed() -> Fixed {
        let nulls = UInt64Array::from(vec![Some(0), Some(10), None]);
        Fixed(vec![
            Bounds {
                min: Arc::new(Int64Array::from(vec![Some(1), None, Some(5)])),
                max: Arc::new(Int64Array::from(vec![Some(4), None, Some(9)])),
                nulls: nulls.clone(),
            },
            Bounds {
                min: Arc::new(Float64Array::from(vec![1.0, 1.0, f64::NAN])),
                max: Arc::new(Float64Array::from(vec![2.0, 2.0, 2.0])),
                nulls: vec![0, 0, 0].into(),
            },
            Bounds {
                min: Arc::new(StringViewArray::from(vec![Some("b"), None, None])),
                max: Arc::new(StringViewArray::from(vec![Some("d"), None, None])),
                nulls,
            },
        ])
    }

    fn binary(op: BinaryOperator, column: usize, value: ScalarValue) -> Expr {
        Expr::Binary {
            op,
            left: Box::new(Expr::Column(column)),
            right: Box::new(Expr::literal(value)),
        }
    }

    fn answers(expr: &Expr) -> Vec<bool> {
        may_match(expr, &fixed()).iter().collect()
    }

    #[test]
    fn bounds_rule_containers_out() {
        let int = |v| ScalarValue::Int64(Some(v));
        assert_eq!(answers(&binary(BinaryOperator::Eq, 0, int(5))), [false, false, true]);
        assert_eq!(answers(&binary(BinaryOperator::Lt, 0, int(1))), [false, false, false]);
        assert_eq!(answers(&binary(BinaryOperator::GtEq, 0, int(4))), [true, false, true]);
        assert_eq!(answers(&binary(BinaryOperator::NotEq, 0, int(4))), [true, true, true]);
        assert_eq!(answers(&binary(BinaryOperator::Eq, 0, ScalarValue::Int64(None))), [false; 3]);
        let text = ScalarValue::Utf8(Some("c".into()));
        assert_eq!(answers(&binary(BinaryOperator::Eq, 2, text)), [true, false, true]);
    }

    #[test]
    fn nan_may_hide_above_the_greatest_value() {
        let float = |v| ScalarValue::Float64(Some(v));
        assert_eq!(answers(&binary(BinaryOperator::Gt, 1, float(3.0))), [true; 3]);
        assert_eq!(answers(&binary(BinaryOperator::Eq, 1, float(f64::NAN))), [true; 3]);
        let below = answers(&binary(BinaryOperator::Lt, 1, float(0.5)));
        assert_eq!(below[..2], [false, false]);
        assert_eq!(answers(&binary(BinaryOperator::Eq, 1, float(-0.0)))[..2], [false, false]);
    }

    #[test]
    fn null_tests_use_null_counts() {
        let is = |test| Expr::Is { test, expr: Box::new(Expr::Column(0)) };
        assert_eq!(answers(&is(IsTest::Null)), [false, true, true]);
        assert_eq!(answers(&is(IsTest::NotNull)), [true, false, true]);
    }

    #[test]
    fn casts_of_columns_keep_their_order() {
        let expr = Expr::Binary {
            op: BinaryOperator::Gt,
            left: Box::new(Expr::Cast {
                expr: Box::new(Expr::Column(0)),
                to: DataType::Decimal128(20, 2),
                fallible: false,
            }),
            right: Box::new(Expr::literal(ScalarValue::Decimal128(Some(450), 20, 2))),
        };
        assert_eq!(answers(&expr), [false, false, true]);
    }
}
