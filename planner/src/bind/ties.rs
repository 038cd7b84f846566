//! `FETCH FIRST n ROWS WITH TIES`: the first rows and all that are equal to the last of them in the order.
//!
//! It becomes `QUALIFY rank() OVER (the order) <= n`, and so is kept up to date where the query is. Invariant: the order
//! of the result stays; a key that is the name or the place of an output column is written out.

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, OrderBy, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SetExpr, TableFactor, Value, WindowSpec, WindowType,
};

use super::cte::select_all;
use super::names::normalized;
use super::text_casts::call;
use crate::error::{PlannerError, Result};

/// Keeps the rows of a query whose rank is not above a number.
pub(super) fn keep_ties(query: &mut Query, rows: Expr) -> Result<()> {
    if matches!(&query.limit_clause, Some(LimitClause::LimitOffset { offset: Some(_), .. })) {
        return Err(PlannerError::not_supported("OFFSET beside WITH TIES"));
    }
    if query.limit_clause.is_some() {
        return Err(PlannerError::invalid("a query has LIMIT or FETCH, not both"));
    }
    let keys = match &query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) if !keys.is_empty() => {
            keys.clone()
        }
        Some(_) | None => {
            return Err(PlannerError::invalid(
                "WITH TIES needs an ORDER BY that says what is equal",
            )
            .with_hint("list the columns: ORDER BY a, b".to_string()));
        }
    };
    if !matches!(query.body.as_ref(), SetExpr::Select(select) if is_plain(select)) {
        wrap(query);
    }
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(PlannerError::internal("a wrapped query is no SELECT"));
    };
    let keys = keys.into_iter().map(|key| written_out(key, &select.projection)).collect();
    let Expr::Function(mut rank) = call("rank", Vec::new()) else {
        return Err(PlannerError::internal("a call is no call"));
    };
    rank.over = Some(WindowType::WindowSpec(WindowSpec {
        window_name: None,
        partition_by: Vec::new(),
        order_by: keys,
        window_frame: None,
    }));
    select.qualify = Some(Expr::BinaryOp {
        left: Box::new(Expr::Function(rank)),
        op: BinaryOperator::LtEq,
        right: Box::new(Expr::Nested(Box::new(rows))),
    });
    Ok(())
}

/// Whether QUALIFY may be put beside what is there.
fn is_plain(select: &Select) -> bool {
    select.distinct.is_none() && select.qualify.is_none()
}

/// `SELECT * FROM (the body)`.
fn wrap(query: &mut Query) {
    let inner = Query { order_by: None, limit_clause: None, with: None, ..query.clone() };
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(inner),
        alias: None,
        sample: None,
    };
    query.body = select_all(relation).body;
}

/// A key that names an output column, or gives its place, as the expression that the column has.
fn written_out(key: OrderByExpr, projection: &[SelectItem]) -> OrderByExpr {
    let expr_of = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(expr.clone())
        }
        _ => None,
    };
    let found = match &key.expr {
        Expr::Value(value) => match &value.value {
            Value::Number(place, _) => place
                .parse::<usize>()
                .ok()
                .and_then(|place| projection.get(place.checked_sub(1)?))
                .and_then(expr_of),
            _ => None,
        },
        Expr::Identifier(name) => projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if normalized(alias) == normalized(name) => {
                Some(expr.clone())
            }
            _ => None,
        }),
        _ => None,
    };
    match found {
        Some(expr) => OrderByExpr { expr, ..key },
        None => key,
    }
}
