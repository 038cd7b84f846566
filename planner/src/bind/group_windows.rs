//! Windows as keys of GROUP BY: `GROUP BY TUMBLE(ts, size)`, and `TUMBLE(size)` over the event time of what is grouped.
//!
//! Such a query becomes one over the table function of the same name: what stood in FROM and WHERE is its data, and the
//! key becomes the two columns `window_start` and `window_end`. In the select list the call, or its alias, is a struct
//! of `start` and `end`; `TUMBLE_START(…)` and its like are single columns. Invariant: a query has one such window,
//! and a call that is no key of its query's GROUP BY is an error.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArguments,
    GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Spanned,
    TableFactor, TableFunctionArgs, TableWithJoins, UnaryOperator, Value, Visit, VisitMut, Visitor,
    VisitorMut, visit_expressions_mut,
};

use super::cte::select_all_from;
use super::names::{normalized, span_of_name};
use super::text_casts::call;
use crate::error::{PlannerError, Result};
use crate::parse::span_of;
use crate::windows::{END, GROUPED, PARTITION_BY, START, TIME, WindowFunction};

/// Rewrites all queries of the tree that group by windows.
pub(super) fn group_by_windows<T: VisitMut>(tree: &mut T) -> Result<()> {
    match tree.visit(&mut Grouping) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Grouping;

impl VisitorMut for Grouping {
    type Break = PlannerError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PlannerError> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        match rewrite(select) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(window)) => {
                window.replace(&mut query.order_by);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<PlannerError> {
        match rewrite(select) {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// What a call of a windowing function as a scalar asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The window, as a struct.
    Window,
    /// One of its columns.
    Column(&'static str),
}

/// A window as a key.
struct Window {
    function: WindowFunction,
    name: ObjectName,
    args: Vec<Expr>,
}

/// Rewrites a query that groups by a window; gives the window if it does.
fn rewrite(select: &mut Select) -> Result<Option<Window>> {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return refuse_others(select).map(|()| None);
    };
    let values: Vec<&Expr> = keys.iter().map(|key| value_of(key, &select.projection)).collect();
    let is_window = |value: &&Expr| matches!(window_of(value), Some((_, Part::Window)));
    let Some(place) = values.iter().position(is_window) else {
        return refuse_others(select).map(|()| None);
    };
    let Some((window, _)) = window_of(values[place]) else { return Ok(None) };
    let others: Vec<Expr> = keys
        .iter()
        .zip(&values)
        .filter(|(_, value)| **value != values[place])
        .map(|(key, value)| key_of(key, value))
        .collect();
    let same: Vec<bool> = values.iter().map(|value| *value == values[place]).collect();
    let factor = window.table(select, others)?;
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        let mut same = same.into_iter();
        keys.retain(|_| !same.next().unwrap_or_default());
        keys.extend([START, END].map(|column| Expr::Identifier(Ident::new(column))));
    }
    select.from = vec![TableWithJoins { relation: factor, joins: Vec::new() }];
    window.replace(&mut select.projection);
    window.replace(&mut select.having);
    window.replace(&mut select.qualify);
    refuse_others(select)?;
    Ok(Some(window))
}

/// What a key stands for: the item of the select list at its position or of its name, if that is a window; or itself.
fn value_of<'a>(key: &'a Expr, projection: &'a [SelectItem]) -> &'a Expr {
    let named = |item: &'a SelectItem| match (key, item) {
        (Expr::Identifier(key), SelectItem::ExprWithAlias { expr, alias })
            if normalized(key) == normalized(alias) && window_of(expr).is_some() =>
        {
            Some(expr)
        }
        _ => None,
    };
    let at_position = || {
        let Expr::Value(value) = key else { return None };
        let Value::Number(number, _) = &value.value else { return None };
        match projection.get(number.parse::<usize>().ok()?.checked_sub(1)?)? {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        }
    };
    projection.iter().find_map(named).or_else(at_position).unwrap_or(key)
}

/// A key as sessions take it: over the data alone, where aliases are unknown.
fn key_of(key: &Expr, value: &Expr) -> Expr {
    match key {
        Expr::Value(_) => value.clone(),
        _ => key.clone(),
    }
}

/// The window that a call asks for, and what of it.
fn window_of(expr: &Expr) -> Option<(Window, Part)> {
    let call = match expr {
        Expr::Nested(inner) => return window_of(inner),
        Expr::Function(call) => call,
        _ => return None,
    };
    let [ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return None };
    if name.quote_style.is_some() || call.over.is_some() || call.filter.is_some() {
        return None;
    }
    let parts = [("_start", START), ("_end", END), ("_rowtime", TIME)];
    let lower = name.value.to_ascii_lowercase();
    let ended = |(ending, column)| {
        Some((WindowFunction::called(lower.strip_suffix(ending)?)?, Part::Column(column)))
    };
    let (function, part) = WindowFunction::called(&lower)
        .filter(|function| !function.is_of_rows())
        .map(|function| (function, Part::Window))
        .or_else(|| parts.into_iter().find_map(ended))?;
    let args = unnamed(call)?;
    Some((Window { function, name: call.name.clone(), args }, part))
}

fn unnamed(call: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    args.collect()
}

impl Window {
    /// The table function over what the query reads.
    fn table(&self, select: &mut Select, keys: Vec<Expr>) -> Result<TableFactor> {
        let mut data = select_all_from(self.name.clone());
        if let SetExpr::Select(inner) = data.body.as_mut() {
            inner.from = std::mem::take(&mut select.from);
            inner.lateral_views = std::mem::take(&mut select.lateral_views);
            inner.selection = select.selection.take();
        }
        let mut args = vec![
            named(GROUPED, Expr::value(Value::Boolean(true))),
            named("data", Expr::Subquery(Box::new(data))),
        ];
        let mut given = self.args.iter().cloned();
        let parameters = self.function.parameters();
        let least = self.function.lengths();
        // One more than the lengths that must be there is the time, or else an offset behind them.
        let has_time = self.args.len() > least && !is_interval(&self.args[0]);
        let is_column =
            |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if self.args.len() < least || (!has_time && is_column(&self.args[0])) {
            return Err(self.wrong("has too few arguments"));
        }
        if has_time {
            args.extend(given.next().map(|time| named(parameters[1], time)));
        }
        for (at, value) in given.enumerate() {
            let Some(parameter) = self.function.parameter_at(2 + at, &value) else {
                return Err(self.wrong("has more arguments than it takes"));
            };
            args.push(named(parameter, value));
        }
        if self.function == WindowFunction::Session && !keys.is_empty() {
            let keys = keys.into_iter().map(|key| with_alias(key, &select.projection));
            args.push(named(PARTITION_BY, Expr::Tuple(keys.collect())));
        }
        let mut factor = select_all_from(self.name.clone());
        let SetExpr::Select(outer) = factor.body.as_mut() else {
            return Err(PlannerError::internal("a query over a table is no SELECT"));
        };
        let mut relation = outer.from.pop().map(|from| from.relation);
        match &mut relation {
            Some(TableFactor::Table { args: none, .. }) => {
                *none = Some(TableFunctionArgs { args, settings: None });
            }
            _ => return Err(PlannerError::internal("a query over a table has no table")),
        }
        relation.ok_or_else(|| PlannerError::internal("a query over a table has no table"))
    }

    fn wrong(&self, what: &str) -> PlannerError {
        let name = self.function.name();
        PlannerError::invalid(format!("{name} {what}"))
            .with_hint(format!("write {} in GROUP BY", self.function.grouped_usage()))
            .with_span(span_of_name(&self.name))
    }

    /// Puts the window's columns in the place of its calls.
    fn replace<T: VisitMut>(&self, tree: &mut T) {
        let _ = visit_expressions_mut(tree, |expr| {
            if let Some((window, part)) = window_of(expr)
                && window.function == self.function
                && window.args == self.args
            {
                *expr = column_of(part);
            }
            ControlFlow::<()>::Continue(())
        });
    }
}

fn column_of(part: Part) -> Expr {
    let column = |name: &str| Expr::Identifier(Ident::new(name));
    let name = |name: &str| Expr::value(Value::SingleQuotedString(name.to_string()));
    match part {
        Part::Column(name) if name == TIME => {
            // It follows from the window's end: no key of its own.
            call("window_shift", vec![column(END), minus_one()])
        }
        Part::Column(name) => column(name),
        Part::Window => {
            call("named_struct", vec![name("start"), column(START), name("end"), column(END)])
        }
    }
}

fn minus_one() -> Expr {
    let one = Expr::value(Value::Number("1".to_string(), false));
    Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(one) }
}

/// A key that may be the alias of an item of the select list: the name, or else what it stands for.
fn with_alias(key: Expr, projection: &[SelectItem]) -> Expr {
    let Expr::Identifier(name) = &key else { return key };
    let aliased = projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if normalized(alias) == normalized(name) => {
            Some(expr.clone())
        }
        _ => None,
    });
    match aliased {
        Some(expr) => Expr::Tuple(vec![key, expr]),
        None => key,
    }
}

fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(_) => true,
        Expr::Nested(inner) => is_interval(inner),
        _ => false,
    }
}

fn named(name: &str, value: Expr) -> FunctionArg {
    FunctionArg::Named {
        name: Ident::with_quote('"', name),
        arg: FunctionArgExpr::Expr(value),
        operator: FunctionArgOperator::RightArrow,
    }
}

/// Fails when the query has calls that are no keys.
fn refuse_others(select: &Select) -> Result<()> {
    let mut others = Others { depth: 0 };
    let found = match select.projection.visit(&mut others) {
        ControlFlow::Continue(()) => match select.having.visit(&mut others) {
            ControlFlow::Continue(()) => select.group_by.visit(&mut others),
            found => found,
        },
        found => found,
    };
    let ControlFlow::Break(window) = found else { return Ok(()) };
    let name = window.function.name();
    let detail = "A query groups by one window, and names the same one in its select list.";
    let usage = window.function.grouped_usage();
    let error =
        PlannerError::invalid(format!("{name} groups rows, and this is no key of GROUP BY"))
            .with_detail(detail.to_string())
            .with_hint(format!("write {usage} in GROUP BY, or a table function in FROM"));
    Err(error.with_span(span_of(window.name.span())))
}

/// Finds calls of windows, but not those of queries within.
struct Others {
    depth: usize,
}

impl Visitor for Others {
    type Break = Window;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Window> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Window> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Window> {
        match window_of(expr) {
            Some((window, _)) if self.depth == 0 => ControlFlow::Break(window),
            _ => ControlFlow::Continue(()),
        }
    }
}
