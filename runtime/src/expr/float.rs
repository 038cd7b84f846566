//! One bit pattern for each floating-point value, so that Arrow's total order agrees with SQL's equality.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Float16Type, Float32Type, Float64Type};
use arrow_schema::{DataType, Schema};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

/// −0.0 becomes 0.0 and every NaN the positive one; other types pass unchanged.
pub fn canonical(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => Arc::new(
            array
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }),
        ),
        DataType::Float32 => Arc::new(
            array
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }),
        ),
        DataType::Float16 => {
            Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float16Type>(|v| {
                if v.is_nan() {
                    half_nan()
                } else if v.to_f32() == 0.0 {
                    Default::default()
                } else {
                    v
                }
            }))
        }
        _ => Arc::clone(array),
    }
}

fn half_nan() -> <Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native {
    <Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native::NAN
}

/// Applies [`canonical`] to what its argument gives.
#[derive(Debug, Clone, Eq)]
pub struct CanonicalFloat(pub Arc<dyn PhysicalExpr>);

impl PartialEq for CanonicalFloat {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for CanonicalFloat {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for CanonicalFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "canonical({})", self.0)
    }
}

impl PhysicalExpr for CanonicalFloat {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.0.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.0.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let value = self.0.evaluate(batch)?;
        Ok(match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(canonical(&array)),
            ColumnarValue::Scalar(value) => {
                let array = canonical(&value.to_array()?);
                ColumnarValue::Scalar(datafusion_common::ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.0]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(CanonicalFloat(children[0].clone())))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}
