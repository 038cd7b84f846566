//! The columns of a result as the user should see them, and output columns of the same name.
//!
//! The library names columns after its plans (`sum(t.v)`, `Int64(1)`) and refuses two of the same name; SQL names them
//! after the text, and lets two be called alike. So names are taken from the text, and clashing columns get hidden
//! aliases.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_common::DFSchema;
use datafusion_sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query,
    Select, SelectItem, SetExpr, Statement as SqlStatement, Value, VisitMut, VisitorMut,
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

/// A name that differs from `name` for the planner only.
pub(super) fn hidden_name(name: &str, at: usize) -> String {
    format!("{name}{HIDDEN}{at}")
}

/// Which select items get aliases of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renamed {
    /// All but the first of each name.
    Clashing,
    /// All that are neither columns nor have an alias, too: the library gives the same name to more than meets the eye.
    Computed,
    /// Those, and arguments of functions which are casts: the library names no casts.
    Casts,
}

/// Gives select items of the same name aliases.
pub(super) fn rename_clashes(statement: &mut SqlStatement, renamed: Renamed) {
    let ControlFlow::Continue(()) = statement.visit(&mut Rename { depth: 0, renamed });
    if renamed == Renamed::Casts {
        let ControlFlow::Continue(()) = statement.visit(&mut NamedCasts::default());
    }
}

/// Writes `CASE WHEN n = n THEN cast END` in the place of arguments that are casts, with a number for each: that is
/// the cast, under another name.
#[derive(Default)]
struct NamedCasts {
    known: Vec<Expr>,
}

impl VisitorMut for NamedCasts {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let FunctionArguments::List(list) = &mut function.args else {
            return ControlFlow::Continue(());
        };
        for arg in &mut list.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(cast @ Expr::Cast { .. })) = arg else {
                continue;
            };
            let known = self.known.iter().position(|known| known == cast);
            let number = known.unwrap_or(self.known.len());
            if known.is_none() {
                self.known.push(cast.clone());
            }
            let literal = || Box::new(Expr::value(Value::Number(number.to_string(), false)));
            let (left, right) = (literal(), literal());
            let condition = Expr::BinaryOp { left, op: BinaryOperator::Eq, right };
            let token = AttachedToken::empty;
            *cast = Expr::Case {
                case_token: token(),
                end_token: token(),
                operand: None,
                conditions: vec![CaseWhen { condition, result: cast.clone() }],
                else_result: None,
            };
        }
        ControlFlow::Continue(())
    }
}

/// The names with `_1`, `_2`, … after those that came before.
pub fn distinct_names(names: Vec<String>) -> Vec<String> {
    let mut seen: HashSet<String> = HashSet::new();
    let distinct = names.into_iter().map(|name| {
        let numbered = (1..).map(|n| format!("{name}_{n}"));
        let free = std::iter::once(name.clone())
            .chain(numbered)
            .find(|candidate| !seen.contains(candidate));
        let free = free.unwrap_or(name);
        seen.insert(free.clone());
        free
    });
    distinct.collect()
}

/// What the library calls an item, as far as two items are concerned: casts are no part of it.
fn library_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            let mut bare = expr.clone();
            let ControlFlow::Continue(()) = bare.visit(&mut WithoutCasts);
            item_name(&SelectItem::UnnamedExpr(bare))
        }
        other => item_name(other),
    }
}

struct WithoutCasts;

impl VisitorMut for WithoutCasts {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let inner = match expr {
            Expr::Cast { expr: inner, .. } | Expr::Nested(inner) => {
                std::mem::replace(&mut **inner, Expr::Value(Value::Null.with_empty_span()))
            }
            Expr::TypedString(typed) => Expr::Value(typed.value.clone()),
            _ => return ControlFlow::Continue(()),
        };
        *expr = inner;
        ControlFlow::Continue(())
    }
}

fn is_computed(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        _ => false,
    }
}

/// Whether a query is a set operation, which is marked by a query around it.
fn is_operation(query: &Query) -> bool {
    matches!(*query.body, SetExpr::SetOperation { .. })
}

struct Rename {
    depth: usize,
    renamed: Renamed,
}

impl VisitorMut for Rename {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += usize::from(!is_operation(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= usize::from(!is_operation(query));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let top = self.depth == 1;
        let wildcard = top && select.projection.iter().any(|item| item_name(item).is_none());
        let mut seen = HashSet::new();
        for (at, item) in select.projection.iter_mut().enumerate() {
            let (Some(name), Some(library)) = (item_name(item), library_name(item)) else {
                continue;
            };
            let computed = self.renamed != Renamed::Clashing && is_computed(item);
            if seen.insert(library) && !wildcard && !computed {
                continue;
            }
            let alias = Ident::with_quote('"', hidden_name(&name, at));
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item
            else {
                continue;
            };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        ControlFlow::Continue(())
    }
}
