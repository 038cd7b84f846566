//! Rows compared with the rows of a query: `(a, b) IN (SELECT …)`, `= ANY` and `<> ALL`.
//!
//! The library compares single values only. A row is in a query if there is a row in it all of whose columns are equal;
//! it is unknown if there is none, but one for which the comparison of the columns is NULL.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Query, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor, UnaryOperator, Value, VisitMut, visit_expressions_mut,
};

use super::cte::select_all;
use super::outputs::hidden_name;

/// Rewrites all such comparisons of a tree.
pub(super) fn compare_rows<T: VisitMut>(tree: &mut T) {
    let _ = visit_expressions_mut(tree, |expr| {
        if let Some((row, query, negated)) = comparison(expr) {
            let is_in = is_in(row, query);
            *expr = match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(is_in) },
                false => is_in,
            };
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The row, the query, and whether the comparison is for none of its rows.
fn comparison(expr: &mut Expr) -> Option<(Vec<Expr>, Query, bool)> {
    match expr {
        Expr::InSubquery { expr, subquery, negated } => {
            let Expr::Tuple(row) = expr.as_mut() else { return None };
            Some((std::mem::take(row), subquery.as_ref().clone(), *negated))
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            let (Expr::Tuple(row), Expr::Subquery(query)) = (left.as_mut(), right.as_ref()) else {
                return None;
            };
            Some((std::mem::take(row), query.as_ref().clone(), false))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            let (Expr::Tuple(row), Expr::Subquery(query)) = (left.as_mut(), right.as_ref()) else {
                return None;
            };
            Some((std::mem::take(row), query.as_ref().clone(), true))
        }
        _ => None,
    }
}

/// `CASE WHEN EXISTS (… equal) THEN true WHEN EXISTS (… unknown) THEN NULL ELSE false END`.
fn is_in(row: Vec<Expr>, query: Query) -> Expr {
    let columns: Vec<Ident> =
        (0..row.len()).map(|at| Ident::with_quote('"', hidden_name("row", at))).collect();
    let pairs = row.into_iter().zip(&columns).map(|(value, column)| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(value))),
        op: BinaryOperator::Eq,
        right: Box::new(Expr::Identifier(column.clone())),
    });
    let equal = pairs.reduce(|all, one| Expr::BinaryOp {
        left: Box::new(all),
        op: BinaryOperator::And,
        right: Box::new(one),
    });
    let equal = equal.unwrap_or_else(|| Expr::value(Value::Boolean(true)));
    let unknown = Expr::IsNull(Box::new(Expr::Nested(Box::new(equal.clone()))));
    let boolean = |value: bool| Expr::value(Value::Boolean(value));
    let when = |condition: Expr, result: Expr| CaseWhen {
        condition: exists(query.clone(), &columns, condition),
        result,
    };
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![when(equal, boolean(true)), when(unknown, Expr::value(Value::Null))],
        else_result: Some(Box::new(boolean(false))),
    }
}

/// Whether a query, whose columns get these names, has rows for which a condition holds.
fn exists(query: Query, columns: &[Ident], condition: Expr) -> Expr {
    let named = columns.iter().map(|name| TableAliasColumnDef::from_name(name.value.clone()));
    let mut columns: Vec<TableAliasColumnDef> = named.collect();
    columns.iter_mut().for_each(|column| column.name.quote_style = Some('"'));
    let rows = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', hidden_name("rows", 0)),
            columns,
            at: None,
        }),
        sample: None,
    };
    let mut query = select_all(rows);
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = Some(condition);
    }
    Expr::Exists { subquery: Box::new(query), negated: false }
}
