//! From plain descriptions to states, specialised by the arguments' types.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, new_null_array};
use arrow::datatypes::*;
use arrow_schema::SortOptions;
use datafusion_common::ScalarValue;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr::{PhysicalExpr, PhysicalSortExpr};

use super::boolean::Boolean;
use super::count::Count;
use super::distinct::Distinct;
use super::extreme::Extreme;
use super::fold::{BitAnd, BitOr, BitXor, Fold, FoldOperation, Max, Min, Ordered as OrderedValue};
use super::fold_bytes::FoldBytes;
use super::foreign::Foreign;
use super::function::{FoldKind, ForeignKind, StateKind, library_function};
use super::groups::Groups;
use super::moments::Moments;
use super::ordered::Ordered;
use super::ranked::Ranked;
use super::state::{AggregateState, Output, RowState};
use super::sum::Sum;
use crate::error::{Error, Result};
use crate::expr::positional_schema;
use crate::memory::{Plain, Reservation};
use crate::rows::{PageStates, RowId, SortColumn, StateSlot, StatesMut};

/// A state to be made; states with equal descriptions are shared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StateSpec {
    pub(crate) kind: StateKind,
    /// Columns of the arguments, then order columns that are no arguments.
    pub(crate) columns: Vec<usize>,
    /// How many of the columns are arguments.
    pub(crate) args: usize,
    /// The columns' types.
    pub(crate) types: Vec<DataType>,
    /// Arguments that are constants.
    pub(crate) constants: Vec<Option<ScalarValue>>,
    pub(crate) filter: Option<usize>,
    pub(crate) distinct: bool,
    /// Rows reach the function in this order: positions in `columns`.
    pub(crate) order: Vec<(usize, SortColumn)>,
}

/// Makes a state for rows that stay.
///
/// # Errors
/// `Unsupported` for types that the function does not take; what the library reports.
pub(crate) fn build(
    spec: &StateSpec,
    reservation: &Reservation,
) -> Result<Box<dyn AggregateState>> {
    let inner: Box<dyn AggregateState> = match &spec.kind {
        StateKind::Foreign(kind) => {
            let inner = foreign(kind, spec)?;
            match spec.order.is_empty() {
                true => Box::new(inner),
                false => Box::new(Ordered::new(inner, spec.args, spec.order.clone(), &spec.types)),
            }
        }
        StateKind::Ranked(error) => {
            Box::new(Ranked::new(&spec.types[0], *error, false, reservation)?)
        }
        own => own_state(own, spec)?,
    };
    if !spec.distinct {
        return Ok(inner);
    }
    check_distinct_order(spec)?;
    Ok(Box::new(Distinct::new(inner, &spec.types, reservation)?))
}

/// Refuses an order of distinct arguments by anything but these.
///
/// # Errors
/// A user error that says so.
pub(crate) fn check_distinct_order(spec: &StateSpec) -> Result<()> {
    if spec.distinct && spec.columns.len() > spec.args {
        return Err(Error::User {
            message: "in an aggregate with DISTINCT, ORDER BY expressions must appear in the argument list"
                .into(),
            detail: None,
            hint: Some("Order by one of the arguments, or leave DISTINCT out.".into()),
        });
    }
    Ok(())
}

/// The engine's own state of a kind, without regard to DISTINCT.
///
/// # Errors
/// As [`build`].
pub(crate) fn own_state(kind: &StateKind, spec: &StateSpec) -> Result<Box<dyn AggregateState>> {
    Ok(match kind {
        StateKind::Nothing => Box::new(Nothing),
        StateKind::Count => Box::new(Count::new()),
        StateKind::Sum => return sum(&spec.types[0]),
        StateKind::Fold(FoldKind::Min) => return fold_any::<Min>(&spec.types[0]),
        StateKind::Fold(FoldKind::Max) => return fold_any::<Max>(&spec.types[0]),
        StateKind::Fold(FoldKind::BitAnd) => return fold_integer::<BitAnd>(&spec.types[0]),
        StateKind::Fold(FoldKind::BitOr) => return fold_integer::<BitOr>(&spec.types[0]),
        StateKind::Fold(FoldKind::BitXor) => return fold_integer::<BitXor>(&spec.types[0]),
        StateKind::FoldBytes(greatest) => Box::new(FoldBytes::new(*greatest)),
        StateKind::Boolean(any) => Box::new(Boolean::new(*any)),
        StateKind::Moments(two) => Box::new(Moments::new(*two)),
        StateKind::Extreme(extreme) => Box::new(Extreme::new(extreme.clone(), &spec.types[0])?),
        StateKind::Foreign(kind) => Box::new(foreign(kind, spec)?),
        StateKind::Ranked(_) => {
            return Err(Error::Internal("ranked values are charged to a reservation".into()));
        }
    })
}

fn sum(argument: &DataType) -> Result<Box<dyn AggregateState>> {
    macro_rules! sum {
        ($t:ty, $a:ty) => {
            Box::new(Sum::<$t, $a>::new(argument))
        };
    }
    Ok(match argument {
        DataType::Int8 => sum!(Int8Type, i128),
        DataType::Int16 => sum!(Int16Type, i128),
        DataType::Int32 => sum!(Int32Type, i128),
        DataType::Int64 => sum!(Int64Type, i128),
        DataType::UInt8 => sum!(UInt8Type, i128),
        DataType::UInt16 => sum!(UInt16Type, i128),
        DataType::UInt32 => sum!(UInt32Type, i128),
        DataType::UInt64 => sum!(UInt64Type, i128),
        DataType::Float32 => sum!(Float32Type, f64),
        DataType::Float64 => sum!(Float64Type, f64),
        DataType::Decimal32(_, _) => sum!(Decimal32Type, i128),
        DataType::Decimal64(_, _) => sum!(Decimal64Type, i128),
        DataType::Decimal128(_, _) => sum!(Decimal128Type, i128),
        DataType::Decimal256(_, _) => sum!(Decimal256Type, i256),
        DataType::Duration(TimeUnit::Second) => sum!(DurationSecondType, i128),
        DataType::Duration(TimeUnit::Millisecond) => sum!(DurationMillisecondType, i128),
        DataType::Duration(TimeUnit::Microsecond) => sum!(DurationMicrosecondType, i128),
        DataType::Duration(TimeUnit::Nanosecond) => sum!(DurationNanosecondType, i128),
        other => return Err(Error::Unsupported(format!("a sum of {other}"))),
    })
}

fn fold<T, O>() -> Box<dyn AggregateState>
where
    T: ArrowPrimitiveType,
    T::Native: Plain + OrderedValue,
    O: FoldOperation<T::Native>,
{
    Box::new(Fold::<T, O>::new())
}

fn fold_integer<O>(argument: &DataType) -> Result<Box<dyn AggregateState>>
where
    O: FoldOperation<i8> + FoldOperation<i16> + FoldOperation<i32> + FoldOperation<i64>,
    O: FoldOperation<u8> + FoldOperation<u16> + FoldOperation<u32> + FoldOperation<u64>,
{
    Ok(match argument {
        DataType::Int8 => fold::<Int8Type, O>(),
        DataType::Int16 => fold::<Int16Type, O>(),
        DataType::Int32 => fold::<Int32Type, O>(),
        DataType::Int64 => fold::<Int64Type, O>(),
        DataType::UInt8 => fold::<UInt8Type, O>(),
        DataType::UInt16 => fold::<UInt16Type, O>(),
        DataType::UInt32 => fold::<UInt32Type, O>(),
        DataType::UInt64 => fold::<UInt64Type, O>(),
        other => return Err(Error::Unsupported(format!("bits of {other}"))),
    })
}

fn fold_any<O>(argument: &DataType) -> Result<Box<dyn AggregateState>>
where
    O: FoldOperation<i8> + FoldOperation<i16> + FoldOperation<i32> + FoldOperation<i64>,
    O: FoldOperation<u8> + FoldOperation<u16> + FoldOperation<u32> + FoldOperation<u64>,
    O: FoldOperation<i128> + FoldOperation<i256> + FoldOperation<f32> + FoldOperation<f64>,
{
    use DataType as T;
    use TimeUnit as U;
    Ok(match argument {
        T::Float32 => fold::<Float32Type, O>(),
        T::Float64 => fold::<Float64Type, O>(),
        T::Decimal32(_, _) => fold::<Decimal32Type, O>(),
        T::Decimal64(_, _) => fold::<Decimal64Type, O>(),
        T::Decimal128(_, _) => fold::<Decimal128Type, O>(),
        T::Decimal256(_, _) => fold::<Decimal256Type, O>(),
        T::Date32 => fold::<Date32Type, O>(),
        T::Date64 => fold::<Date64Type, O>(),
        T::Time32(U::Second) => fold::<Time32SecondType, O>(),
        T::Time32(_) => fold::<Time32MillisecondType, O>(),
        T::Time64(U::Microsecond) => fold::<Time64MicrosecondType, O>(),
        T::Time64(_) => fold::<Time64NanosecondType, O>(),
        T::Timestamp(U::Second, _) => fold::<TimestampSecondType, O>(),
        T::Timestamp(U::Millisecond, _) => fold::<TimestampMillisecondType, O>(),
        T::Timestamp(U::Microsecond, _) => fold::<TimestampMicrosecondType, O>(),
        T::Timestamp(U::Nanosecond, _) => fold::<TimestampNanosecondType, O>(),
        T::Duration(U::Second) => fold::<DurationSecondType, O>(),
        T::Duration(U::Millisecond) => fold::<DurationMillisecondType, O>(),
        T::Duration(U::Microsecond) => fold::<DurationMicrosecondType, O>(),
        T::Duration(U::Nanosecond) => fold::<DurationNanosecondType, O>(),
        other => return fold_integer::<O>(other),
    })
}

/// The adapter over a library function, without regard to DISTINCT and ORDER BY.
///
/// # Errors
/// What the library reports.
pub(crate) fn foreign(kind: &ForeignKind, spec: &StateSpec) -> Result<Foreign> {
    let arg_types = spec.types[..spec.args].to_vec();
    let schema = positional_schema(&arg_types);
    let args: Vec<Arc<dyn PhysicalExpr>> = (0..spec.args)
        .map(|i| -> Arc<dyn PhysicalExpr> {
            match &spec.constants[i] {
                Some(value) => Arc::new(Literal::new(value.clone())),
                None => Arc::new(Column::new(schema.field(i).name(), i)),
            }
        })
        .collect();
    let within = kind.within_descending.map(|descending| PhysicalSortExpr {
        expr: args[0].clone(),
        options: SortOptions::new(descending, false),
    });
    let function = AggregateExprBuilder::new(library_function(&kind.function)?, args)
        .schema(schema)
        .alias(kind.function.clone())
        .order_by(within.into_iter().collect())
        .with_ignore_nulls(kind.ignore_nulls)
        .build()?;
    // These compare values without knowing that −0.0 is 0.0 and that there is one NaN.
    let canonical = kind.function.starts_with("approx_") || kind.function == "median";
    Foreign::new(function, arg_types, canonical)
}

/// The state of an argument that has no values.
struct Nothing;

impl RowState for Nothing {
    fn slots(&self) -> Vec<StateSlot> {
        Vec::new()
    }

    fn bind(&mut self, _own: &[usize], _incoming: &[usize]) {}

    fn update(&self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: Groups<'_>) -> Result<()> {
        Ok(())
    }

    fn retract(&self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: Groups<'_>) -> Result<()> {
        Ok(())
    }

    fn merge(&self, _: &mut StatesMut<'_>, _: &PageStates<'_>, _: &[RowId]) -> Result<()> {
        Ok(())
    }

    fn finalize(
        &self,
        _states: &StatesMut<'_>,
        _output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        Ok(new_null_array(result, ids.len()))
    }
}
