//! Vectors of a fixed number of dimensions: the type VECTOR(n), its text, and the operators `<->`, `<=>` and `<#>`.
//!
//! A vector is a fixed-size list of doubles. The operators are the distance functions for lists: Euclidean distance,
//! cosine distance, and the inner product with its sign turned, so that nearer is less.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, Float64Builder};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{DFSchema, Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion_functions_nested::cosine_distance::cosine_distance_udf;
use datafusion_functions_nested::distance::array_distance_udf;
use datafusion_functions_nested::inner_product::inner_product_udf;
use datafusion_sql::sqlparser::ast::BinaryOperator;

/// The name that stands for the cast in plans.
pub(crate) const VECTOR: &str = "vector";

/// The most dimensions of a vector.
const DIMENSIONS_MAX: i64 = 65_536;

/// The type VECTOR(dimensions).
pub(crate) fn vector_type(dimensions: i32) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Float64, true)), dimensions)
}

/// The dimensions in the text between the parentheses of `VECTOR(n)`.
pub(crate) fn dimensions(modifier: &str) -> Option<i32> {
    let number = modifier.trim().parse::<i64>().ok()?;
    (1..=DIMENSIONS_MAX).contains(&number).then(|| i32::try_from(number).ok()).flatten()
}

/// The function behind `CAST(… AS VECTOR(n))`: takes a text or list, and n.
pub(crate) fn vector() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Vector { signature: Signature::any(2, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Vector {
    signature: Signature,
}

impl ScalarUDFImpl for Vector {
    fn name(&self) -> &str {
        VECTOR
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        plan_err!("the type of a vector depends on its dimensions")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let number = args.scalar_arguments.get(1).copied().flatten();
        match number.map(|number| number.cast_to(&DataType::Int64)).transpose()? {
            Some(ScalarValue::Int64(Some(number))) if (1..=DIMENSIONS_MAX).contains(&number) => {
                Ok(Arc::new(Field::new(VECTOR, vector_type(number as i32), true)))
            }
            _ => plan_err!("the dimensions of a vector are a number from 1 to {DIMENSIONS_MAX}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::FixedSizeList(_, dimensions) = args.return_field.data_type() else {
            return exec_err!("a vector is a list");
        };
        match &args.args[0] {
            ColumnarValue::Array(array) => vectors(array, *dimensions).map(ColumnarValue::Array),
            ColumnarValue::Scalar(scalar) => {
                let vectors = vectors(&scalar.to_array()?, *dimensions)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&vectors, 0)?))
            }
        }
    }
}

fn vectors(values: &ArrayRef, dimensions: i32) -> Result<ArrayRef> {
    if !values.data_type().is_string() {
        return Ok(cast(values, &vector_type(dimensions))?);
    }
    let text = cast(values, &DataType::Utf8)?;
    let text = text.as_string::<i32>();
    let width = dimensions as usize;
    let mut numbers = Float64Builder::with_capacity(text.len() * width);
    for value in text {
        match value {
            None => numbers.append_nulls(width),
            Some(value) => match parse(value) {
                Some(parsed) if parsed.len() == width => numbers.append_slice(&parsed),
                Some(parsed) => {
                    return exec_err!("{} dimensions instead of {width}: {value}", parsed.len());
                }
                None => return exec_err!("\"{value}\" is not the text of a vector"),
            },
        }
    }
    let nulls = text.nulls().map(|nulls| NullBuffer::new(nulls.inner().clone()));
    let field = Arc::new(Field::new_list_field(DataType::Float64, true));
    let list = FixedSizeListArray::try_new(field, dimensions, Arc::new(numbers.finish()), nulls)?;
    Ok(Arc::new(list))
}

/// The numbers of `[1, 2.5, -3]`.
fn parse(text: &str) -> Option<Vec<f64>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(|number| number.trim().parse().ok()).collect()
}

/// Plans the operators between vectors.
#[derive(Debug)]
pub(crate) struct DistancePlanner;

impl ExprPlanner for DistancePlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let is_vector = |side: &Expr| {
            matches!(side.get_type(schema), Ok(DataType::FixedSizeList(..) | DataType::List(_)))
        };
        let planned = match &op {
            BinaryOperator::Custom(name) if name == "<->" => {
                array_distance_udf().call(vec![left, right])
            }
            BinaryOperator::Custom(name) if name == "<#>" => {
                Expr::Negative(Box::new(inner_product_udf().call(vec![left, right])))
            }
            BinaryOperator::Spaceship if is_vector(&left) && is_vector(&right) => {
                cosine_distance_udf().call(vec![left, right])
            }
            _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        Ok(PlannerResult::Planned(planned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_vectors_are_read() {
        assert_eq!(parse("[1, 2.5,-3]").unwrap(), [1.0, 2.5, -3.0]);
        assert_eq!(parse("1, 2"), None);
        assert_eq!(parse("[1, x]"), None);
        assert_eq!(dimensions(" 3 "), Some(3));
        assert_eq!(dimensions("0"), None);
    }
}
