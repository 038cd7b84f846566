//! INTERSECT ALL and EXCEPT ALL, which count: a row that is there `m` times on the left and `n` times on the right comes
//! out `min(m, n)` or `max(m - n, 0)` times.
//!
//! The library makes plain semi and anti joins of both. Here equal rows are numbered on each side, so that no two rows
//! of a side are equal any more, and the numbers are compared with the columns. The syntax tree marks the operations by
//! the alias of a derived table, which `relation` recognises and has planned by [`counted`].

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_common::{Column, Result};
use datafusion_expr::expr::{WindowFunction, WindowFunctionDefinition};
use datafusion_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder};
use datafusion_functions_window::row_number::row_number_udwf;
use datafusion_sql::sqlparser::ast::{
    Ident, Query, SetExpr, SetOperator, SetQuantifier, TableAlias, TableFactor, Values, VisitMut,
    VisitorMut,
};

use super::cte::{query_of, select_all};
use super::outputs::hidden_name;

/// The alias of a derived table that is a set operation which counts; no user can mean it.
const COUNTED: &str = "\u{1}counted";

/// Marks all INTERSECT ALL and EXCEPT ALL of a tree.
pub(super) fn mark_counted<T: VisitMut>(tree: &mut T) {
    let ControlFlow::Continue(()) = tree.visit(&mut Mark);
}

/// Whether an alias marks a set operation that counts.
pub(super) fn is_counted(alias: &TableAlias) -> bool {
    alias.name.value == COUNTED
}

struct Mark;

impl VisitorMut for Mark {
    type Break = std::convert::Infallible;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        mark_body(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn mark_body(body: &mut SetExpr) {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return };
    mark_body(left);
    mark_body(right);
    if *op == SetOperator::Union || *set_quantifier != SetQuantifier::All {
        return;
    }
    let nothing =
        SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: vec![] });
    let operation = std::mem::replace(body, nothing);
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', COUNTED),
        columns: Vec::new(),
        at: None,
    };
    let counted = select_all(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query_of(operation)),
        alias: Some(alias),
        sample: None,
    });
    *body = *counted.body;
}

/// The two sides of a set operation as derived tables, and whether it is INTERSECT.
pub(super) fn sides(query: Query) -> Option<(TableFactor, TableFactor, bool)> {
    let SetExpr::SetOperation { op, left, right, .. } = *query.body else { return None };
    let derived = |body: SetExpr| TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query_of(body)),
        alias: None,
        sample: None,
    };
    Some((derived(*left), derived(*right), op == SetOperator::Intersect))
}

/// The plan of INTERSECT ALL or EXCEPT ALL.
pub(super) fn counted(
    left: LogicalPlan,
    right: LogicalPlan,
    intersect: bool,
) -> Result<LogicalPlan> {
    let (columns, others) = (left.schema().fields().len(), right.schema().fields().len());
    if columns != others {
        let name = if intersect { "INTERSECT" } else { "EXCEPT" };
        return datafusion_common::plan_err!(
            "the left side of {name} has {columns} columns, the right side {others}"
        );
    }
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
