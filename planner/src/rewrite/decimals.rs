//! Where decimals meet doubles, and quotients of decimals. (Where dates meet timestamps, `dates` decides.)
//!
//! 1. A quotient of decimals is a double.
//! 2. A decimal that is compared with a double, or is an alternative to one (CASE, COALESCE, UNION), becomes a double: the
//!    library would make a DECIMAL(30, 15) of the double, which most doubles do not fit.
//! 3. Unless the doubles are constants, whose text is an exact decimal: then they become that.
//!
//! Invariant: runs before the library coerces types, which finds nothing of this left to decide. Sums, differences and
//! products of decimals are the library's: they stay decimals.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion_expr::expr::{Between, Case, InList, InSubquery, ScalarFunction, SetComparison};
use datafusion_expr::expr_schema::cast_subquery;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    Union, cast,
};
use datafusion_optimizer::AnalyzerRule;
use datafusion_sql::sqlparser::ast::BinaryOperator;

use super::dates;
use super::exact_constants::Exact;
use super::frames;
use super::typed::rewrite_expressions;

/// The rule for whole plans.
#[derive(Debug)]
pub(super) struct DecimalCoercion;

impl AnalyzerRule for DecimalCoercion {
    fn name(&self) -> &str {
        "decimal_coercion"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(coerce_node)?.data)
    }
}

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

fn coerce_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Union(union) => return coerce_union(union),
        LogicalPlan::Join(join) => coerce_keys(join)?,
        other => Transformed::no(other),
    };
    // Types below may have changed even where no expression of this node has.
    plan.transform_data(|plan| rewrite_expressions(plan, coerce))?
        .map_data(LogicalPlan::recompute_schema)
}

fn coerce(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
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

fn is_float(data_type: &DataType) -> bool {
    data_type.is_floating()
}

fn double(expr: Expr) -> Expr {
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

/// Makes doubles of the decimals in a UNION's columns that are doubles in some input.
fn coerce_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    let any = |at: usize, is: fn(&DataType) -> bool| {
        let mut types = union.inputs.iter().filter_map(|i| i.schema().fields().get(at));
        types.any(|field| is(field.data_type()))
    };
    let mixed: Vec<usize> =
        (0..columns).filter(|&at| any(at, is_float) && any(at, DataType::is_decimal)).collect();
    let unchanged = mixed.is_empty();
    let inputs = union.inputs.into_iter().map(|input| with_doubles(input, &mixed));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let schema = with_types_of(&union.schema, inputs.first())?;
    let union = LogicalPlan::Union(Union { inputs, schema });
    Ok(Transformed::new_transformed(union, !unchanged))
}

/// A UNION's schema with the types of its first input: it has those of the inputs as they were bound, from which the
/// library goes on to coerce.
fn with_types_of(schema: &DFSchemaRef, input: Option<&Arc<LogicalPlan>>) -> Result<DFSchemaRef> {
    let Some(input) = input.filter(|i| i.schema().fields().len() == schema.fields().len()) else {
        return Ok(Arc::clone(schema));
    };
    let fields = schema.iter().zip(input.schema().fields()).map(|((qualifier, field), first)| {
        let field = field.as_ref().clone().with_data_type(first.data_type().clone());
        (qualifier.cloned(), Arc::new(field))
    });
    let metadata = schema.metadata().clone();
    Ok(Arc::new(DFSchema::new_with_metadata(fields.collect(), metadata)?))
}

/// The plan with doubles in the given columns where they are decimals.
fn with_doubles(input: Arc<LogicalPlan>, columns: &[usize]) -> Result<Arc<LogicalPlan>> {
    let decimal = |at: &usize| input.schema().field(*at).data_type().is_decimal();
    if !columns.iter().any(decimal) {
        return Ok(input);
    }
    let exprs = (0..input.schema().fields().len()).map(|at| {
        let (qualifier, field) = input.schema().qualified_field(at);
        let column = Expr::Column(Column::from((qualifier, field)));
        if columns.contains(&at) && decimal(&at) {
            return double(column).alias_qualified(qualifier.cloned(), field.name());
        }
        column
    });
    let exprs: Vec<Expr> = exprs.collect();
    Ok(Arc::new(LogicalPlanBuilder::from(input).project(exprs)?.build()?))
}
