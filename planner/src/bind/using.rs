//! Outer joins with USING, written so that the merged columns hold what they should.
//!
//! The library takes a merged column from either side, as if every join were an inner one: after an outer join that is
//! NULL in rows of the other side. Here `*` becomes a list of `table.*` with each merged column once, and after RIGHT
//! and FULL joins unqualified merged columns become the right column or COALESCE of both. What cannot be written that way
//! is refused.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, OrderByKind, Query, ReplaceSelectElement, ReplaceSelectItem, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Spanned, TableFactor, TableWithJoins,
    VisitMut, VisitorMut, WildcardAdditionalOptions,
};

use super::names::normalized;
use crate::error::{PlannerError, Result};
use crate::parse::span_of;

/// Rewrites the tree in place.
pub(super) fn resolve_using<T: VisitMut>(tree: &mut T) -> Result<()> {
    match tree.visit(&mut Using) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Using;

impl VisitorMut for Using {
    type Break = PlannerError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PlannerError> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        match merged_columns(select) {
            Ok(merged) if merged.is_empty() => ControlFlow::Continue(()),
            Ok(merged) => {
                if let Some(order_by) = &mut query.order_by
                    && let OrderByKind::Expressions(exprs) = &mut order_by.kind
                {
                    exprs.iter_mut().for_each(|by| replace(&mut by.expr, &merged));
                }
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<PlannerError> {
        match rewrite(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Which side of an outer join keeps all its rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    No,
    Left,
    Right,
    Full,
}

fn outer(operator: &JoinOperator) -> (Outer, Option<&JoinConstraint>) {
    match operator {
        JoinOperator::Join(c) | JoinOperator::Inner(c) => (Outer::No, Some(c)),
        JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (Outer::Left, Some(c)),
        JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (Outer::Right, Some(c)),
        JoinOperator::FullOuter(c) => (Outer::Full, Some(c)),
        _ => (Outer::No, None),
    }
}

fn merges(operator: &JoinOperator) -> bool {
    matches!(outer(operator), (_, Some(JoinConstraint::Using(_) | JoinConstraint::Natural)))
}

/// What an unqualified column means after a RIGHT or FULL join that merged it.
struct Merged {
    column: String,
    value: Expr,
}

/// The merged columns of a query block whose unqualified names must be replaced.
fn merged_columns(select: &Select) -> Result<Vec<Merged>> {
    let mut merged = Vec::new();
    for from in &select.from {
        for join in &from.joins {
            let (side, constraint) = outer(&join.join_operator);
            if !matches!(side, Outer::Right | Outer::Full) || !merges(&join.join_operator) {
                continue;
            }
            let (Some(JoinConstraint::Using(columns)), [_], Some(left), Some(right)) = (
                constraint,
                from.joins.as_slice(),
                alias_of(&from.relation),
                alias_of(&join.relation),
            ) else {
                return Err(refused(
                    from,
                    "NATURAL, or USING among more than two tables, in a RIGHT or FULL JOIN",
                ));
            };
            for column in columns.iter().filter_map(single) {
                let (l, r) = (qualified(&left, column), qualified(&right, column));
                let value = if side == Outer::Right { r } else { coalesce(l, r) };
                merged.push(Merged { column: normalized(column), value });
            }
        }
    }
    Ok(merged)
}

/// What unqualified merged columns mean in WHERE, where the library does not know it: after inner joins they are equal on
/// both sides, and after a LEFT JOIN they are the left side's. Those whose side has no name here are left as they are.
fn merged_in_where(select: &Select) -> Vec<Merged> {
    let mut merged: Vec<Merged> = Vec::new();
    for from in &select.from {
        let mut left = alias_of(&from.relation);
        for join in &from.joins {
            let (side, constraint) = outer(&join.join_operator);
            let right = alias_of(&join.relation);
            let columns = match constraint {
                Some(JoinConstraint::Using(columns)) => columns.as_slice(),
                _ => &[],
            };
            for column in columns.iter().filter_map(single) {
                let table = match side {
                    Outer::No => left.as_ref().or(right.as_ref()),
                    Outer::Left => left.as_ref(),
                    Outer::Right | Outer::Full => None,
                };
                let column_name = normalized(column);
                let known = merged.iter().any(|m| m.column == column_name);
                if let Some(table) = table.filter(|_| !known) {
                    merged.push(Merged { column: column_name, value: qualified(table, column) });
                }
            }
            // Which of the tables so far a column further on comes from is not known.
            left = None;
        }
    }
    merged
}

fn rewrite(select: &mut Select) -> Result<()> {
    let merged = merged_in_where(select);
    if let Some(condition) = &mut select.selection {
        replace(condition, &merged);
    }
    let any_outer = select
        .from
        .iter()
        .flat_map(|from| &from.joins)
        .any(|join| merges(&join.join_operator) && outer(&join.join_operator).0 != Outer::No);
    if !any_outer {
        return Ok(());
    }
    let merged = merged_columns(select)?;
    let mut projection = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if options == WildcardAdditionalOptions::default() => {
                projection.extend(wildcards(&select.from, &merged)?);
            }
            SelectItem::Wildcard(_) => {
                return Err(refused(
                    &select.from[0],
                    "* with EXCLUDE or REPLACE after an outer join with USING",
                ));
            }
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) if is_merged(&ident, &merged) => {
                let mut expr = Expr::Identifier(ident.clone());
                replace(&mut expr, &merged);
                projection.push(SelectItem::ExprWithAlias { expr, alias: ident });
            }
            SelectItem::UnnamedExpr(mut expr) => {
                replace(&mut expr, &merged);
                projection.push(SelectItem::UnnamedExpr(expr));
            }
            SelectItem::ExprWithAlias { mut expr, alias } => {
                replace(&mut expr, &merged);
                projection.push(SelectItem::ExprWithAlias { expr, alias });
            }
            other @ (SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. }) => {
                projection.push(other)
            }
        }
    }
    select.projection = projection;
    let clauses = [&mut select.selection, &mut select.having, &mut select.qualify];
    clauses.into_iter().flatten().for_each(|clause| replace(clause, &merged));
    if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
        exprs.iter_mut().for_each(|expr| replace(expr, &merged));
    }
    Ok(())
}

/// `*` as one `table.*` for each table, each merged column once.
fn wildcards(from: &[TableWithJoins], merged: &[Merged]) -> Result<Vec<SelectItem>> {
    let mut items = Vec::new();
    for from in from {
        let what = "* over an outer join with USING or NATURAL of these tables";
        let Some(first) = alias_of(&from.relation) else { return Err(refused(from, what)) };
        let replaced = merged.iter().map(|m| {
            let column_name = Ident::with_quote('"', m.column.clone());
            Box::new(ReplaceSelectElement { expr: m.value.clone(), column_name, as_keyword: true })
        });
        let replaced: Vec<_> = replaced.collect();
        let opt_replace = (!replaced.is_empty()).then_some(ReplaceSelectItem { items: replaced });
        items
            .push(wildcard(first, WildcardAdditionalOptions { opt_replace, ..Default::default() }));
        for join in &from.joins {
            let (side, constraint) = outer(&join.join_operator);
            let columns = match constraint {
                Some(JoinConstraint::Using(columns)) => columns.clone(),
                Some(JoinConstraint::Natural) => return Err(refused(from, what)),
                Some(JoinConstraint::On(_) | JoinConstraint::None) => Vec::new(),
                // Semi and anti joins add no columns; of others it is not known here.
                None if side == Outer::No && adds_nothing(&join.join_operator) => continue,
                None => Vec::new(),
            };
            let Some(alias) = alias_of(&join.relation) else { return Err(refused(from, what)) };
            let opt_exclude = (!columns.is_empty()).then_some(ExcludeSelectItem::Multiple(columns));
            items.push(wildcard(
                alias,
                WildcardAdditionalOptions { opt_exclude, ..Default::default() },
            ));
        }
    }
    Ok(items)
}

fn adds_nothing(operator: &JoinOperator) -> bool {
    matches!(
        operator,
        JoinOperator::Semi(_)
            | JoinOperator::LeftSemi(_)
            | JoinOperator::Anti(_)
            | JoinOperator::LeftAnti(_)
            | JoinOperator::RightSemi(_)
            | JoinOperator::RightAnti(_)
    )
}

fn wildcard(alias: Ident, options: WildcardAdditionalOptions) -> SelectItem {
    let name = ObjectName(vec![ObjectNamePart::Identifier(alias)]);
    SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
}

fn refused(from: &TableWithJoins, what: &str) -> PlannerError {
    PlannerError::not_supported(what)
        .with_hint("write ON and name the columns".to_string())
        .with_span(span_of(from.span()))
}

/// The name that qualifies a relation's columns.
fn alias_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, args: None, .. } if super::names::as_path(name).is_none() => {
            name.0.last().and_then(ObjectNamePart::as_ident).cloned()
        }
        _ => None,
    }
}

fn single(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(ObjectNamePart::as_ident)
}

fn qualified(table: &Ident, column: &Ident) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), column.clone()])
}

fn coalesce(left: Expr, right: Expr) -> Expr {
    let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new("coalesce"))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument(left), argument(right)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn is_merged(ident: &Ident, merged: &[Merged]) -> bool {
    merged.iter().any(|m| m.column == normalized(ident))
}

/// Replaces unqualified merged columns of an expression; those in subqueries stay, and are ambiguous there.
fn replace(expr: &mut Expr, merged: &[Merged]) {
    if merged.is_empty() {
        return;
    }
    struct Replace<'a> {
        merged: &'a [Merged],
        depth: usize,
    }
    impl VisitorMut for Replace<'_> {
        type Break = std::convert::Infallible;

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
            if self.depth == 0
                && let Expr::Identifier(ident) = expr
                && let Some(m) = self.merged.iter().find(|m| m.column == normalized(ident))
            {
                *expr = m.value.clone();
            }
            ControlFlow::Continue(())
        }
    }
    let ControlFlow::Continue(()) = expr.visit(&mut Replace { merged, depth: 0 });
}
