//! The columns of a result as the user should see them, and output columns of the same name.
//!
//! The library names columns after its plans (`sum(t.v)`, `Int64(1)`) and refuses two of the same name; SQL names them
//! after the text, and lets two be called alike. So names are taken from the text, and clashing columns get hidden
//! aliases.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_common::DFSchema;
use datafusion_sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, Statement as SqlStatement, VisitMut,
    VisitorMut,
};

use super::names::normalized;

/// Longer texts are cut.
const MAX_NAME_CHARS: usize = 120;

/// The names of a query's result columns.
pub(super) fn names(query: &Query, schema: &DFSchema) -> Vec<String> {
    let mut names: Vec<String> =
        schema.fields().iter().map(|f| visible(f.name()).to_string()).collect();
    let Some(select) = first_select(query) else { return names };
    let items = &select.projection;
    let known = |item: &SelectItem| item_name(item);
    // From the left up to the first wildcard, and from the right down to the last.
    for (at, item) in items.iter().enumerate() {
        match (known(item), names.get_mut(at)) {
            (Some(name), Some(slot)) => *slot = name,
            _ => break,
        }
    }
    if items.iter().all(|item| known(item).is_some()) {
        return names;
    }
    let columns = names.len();
    for (at, item) in items.iter().rev().enumerate() {
        let slot = columns.checked_sub(at + 1).and_then(|at| names.get_mut(at));
        match (known(item), slot) {
            (Some(name), Some(slot)) => *slot = name,
            _ => break,
        }
    }
    names
}

/// A column's name without what [`rename_clashes`] added.
fn visible(name: &str) -> &str {
    name.split_once(HIDDEN).map_or(name, |(name, _)| name)
}

fn first_select(query: &Query) -> Option<&Select> {
    let mut body = query.body.as_ref();
    loop {
        match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::SetOperation { left, .. } => body = left,
            SetExpr::Query(query) => body = query.body.as_ref(),
            _ => return None,
        }
    }
}

/// The name of an item's one column; `None` for wildcards.
fn item_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normalized(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(normalized(ident)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(normalized),
        SelectItem::UnnamedExpr(expr) => {
            let text = expr.to_string();
            Some(match text.char_indices().nth(MAX_NAME_CHARS) {
                Some((at, _)) => format!("{}…", &text[..at]),
                None => text,
            })
        }
        SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    }
}

/// Separates a column's name from what makes it unique; no user can mean it.
const HIDDEN: char = '\u{1}';

/// Gives all select items but the first of each name an alias of its own.
pub(super) fn rename_clashes(statement: &mut SqlStatement) {
    let ControlFlow::Continue(()) = statement.visit(&mut Rename { depth: 0 });
}

struct Rename {
    depth: usize,
}

impl VisitorMut for Rename {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let top = self.depth == 1;
        let wildcard = top && select.projection.iter().any(|item| item_name(item).is_none());
        let mut seen = HashSet::new();
        for (at, item) in select.projection.iter_mut().enumerate() {
            let Some(name) = item_name(item) else { continue };
            if seen.insert(name.clone()) && !wildcard {
                continue;
            }
            let alias = Ident::with_quote('"', format!("{name}{HIDDEN}{at}"));
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item
            else {
                continue;
            };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        ControlFlow::Continue(())
    }
}
