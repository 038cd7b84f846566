//! From a function's name and arguments to the accumulation it needs.
//!
//! Functions that accumulate the same share one state. Invariant: whether two aggregates share is decided from plain
//! data, before any state is made.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_expr::AggregateUDF;

use super::extreme::ExtremeSpec;
use super::moments::Moment;
use super::ranked::{Bits, Rank, RankedFunction};
use super::state::Output;
use crate::error::{Error, Result};

/// The library's aggregate functions by name and alias.
static LIBRARY: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    let mut functions = HashMap::new();
    for function in datafusion_functions_aggregate::all_default_aggregate_functions() {
        for alias in function.aliases() {
            functions.insert(alias.clone(), function.clone());
        }
        functions.insert(function.name().to_string(), function);
    }
    functions
});

/// A library function by one of its names.
///
/// # Errors
/// `Unsupported` for a name that is not registered.
pub(crate) fn library_function(name: &str) -> Result<Arc<AggregateUDF>> {
    let found = LIBRARY.get(name).or_else(|| LIBRARY.get(&name.to_lowercase()));
    found.cloned().ok_or_else(|| {
        Error::Unsupported(format!("the aggregate function {name} is not registered"))
    })
}

/// An operation that folds values into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    Min,
    Max,
    BitAnd,
    BitOr,
    BitXor,
}

/// What is accumulated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StateKind {
    /// NULL whatever comes: the argument has no values.
    Nothing,
    /// Rows, or rows without NULL arguments.
    Count,
    /// Sum and number of values.
    Sum,
    /// One value of a fixed-width type.
    Fold(FoldKind),
    /// The least or (true) greatest string.
    FoldBytes(bool),
    /// Which booleans occurred; true asks for any.
    Boolean(bool),
    /// Moments of one or (true) two variables.
    Moments(bool),
    /// The value of one row.
    Extreme(ExtremeSpec),
    /// The values in their order, those of approximate percentiles within a relative error.
    Ranked(Option<Bits>),
    /// A library function.
    Foreign(ForeignKind),
}

/// How a library function is used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ForeignKind {
    pub(crate) function: String,
    pub(crate) ignore_nulls: bool,
    /// The order is a part of the function (WITHIN GROUP), and descends.
    pub(crate) within_descending: Option<bool>,
}

/// What the order of rows means to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderUse {
    /// Nothing.
    None,
    /// It names the row that is wanted.
    Key,
    /// Rows reach the function in it.
    Replay,
    /// It belongs to the function: WITHIN GROUP.
    Within,
}

/// Kind, output and properties of a function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FunctionPlan {
    pub(crate) kind: StateKind,
    pub(crate) output: Output,
    pub(crate) order: OrderUse,
    /// Whether DISTINCT changes the result.
    pub(crate) distinct_matters: bool,
}

/// Plans a function of the given name over argument types; `ignore_nulls` as in the call.
///
/// # Errors
/// `Unsupported` for names that are not registered.
pub(crate) fn plan(name: &str, types: &[DataType], ignore_nulls: bool) -> Result<FunctionPlan> {
    if RankedFunction::named(name).is_some() {
        return Ok(FunctionPlan {
            kind: StateKind::Ranked(None),
            output: Output::Rank(Rank::Unknown),
            order: OrderUse::Within,
            distinct_matters: true,
        });
    }
    let library = library_function(name)?;
    let function = library.name();
    let own =
        |kind, output| FunctionPlan { kind, output, order: OrderUse::None, distinct_matters: true };
    let idempotent = |kind| FunctionPlan { distinct_matters: false, ..own(kind, Output::Only) };
    let none = matches!(types.first(), Some(DataType::Null));
    if let Some((moment, two)) = moment(function) {
        let kind = if types.contains(&DataType::Null) && moment != Moment::RegressionCount {
            StateKind::Nothing
        } else {
            StateKind::Moments(two)
        };
        return Ok(own(kind, Output::Moment(moment)));
    }
    Ok(match function {
        "count" => own(StateKind::Count, Output::Count),
        "sum" | "avg" | "min" | "max" | "bit_and" | "bit_or" | "bit_xor" | "bool_and"
        | "bool_or"
            if none =>
        {
            idempotent(StateKind::Nothing)
        }
        "sum" if is_summable(&types[0]) => own(StateKind::Sum, Output::Sum),
        "avg" if is_summable(&types[0]) => own(StateKind::Sum, Output::Average),
        "min" => idempotent(extreme_kind(&types[0], false)),
        "max" => idempotent(extreme_kind(&types[0], true)),
        "bool_and" => idempotent(StateKind::Boolean(false)),
        "bool_or" => idempotent(StateKind::Boolean(true)),
        "bit_and" if types[0].is_integer() => idempotent(StateKind::Fold(FoldKind::BitAnd)),
        "bit_or" if types[0].is_integer() => idempotent(StateKind::Fold(FoldKind::BitOr)),
        "bit_xor" if types[0].is_integer() => own(StateKind::Fold(FoldKind::BitXor), Output::Only),
        "first_value" | "last_value" | "any_value" => {
            let spec = ExtremeSpec {
                last: function == "last_value",
                ignore_nulls: ignore_nulls || function == "any_value",
                by_value: false,
                order: Vec::new(),
            };
            FunctionPlan { order: OrderUse::Key, ..idempotent(StateKind::Extreme(spec)) }
        }
        "grouping" => return Err(Error::Unsupported("GROUPING outside of grouping sets".into())),
        other => {
            let foreign =
                ForeignKind { function: other.into(), ignore_nulls, within_descending: None };
            let order = match other {
                "approx_percentile_cont" | "approx_percentile_cont_with_weight" => OrderUse::Within,
                "array_agg" | "string_agg" | "nth_value" => OrderUse::Replay,
                _ => OrderUse::None,
            };
            FunctionPlan { order, ..own(StateKind::Foreign(foreign), Output::Only) }
        }
    })
}

/// Types with an own sum; the others (intervals) go through the library.
fn is_summable(data_type: &DataType) -> bool {
    use DataType as T;
    data_type.is_integer()
        || matches!(data_type, T::Float32 | T::Float64 | T::Duration(_))
        || data_type.is_decimal()
}

fn extreme_kind(data_type: &DataType, greatest: bool) -> StateKind {
    use DataType as T;
    match data_type {
        T::Boolean => StateKind::Boolean(greatest),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => StateKind::FoldBytes(greatest),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
            StateKind::FoldBytes(greatest)
        }
        T::Float16 | T::Interval(_) => by_value(greatest),
        other if other.is_primitive() => {
            StateKind::Fold(if greatest { FoldKind::Max } else { FoldKind::Min })
        }
        _ => by_value(greatest),
    }
}

fn by_value(last: bool) -> StateKind {
    StateKind::Extreme(ExtremeSpec { last, ignore_nulls: true, by_value: true, order: Vec::new() })
}

fn moment(function: &str) -> Option<(Moment, bool)> {
    Some(match function {
        "var" => (Moment::VarianceSample, false),
        "var_pop" => (Moment::VariancePopulation, false),
        "stddev" => (Moment::DeviationSample, false),
        "stddev_pop" => (Moment::DeviationPopulation, false),
        "covar_samp" => (Moment::CovarianceSample, true),
        "covar_pop" => (Moment::CovariancePopulation, true),
        "corr" => (Moment::Correlation, true),
        "regr_slope" => (Moment::RegressionSlope, true),
        "regr_intercept" => (Moment::RegressionIntercept, true),
        "regr_count" => (Moment::RegressionCount, true),
        "regr_r2" => (Moment::RegressionR2, true),
        "regr_avgx" => (Moment::RegressionAverageX, true),
        "regr_avgy" => (Moment::RegressionAverageY, true),
        "regr_sxx" => (Moment::RegressionSxx, true),
        "regr_syy" => (Moment::RegressionSyy, true),
        "regr_sxy" => (Moment::RegressionSxy, true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_function_has_a_plan() {
        for function in datafusion_functions_aggregate::all_default_aggregate_functions() {
            let planned = plan(function.name(), &[DataType::Float64, DataType::Float64], false);
            assert_eq!(planned.is_ok(), function.name() != "grouping", "{}", function.name());
        }
        assert!(plan("mean", &[DataType::Int64], false).is_ok());
        assert!(plan("no_such_function", &[], false).is_err());
    }
}
