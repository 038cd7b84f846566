//! Windows that a query names: `OVER w`, `OVER (w …)`, and definitions that go on from others.
//!
//! The library knows `OVER w` in the select list alone, and drops the name in `OVER (w …)`. Here each of them becomes the
//! window that it means, by PostgreSQL's rules: what goes on from a window takes its PARTITION BY, orders only what has no
//! order yet, and does not go on from a window with a frame. Invariant: behind it no window has a name.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitMut,
    VisitorMut, WindowSpec, WindowType,
};

use super::names::normalized;
use crate::error::{PlannerError, Result};
use crate::parse::span_of;

/// Puts the meaning of named windows into the ORDER BY of a query. Comes before [`in_select`].
pub(super) fn in_order(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let windows = Windows::of(&select.named_window)?;
    match &mut query.order_by {
        Some(order) => windows.resolve(order),
        None => Ok(()),
    }
}

/// Puts the meaning of named windows into a SELECT.
pub(super) fn in_select(select: &mut Select) -> Result<()> {
    let windows = Windows::of(&std::mem::take(&mut select.named_window))?;
    select.projection.iter_mut().try_for_each(|item| windows.resolve(item))?;
    select.qualify.iter_mut().try_for_each(|expr| windows.resolve(expr))
}

/// The windows of a WINDOW clause, by name.
struct Windows(Vec<(String, WindowSpec)>);

impl Windows {
    /// A definition may go on from those before it.
    fn of(definitions: &[NamedWindowDefinition]) -> Result<Self> {
        let mut windows = Windows(Vec::new());
        for NamedWindowDefinition(name, meaning) in definitions {
            if windows.find(name).is_some() {
                let message = format!("the window \"{}\" is defined twice", name.value);
                return Err(PlannerError::invalid(message).with_span(span_of(name.span)));
            }
            let mut spec = match meaning {
                NamedWindowExpr::NamedWindow(other) => windows.known(other)?.clone(),
                NamedWindowExpr::WindowSpec(spec) => spec.clone(),
            };
            windows.go_on(&mut spec)?;
            windows.0.push((normalized(name), spec));
        }
        Ok(windows)
    }

    fn find(&self, name: &Ident) -> Option<&WindowSpec> {
        let name = normalized(name);
        self.0.iter().find(|(known, _)| *known == name).map(|(_, spec)| spec)
    }

    fn known(&self, name: &Ident) -> Result<&WindowSpec> {
        self.find(name).ok_or_else(|| {
            let message = format!("there is no window \"{}\"", name.value);
            PlannerError::invalid(message)
                .with_span(span_of(name.span))
                .with_hint("define it in the query's WINDOW clause".to_string())
        })
    }

    /// Takes over what the window has that a specification goes on from.
    fn go_on(&self, spec: &mut WindowSpec) -> Result<()> {
        let Some(name) = spec.window_name.take() else { return Ok(()) };
        let base = self.known(&name)?;
        let refused = |what: &str| {
            let message = format!("what goes on from the window \"{}\" {what}", name.value);
            Err(PlannerError::invalid(message).with_span(span_of(name.span)))
        };
        if !spec.partition_by.is_empty() {
            return refused("cannot have a PARTITION BY");
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return refused("cannot have an ORDER BY, since the window has one");
        }
        if base.window_frame.is_some() {
            return refused(
                "cannot change the frame that the window has; write OVER without parentheses",
            );
        }
        spec.partition_by.clone_from(&base.partition_by);
        if spec.order_by.is_empty() {
            spec.order_by.clone_from(&base.order_by);
        }
        Ok(())
    }

    /// Gives the windows of a tree their meaning, but not those of queries in it, which have a WINDOW clause of their own.
    fn resolve<T: VisitMut>(&self, tree: &mut T) -> Result<()> {
        match tree.visit(&mut Resolve { windows: self, depth: 0 }) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn meaning(&self, over: &mut WindowType) -> Result<()> {
        match over {
            WindowType::NamedWindow(name) => {
                *over = WindowType::WindowSpec(self.known(name)?.clone());
                Ok(())
            }
            WindowType::WindowSpec(spec) => self.go_on(spec),
        }
    }
}

struct Resolve<'a> {
    windows: &'a Windows,
    depth: usize,
}

impl VisitorMut for Resolve<'_> {
    type Break = PlannerError;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<PlannerError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<PlannerError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PlannerError> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let over = function.over.as_mut().filter(|_| self.depth == 0);
        match over.map_or(Ok(()), |over| self.windows.meaning(over)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}
