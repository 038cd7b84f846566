//! `zone_bound(zone, t)`: what `timezone(zone, t)` of no later time is below, for bounds of streams.
//!
//! Where clocks are turned, local times fall as time goes by, and points in time may as local times rise. The bound
//! takes the offset that is worst within a day or so, so that it is at most as much too low as clocks are turned, and
//! exact everywhere else. Invariant: it never falls where times do not.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion_common::{DataFusionError, Result, plan_err};
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::Conversion;
use super::instants::{UTC, offset_at, zone};

const NAME: &str = "zone_bound";
const SECOND_MICROS: i64 = 1_000_000;
/// Seconds within which clocks are looked at: the longest turn, and the widest offset.
const NEAR_SECONDS: i64 = 26 * 3_600;

/// The function, for registries.
pub(super) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::from(ZoneBound { signature }))
}

/// What a call of AT TIME ZONE with a constant zone is never below once its time is not below a bound; `None` for
/// other calls. `bound` gives the bound of the time.
pub fn zone_bound(call: &Expr, bound: impl FnOnce(&Expr) -> Option<Expr>) -> Option<Expr> {
    let Expr::ScalarFunction(call) = call else { return None };
    match call.args.as_slice() {
        [zone @ Expr::Literal(..), time] if call.func.name() == Conversion::TimeZone.name() => {
            Some(function().call(vec![zone.clone(), bound(time)?]))
        }
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ZoneBound {
    signature: Signature,
}

impl ScalarUDFImpl for ZoneBound {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Conversion::TimeZone.result(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(name), times] = args.args.as_slice() else {
            return plan_err!("{NAME} takes a constant zone and a time");
        };
        let Some(name) = name.try_as_str().flatten() else {
            return plan_err!("{NAME} takes the name of a zone");
        };
        let zone = zone(name)?;
        let times = times.to_array(args.number_rows)?;
        let zoned = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
        let label = zoned.then(|| UTC.into());
        let micros = cast(&times, &DataType::Timestamp(TimeUnit::Microsecond, label))?;
        let micros = cast(&micros, &DataType::Int64)?;
        let bound = |at: i64| {
            let second = at.div_euclid(SECOND_MICROS);
            let near = [second - NEAR_SECONDS, second, second + NEAR_SECONDS];
            let offsets = near.map(|at| i64::from(offset_at(at, &zone)));
            let moved = match zoned {
                true => offsets[1].min(offsets[2]),
                false => -offsets.into_iter().max().unwrap_or_default(),
            };
            at.checked_add(moved * SECOND_MICROS)
                .ok_or_else(|| DataFusionError::Execution("timestamp out of range".into()))
        };
        let bounds: Int64Array =
            micros.as_primitive::<Int64Type>().try_unary::<_, Int64Type, DataFusionError>(bound)?;
        let data_type = self.return_type(&[DataType::Utf8, times.data_type().clone()])?;
        Ok(ColumnarValue::Array(cast(&bounds, &data_type)?))
    }
}
