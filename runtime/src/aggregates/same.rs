//! Which rows of two columns hold the same value.
//!
//! Invariant: values are the same as the engine's IS NOT DISTINCT FROM says: NULL is NULL, NaN is NaN, −0.0 is 0.0,
//! also inside nested values.

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp::not_distinct;
use arrow::datatypes::DataType;

use crate::error::Result;
use crate::rows::canonical_key;

/// For each row whether the two columns, of one type and length, hold the same value.
///
/// # Errors
/// `Unsupported` for types whose values cannot be compared.
pub(crate) fn same_values(left: &ArrayRef, right: &ArrayRef) -> Result<BooleanBuffer> {
    debug_assert_eq!(left.len(), right.len());
    if left.data_type() == &DataType::Null {
        return Ok(BooleanBuffer::new_set(left.len()));
    }
    let (left, right) = (canonical_key(left)?, canonical_key(right)?);
    if left.data_type().is_nested() {
        let compare = make_comparator(&left, &right, SortOptions::default())?;
        return Ok(BooleanBuffer::collect_bool(left.len(), |row| compare(row, row).is_eq()));
    }
    Ok(not_distinct(&left, &right)?.values().clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, ListArray};
    use arrow::datatypes::Float64Type;

    use super::*;

    #[test]
    fn nulls_nans_and_zeros_are_the_same_also_inside_lists() {
        let left = [Some(f64::NAN), None, Some(-0.0), Some(1.0), None, Some(2.0)];
        let right = [Some(-f64::NAN), None, Some(0.0), Some(2.0), Some(0.0), Some(2.0)];
        let wanted = [true, true, true, false, false, true];
        let flat =
            |values: &[Option<f64>]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
        let found = same_values(&flat(&left), &flat(&right)).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted);
        let lists = |values: &[Option<f64>]| -> ArrayRef {
            let lists = values.iter().map(|value| Some(vec![Some(1.0), *value]));
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists))
        };
        let found = same_values(&lists(&left), &lists(&right)).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted);
    }
}
