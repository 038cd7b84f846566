//! The order of lists and structs, as ORDER BY has it.
//!
//! The library compares nested values with NULL elements least and by the bits of numbers. Here a NULL element is the
//! greatest and equal to another NULL, −0.0 equals 0.0, and NaNs are equal.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, Float32Array, Float64Array, Int8Array, make_array,
    make_comparator,
};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion_common::Result;

/// For each row -1, 0 or 1, as the left value is less than, equal to or greater than the right one; NULL where one of
/// them is NULL as a whole.
pub(super) fn order(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let (left, right) = (one_form(left)?, one_form(right)?);
    let compare = make_comparator(&left, &right, SortOptions::new(false, false))?;
    let nulls = NullBuffer::union(left.logical_nulls().as_ref(), right.logical_nulls().as_ref());
    let orders = (0..left.len()).map(|row| compare(row, row) as i8);
    Ok(Arc::new(Int8Array::new(orders.collect(), nulls)))
}

/// The values with one form for each number.
fn one_form(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(make_array(one_form_data(values.to_data())?))
}

fn one_form_data(data: ArrayData) -> Result<ArrayData> {
    let values = || make_array(data.clone());
    Ok(match data.data_type() {
        DataType::Float64 => {
            let form = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
            let numbers: Float64Array = values().as_primitive::<Float64Type>().unary(form);
            numbers.into_data()
        }
        DataType::Float32 => {
            let form = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            let numbers: Float32Array = values().as_primitive::<Float32Type>().unary(form);
            numbers.into_data()
        }
        nested if nested.is_nested() => {
            let children = data.child_data().iter().cloned().map(one_form_data);
            let children = children.collect::<Result<Vec<_>>>()?;
            data.into_builder().child_data(children).build()?
        }
        _ => data,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::ListArray;

    use super::*;

    #[test]
    fn null_elements_are_greatest_and_zeros_are_equal() {
        let lists = |values: Vec<Option<Vec<Option<f64>>>>| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values))
        };
        let left = lists(vec![
            Some(vec![None, Some(3.0)]),
            Some(vec![Some(-0.0)]),
            Some(vec![Some(-f64::NAN), None]),
            None,
            Some(vec![]),
        ]);
        let right = lists(vec![
            Some(vec![Some(1.0), Some(2.0)]),
            Some(vec![Some(0.0)]),
            Some(vec![Some(f64::NAN), None]),
            Some(vec![]),
            Some(vec![None]),
        ]);
        let whole = order(&left, &right).unwrap();
        let wanted = Int8Array::from(vec![Some(1), Some(0), Some(0), None, Some(-1)]);
        assert_eq!(whole.as_primitive::<arrow::datatypes::Int8Type>(), &wanted);
        let rest = order(&left.slice(1, 4), &right.slice(1, 4)).unwrap();
        assert_eq!(rest.as_ref(), &wanted.slice(1, 4) as &dyn Array);
    }
}
