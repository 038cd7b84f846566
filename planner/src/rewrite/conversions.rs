//! Casts and comparisons whose outcome PostgreSQL decides otherwise than the library.
//!
//! Numbers with fractions are rounded when they become integers, not cut; timestamps and intervals become the text
//! that results show; points in time become local times of the session's zone, whatever zone a file wrote them in;
//! intervals are compared by their length. Invariant: runs behind the library's coercion, so that
//! casts which it put in are seen too, and changes no column's name or type.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Between, Case, Cast, InList, ScalarFunction, TryCast};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion_optimizer::AnalyzerRule;

use super::typed::rewrite_expressions;
use crate::conversions::Conversion;
use crate::jsonb::{JsonFunction, is_jsonb};

/// The rule for whole plans.
#[derive(Debug)]
pub(super) struct Conversions;

impl AnalyzerRule for Conversions {
    fn name(&self) -> &str {
        "conversions"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone: Arc<str> = config.execution.time_zone.as_deref().unwrap_or("UTC").into();
        let converted = plan.transform_up_with_subqueries(|node| {
            rewrite_expressions(node, |expr, schema| Ok(convert(expr, schema, &zone)))
        })?;
        Ok(converted.data)
    }
}

fn convert(expr: Expr, schema: &DFSchema, zone: &Arc<str>) -> Transformed<Expr> {
    match expr {
        Expr::Cast(Cast { expr, field }) => {
            let (expr, changed) = converted(*expr, field.data_type(), schema, zone);
            let same = changed && type_of(&expr, schema).as_ref() == Some(field.data_type());
            let expr = if same { expr } else { Expr::Cast(Cast { expr: Box::new(expr), field }) };
            Transformed::new_transformed(expr, changed)
        }
        Expr::TryCast(TryCast { expr, field }) => {
            // A text that is no interval is NULL there: the library's cast knows that.
            let (expr, changed) = match field.data_type() {
                DataType::Interval(_) => (*expr, false),
                to => converted(*expr, to, schema, zone),
            };
            let cast = Expr::TryCast(TryCast { expr: Box::new(expr), field });
            Transformed::new_transformed(cast, changed)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares_in_order(&left, op, &right, schema) =>
        {
            let order = Conversion::NestedOrder.call(vec![*left, *right]);
            Transformed::yes(datafusion_expr::binary_expr(order, op, lit(0_i8)))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
            let (left, right, changed) = by_length(*left, *right, schema);
            let (left, right) = (Box::new(left), Box::new(right));
            let binary = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Transformed::new_transformed(binary, changed)
        }
        Expr::Between(Between { expr, negated, low, high })
            if is_interval(&expr, schema)
                && is_interval(&low, schema)
                && is_interval(&high, schema) =>
        {
            let [expr, low, high] = [expr, low, high].map(|e| Box::new(length(*e)));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated })
            if is_interval(&expr, schema) && list.iter().all(|e| is_interval(e, schema)) =>
        {
            let expr = Box::new(length(*expr));
            let list = list.into_iter().map(length).collect();
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr })
            if is_interval(&operand, schema)
                && when_then_expr.iter().all(|(when, _)| is_interval(when, schema)) =>
        {
            let branches = when_then_expr.into_iter();
            let branches = branches.map(|(when, then)| (Box::new(length(*when)), then)).collect();
            let operand = Some(Box::new(length(*operand)));
            let case = Case { expr: operand, when_then_expr: branches, else_expr };
            Transformed::yes(Expr::Case(case))
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr })
            if has_forms(&operand, schema) && !operand.is_volatile() =>
        {
            let equals = |value: Box<Expr>| Box::new(operand.as_ref().clone().eq(*value));
            let branches = when_then_expr.into_iter();
            let when_then_expr = branches.map(|(when, then)| (equals(when), then)).collect();
            Transformed::yes(Expr::Case(Case { expr: None, when_then_expr, else_expr }))
        }
        Expr::ScalarFunction(ScalarFunction { func, args })
            if func.name() == "nullif" && args.len() == 2 && !args[0].is_volatile() =>
        {
            match null_if(&args[0], &args[1], schema) {
                Some(case) => Transformed::yes(case),
                None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
            }
        }
        Expr::ScalarFunction(call) if LOCAL_FUNCTIONS.contains(&call.func.name()) => {
            in_zone(call, schema, zone)
        }
        other => Transformed::no(other),
    }
}

/// Functions whose result depends on the local time of a point in time.
const LOCAL_FUNCTIONS: [&str; 4] = ["date_format", "date_part", "date_trunc", "to_char"];

/// The call over points in time of the session's zone; its type stays.
fn in_zone(call: ScalarFunction, schema: &DFSchema, zone: &Arc<str>) -> Transformed<Expr> {
    let before = type_of(&Expr::ScalarFunction(call.clone()), schema);
    let mut moved = false;
    let moves = |expr: Expr| match type_of(&expr, schema) {
        Some(DataType::Timestamp(unit, Some(written))) if written != *zone => {
            moved = true;
            cast(expr, DataType::Timestamp(unit, Some(Arc::clone(zone))))
        }
        _ => expr,
    };
    let args = call.args.into_iter().map(moves).collect();
    let call = Expr::ScalarFunction(ScalarFunction { func: call.func, args });
    let after = type_of(&call, schema);
    let call = match before {
        Some(before) if after.as_ref() != Some(&before) => cast(call, before),
        _ => call,
    };
    Transformed::new_transformed(call, moved)
}

/// NULLIF as the comparison that it stands for, where the library would compare bit by bit what is equal in several
/// forms.
fn null_if(value: &Expr, unwanted: &Expr, schema: &DFSchema) -> Option<Expr> {
    if !has_forms(value, schema) && !is_interval(value, schema) {
        return None;
    }
    let null = ScalarValue::try_from(&type_of(value, schema)?).ok()?;
    let (left, right, _) = by_length(value.clone(), unwanted.clone(), schema);
    let branch = (Box::new(left.eq(right)), Box::new(lit(null)));
    let otherwise = Some(Box::new(value.clone()));
    Some(Expr::Case(Case { expr: None, when_then_expr: vec![branch], else_expr: otherwise }))
}

/// Whether equal values of the type may differ in their bits: −0.0 and 0.0, also within lists and structs.
fn has_forms(expr: &Expr, schema: &DFSchema) -> bool {
    type_of(expr, schema).is_some_and(|t| t.is_floating() || t.is_nested())
}

/// Whether lists or structs are compared by what is less, or two constants of them by whether they are equal: columns that
/// are equal may be keys of a join, which the engine compares as it should.
fn compares_in_order(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> bool {
    use Operator as O;
    let constant = |expr: &Expr| expr.column_refs().is_empty();
    let wanted = match op {
        O::Lt | O::LtEq | O::Gt | O::GtEq => true,
        O::Eq | O::NotEq => constant(left) && constant(right),
        _ => false,
    };
    let nested = |expr| type_of(expr, schema).filter(DataType::is_nested);
    wanted && nested(left).is_some_and(|left| nested(right) == Some(left))
}

fn compares(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
        || matches!(op, O::IsDistinctFrom | O::IsNotDistinctFrom)
}

/// The type, if it is known here: parameters of lambdas have none.
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    expr.get_type(schema).ok()
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(type_of(expr, schema), Some(DataType::Interval(_)))
}

fn length(interval: Expr) -> Expr {
    Conversion::IntervalLength.call(vec![interval])
}

fn by_length(left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr, bool) {
    match is_interval(&left, schema) && is_interval(&right, schema) {
        true => (length(left), length(right), true),
        false => (left, right, false),
    }
}

/// Whether points in time look different as values of a type in different zones.
fn is_local(to: &DataType) -> bool {
    to.is_string()
        || matches!(to, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None))
        || matches!(to, DataType::Time32(_) | DataType::Time64(_))
}

/// What is to be cast to a type, made such that the library's cast does the rest; and whether anything was done.
fn converted(expr: Expr, to: &DataType, schema: &DFSchema, zone: &Arc<str>) -> (Expr, bool) {
    let Some(from) = type_of(&expr, schema) else { return (expr, false) };
    let (expr, from, moved) = match (from, to) {
        (DataType::Timestamp(unit, Some(written)), to) if written != *zone && is_local(to) => {
            let here = DataType::Timestamp(unit, Some(Arc::clone(zone)));
            (cast(expr, here.clone()), here, true)
        }
        (from, _) => (expr, from, false),
    };
    if let DataType::Timestamp(unit, Some(written)) = to
        && written != zone
        && is_local(&from)
    {
        // A local time is one of the session's zone, whatever zone the type names.
        let here = DataType::Timestamp(*unit, Some(Arc::clone(zone)));
        let (expr, _) = converted(expr, &here, schema, zone);
        return (cast(expr, here), true);
    }
    if is_jsonb(&from) && to.is_string() {
        return (JsonFunction::AsText.function().call(vec![expr]), true);
    }
    let conversion = match (&from, to) {
        (DataType::Float32 | DataType::Float64, to) if to.is_integer() => Conversion::AsWhole,
        (DataType::Decimal128(_, 1..), to) if to.is_integer() => Conversion::AsWhole,
        (DataType::Timestamp(..) | DataType::Interval(_) | DataType::Duration(_), to)
            if to.is_string() =>
        {
            Conversion::AsText
        }
        // The library takes the local time of UTC.
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None)) if **zone != *"UTC" => {
            return (Conversion::TimeZone.call(vec![lit(zone.as_ref()), expr]), true);
        }
        (from, DataType::Interval(_)) if from.is_string() => Conversion::AsInterval,
        (from, DataType::Timestamp(..)) if from.is_string() => Conversion::WithSeconds,
        _ => return (expr, moved),
    };
    (conversion.call(vec![expr]), true)
}
