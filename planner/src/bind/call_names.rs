//! Columns of subqueries that are called by the function which computes them: `SELECT sum FROM (SELECT sum(x) FROM t)`.
//!
//! Such a column is called by its text here. Where a name means no column, but is that of a function which an item of a
//! select list without a name calls, PostgreSQL's name for the item is meant. Invariant: a name that means something is
//! left alone.

use std::ops::ControlFlow;

use datafusion_common::{DataFusionError, SchemaError};
use datafusion_sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, Statement as SqlStatement, TableFactor, VisitMut,
    VisitorMut,
};

use super::names::normalized;

/// The statement with items named by the function that an error does not find as a column; `None` if there are none.
pub(super) fn with_call_name(
    statement: &SqlStatement,
    error: &DataFusionError,
) -> Option<SqlStatement> {
    let DataFusionError::SchemaError(schema, _) = error.find_root() else { return None };
    let SchemaError::FieldNotFound { field, .. } = schema.as_ref() else { return None };
    let mut naming = Naming { name: field.name.clone(), found: false };
    let mut named = statement.clone();
    let ControlFlow::Continue(()) = named.visit(&mut naming);
    naming.found.then_some(named)
}

struct Naming {
    name: String,
    found: bool,
}

impl Naming {
    fn name_items(&mut self, query: &mut Query) {
        let SetExpr::Select(select) = query.body.as_mut() else { return };
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(Expr::Function(call)) = item else { continue };
            let called = call.name.0.last().and_then(|part| part.as_ident());
            if called.is_some_and(|called| normalized(called) == self.name) {
                let expr = Expr::Function(call.clone());
                let alias = Ident::with_quote('"', self.name.clone());
                *item = SelectItem::ExprWithAlias { expr, alias };
                self.found = true;
            }
        }
    }
}

impl VisitorMut for Naming {
    type Break = std::convert::Infallible;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Derived { subquery, .. } = factor {
            self.name_items(subquery);
        }
        ControlFlow::Continue(())
    }
}
