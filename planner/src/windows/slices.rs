//! The slices that windows of HOP and CUMULATE share: stretches of time within which no window begins or ends.
//!
//! Invariant: each window is a whole number of slices, and each time is in one slice.

use datafusion_common::ScalarValue;
use datafusion_expr::Expr;

use super::functions::TimeFunction;

/// How windows lie over slices; lengths are in units of the type of the times.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowSlices {
    /// The start of the slice of a row.
    pub start: Expr,
    /// How long a slice is.
    pub length: i64,
    /// Where a slice begins that a window begins with.
    pub origin: i64,
    /// Slices in a window.
    pub count: i64,
    /// Slices from the start of a window to that of the next.
    pub step: i64,
    /// Whether windows begin together, one after each `count` slices, and end one slice after the other. The list has
    /// their ends then, not their starts.
    pub cumulative: bool,
}

/// The slices of windows, from the list of their starts or ends; `None` if it is no such list.
pub fn slices_of(windows: &Expr) -> Option<WindowSlices> {
    let Expr::ScalarFunction(call) = windows else { return None };
    let [time, slide, size, origin] = call.args.as_slice() else { return None };
    let cumulative = call.func.name() == TimeFunction::CumulateEnds.name();
    if call.func.name() != TimeFunction::HopStarts.name() && !cumulative {
        return None;
    }
    let (slide, size, origin) = (number(slide)?, number(size)?, number(origin)?);
    let length = greatest_common_divisor(slide, size);
    let start = TimeFunction::Floor.call(vec![time.clone()], &[length, origin]);
    let (count, step) = (size / length, slide / length);
    let slices = WindowSlices { start, length, origin, count, step, cumulative };
    (slices.count > 0 && slices.step > 0).then_some(slices)
}

/// What a time is an earlier or later time of, by a constant length.
pub fn shifted_time(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == TimeFunction::Shift.name() => {
            call.args.first()
        }
        _ => None,
    }
}

/// A time so many units of its type later.
pub fn shifted(time: Expr, by: i64) -> Expr {
    TimeFunction::Shift.call(vec![time], &[by])
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion_expr::col;

    use super::*;

    #[test]
    fn slices_are_as_long_as_windows_allow() {
        let starts = TimeFunction::HopStarts.call(vec![col("t")], &[4, 10, 1]);
        let slices = slices_of(&starts).unwrap();
        assert_eq!((slices.length, slices.count, slices.step, slices.origin), (2, 5, 2, 1));
        assert_eq!(slices.start.to_string(), "window_floor(t, Int64(2), Int64(1))");
        let ends = TimeFunction::CumulateEnds.call(vec![col("t")], &[5, 20, 1]);
        let slices = slices_of(&ends).unwrap();
        assert_eq!((slices.length, slices.count, slices.cumulative), (5, 4, true));
        assert_eq!(slices_of(&col("t")), None);
        assert_eq!(shifted_time(&TimeFunction::Shift.call(vec![col("t")], &[3])), Some(&col("t")));
    }
}
