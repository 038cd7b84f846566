//! Syntax the library does not know, written in syntax it knows: FETCH FIRST, plain SEMI and ANTI JOIN, ORDER BY ALL,
//! and the values of a prepared statement.

use std::ops::ControlFlow;

use arrow::datatypes::DECIMAL128_MAX_PRECISION;
use datafusion_sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType as SqlType, ExactNumberInfo, Expr, Fetch,
    FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Join, JoinOperator, LimitClause,
    ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectFlavor, SelectItem,
    SetExpr, TableFactor, UnaryOperator, Value, Visit, VisitMut, VisitorMut,
    WildcardAdditionalOptions, visit_expressions,
};

use super::date_parts::rewrite_date_part;
use super::delimiters::computed_delimiter;
use super::interval_literals::rewrite_interval;
use super::jsonb_forms::{restore_lambdas, rewrite_jsonb};
use super::named_windows;
use super::names::{normalized, span_of_name};
use super::operators::{minus_before_power, rewrite_operator};
use super::patterns::rewrite_pattern;
use super::series_rows::unnest_series;
use super::text_casts::{call, rewrite_cast};
use super::ties::keep_ties;
use super::timestamp_patterns::rewrite_timestamp_pattern;
use crate::error::{PlannerError, Result};
use crate::parse::span_of;

/// The value of `$n` in a prepared statement: a constant expression of EXECUTE.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter(pub(crate) Expr);

/// Rewrites the tree in place.
/// `series_rows` tells whether a series in a select list means its rows.
pub(super) fn desugar<T: VisitMut>(
    tree: &mut T,
    parameters: &[Parameter],
    series_rows: bool,
) -> Result<()> {
    match tree.visit(&mut Desugar { parameters, series_rows }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Desugar<'a> {
    parameters: &'a [Parameter],
    series_rows: bool,
}

impl VisitorMut for Desugar<'_> {
    type Break = PlannerError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PlannerError> {
        order_by_outputs(query);
        stop(
            limit(query)
                .and_then(|()| order_by_all(query))
                .and_then(|()| named_windows::in_order(query)),
        )
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<PlannerError> {
        // `FROM t` alone means `SELECT * FROM t`.
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
            select.flavor = SelectFlavor::Standard;
        }
        for from in &mut select.from {
            plain_joins(&mut from.joins);
        }
        if self.series_rows {
            unnest_series(select);
        }
        group_for_having(select);
        positions_in_sets(select);
        stop(named_windows::in_select(select))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<PlannerError> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                plain_joins(&mut table_with_joins.joins)
            }
            TableFactor::Table { name, args: None, .. }
                if name.0.iter().any(|part| matches!(part, ObjectNamePart::Function(_))) =>
            {
                let error = PlannerError::not_supported("a function as a part of a table's name");
                return ControlFlow::Break(error.with_span(span_of_name(name)));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PlannerError> {
        minus_before_power(expr);
        restore_lambdas(expr);
        let Expr::Value(value) = expr else {
            return ControlFlow::Continue(());
        };
        if let Value::Number(number, _) = &value.value
            && is_double(number)
        {
            let span = span_of(value.span);
            return match number.replace('_', "").parse::<f64>() {
                Ok(double) if double.is_finite() => {
                    *expr = double_constant(number);
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Break(
                    PlannerError::invalid(format!("the number {number} is out of range"))
                        .with_span(span),
                ),
            };
        }
        let Value::Placeholder(name) = &value.value else {
            return ControlFlow::Continue(());
        };
        let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        match number.and_then(|n| n.checked_sub(1)).and_then(|n| self.parameters.get(n)) {
            Some(parameter) => {
                *expr = Expr::Nested(Box::new(parameter.0.clone()));
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(
                PlannerError::invalid(format!("the parameter {name} has no value"))
                    .with_span(span_of(value.span)),
            ),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PlannerError> {
        distinct_before_and(expr);
        rewrite_cast(expr);
        rewrite_interval(expr);
        rewrite_operator(expr);
        rewrite_pattern(expr);
        rewrite_date_part(expr);
        remainder(expr);
        named_fields(expr);
        array(expr);
        computed_delimiter(expr);
        rewrite_jsonb(expr);
        stop(rewrite_timestamp_pattern(expr))
    }
}

/// The parser reads `a IS DISTINCT FROM b AND c` as a comparison of `a` with `b AND c`, and what stands before it
/// (`NOT`, `x AND`) takes the whole. Puts the operators into the standard's order; parentheses are nodes of their
/// own, so that nothing they hold is moved.
fn distinct_before_and(expr: &mut Expr) {
    use BinaryOperator::{And, Or};
    let (operand, below): (&mut Box<Expr>, &[BinaryOperator]) = match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => (right, &[And, Or]),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => (expr, &[And, Or]),
        Expr::BinaryOp { op: And, right, .. } => (right, &[Or]),
        _ => return,
    };
    if !matches!(&**operand, Expr::BinaryOp { op, .. } if below.contains(op)) {
        return;
    }
    let nothing = || Expr::Value(Value::Null.with_empty_span());
    let mut chain = std::mem::replace(&mut **operand, nothing());
    let mut leaf = &mut chain;
    while matches!(leaf, Expr::BinaryOp { op, .. } if below.contains(op)) {
        let Expr::BinaryOp { left, .. } = leaf else { return };
        leaf = left;
    }
    **operand = std::mem::replace(leaf, nothing());
    *leaf = std::mem::replace(expr, nothing());
    *expr = chain;
}

/// Whether a number is no decimal: it has an exponent, or more digits than decimals have.
fn is_double(number: &str) -> bool {
    let hexadecimal = number.starts_with("0x") || number.starts_with("0X");
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    !hexadecimal && (number.contains(['e', 'E']) || digits > usize::from(DECIMAL128_MAX_PRECISION))
}

fn double_constant(number: &str) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(number.replace('_', "")))),
        data_type: SqlType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

/// `mod(a, b)` → `a % b`.
fn remainder(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return };
    let FunctionArguments::List(list) = &function.args else { return };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
    ] = list.args.as_slice()
    else {
        return;
    };
    if name.value.eq_ignore_ascii_case("mod") && function.over.is_none() {
        let nested = |side: &Expr| Box::new(Expr::Nested(Box::new(side.clone())));
        let (left, right) = (nested(left), nested(right));
        *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Modulo, right }));
    }
}

/// `(s).a` → `(s).'a'`: the library reads names of fields only as text, but those behind a name, as in `t.l[1]`, where it
/// looks whether the first is a table.
fn named_fields(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let mut may_be_column = matches!(**root, Expr::Identifier(_));
    for access in access_chain {
        may_be_column &= matches!(access, AccessExpr::Dot(Expr::Identifier(_)));
        if let AccessExpr::Dot(field) = access
            && let Expr::Identifier(name) = field
            && !may_be_column
        {
            *field = Expr::value(Value::SingleQuotedString(normalized(name)));
        }
    }
}

/// `[a, b]` → `make_array(a, b)`: in the brackets the library knows no columns of outer queries.
fn array(expr: &mut Expr) {
    if let Expr::Array(array) = expr {
        *expr = call("make_array", std::mem::take(&mut array.elem));
    }
}

fn stop(result: Result<()>) -> ControlFlow<PlannerError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// `FETCH FIRST n ROWS ONLY` → `LIMIT n`; WITH TIES becomes a condition.
fn limit(query: &mut Query) -> Result<()> {
    let Some(Fetch { with_ties, percent, quantity }) = query.fetch.take() else {
        return Ok(());
    };
    if percent {
        return Err(PlannerError::not_supported("FETCH … PERCENT"));
    }
    let rows = quantity.unwrap_or_else(|| number(1));
    if with_ties {
        return keep_ties(query, rows);
    }
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(rows),
                offset: None,
                limit_by: Vec::new(),
            });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        Some(_) => {
            return Err(PlannerError::invalid("a query has LIMIT or FETCH, not both"));
        }
    }
    Ok(())
}

fn number(n: usize) -> Expr {
    Expr::value(Value::Number(n.to_string(), false))
}

/// `ORDER BY ALL` → `ORDER BY 1, 2, …`.
fn order_by_all(query: &mut Query) -> Result<()> {
    let Some(OrderBy { kind, .. }) = &mut query.order_by else {
        return Ok(());
    };
    let OrderByKind::All(options) = kind else {
        return Ok(());
    };
    let mut body = query.body.as_ref();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let columns = match body {
        SetExpr::Select(select) if select.projection.iter().all(is_one_column) => {
            select.projection.len()
        }
        // The library itself knows the columns of `*` when the query is a plain SELECT.
        SetExpr::Select(_) if matches!(*query.body, SetExpr::Select(_)) => return Ok(()),
        _ => {
            return Err(PlannerError::not_supported("ORDER BY ALL over this query")
                .with_hint("list the columns: ORDER BY 1, 2".to_string()));
        }
    };
    let by =
        (1..=columns).map(|n| OrderByExpr { expr: number(n), options: *options, with_fill: None });
    *kind = OrderByKind::Expressions(by.collect());
    Ok(())
}

/// `SELECT DISTINCT a + 1 … ORDER BY a + 1` → `ORDER BY 1`: the library looks below the DISTINCT for the expression.
fn order_by_outputs(query: &mut Query) {
    let (SetExpr::Select(select), Some(order_by)) = (query.body.as_ref(), &mut query.order_by)
    else {
        return;
    };
    let OrderByKind::Expressions(exprs) = &mut order_by.kind else { return };
    if select.distinct.is_none() || !select.projection.iter().all(is_one_column) {
        return;
    }
    for by in exprs {
        let is_output = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                *expr == by.expr
                    && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            }
            _ => false,
        };
        if let Some(at) = select.projection.iter().position(is_output) {
            by.expr = number(at + 1);
        }
    }
}

/// HAVING makes one group of all rows, also where nothing is aggregated: the library wants to be told.
fn group_for_having(select: &mut Select) {
    let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by else { return };
    let Some(having) = &select.having else { return };
    if keys.is_empty() && modifiers.is_empty() && !calls(having) && !calls(&select.projection) {
        *keys = vec![Expr::GroupingSets(vec![Vec::new()])];
    }
}

/// `GROUP BY CUBE (1, 2)` → the items of the select list at these places, as in a plain GROUP BY.
fn positions_in_sets(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    for key in keys {
        let (Expr::Cube(sets) | Expr::Rollup(sets) | Expr::GroupingSets(sets)) = key else {
            continue;
        };
        for member in sets.iter_mut().flatten() {
            let Expr::Value(value) = &*member else { continue };
            let Value::Number(place, _) = &value.value else { continue };
            let item = place.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            if let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
                item.and_then(|at| select.projection.get(at))
            {
                *member = expr.clone();
            }
        }
    }
}

/// Whether a function is called anywhere in the tree.
fn calls<T: Visit>(tree: &T) -> bool {
    visit_expressions(tree, |expr| match expr {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn is_one_column(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

fn plain_joins(joins: &mut [Join]) {
    for join in joins {
        let operator = &mut join.join_operator;
        *operator = match std::mem::replace(operator, JoinOperator::CrossApply) {
            JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
            JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
            other => other,
        };
    }
}
