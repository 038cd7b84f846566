//! `proctime()`: the moment at which rows are read.
//!
//! Rows of one batch have the same moment. It is taken anew for each batch, in batch queries too, so that it is never
//! folded into a constant. Whoever runs the function gives it a clock; planning needs none.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::instants::UTC;

/// The name of the function.
pub(crate) const PROCTIME: &str = "proctime";

/// A clock: microseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The function as it is planned, with the clock of the operating system.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![processing_time(Arc::new(system_clock))]
}

/// `proctime()` by a clock, for whoever runs plans.
pub fn processing_time(clock: Clock) -> Arc<ScalarUDF> {
    let signature = Signature::nullary(Volatility::Volatile);
    Arc::new(ScalarUDF::from(ProcessingTime { signature, clock }))
}

fn system_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

struct ProcessingTime {
    signature: Signature,
    clock: Clock,
}

impl fmt::Debug for ProcessingTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessingTime")
    }
}

// Calls mean the same whatever clock they will be run by.
impl PartialEq for ProcessingTime {
    fn eq(&self, other: &Self) -> bool {
        self.signature == other.signature
    }
}

impl Eq for ProcessingTime {}

impl Hash for ProcessingTime {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.signature.hash(state);
    }
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
        let micros = (self.clock)();
        Ok(ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(Some(micros), Some(UTC.into()))))
    }
}
