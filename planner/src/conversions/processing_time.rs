//! `proctime()`: the moment at which rows are read.
//!
//! Rows of one batch have the same moment. It is taken anew for each batch, in batch queries too, so that it is never
//! folded into a constant.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::instants::UTC;

/// The name of the function.
pub(crate) const PROCTIME: &str = "proctime";

/// The function.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::nullary(Volatility::Volatile);
    vec![Arc::new(ScalarUDF::from(ProcessingTime { signature }))]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ProcessingTime {
    signature: Signature,
}

impl ScalarUDFImpl for ProcessingTime {
    fn name(&self) -> &str {
        PROCTIME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let micros = since.and_then(|since| i64::try_from(since.as_micros()).ok());
        let micros = micros.ok_or_else(|| {
            DataFusionError::Execution("the clock shows a time before 1970".to_string())
        })?;
        Ok(ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(Some(micros), Some(UTC.into()))))
    }
}
