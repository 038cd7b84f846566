//! Refuses syntax trees that are too deep or too wide to be planned.
//!
//! Long chains (`a + b + …`, `UNION ALL … UNION ALL …`) are read by loops, so that the parser's own limit does not see
//! them; but every later pass recurses along them, on stacks that are not ours. Chains of AND and OR do not count: they
//! are balanced here.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, Statement as SqlStatement, TableFactor, Value, Visit,
    VisitMut, Visitor, VisitorMut,
};

use super::materialized::{Materialized, PutBack};
use super::sinks::SinkSource;
use super::{Ast, CopySource, DescribeAst, TableColumns};
use crate::error::{PlannerError, Result};

/// How deep an expression may be.
const MAX_EXPRESSION_DEPTH: usize = 1_000;
/// How many relations, set operands included, a statement may name.
const MAX_RELATIONS: usize = 1_000;

/// Chains of fewer terms stay as they are.
const MIN_BALANCED: usize = 64;

/// Completes a tree: puts MATERIALIZED back, balances chains of AND and OR; fails for statements that are too deep or name too many relations.
pub(super) fn check(ast: &mut Ast, hints: &Materialized) -> Result<()> {
    match ast {
        Ast::Query(query) => check_tree(query.as_mut(), hints),
        Ast::Explain { inner, .. } => check(inner, hints),
        Ast::Copy(copy) => match &mut copy.source {
            CopySource::Query(query) => check_tree(query.as_mut(), hints),
            CopySource::Table(_) | CopySource::File { .. } => Ok(()),
        },
        Ast::Describe(DescribeAst::Query(query)) => check_tree(query.as_mut(), hints),
        Ast::Sql(statement) => check_tree::<SqlStatement>(statement.as_mut(), hints),
        Ast::CreateTable { create, columns } => {
            check_tree(create.as_mut(), hints)?;
            check_columns(columns, hints)
        }
        Ast::ExternalTable(table) => check_columns(&mut table.declared, hints),
        Ast::StatementSet(inserts) => {
            inserts.iter_mut().try_for_each(|insert| check(insert, hints))
        }
        Ast::CreateSink(sink) => match &mut sink.source {
            SinkSource::Query(query) => check_tree(query.as_mut(), hints),
            SinkSource::Table(_) => Ok(()),
        },
        Ast::Describe(DescribeAst::Table(_) | DescribeAst::Job(_))
        | Ast::Table(_)
        | Ast::Set { .. }
        | Ast::Reset { .. }
        | Ast::Show(_)
        | Ast::Flush
        | Ast::StopJob(_)
        | Ast::DropSink { .. }
        | Ast::Rename { .. } => Ok(()),
    }
}

fn check_columns(columns: &mut TableColumns, hints: &Materialized) -> Result<()> {
    let computed = columns.computed.iter_mut().map(|column| &mut column.expr);
    let watermark = columns.watermark.iter_mut().map(|watermark| &mut watermark.expr);
    computed.chain(watermark).try_for_each(|expr| check_tree(expr, hints))
}

fn check_tree<T: Visit + VisitMut>(tree: &mut T, hints: &Materialized) -> Result<()> {
    let ControlFlow::Continue(()) = VisitMut::visit(tree, &mut PutBack(hints));
    let ControlFlow::Continue(()) = VisitMut::visit(tree, &mut Balance);
    match Visit::visit(tree, &mut Depth::default()) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

#[derive(Default)]
struct Depth {
    depth: usize,
    relations: usize,
}

impl Visitor for Depth {
    type Break = PlannerError;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<PlannerError> {
        self.depth += usize::from(!balanced(expr));
        if self.depth > MAX_EXPRESSION_DEPTH {
            return ControlFlow::Break(
                PlannerError::invalid("the expression is nested too deeply").with_detail(format!(
                    "At most {MAX_EXPRESSION_DEPTH} operators may be chained or nested."
                )),
            );
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<PlannerError> {
        self.depth -= usize::from(!balanced(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<PlannerError> {
        let mut operands = 0;
        let mut body = query.body.as_ref();
        while let SetExpr::SetOperation { left, .. } = body {
            operands += 1;
            body = left;
        }
        self.count(operands)
    }

    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<PlannerError> {
        self.count(1)
    }
}

impl Depth {
    fn count(&mut self, relations: usize) -> ControlFlow<PlannerError> {
        self.relations += relations;
        if self.relations > MAX_RELATIONS {
            return ControlFlow::Break(
                PlannerError::invalid("the statement names too many relations").with_detail(
                    format!(
                        "At most {MAX_RELATIONS} tables, subqueries and set operands are allowed."
                    ),
                ),
            );
        }
        ControlFlow::Continue(())
    }
}

fn balanced(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. })
}

struct Balance;

impl VisitorMut for Balance {
    type Break = std::convert::Infallible;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            if chain_length(expr, &op) >= MIN_BALANCED {
                let mut terms = Vec::new();
                flatten(std::mem::replace(expr, Expr::value(Value::Null)), &op, &mut terms);
                if let Some(balanced) = join(terms, &op) {
                    *expr = balanced;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The terms of a chain along its left side.
fn chain_length(mut expr: &Expr, wanted: &BinaryOperator) -> usize {
    let mut length = 1;
    while let Expr::BinaryOp { left, op, .. } = expr {
        if op != wanted {
            break;
        }
        length += 1;
        expr = left;
    }
    length
}

/// Takes a chain apart, first term first, without recursion along its left side.
fn flatten(mut expr: Expr, wanted: &BinaryOperator, terms: &mut Vec<Expr>) {
    loop {
        match expr {
            Expr::BinaryOp { left, op, right } if op == *wanted => {
                terms.push(*right);
                expr = *left;
            }
            last => {
                terms.push(last);
                break;
            }
        }
    }
    terms.reverse();
}

/// A balanced tree of the terms in their order; `None` for no terms.
fn join(terms: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    let mut level = terms;
    while level.len() > 1 {
        let mut next = Vec::with_capacity(level.len().div_ceil(2));
        let mut pairs = level.into_iter();
        while let Some(left) = pairs.next() {
            next.push(match pairs.next() {
                Some(right) => {
                    Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }
                }
                None => left,
            });
        }
        level = next;
    }
    level.pop()
}
