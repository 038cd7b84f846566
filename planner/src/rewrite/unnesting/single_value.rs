//! The value of a scalar subquery that may have several rows: an error where a row of the outer query asks for it.
//!
//! Plans call `__single_value(value, rows)` in the place of the subquery. The function is volatile, so that no rule moves
//! it below the join with the outer rows, where it would see values that nobody asked for.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{Result, exec_err};
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function, for registries.
pub(crate) fn single_value() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(SingleValue { signature: Signature::any(2, Volatility::Volatile) }))
}

/// The value, unless the number of rows is above one.
pub(super) fn call(value: Expr, rows: Expr) -> Expr {
    single_value().call(vec![value, rows])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl ScalarUDFImpl for SingleValue {
    fn name(&self) -> &str {
        "__single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.args[1].to_array(args.number_rows)?;
        let several = rows.as_primitive::<Int64Type>().iter().flatten().any(|count| count > 1);
        if several {
            return exec_err!("more than one row returned by a subquery used as an expression");
        }
        Ok(args.args[0].clone())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::Field;
    use datafusion_common::config::ConfigOptions;

    use super::*;

    fn invoke(rows: Vec<Option<i64>>) -> Result<ColumnarValue> {
        let count: ArrayRef = Arc::new(Int64Array::from(rows));
        let field = Arc::new(Field::new("v", DataType::Int64, true));
        single_value().invoke_with_args(ScalarFunctionArgs {
            number_rows: count.len(),
            args: vec![
                ColumnarValue::Array(Arc::clone(&count)),
                ColumnarValue::Array(Arc::clone(&count)),
            ],
            arg_fields: vec![Arc::clone(&field), Arc::clone(&field)],
            return_field: field,
            config_options: Arc::new(ConfigOptions::default()),
        })
    }

    #[test]
    fn several_rows_are_an_error() {
        assert!(invoke(vec![Some(1), None]).is_ok());
        assert!(invoke(vec![Some(1), Some(2)]).is_err());
    }
}
