//! Where decimals meet doubles, and quotients of decimals. (Where dates meet timestamps, `dates` decides.)
//!
//! 1. A quotient of decimals is a double.
//! 2. A decimal that is compared with a double, or is an alternative to one (CASE, COALESCE, UNION), becomes a double: the
//!    library would make a DECIMAL(30, 15) of the double, which most doubles do not fit.
//! 3. Unless the doubles are constants, whose text is an exact decimal: then they become that.
//!
//! Invariant: comes before the library's coercion, which finds nothing of this left to decide. Sums, differences and
//! products of decimals are the library's: they stay decimals.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::{Between, Case, InList, InSubquery, ScalarFunction, SetComparison};
use datafusion_expr::expr_schema::cast_subquery;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator, Subquery, cast,
};
use datafusion_sql::sqlparser::ast::BinaryOperator;

use super::dates;
use super::exact_constants::Exact;
use super::frames;
use super::typed::rewrite_expressions;
use super::unions;

/// The rule for quotients while SQL is bound, so that all that is bound later sees their type.
#[derive(Debug)]
pub(crate) struct QuotientPlanner;

impl ExprPlanner for QuotientPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let quotient = op == BinaryOperator::Divide
            // What has no type yet gets one, or an error, in the analysis.
            && is_decimal_quotient(&left, &right, schema).unwrap_or(false);
        if !quotient {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        let (left, right) = (Box::new(double(left)), Box::new(double(right)));
        let op = Operator::Divide;
        Ok(PlannerResult::Planned(Expr::BinaryExpr(BinaryExpr { left, op, right })))
    }
}

/// Coerces one node, whose inputs have been coerced.
pub(super) fn coerce(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Union(union) => return unions::coerce(union),
        LogicalPlan::Join(join) => coerce_keys(join)?,
        other => Transformed::no(other),
    };
    // Types below may have changed even where no expression of this node has.
    plan.transform_data(|plan| rewrite_expressions(plan, coerce_expr))?
        .map_data(LogicalPlan::recompute_schema)
}

fn coerce_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(binary) => coerce_binary(binary, schema),
        Expr::Between(Between { expr, negated, low, high }) => {
            let mut parts = [*expr, *low, *high];
            let changed = meet(parts.iter_mut(), schema)?;
            let [expr, low, high] = parts.map(Box::new);
            let between = Expr::Between(Between { expr, negated, low, high });
            Ok(Transformed::new_transformed(between, changed))
        }
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let parts = std::iter::once(&mut *expr).chain(&mut list);
            let changed = meet(parts, schema)?;
            let in_list = Expr::InList(InList { expr, list, negated });
            Ok(Transformed::new_transformed(in_list, changed))
        }
        Expr::Case(case) => coerce_case(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, mut args })
            if has_alternatives(func.name()) =>
        {
            let changed = meet(args.iter_mut(), schema)?;
            let call = Expr::ScalarFunction(ScalarFunction { func, args });
            Ok(Transformed::new_transformed(call, changed))
        }
        Expr::InSubquery(InSubquery { mut expr, mut subquery, negated }) => {
            let changed = meet_subquery(&mut expr, &mut subquery, schema)?;
            let in_query = Expr::InSubquery(InSubquery { expr, subquery, negated });
            Ok(Transformed::new_transformed(in_query, changed))
        }
        Expr::SetComparison(SetComparison { mut expr, mut subquery, op, quantifier }) => {
            let changed = meet_subquery(&mut expr, &mut subquery, schema)?;
            let comparison = SetComparison { expr, subquery, op, quantifier };
            Ok(Transformed::new_transformed(Expr::SetComparison(comparison), changed))
        }
        Expr::WindowFunction(mut window) => {
            let changed = frames::widen_key(&mut window, schema)?;
            Ok(Transformed::new_transformed(Expr::WindowFunction(window), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Functions whose result is one of their arguments, or which compare them.
fn has_alternatives(function: &str) -> bool {
    matches!(function, "coalesce" | "greatest" | "least" | "nullif" | "nvl")
}

fn coerce_binary(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let BinaryExpr { mut left, op, mut right } = binary;
    let changed = match op {
        Operator::Divide if is_decimal_quotient(&left, &right, schema)? => {
            (*left, *right) = (double(*left), double(*right));
            true
        }
        _ if compares(op) => meet([&mut *left, &mut *right].into_iter(), schema)?,
        _ => false,
    };
    let binary = Expr::BinaryExpr(BinaryExpr { left, op, right });
    Ok(Transformed::new_transformed(binary, changed))
}

fn compares(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
        || matches!(op, O::IsDistinctFrom | O::IsNotDistinctFrom)
}

fn coerce_case(case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Case { mut expr, mut when_then_expr, mut else_expr } = case;
    let mut changed = false;
    if let Some(operand) = &mut expr {
        let values = when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
        changed |= meet(std::iter::once(operand.as_mut()).chain(values), schema)?;
    }
    let results = when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
    changed |= meet(results.chain(else_expr.as_deref_mut()), schema)?;
    let case = Expr::Case(Case { expr, when_then_expr, else_expr });
    Ok(Transformed::new_transformed(case, changed))
}

pub(super) fn is_float(data_type: &DataType) -> bool {
    data_type.is_floating()
}

pub(super) fn double(expr: Expr) -> Expr {
    cast(expr, DataType::Float64)
}

fn is_decimal_quotient(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<bool> {
    let (left, right) = (left.get_type(schema)?, right.get_type(schema)?);
    let divides = |t: &DataType| t.is_decimal() || t.is_integer() || t.is_null();
    Ok((left.is_decimal() && divides(&right)) || (right.is_decimal() && divides(&left)))
}

/// Makes decimals and doubles that meet either all decimals or all doubles, and dates that meet timestamps timestamps;
/// whether there was something to do.
fn meet<'a>(exprs: impl Iterator<Item = &'a mut Expr>, schema: &DFSchema) -> Result<bool> {
    let typed = exprs.map(|expr| {
        let data_type = expr.get_type(schema)?;
        Ok((expr, data_type))
    });
    let mut typed = typed.collect::<Result<Vec<(&mut Expr, DataType)>>>()?;
    if dates::meet(&mut typed) {
        return Ok(true);
    }
    let mut decimals: Vec<(&mut Expr, DataType)> = Vec::new();
    let mut doubles: Vec<&mut Expr> = Vec::new();
    for (expr, data_type) in typed {
        match data_type {
            decimal if decimal.is_decimal() => decimals.push((expr, decimal)),
            float if is_float(&float) => doubles.push(expr),
            _ => {}
        }
    }
    let Some((_, decimal)) = decimals.first() else { return Ok(false) };
    if doubles.is_empty() {
        return Ok(false);
    }
    let exact: Option<Vec<_>> =
        doubles.iter().map(|expr| Exact::of(expr)?.beside(decimal)).collect();
    match exact {
        Some(literals) => {
            for (expr, literal) in doubles.into_iter().zip(literals) {
                *expr = Expr::Literal(literal, None);
            }
        }
        None => {
            for (expr, _) in decimals {
                *expr = double(std::mem::take(expr));
            }
        }
    }
    Ok(true)
}

fn meet_subquery(expr: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let (left, right) = (expr.get_type(schema)?, subquery.subquery.schema().field(0).data_type());
    if left.is_decimal() && is_float(right) {
        *expr = double(std::mem::take(expr));
    } else if is_float(&left) && right.is_decimal() {
        *subquery = cast_subquery(subquery.clone(), &DataType::Float64)?;
    } else if dates::is_date(&left) && matches!(right, DataType::Timestamp(_, None)) {
        *expr = cast(std::mem::take(expr), dates::MIDNIGHT);
    } else if matches!(left, DataType::Timestamp(_, None)) && dates::is_date(right) {
        *subquery = cast_subquery(subquery.clone(), &dates::MIDNIGHT)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Makes doubles of decimal join keys that are compared with doubles.
fn coerce_keys(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema())?, right.get_type(join.right.schema())?);
        let decimal = match &types {
            (a, b) if a.is_decimal() && is_float(b) => left,
            (a, b) if is_float(a) && b.is_decimal() => right,
            _ => continue,
        };
        *decimal = double(std::mem::take(decimal));
        changed = true;
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
}
