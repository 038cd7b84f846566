//! UNION, INTERSECT and EXCEPT.
//!
//! The library binds them with the types of their first operand and finds the types of all in the analysis, when much
//! above has been bound to the others already. Here the operands are brought to common types first. The syntax tree
//! marks the operations by the alias of a derived table, which `relation` recognises and has planned as [`Operation`];
//! only the UNION of a recursive query is left to the library, which takes the types of its first operand.
//!
//! INTERSECT ALL and EXCEPT ALL count: a row that is there `m` times on the left and `n` times on the right comes out
//! `min(m, n)` or `max(m - n, 0)` times. The library makes plain semi and anti joins of both. Here equal rows are numbered
//! on each side, so that no two rows of a side are equal any more, and the numbers are compared with the columns.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion_common::{Column, Result, ScalarValue};
use datafusion_expr::expr::{WindowFunction, WindowFunctionDefinition};
use datafusion_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion_functions_window::row_number::row_number_udwf;
use datafusion_sql::sqlparser::ast::{
    Ident, Query, SetExpr, SetOperator, SetQuantifier, Spanned, TableAlias, TableFactor, Values,
    VisitMut, VisitorMut,
};

use super::cte::{query_of, select_all};
use super::outputs::hidden_name;
use super::translate::carry;
use crate::error::PlannerError;
use crate::parse::span_of;
use crate::rewrite::together;

/// The alias of a derived table that is a set operation; no user can mean it.
const OPERATION: &str = "\u{1}operation";

/// Marks the set operations of a tree.
pub(super) fn mark_operations<T: VisitMut>(tree: &mut T) {
    let ControlFlow::Continue(()) = tree.visit(&mut Mark::default());
}

/// Whether an alias marks a set operation.
pub(super) fn is_operation(alias: &TableAlias) -> bool {
    alias.name.value == OPERATION
}

/// Queries that are being visited, each with whether it is recursive.
#[derive(Default)]
struct Mark {
    recursive: Vec<bool>,
    /// The next query is the body of a recursive CTE, which has a WITH of its own.
    body_next: bool,
}

impl VisitorMut for Mark {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.recursive.push(self.body_next);
        self.body_next = query.with.as_ref().is_some_and(|with| with.recursive);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        match (self.recursive.pop(), query.body.as_mut()) {
            (Some(true), SetExpr::SetOperation { op: SetOperator::Union, left, right, .. }) => {
                mark_body(left);
                mark_body(right);
            }
            (_, body) => mark_body(body),
        }
        ControlFlow::Continue(())
    }
}

fn mark_body(body: &mut SetExpr) {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return };
    mark_operand(left, *op, *set_quantifier);
    mark_operand(right, *op, *set_quantifier);
    let nothing =
        SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: vec![] });
    let operation = std::mem::replace(body, nothing);
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', OPERATION),
        columns: Vec::new(),
        at: None,
    };
    let marked = select_all(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query_of(operation)),
        alias: Some(alias),
        sample: None,
    });
    *body = *marked.body;
}

fn mark_operand(operand: &mut SetExpr, op: SetOperator, quantifier: SetQuantifier) {
    match operand {
        SetExpr::SetOperation { op: inner, set_quantifier: inner_quantifier, left, right }
            if is_part((op, quantifier), (*inner, *inner_quantifier)) =>
        {
            mark_operand(left, *inner, *inner_quantifier);
            mark_operand(right, *inner, *inner_quantifier);
        }
        other => mark_body(other),
    }
}

/// Whether an operation's operands can be those of the operation that it is an operand of.
fn is_part(outer: (SetOperator, SetQuantifier), inner: (SetOperator, SetQuantifier)) -> bool {
    use SetQuantifier as Q;
    let unions = (outer.0, inner.0) == (SetOperator::Union, SetOperator::Union);
    let by_position = |q| matches!(q, Q::All | Q::Distinct | Q::None);
    let keeps = outer.1 != Q::All || inner.1 == Q::All;
    unions && by_position(outer.1) && by_position(inner.1) && keeps
}

/// A set operation, and what it is done with.
pub(super) struct Operation {
    op: SetOperator,
    quantifier: SetQuantifier,
    /// Two, or more of a UNION.
    operands: Vec<TableFactor>,
}

impl Operation {
    /// The operation that a query's body is.
    pub(super) fn of(query: Query) -> Option<Self> {
        let SetExpr::SetOperation { op, set_quantifier, left, right } = *query.body else {
            return None;
        };
        let mut operation = Operation { op, quantifier: set_quantifier, operands: Vec::new() };
        operation.add(*left, set_quantifier);
        operation.add(*right, set_quantifier);
        Some(operation)
    }

    fn add(&mut self, operand: SetExpr, quantifier: SetQuantifier) {
        match operand {
            SetExpr::SetOperation { op, set_quantifier, left, right }
                if is_part((self.op, quantifier), (op, set_quantifier)) =>
            {
                self.add(*left, set_quantifier);
                self.add(*right, set_quantifier);
            }
            other => self.operands.push(TableFactor::Derived {
                lateral: false,
                subquery: Box::new(query_of(other)),
                alias: None,
                sample: None,
            }),
        }
    }

    /// The operation's rows, in the types that its operands have in common.
    pub(super) fn plan(
        self,
        mut plan: impl FnMut(TableFactor) -> Result<LogicalPlan>,
    ) -> Result<LogicalPlan> {
        use SetQuantifier as Q;
        let spans: Vec<_> = self.operands.iter().map(|operand| span_of(operand.span())).collect();
        let plans = self.operands.into_iter().map(&mut plan);
        let mut plans = plans.collect::<Result<Vec<_>>>()?;
        if matches!(self.quantifier, Q::ByName | Q::AllByName | Q::DistinctByName) {
            plans = by_name(plans)?;
        }
        let columns = plans.first().map_or(0, |first| first.schema().fields().len());
        for (plan, span) in plans.iter().zip(spans) {
            let others = plan.schema().fields().len();
            if others != columns {
                let message =
                    format!("one side of {} has {columns} columns, the other {others}", self.op);
                return Err(carry(PlannerError::invalid(message).with_span(span)));
            }
        }
        let union = together(plans)?;
        let all = matches!(self.quantifier, Q::All | Q::AllByName);
        if self.op == SetOperator::Union {
            let union = LogicalPlanBuilder::from(LogicalPlan::Union(union));
            return if all { union.build() } else { union.distinct()?.build() };
        }
        let intersect = self.op == SetOperator::Intersect;
        let mut sides = union.inputs.into_iter().map(Arc::unwrap_or_clone);
        let (Some(left), Some(right)) = (sides.next(), sides.next()) else {
            return datafusion_common::internal_err!("{} has two sides", self.op);
        };
        match (all, intersect) {
            (true, _) => counted(left, right, intersect),
            (false, true) => LogicalPlanBuilder::intersect(left, right, false),
            (false, false) => LogicalPlanBuilder::except(left, right, false),
        }
    }
}

/// The operands with the columns of all, which are NULL where an operand has none of that name.
fn by_name(plans: Vec<LogicalPlan>) -> Result<Vec<LogicalPlan>> {
    let mut names: Vec<String> = Vec::new();
    for field in plans.iter().flat_map(|plan| plan.schema().fields()) {
        if !names.contains(field.name()) {
            names.push(field.name().clone());
        }
    }
    let plans = plans.into_iter().map(|plan| {
        let columns = names.iter().map(|name| {
            let known = plan.schema().has_column_with_unqualified_name(name);
            match known {
                true => Expr::Column(Column::from_name(name)).alias(name),
                false => lit(ScalarValue::Null).alias(name),
            }
        });
        let columns: Vec<Expr> = columns.collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    });
    plans.collect()
}

/// The plan of INTERSECT ALL or EXCEPT ALL.
fn counted(left: LogicalPlan, right: LogicalPlan, intersect: bool) -> Result<LogicalPlan> {
    let columns = left.schema().fields().len();
    let mut seen = HashSet::new();
    let names = left.schema().fields().iter().enumerate().map(|(at, field)| {
        let name = field.name().clone();
        if seen.insert(name.clone()) { name } else { hidden_name(&name, at) }
    });
    let names: Vec<String> = names.collect();
    let (left, right) = (numbered(left)?, numbered(right)?);
    let plan = match intersect {
        true => LogicalPlanBuilder::intersect(left, right, true)?,
        false => LogicalPlanBuilder::except(left, right, true)?,
    };
    let kept: Vec<Column> = plan.schema().columns().into_iter().take(columns).collect();
    let kept = kept.into_iter().zip(names).map(|(column, name)| Expr::Column(column).alias(name));
    LogicalPlanBuilder::from(plan).project(kept)?.build()
}

/// The plan's columns under hidden names, and behind them the number of each row among those that equal it.
fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let hidden = |at: usize| hidden_name("", at);
    let columns = plan.schema().columns().into_iter().enumerate();
    let renamed: Vec<Expr> = columns.map(|(at, c)| Expr::Column(c).alias(hidden(at))).collect();
    let keys: Vec<Expr> =
        (0..renamed.len()).map(|at| Expr::Column(Column::from_name(hidden(at)))).collect();
    let function = WindowFunctionDefinition::WindowUDF(row_number_udwf());
    let number = Expr::from(WindowFunction::new(function, Vec::new()));
    let number = number.partition_by(keys.clone()).build()?;
    let number_column = Expr::Column(Column::from_name(number.schema_name().to_string()));
    LogicalPlanBuilder::from(plan)
        .project(renamed)?
        .window(vec![number])?
        .project(keys.iter().cloned().chain([number_column.alias(hidden(keys.len()))]))?
        .build()
}
