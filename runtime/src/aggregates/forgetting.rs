//! Which states serve changelogs: those whose results are wanted again and again, and those that can forget.
//!
//! What can be computed backwards is; folds keep their rows beside the value; every other function is computed anew from
//! kept rows. Where no row is withdrawn, own states do as they are, but library functions are computed from kept rows,
//! too: they give results of all groups or none. Invariant: the choice depends on the description alone; a state gives
//! the same result bit by bit until rows of the group come or go, also after a restore.

use arrow::datatypes::*;

use super::boolean_counts::BooleanCounts;
use super::build::{StateSpec, check_distinct_order, foreign, own_state};
use super::count::Count;
use super::counted_distinct::CountedDistinct;
use super::float_sum::FloatSum;
use super::function::{FoldKind, ForeignKind, StateKind};
use super::kept_fold::{FoldUpkeep, KeptFold};
use super::kept_replay::KeptReplay;
use super::multiset::Keep;
use super::ranked::{Bits, Ranked};
use super::state::AggregateState;
use super::xor::Xor;
use crate::error::{Error, Result};
use crate::memory::Reservation;

/// Makes a state that can forget. `lenient` says that it may be told to forget what it does not have.
///
/// # Errors
/// As [`build`](super::build::build); `Unsupported` also for values that cannot be found again.
pub(crate) fn build_forgetting(
    spec: &StateSpec,
    lenient: bool,
    reservation: &Reservation,
) -> Result<Box<dyn AggregateState>> {
    check_distinct_order(spec)?;
    let native: Box<dyn AggregateState> = match &spec.kind {
        StateKind::Nothing => return own_state(&spec.kind, spec),
        StateKind::Count => Box::new(Count::new()),
        StateKind::Sum => sum(spec)?,
        StateKind::Boolean(any) => Box::new(BooleanCounts::new(*any)),
        StateKind::Fold(FoldKind::BitXor) => xor(&spec.types[0])?,
        StateKind::Fold(FoldKind::Min | FoldKind::Max) | StateKind::FoldBytes(_) => {
            return fold(spec, FoldUpkeep { picks_row: true, lenient, ..FOLD }, reservation);
        }
        StateKind::Fold(FoldKind::BitAnd | FoldKind::BitOr) => {
            return fold(spec, FoldUpkeep { lenient, ..FOLD }, reservation);
        }
        StateKind::Extreme(extreme) => {
            let upkeep = FoldUpkeep {
                picks_row: true,
                ignores_nulls: extreme.ignore_nulls,
                in_order: !extreme.by_value,
                lenient,
            };
            return fold(spec, upkeep, reservation);
        }
        StateKind::Moments(_) => {
            let inner = own_state(&spec.kind, spec)?;
            let keep = (Keep::RowsInOrder, lenient);
            return Ok(Box::new(KeptReplay::new(inner, spec, keep, reservation)?));
        }
        StateKind::Ranked(error) => ranked(*error, spec, lenient, reservation)?,
        StateKind::Foreign(kind) => return library(kind, spec, lenient, reservation),
    };
    distinct_or_not(native, spec, lenient, reservation)
}

/// Makes a state whose results are wanted again and again, of rows that stay.
///
/// # Errors
/// As [`build_forgetting`].
pub(crate) fn build_running(
    spec: &StateSpec,
    reservation: &Reservation,
) -> Result<Box<dyn AggregateState>> {
    check_distinct_order(spec)?;
    match &spec.kind {
        StateKind::Ranked(error) => {
            distinct_or_not(ranked(*error, spec, false, reservation)?, spec, false, reservation)
        }
        StateKind::Foreign(kind) => library(kind, spec, false, reservation),
        own => distinct_or_not(own_state(own, spec)?, spec, false, reservation),
    }
}

fn distinct_or_not(
    inner: Box<dyn AggregateState>,
    spec: &StateSpec,
    lenient: bool,
    reservation: &Reservation,
) -> Result<Box<dyn AggregateState>> {
    if !spec.distinct {
        return Ok(inner);
    }
    Ok(Box::new(CountedDistinct::new(inner, &spec.types, lenient, reservation)?))
}

/// Values in their order, which can forget as they are.
fn ranked(
    error: Option<Bits>,
    spec: &StateSpec,
    lenient: bool,
    reservation: &Reservation,
) -> Result<Box<dyn AggregateState>> {
    Ok(Box::new(Ranked::new(&spec.types[0], error, lenient, reservation)?))
}

/// A library function, computed from kept rows.
fn library(
    kind: &ForeignKind,
    spec: &StateSpec,
    lenient: bool,
    reservation: &Reservation,
) -> Result<Box<dyn AggregateState>> {
    if kind.function == "approx_distinct" {
        // All values are kept in any case: counting them costs less than estimating, and is exact.
        let count = Box::new(Count::new());
        return Ok(Box::new(CountedDistinct::new(count, &spec.types, lenient, reservation)?));
    }
    let keep = match kind.function.as_str() {
        "array_agg" | "string_agg" | "nth_value" => Keep::Occurrences,
        _ => Keep::RowsInOrder,
    };
    let inner = Box::new(foreign(kind, spec)?);
    Ok(Box::new(KeptReplay::new(inner, spec, (keep, lenient), reservation)?))
}

/// A fold whose result any row may have had a part in.
const FOLD: FoldUpkeep =
    FoldUpkeep { picks_row: false, ignores_nulls: true, in_order: false, lenient: false };

fn fold(
    spec: &StateSpec,
    upkeep: FoldUpkeep,
    reservation: &Reservation,
) -> Result<Box<dyn AggregateState>> {
    let inner = own_state(&spec.kind, spec)?;
    Ok(Box::new(KeptFold::new(inner, upkeep, &spec.types, reservation)?))
}

/// Exact sums subtract; sums of floats must not keep what they round and what is not finite.
fn sum(spec: &StateSpec) -> Result<Box<dyn AggregateState>> {
    Ok(match &spec.types[0] {
        DataType::Float32 => Box::new(FloatSum::<Float32Type>::new()),
        DataType::Float64 => Box::new(FloatSum::<Float64Type>::new()),
        _ => return own_state(&spec.kind, spec),
    })
}

fn xor(argument: &DataType) -> Result<Box<dyn AggregateState>> {
    Ok(match argument {
        DataType::Int8 => Box::new(Xor::<Int8Type>::new()),
        DataType::Int16 => Box::new(Xor::<Int16Type>::new()),
        DataType::Int32 => Box::new(Xor::<Int32Type>::new()),
        DataType::Int64 => Box::new(Xor::<Int64Type>::new()),
        DataType::UInt8 => Box::new(Xor::<UInt8Type>::new()),
        DataType::UInt16 => Box::new(Xor::<UInt16Type>::new()),
        DataType::UInt32 => Box::new(Xor::<UInt32Type>::new()),
        DataType::UInt64 => Box::new(Xor::<UInt64Type>::new()),
        other => return Err(Error::Unsupported(format!("bits of {other}"))),
    })
}
