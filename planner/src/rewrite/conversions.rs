//! Casts and comparisons whose outcome PostgreSQL decides otherwise than the library.
//!
//! Numbers with fractions are rounded when they become integers, not cut; timestamps and intervals become the text
//! that results show; intervals are compared by their length. Invariant: runs behind the library's coercion, so that
//! casts which it put in are seen too, and changes no column's name or type.

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::{Between, Case, Cast, InList, TryCast};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion_optimizer::AnalyzerRule;

use crate::conversions::Conversion;

/// The rule for whole plans.
#[derive(Debug)]
pub(super) struct Conversions;

impl AnalyzerRule for Conversions {
    fn name(&self) -> &str {
        "conversions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(convert_node)?.data)
    }
}

fn convert_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = match &plan {
        LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
        other => merge_schema(&other.inputs()),
    };
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let converted = expr.transform_up(|e| Ok(convert(e, &schema)))?;
        Ok(converted.update_data(|e| name.restore(e)))
    })
}

fn convert(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::Cast(Cast { expr, field }) => {
            let (expr, changed) = converted(*expr, field.data_type(), schema);
            let same = changed && type_of(&expr, schema).as_ref() == Some(field.data_type());
            let expr = if same { expr } else { Expr::Cast(Cast { expr: Box::new(expr), field }) };
            Transformed::new_transformed(expr, changed)
        }
        Expr::TryCast(TryCast { expr, field }) => {
            // A text that is no interval is NULL there: the library's cast knows that.
            let (expr, changed) = match field.data_type() {
                DataType::Interval(_) => (*expr, false),
                to => converted(*expr, to, schema),
            };
            let cast = Expr::TryCast(TryCast { expr: Box::new(expr), field });
            Transformed::new_transformed(cast, changed)
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
        other => Transformed::no(other),
    }
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

/// What is to be cast to a type, made such that the library's cast does the rest; and whether anything was done.
fn converted(expr: Expr, to: &DataType, schema: &DFSchema) -> (Expr, bool) {
    let Some(from) = type_of(&expr, schema) else { return (expr, false) };
    let conversion = match (&from, to) {
        (DataType::Float32 | DataType::Float64, to) if to.is_integer() => Conversion::AsWhole,
        (DataType::Decimal128(_, 1..), to) if to.is_integer() => Conversion::AsWhole,
        (DataType::Timestamp(..) | DataType::Interval(_) | DataType::Duration(_), to)
            if to.is_string() =>
        {
            Conversion::AsText
        }
        (from, DataType::Interval(_)) if from.is_string() => Conversion::AsInterval,
        _ => return (expr, false),
    };
    (conversion.call(vec![expr]), true)
}
