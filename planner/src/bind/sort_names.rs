//! ORDER BY an expression means the columns of the input before those of the result.
//!
//! Only a bare name means the result's column: in `SELECT -a AS a … ORDER BY a + 0` the sum is of the input's `a`. The
//! library looks among the result's columns first. Here those that an expression would find get hidden names, which a
//! query around it turns back where it is not the whole statement. Whether the input has such columns is not known here,
//! so whoever binds falls back to the statement as written.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, Statement as SqlStatement, TableAlias, TableFactor, TableWithJoins, VisitMut,
    VisitorMut, visit_expressions,
};

use super::names::normalized;
use super::outputs::hidden_name;

/// The name of a query within the one that turns its hidden names back; no user can mean it.
const SORTED: &str = "\u{1}sorted";

/// The statement with hidden names in the place of those that expressions of ORDER BY would find; `None` when there are
/// no such names.
pub(super) fn hide_outputs(statement: &SqlStatement) -> Option<SqlStatement> {
    let mut hidden = statement.clone();
    let whole = matches!(statement, SqlStatement::Query(_));
    let mut hide = Hide { depth: usize::from(!whole), found: false };
    let ControlFlow::Continue(()) = hidden.visit(&mut hide);
    hide.found.then_some(hidden)
}

struct Hide {
    depth: usize,
    found: bool,
}

impl VisitorMut for Hide {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        // The order of a subquery decides nothing but which rows a limit keeps.
        let top = self.depth == 0;
        if top || query.limit_clause.is_some() {
            self.found |= hide_in(query, top);
        }
        ControlFlow::Continue(())
    }
}

fn hide_in(query: &mut Query, top: bool) -> bool {
    let (SetExpr::Select(select), Some(order_by)) = (query.body.as_mut(), &mut query.order_by)
    else {
        return false;
    };
    let OrderByKind::Expressions(by) = &mut order_by.kind else { return false };
    let distinct = select.distinct.as_ref().is_some_and(|d| !matches!(d, Distinct::All));
    let meant = names_in_expressions(by);
    if meant.is_empty() || distinct {
        return false;
    }
    let Some(names) = select.projection.iter().map(output).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let mut hidden: Vec<(String, Ident)> = Vec::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let name = normalized(alias);
        let same = matches!(&*expr, Expr::Identifier(column) if normalized(column) == name);
        if meant.contains(&name) && !same {
            *alias = Ident::with_quote('"', hidden_name(&name, at));
            hidden.push((name, alias.clone()));
        }
    }
    for by in by.iter_mut() {
        if let Expr::Identifier(ident) = &mut by.expr
            && let Some((_, alias)) = hidden.iter().find(|(name, _)| *name == normalized(ident))
        {
            *ident = alias.clone();
        }
    }
    if !hidden.is_empty() && !top {
        around(query, names);
    }
    !hidden.is_empty()
}

/// The names that the expressions mention which are more than a name.
fn names_in_expressions(by: &[OrderByExpr]) -> HashSet<String> {
    let mut names = HashSet::new();
    for by in by.iter().filter(|by| !matches!(by.expr, Expr::Identifier(_))) {
        let _ = visit_expressions(&by.expr, |expr| {
            if let Expr::Identifier(ident) = expr {
                names.insert(normalized(ident));
            }
            ControlFlow::<()>::Continue(())
        });
    }
    names
}

/// The name of an item's column; `None` for what has several or none that can be written.
fn output(item: &SelectItem) -> Option<Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(ident.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        SelectItem::UnnamedExpr(_)
        | SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    }
}

/// Makes the query the only input of one that gives its columns these names.
fn around(query: &mut Query, names: Vec<Ident>) {
    let SetExpr::Select(inner) = query.body.as_ref() else { return };
    let items = inner.projection.iter().zip(names).filter_map(|(item, alias)| {
        let expr = Expr::Identifier(output(item)?);
        Some(SelectItem::ExprWithAlias { expr, alias })
    });
    let projection = items.collect();
    let select = Select { projection, ..bare(inner.as_ref().clone()) };
    let mut outer = Query {
        body: Box::new(SetExpr::Select(Box::new(select))),
        with: None,
        order_by: None,
        limit_clause: None,
        fetch: None,
        ..query.clone()
    };
    std::mem::swap(query, &mut outer);
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', SORTED),
        columns: Vec::new(),
        at: None,
    };
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(outer),
        alias: Some(alias),
        sample: None,
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
}

/// The block without its clauses.
fn bare(select: Select) -> Select {
    Select {
        optimizer_hints: Vec::new(),
        distinct: None,
        top: None,
        from: Vec::new(),
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        ..select
    }
}
