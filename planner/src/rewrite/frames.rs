//! RANGE frames over decimals: the offset may need more digits than the key's type has.
//!
//! The library makes the offset a value of the key's type, which fails for `2` beside a DECIMAL(1, 1). So the key becomes
//! as wide as decimals are, with as many fractional digits as both have. Invariant: its order stays the same.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Expr, ExprSchemable, WindowFrameBound, WindowFrameUnits, cast};

/// Widens the key of the window's frame; whether there was something to do.
pub(super) fn widen_key(window: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let params = &mut window.params;
    let frame = &params.window_frame;
    let ([key], WindowFrameUnits::Range) = (params.order_by.as_mut_slice(), frame.units) else {
        return Ok(false);
    };
    let digits = [&frame.start_bound, &frame.end_bound].into_iter().filter_map(fraction_digits);
    let Some(digits) = digits.max() else { return Ok(false) };
    let DataType::Decimal128(precision, scale) = key.expr.get_type(schema)? else {
        return Ok(false);
    };
    let wide = scale.max(i8::try_from(digits).unwrap_or(i8::MAX));
    // Digits before the point that the key has must fit beside those behind it.
    let fits = i16::from(precision) - i16::from(scale) + i16::from(wide)
        <= i16::from(DECIMAL128_MAX_PRECISION);
    let to = DataType::Decimal128(DECIMAL128_MAX_PRECISION, wide);
    if !fits || to == DataType::Decimal128(precision, scale) {
        return Ok(false);
    }
    let expr: Expr = std::mem::take(&mut key.expr);
    key.expr = cast(expr, to);
    Ok(true)
}

/// The fractional digits of a bound's offset; `None` where it has no offset.
fn fraction_digits(bound: &WindowFrameBound) -> Option<usize> {
    let (WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset)) = bound else {
        return None;
    };
    if offset.is_null() {
        return None;
    }
    let text = offset.to_string();
    Some(text.split_once('.').map_or(0, |(_, digits)| digits.len()))
}
