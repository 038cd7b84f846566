//! `SELECT generate_series(1, n)`: a row for each number, as in PostgreSQL, where the session wants that.
//!
//! The library's function gives a list, which is unnested here. Only items of a select list that are such a call are
//! meant; within other expressions it stays a list.

use datafusion_sql::sqlparser::ast::{Expr, Function, Ident, ObjectNamePart, Select, SelectItem};

use super::text_casts::call;

const SERIES: &str = "generate_series";

/// Unnests the series among the items of a select list.
pub(super) fn unnest_series(select: &mut Select) {
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(Expr::Function(function)) if is_series(function) => {
                let expr = call("unnest", vec![Expr::Function(function.clone())]);
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::new(SERIES) };
            }
            SelectItem::ExprWithAlias { expr, .. } => {
                if let Expr::Function(function) = expr
                    && is_series(function)
                {
                    *expr = call("unnest", vec![Expr::Function(function.clone())]);
                }
            }
            _ => {}
        }
    }
}

fn is_series(function: &Function) -> bool {
    matches!(function.name.0.as_slice(), [ObjectNamePart::Identifier(name)]
        if name.value.eq_ignore_ascii_case(SERIES))
}
