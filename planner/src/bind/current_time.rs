//! `now()` in the query of a materialized view: the time of the last commit.
//!
//! A view follows the changes of tables. So the time becomes one: a call becomes a scalar subquery over a table of one
//! row, which the session changes each time that views commit. Invariant: within one state of a view all calls give one
//! time, and it never goes back.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, FunctionArguments, Ident, ObjectName, ObjectNamePart, SelectItem, SetExpr, TableFactor,
    TableFunctionArgs, VisitMut, visit_expressions_mut,
};

use super::cte::select_all_from;
use super::text_casts::call;
use crate::catalog::{CLOCK, CLOCK_TIME};

/// Puts the table's time in the place of all calls of a view's query.
pub(super) fn follow_clock<T: VisitMut>(tree: &mut T) {
    let _ = visit_expressions_mut(tree, |expr| {
        if is_now(expr) {
            *expr = time();
        }
        ControlFlow::<()>::Continue(())
    });
}

fn is_now(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return false };
    let no_arguments = match &function.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    let names = ["now", "current_timestamp"];
    no_arguments && names.iter().any(|now| name.value.eq_ignore_ascii_case(now))
}

/// `(SELECT max(time) FROM clock())`
fn time() -> Expr {
    let mut query = select_all_from(ObjectName::from(vec![Ident::new(CLOCK)]));
    if let SetExpr::Select(select) = query.body.as_mut() {
        let time = Expr::Identifier(Ident::with_quote('"', CLOCK_TIME));
        select.projection = vec![SelectItem::UnnamedExpr(call("max", vec![time]))];
        if let Some(from) = select.from.first_mut()
            && let TableFactor::Table { args, .. } = &mut from.relation
        {
            *args = Some(TableFunctionArgs { args: Vec::new(), settings: None });
        }
    }
    Expr::Subquery(Box::new(query))
}
