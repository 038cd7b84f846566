//! Temporal joins: `JOIN t FOR SYSTEM_TIME AS OF time ON …`, which looks up the right side as it was at a time.
//!
//! With processing time (PROCTIME() or a column made of it) it is the right side as it is when a left row comes: a join
//! that is marked so (see `looked_up`). Where the right side has no end it is refused, unless a view follows it. With any other time, the rows of
//! the right side are versions: that of a primary key is valid from its event time on until the next one's. The syntax
//! tree marks such joins as it does ASOF joins, and carries the time in a call among the conditions, whose name no user
//! can mean. A table that is read as of a time, but not joined, is left to be refused.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion_common::{Column, DFSchema, JoinType, Result};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::utils::split_conjunction_owned;
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, TableSource};
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart,
    Select, Spanned, TableAlias, TableFactor, TableVersion, TableWithJoins, VisitMut, VisitorMut,
};

use super::asof::{Condition, comparison, conjuncts, is_marked, kind_of, nearest, nest};
use super::looked_up;
use super::translate::carry;
use crate::conversions::PROCTIME;
use crate::error::{PlannerError, Span};
use crate::parse::{ASOF_USING, span_of};
use crate::windows::EventTimes;

/// The alias of a nested join that is a temporal join; no user can mean it.
const TEMPORAL: &str = "\u{1}temporal";

/// The name of the call that carries the time.
const AS_OF: &str = "\u{1}as_of";

/// What tables declare that temporal joins ask for, by the address of their source, which the statement keeps.
#[derive(Debug, Default)]
pub(super) struct Declarations {
    tables: Mutex<HashMap<usize, Declared>>,
}

/// What a table declares.
#[derive(Debug, Clone, Default)]
pub(super) struct Declared {
    /// The places of the columns of its primary key.
    pub(super) primary_key: Vec<usize>,
    /// Whether its rows have no end.
    pub(super) unbounded: bool,
}

impl Declarations {
    /// Takes note of a source.
    pub(super) fn add(&self, source: &Arc<dyn TableSource>, declared: Declared) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.insert(address(source), declared);
    }

    fn of(&self, source: &Arc<dyn TableSource>) -> Option<Declared> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.get(&address(source)).cloned()
    }

    /// Whether any table of a plan has no end.
    fn any_unbounded(&self, plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let view = scan.source.get_logical_plan();
                let below = view.is_some_and(|plan| self.any_unbounded(&plan));
                below || self.of(&scan.source).is_some_and(|declared| declared.unbounded)
            }
            other => other.inputs().into_iter().any(|input| self.any_unbounded(input)),
        }
    }
}

fn address(source: &Arc<dyn TableSource>) -> usize {
    Arc::as_ptr(source).cast::<()>() as usize
}

/// Marks the temporal joins of a tree.
pub(super) fn mark_temporal<T: VisitMut>(tree: &mut T) {
    let ControlFlow::Continue(()) = tree.visit(&mut Mark);
}

struct Mark;

impl VisitorMut for Mark {
    type Break = std::convert::Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        join_looked_up(&mut select.from);
        select.from.iter_mut().for_each(mark);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::NestedJoin { table_with_joins, alias } = factor
            && alias.as_ref().is_none_or(|alias| !is_temporal(alias))
        {
            mark(table_with_joins);
        }
        ControlFlow::Continue(())
    }
}

/// `FROM a, b FOR SYSTEM_TIME AS OF time` is a join without a condition.
fn join_looked_up(from: &mut Vec<TableWithJoins>) {
    let inner = |join: &Join| {
        matches!(
            join.join_operator,
            JoinOperator::Join(_)
                | JoinOperator::Inner(_)
                | JoinOperator::CrossJoin(_)
                | JoinOperator::Left(_)
                | JoinOperator::LeftOuter(_)
        )
    };
    let mut at = 1;
    while at < from.len() {
        if !is_versioned(&from[at].relation) || !from[at].joins.iter().all(inner) {
            at += 1;
            continue;
        }
        let TableWithJoins { relation, joins } = from.remove(at);
        let join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
        let before = &mut from[at - 1].joins;
        before.push(Join { relation, global: false, join_operator });
        before.extend(joins);
    }
}

fn is_versioned(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::Table { version: Some(TableVersion::ForSystemTimeAsOf(_)), .. })
}

fn mark(from: &mut TableWithJoins) {
    let versioned = |join: &Join| {
        let operator = &join.join_operator;
        is_versioned(&join.relation) && !join.global && constraint_of(operator).is_some()
    };
    let places: Vec<usize> =
        (0..from.joins.len()).filter(|at| versioned(&from.joins[*at])).collect();
    if places.is_empty() {
        return;
    }
    nest(from, TEMPORAL, versioned);
    carry_times(from);
}

/// Takes the times from the tables of marked joins into their conditions.
fn carry_times(from: &mut TableWithJoins) {
    let TableFactor::NestedJoin { table_with_joins, alias } = &mut from.relation else { return };
    if let (Some(alias), [join]) = (alias, table_with_joins.joins.as_mut_slice())
        && is_temporal(alias)
        && let TableFactor::Table { version, .. } = &mut join.relation
        && let Some(TableVersion::ForSystemTimeAsOf(time)) = version.take()
        && let Some(constraint) = constraint_of_mut(&mut join.join_operator)
    {
        *constraint = with_time(std::mem::replace(constraint, JoinConstraint::None), time);
    }
    carry_times(table_with_joins);
}

fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(c)
        | JoinOperator::Inner(c)
        | JoinOperator::CrossJoin(c)
        | JoinOperator::Left(c)
        | JoinOperator::LeftOuter(c)
        | JoinOperator::Right(c)
        | JoinOperator::RightOuter(c)
        | JoinOperator::FullOuter(c) => Some(c),
        _ => None,
    }
}

fn constraint_of_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(c)
        | JoinOperator::Inner(c)
        | JoinOperator::CrossJoin(c)
        | JoinOperator::Left(c)
        | JoinOperator::LeftOuter(c)
        | JoinOperator::Right(c)
        | JoinOperator::RightOuter(c)
        | JoinOperator::FullOuter(c) => Some(c),
        _ => None,
    }
}

/// The constraint as a condition, with the time.
fn with_time(constraint: JoinConstraint, time: SqlExpr) -> JoinConstraint {
    let time = call(AS_OF, vec![time]);
    let condition = match constraint {
        JoinConstraint::On(condition) => SqlExpr::Nested(Box::new(condition)),
        JoinConstraint::Using(names) => {
            let columns = names.iter().filter_map(|name| name.0.last()?.as_ident().cloned());
            call(ASOF_USING, columns.map(SqlExpr::Identifier).collect())
        }
        JoinConstraint::Natural | JoinConstraint::None => return JoinConstraint::On(time),
    };
    let (left, right) = (Box::new(condition), Box::new(time));
    JoinConstraint::On(SqlExpr::BinaryOp { left, op: BinaryOperator::And, right })
}

fn call(name: &str, args: Vec<SqlExpr>) -> SqlExpr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    SqlExpr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Whether an alias is the mark.
pub(super) fn is_temporal(alias: &TableAlias) -> bool {
    is_marked(alias, TEMPORAL)
}

/// The plan of a marked join.
pub(super) fn plan_temporal(
    nested: TableWithJoins,
    declarations: &Declarations,
    event_times: &EventTimes,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let TableWithJoins { relation, joins } = nested;
    let Ok([join]) = <[Join; 1]>::try_from(joins) else {
        return datafusion_common::internal_err!("a temporal join has two sides");
    };
    let (kind, constraint) = kind_of(&join, "a join with FOR SYSTEM_TIME AS OF")?;
    let left = context.plan(relation)?;
    let span = span_of(join.relation.span());
    let right = context.plan(join.relation)?;
    let JoinConstraint::On(condition) = constraint else {
        return datafusion_common::internal_err!("a temporal join has lost its time");
    };
    let (time, conditions) = time_and_conditions(condition, &left, &right, context)?;
    if is_processing_time(&time, &left) {
        return lookup(left, right, kind, conditions, declarations, span);
    }
    let sides = Sides { left, right, kind, span };
    sides.versions(time, conditions, declarations, event_times)
}

/// The time that a condition carries, and the conditions.
fn time_and_conditions(
    condition: SqlExpr,
    left: &LogicalPlan,
    right: &LogicalPlan,
    context: &mut dyn RelationPlannerContext,
) -> Result<(Expr, Vec<Expr>)> {
    let schema = left.schema().join(right.schema())?;
    let (mut time, mut conditions) = (None, Vec::new());
    let mut parts = Vec::new();
    conjuncts(condition, &mut parts);
    for part in parts {
        if let Some(args) = argument(&part, AS_OF) {
            for arg in args {
                time = Some(context.sql_to_expr(arg, left.schema())?);
            }
        } else if let Some(columns) = argument(&part, ASOF_USING) {
            for column in columns {
                let l = context.sql_to_expr(column.clone(), left.schema())?;
                conditions.push(l.eq(context.sql_to_expr(column, right.schema())?));
            }
        } else {
            let expr = context.sql_to_expr(part, &schema)?;
            conditions.extend(split_conjunction_owned(expr));
        }
    }
    match time {
        Some(time) => Ok((time, conditions)),
        None => datafusion_common::internal_err!("a temporal join has lost its time"),
    }
}

/// The arguments of a call of one of the names that no user can mean.
fn argument(expr: &SqlExpr, called: &str) -> Option<Vec<SqlExpr>> {
    let SqlExpr::Function(function) = expr else { return None };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    if name.value != called {
        return None;
    }
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(arg).collect()
}

/// Whether an expression over a plan is PROCTIME(), perhaps under the name of a column.
fn is_processing_time(expr: &Expr, plan: &LogicalPlan) -> bool {
    match expr {
        Expr::Alias(alias) => is_processing_time(&alias.expr, plan),
        Expr::Cast(cast) => is_processing_time(&cast.expr, plan),
        Expr::ScalarFunction(call) => call.func.name() == PROCTIME,
        Expr::Column(column) => {
            let at = plan.schema().maybe_index_of_column(column);
            at.is_some_and(|at| column_is_processing_time(at, plan))
        }
        _ => false,
    }
}

fn column_is_processing_time(at: usize, plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => {
            node.expr.get(at).is_some_and(|expr| is_processing_time(expr, &node.input))
        }
        LogicalPlan::SubqueryAlias(node) => column_is_processing_time(at, &node.input),
        LogicalPlan::TableScan(scan) => {
            let at = scan.projection.as_ref().map_or(Some(at), |read| read.get(at).copied());
            let view = scan.source.get_logical_plan();
            at.zip(view).is_some_and(|(at, plan)| column_is_processing_time(at, &plan))
        }
        other => {
            let column = Expr::Column(Column::from(other.schema().qualified_field(at)));
            other.inputs().into_iter().any(|input| is_processing_time(&column, input))
        }
    }
}

/// The join with the right side as it is.
fn lookup(
    left: LogicalPlan,
    right: LogicalPlan,
    kind: JoinType,
    conditions: Vec<Expr>,
    declarations: &Declarations,
    span: Option<Span>,
) -> Result<LogicalPlan> {
    if declarations.any_unbounded(&right) {
        let error = PlannerError::not_supported("a lookup in a table without an end")
            .with_hint("join with an event time, FOR SYSTEM_TIME AS OF a column with a watermark, or leave FOR SYSTEM_TIME out to have results that change".to_string());
        return Err(carry(error.with_span(span)));
    }
    let first_of = |plan: &LogicalPlan| {
        let used = conditions.iter().flat_map(Expr::column_refs);
        let mut used = used.filter(|column| plan.schema().has_column(column));
        used.next().cloned().or_else(|| plan.schema().columns().into_iter().next())
    };
    let columns = first_of(&left).zip(first_of(&right));
    let mark = columns.map(|(l, r)| looked_up::mark(Expr::Column(l), Expr::Column(r)));
    let conditions: Vec<Expr> = conditions.into_iter().chain(mark).collect();
    LogicalPlanBuilder::from(left).join_on(right, kind, conditions)?.build()
}

/// A join with versions.
struct Sides {
    left: LogicalPlan,
    right: LogicalPlan,
    kind: JoinType,
    span: Option<Span>,
}

impl Sides {
    fn refused(&self, message: &str, hint: &str) -> datafusion_common::DataFusionError {
        let error = PlannerError::invalid(message).with_hint(hint.to_string());
        carry(error.with_span(self.span))
    }

    /// The join with the version that is valid at a time.
    fn versions(
        self,
        time: Expr,
        conditions: Vec<Expr>,
        declarations: &Declarations,
        event_times: &EventTimes,
    ) -> Result<LogicalPlan> {
        let columns = self.right.schema().columns();
        let keys: Vec<Column> =
            self.primary_key(declarations).into_iter().map(|at| columns[at].clone()).collect();
        if keys.is_empty() {
            return Err(self.refused(
                "FOR SYSTEM_TIME AS OF needs a table with a primary key, which tells the versions of a row",
                "declare PRIMARY KEY (…) NOT ENFORCED for the right table, or write ASOF JOIN",
            ));
        }
        let [version_time] = event_times.of(&self.right)[..] else {
            return Err(self.refused(
                "FOR SYSTEM_TIME AS OF needs a table with an event time, from which on a version is valid",
                "declare WATERMARK FOR a column of the right table, write ASOF JOIN, or use PROCTIME()",
            ));
        };
        let (mut by_key, mut rest): (Vec<Condition>, Vec<Expr>) = Default::default();
        for condition in conditions {
            match comparison(condition.clone(), self.left.schema(), self.right.schema()) {
                Some((l, Operator::Eq, Expr::Column(key))) if keys.contains(&key) => {
                    by_key.push((l, Operator::Eq, Expr::Column(key)));
                }
                _ => rest.push(condition),
            }
        }
        let compared = |key: &Column| {
            by_key
                .iter()
                .any(|(_, _, right)| matches!(right, Expr::Column(column) if column == key))
        };
        if !keys.iter().all(compared) {
            return Err(self.refused(
                "a join with FOR SYSTEM_TIME AS OF compares the whole primary key of its right table for equality",
                "add the missing columns of the key to ON",
            ));
        }
        if !of_side(&time, self.left.schema()) {
            return Err(self.refused(
                "the time of FOR SYSTEM_TIME AS OF is a column of the left side",
                "name the left table's column that tells when its rows happened",
            ));
        }
        let valid_from = Expr::Column(columns[version_time].clone());
        let time = (time, Operator::GtEq, valid_from);
        nearest(self.left, self.right, self.kind, &by_key, time, rest)
    }

    /// The places of the columns of the primary key, if the right side is a table.
    fn primary_key(&self, declarations: &Declarations) -> Vec<usize> {
        let mut plan = &self.right;
        while let LogicalPlan::SubqueryAlias(alias) = plan {
            plan = &alias.input;
        }
        match plan {
            LogicalPlan::TableScan(scan) if scan.projection.is_none() => {
                declarations.of(&scan.source).unwrap_or_default().primary_key
            }
            _ => Vec::new(),
        }
    }
}

fn of_side(expr: &Expr, schema: &DFSchema) -> bool {
    let columns = expr.column_refs();
    !columns.is_empty() && columns.iter().all(|column| schema.has_column(column))
}
