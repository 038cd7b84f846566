//! ANY and ALL over a query, and NOT IN over a correlated one, as EXISTS and IN, which joins are made of.
//!
//! In a filter NULL is as good as false: there a comparison with ANY is one EXISTS, and one with ALL is at most two NOT
//! EXISTS: no row for which the comparison is false, and none for which it is unknown. Elsewhere all three values count.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{
    Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    binary_expr, exists, in_subquery, lit, not, not_exists, not_in_subquery, when,
};

use super::references::{free, has_subquery, subquery_of, with_subquery};
use crate::bind::carry;
use crate::error::PlannerError;

/// A filter's condition; the rows it keeps stay the same.
pub(super) fn filter(predicate: Expr, rows: &DFSchema) -> Result<Expr> {
    let conjuncts = split_conjunction_owned(predicate).into_iter();
    let conjuncts = conjuncts.map(|conjunct| self::conjunct(conjunct, rows));
    let conjuncts = conjuncts.collect::<Result<Vec<_>>>()?;
    Ok(conjunction(conjuncts).unwrap_or_else(|| lit(true)))
}

/// Any other expression; its value stays the same.
pub(super) fn value(expr: Expr, rows: &DFSchema) -> Result<Expr> {
    let rewritten = expr.transform_up(|e| match bare(e) {
        Expr::SetComparison(comparison) => Ok(Transformed::yes(three_valued(comparison, rows)?)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// Whether an expression asks something about the rows of a query.
pub(super) fn is_affected(expr: &Expr) -> bool {
    let affected =
        |e: &Expr| matches!(e, Expr::SetComparison(_) | Expr::InSubquery(_) | Expr::Exists(_));
    expr.exists(|e| Ok(affected(e))).unwrap_or(false)
}

/// The question without what does not matter to its answer: the order of rows, and how often each is there.
fn bare(expr: Expr) -> Expr {
    let asks = matches!(expr, Expr::SetComparison(_) | Expr::InSubquery(_) | Expr::Exists(_));
    let Some(old) = subquery_of(&expr).filter(|_| asks) else { return expr };
    let mut plan = &old.subquery;
    loop {
        plan = match plan.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => &sort.input,
            LogicalPlan::Distinct(Distinct::All(input)) => input,
            _ => break,
        };
    }
    if Arc::ptr_eq(plan, &old.subquery) {
        return expr;
    }
    let plan = plan.as_ref().clone();
    with_subquery(expr, plan)
}

fn conjunct(expr: Expr, rows: &DFSchema) -> Result<Expr> {
    if let Some(condition) = spelt_out(&expr) {
        return Ok(condition);
    }
    match positive(bare(expr)) {
        Expr::SetComparison(comparison) => compare(comparison, rows),
        // No join is aware of the NULLs of a constant, or of some rows only.
        Expr::InSubquery(InSubquery { expr, subquery, negated: true })
            if !free(&subquery.subquery).is_empty() || !expr.any_column_refs() =>
        {
            none(Compared { expr: *expr, op: Operator::NotEq, subquery }, rows)
        }
        other => value(other, rows),
    }
}

/// What is left of `CASE WHEN EXISTS a THEN true WHEN EXISTS b THEN NULL ELSE false END`, or of its opposite, where NULL is
/// as good as false: EXISTS a, or neither.
fn spelt_out(expr: &Expr) -> Option<Expr> {
    let (case, negated) = match expr {
        Expr::Not(inner) => (inner.as_ref(), true),
        other => (other, false),
    };
    let Expr::Case(case) = case else { return None };
    let [(found, yes), (maybe, null)] = case.when_then_expr.as_slice() else { return None };
    let (Expr::Exists(found), Expr::Exists(maybe)) = (found.as_ref(), maybe.as_ref()) else {
        return None;
    };
    let is = |e: &Expr, wanted: Option<bool>| match e {
        Expr::Literal(ScalarValue::Boolean(value), _) => *value == wanted,
        Expr::Literal(ScalarValue::Null, _) => wanted.is_none(),
        Expr::Cast(cast) => {
            matches!(*cast.expr, Expr::Literal(ScalarValue::Null, _)) && wanted.is_none()
        }
        _ => false,
    };
    let otherwise = case.else_expr.as_ref().is_some_and(|e| is(e, Some(false)));
    let plain = case.expr.is_none() && !found.negated && !maybe.negated;
    if !(plain && otherwise && is(yes, Some(true)) && is(null, None)) {
        return None;
    }
    let (found, maybe) = (Arc::clone(&found.subquery.subquery), &maybe.subquery.subquery);
    Some(match negated {
        false => exists(found),
        true => not_exists(found).and(not_exists(Arc::clone(maybe))),
    })
}

/// The expression without a NOT before IN, EXISTS, ANY or ALL.
fn positive(expr: Expr) -> Expr {
    let Expr::Not(inner) = expr else { return expr };
    match bare(*inner) {
        Expr::InSubquery(i) => Expr::InSubquery(InSubquery { negated: !i.negated, ..i }),
        Expr::Exists(e) => Expr::Exists(Exists { negated: !e.negated, ..e }),
        Expr::SetComparison(c) if c.op.negate().is_some() => {
            let quantifier = match c.quantifier {
                SetQuantifier::Any => SetQuantifier::All,
                SetQuantifier::All => SetQuantifier::Any,
            };
            let op = c.op.negate().unwrap_or(c.op);
            Expr::SetComparison(SetComparison { op, quantifier, ..c })
        }
        other => not(other),
    }
}

/// A comparison of a value with the rows of a query.
struct Compared {
    expr: Expr,
    op: Operator,
    subquery: Subquery,
}

impl Compared {
    /// The comparison with one row, as its query sees it, and whether it may be unknown.
    fn with_a_row(&self, rows: &DFSchema) -> Result<(Expr, Expr, bool)> {
        let (relation, field) = self.subquery.subquery.schema().qualified_field(0);
        let row = Expr::Column(Column::from((relation, field)));
        let nullable = field.is_nullable() || self.expr.nullable(rows)?;
        Ok((outer(self.expr.clone(), rows)?, row, nullable))
    }

    /// The query's rows for which a condition holds.
    fn rows(&self, condition: Expr) -> Result<Arc<LogicalPlan>> {
        let plan = LogicalPlanBuilder::from(self.subquery.subquery.as_ref().clone());
        Ok(Arc::new(plan.filter(condition)?.build()?))
    }
}

/// ANY or ALL as a condition.
fn compare(comparison: SetComparison, rows: &DFSchema) -> Result<Expr> {
    let SetComparison { expr, subquery, op, quantifier } = comparison;
    match (quantifier, op) {
        (SetQuantifier::Any, Operator::Eq) => Ok(in_subquery(*expr, subquery.subquery)),
        (SetQuantifier::Any, op) => {
            let compared = Compared { expr: *expr, op, subquery };
            let (value, row, _) = compared.with_a_row(rows)?;
            Ok(exists(compared.rows(binary_expr(value, op, row))?))
        }
        (SetQuantifier::All, Operator::NotEq)
            if free(&subquery.subquery).is_empty() && expr.any_column_refs() =>
        {
            Ok(not_in_subquery(*expr, subquery.subquery))
        }
        (SetQuantifier::All, op) => none(Compared { expr: *expr, op, subquery }, rows),
    }
}

/// That the comparison is true for every row: false for none, and unknown for none.
fn none(compared: Compared, rows: &DFSchema) -> Result<Expr> {
    let (value, row, nullable) = compared.with_a_row(rows)?;
    let Some(negated) = compared.op.negate() else {
        let fails = binary_expr(value, compared.op, row).is_not_true();
        return Ok(not_exists(compared.rows(fails)?));
    };
    let unknown = value.clone().is_null().or(row.clone().is_null());
    let fails = not_exists(compared.rows(binary_expr(value, negated, row))?);
    if !nullable {
        return Ok(fails);
    }
    Ok(fails.and(not_exists(compared.rows(unknown)?)))
}

/// ANY or ALL as a value.
fn three_valued(comparison: SetComparison, rows: &DFSchema) -> Result<Expr> {
    let SetComparison { expr, subquery, op, quantifier } = comparison;
    match (quantifier, op) {
        (SetQuantifier::Any, Operator::Eq) => return Ok(in_subquery(*expr, subquery.subquery)),
        (SetQuantifier::All, Operator::NotEq) => {
            return Ok(not_in_subquery(*expr, subquery.subquery));
        }
        _ => {}
    }
    let compared = Compared { expr: *expr, op, subquery };
    let (value, row, nullable) = compared.with_a_row(rows)?;
    let decisive = binary_expr(value.clone(), op, row.clone());
    let (decisive, decided) = match quantifier {
        SetQuantifier::Any => (decisive, true),
        SetQuantifier::All => match op.negate() {
            Some(negated) => (binary_expr(value.clone(), negated, row.clone()), false),
            None => (decisive.is_false(), false),
        },
    };
    let mut case = when(exists(compared.rows(decisive)?), lit(decided));
    if nullable {
        let unknown = value.is_null().or(row.is_null());
        let null = Expr::Literal(ScalarValue::Boolean(None), None);
        case = case.when(exists(compared.rows(unknown)?), null);
    }
    case.otherwise(lit(!decided))
}

/// An expression of the outer query, as seen from inside a subquery.
fn outer(expr: Expr, rows: &DFSchema) -> Result<Expr> {
    if has_subquery(&expr) {
        let error = PlannerError::not_supported("a subquery that is compared with a subquery")
            .with_hint("compute one of them in FROM".to_string());
        return Err(carry(error));
    }
    let rewritten = expr.transform(|e| match e {
        Expr::Column(column) => {
            let field = Arc::clone(rows.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}
