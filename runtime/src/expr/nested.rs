//! Comparisons of lists, structs and maps.
//!
//! Nested values are compared element by element as ORDER BY does it: a NULL element is greater than every other and
//! equal to another NULL, −0.0 equals 0.0, NaNs are equal. A whole value that is NULL makes the comparison NULL, except
//! for IS [NOT] DISTINCT FROM.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::SortOptions;
use arrow::row::{RowConverter, SortField};
use arrow_schema::{DataType, Schema};
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;

use super::BinaryOperator;
use crate::rows::canonical_key;

/// A comparison whose sides are nested values of one type.
#[derive(Debug, Clone)]
pub(super) struct NestedComparison {
    op: BinaryOperator,
    left: Arc<dyn PhysicalExpr>,
    right: Arc<dyn PhysicalExpr>,
}

impl NestedComparison {
    /// `None` for an operator that does not compare, and for sides that are not nested values which have an order.
    pub(super) fn try_new(
        op: BinaryOperator,
        left: &Arc<dyn PhysicalExpr>,
        right: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
    ) -> Result<Option<Self>> {
        let (l, r) = (left.data_type(schema)?, right.data_type(schema)?);
        let fits = op.compares()
            && l.is_nested()
            && r.is_nested()
            && RowConverter::supports_fields(&[SortField::new(l), SortField::new(r)]);
        let (left, right) = (Arc::clone(left), Arc::clone(right));
        Ok(fits.then_some(NestedComparison { op, left, right }))
    }

    fn holds(&self, ordering: Ordering) -> bool {
        match Operator::from(self.op) {
            Operator::Eq | Operator::IsNotDistinctFrom => ordering.is_eq(),
            Operator::Lt => ordering.is_lt(),
            Operator::LtEq => ordering.is_le(),
            Operator::Gt => ordering.is_gt(),
            Operator::GtEq => ordering.is_ge(),
            // The only others that compare: see `try_new`.
            _ => ordering.is_ne(),
        }
    }

    fn compare(&self, left: &ArrayRef, right: &ArrayRef) -> Result<BooleanArray> {
        let external = |error| DataFusionError::External(Box::new(error));
        let (left, right) =
            (canonical_key(left).map_err(external)?, canonical_key(right).map_err(external)?);
        let options = SortOptions::new(false, false);
        let comparator = arrow::array::make_comparator(&left, &right, options)?;
        let holds = BooleanBuffer::collect_bool(left.len(), |row| self.holds(comparator(row, row)));
        let distinct =
            matches!(self.op, BinaryOperator::IsDistinctFrom | BinaryOperator::IsNotDistinctFrom);
        let nulls = match distinct {
            true => None,
            false => {
                NullBuffer::union(left.logical_nulls().as_ref(), right.logical_nulls().as_ref())
            }
        };
        Ok(BooleanArray::new(holds, nulls))
    }
}

impl PartialEq for NestedComparison {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Eq for NestedComparison {}

impl Hash for NestedComparison {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.op.hash(state);
        self.left.hash(state);
        self.right.hash(state);
    }
}

impl fmt::Display for NestedComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.left, self.op, self.right)
    }
}

impl PhysicalExpr for NestedComparison {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        Ok(self.left.nullable(schema)? || self.right.nullable(schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let left = self.left.evaluate(batch)?.into_array(rows)?;
        let right = self.right.evaluate(batch)?.into_array(rows)?;
        Ok(ColumnarValue::Array(Arc::new(self.compare(&left, &right)?)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let (left, right) = (Arc::clone(&children[0]), Arc::clone(&children[1]));
        Ok(Arc::new(NestedComparison { op: self.op, left, right }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::ListArray;
    use arrow::datatypes::Float64Type;
    use datafusion_physical_expr::expressions::Column;

    use super::*;

    #[test]
    fn null_elements_are_greatest_and_zeros_are_equal() {
        let lists = |values: Vec<Option<Vec<Option<f64>>>>| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values))
        };
        let left = lists(vec![
            Some(vec![None, Some(3.0)]),
            Some(vec![Some(-0.0)]),
            Some(vec![None]),
            None,
            Some(vec![]),
        ]);
        let right = lists(vec![
            Some(vec![Some(1.0), Some(2.0)]),
            Some(vec![Some(0.0)]),
            Some(vec![None]),
            Some(vec![]),
            Some(vec![None]),
        ]);
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new("c", 0));
        let compare = |op| {
            let comparison =
                NestedComparison { op, left: Arc::clone(&expr), right: Arc::clone(&expr) };
            comparison.compare(&left, &right).unwrap().iter().collect::<Vec<_>>()
        };
        let wanted = |known: [bool; 3], last| {
            let known = known.map(Some);
            vec![known[0], known[1], known[2], None, Some(last)]
        };
        assert_eq!(compare(BinaryOperator::Lt), wanted([false, false, false], true));
        assert_eq!(compare(BinaryOperator::Eq), wanted([false, true, true], false));
        assert_eq!(compare(BinaryOperator::GtEq), wanted([true, true, true], false));
        assert_eq!(compare(BinaryOperator::NotEq), wanted([true, false, false], true));
        let distinct = compare(BinaryOperator::IsDistinctFrom);
        assert_eq!(distinct, [true, false, false, true, true].map(Some));
    }
}
