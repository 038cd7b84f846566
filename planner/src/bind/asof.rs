//! ASOF joins: each left row gets the one right row of its keys that is nearest in time.
//!
//! The syntax tree marks such a join, and all that stands before it in FROM, by the alias of a nested join, which
//! `relation` recognises. The plan has plain operators only: of the right rows of the same keys and time one is kept (the
//! first by the primary key, then by all columns), each learns the time of the next one, and a join finds the row whose
//! time fits while that of the next one does not. So a result does not depend on the order in which rows arrive, and
//! changes in the right rows change it.

use std::ops::ControlFlow;

use datafusion_common::{Column, DFSchema, DFSchemaRef, JoinType, Result};
use datafusion_expr::expr::{Sort, WindowFunction, WindowFunctionDefinition};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::utils::split_conjunction_owned;
use datafusion_expr::{
    BinaryExpr, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit,
    not,
};
use datafusion_functions_window::lead_lag::lead_udwf;
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join,
    JoinConstraint, JoinOperator, ObjectNamePart, Select, Spanned, TableAlias, TableFactor,
    TableWithJoins, VisitMut, VisitorMut,
};

use super::outputs::hidden_name;
use super::translate::carry;
use crate::error::PlannerError;
use crate::parse::{ASOF_USING, span_of};
use crate::windows::PlanFunction;

/// The alias of a nested join that is an ASOF join; no user can mean it.
const ASOF: &str = "\u{1}asof";

/// Marks the ASOF joins of a tree.
pub(super) fn mark_asof<T: VisitMut>(tree: &mut T) {
    let ControlFlow::Continue(()) = tree.visit(&mut Mark);
}

struct Mark;

impl VisitorMut for Mark {
    type Break = std::convert::Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        select.from.iter_mut().for_each(|from| nest(from, ASOF, |join| join.global));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::NestedJoin { table_with_joins, alias } = factor
            && alias.as_ref().is_none_or(|alias| !is_marked(alias, ASOF))
        {
            nest(table_with_joins, ASOF, |join| join.global);
        }
        ControlFlow::Continue(())
    }
}

/// Whether an alias is the mark.
pub(super) fn is_asof(alias: &TableAlias) -> bool {
    is_marked(alias, ASOF)
}

pub(super) fn is_marked(alias: &TableAlias, mark: &str) -> bool {
    alias.name.value == mark
}

/// Puts each join that is wanted, with all before it, into a nested join with the mark.
pub(super) fn nest(from: &mut TableWithJoins, mark: &str, wanted: impl Fn(&Join) -> bool) {
    let Some(last) = from.joins.iter().rposition(&wanted) else { return };
    let after = from.joins.split_off(last + 1);
    let Some(join) = from.joins.pop() else { return };
    nest(from, mark, wanted);
    let nothing = TableFactor::NestedJoin {
        table_with_joins: Box::new(TableWithJoins { relation: no_table(), joins: Vec::new() }),
        alias: None,
    };
    let relation = std::mem::replace(&mut from.relation, nothing);
    let joins = std::mem::take(&mut from.joins);
    let left = match joins.is_empty() {
        true => relation,
        false => TableFactor::NestedJoin {
            table_with_joins: Box::new(TableWithJoins { relation, joins }),
            alias: None,
        },
    };
    let join = Join { global: false, ..join };
    from.relation = TableFactor::NestedJoin {
        table_with_joins: Box::new(TableWithJoins { relation: left, joins: vec![join] }),
        alias: Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', mark),
            columns: Vec::new(),
            at: None,
        }),
    };
    from.joins = after;
}

fn no_table() -> TableFactor {
    TableFactor::UNNEST {
        alias: None,
        array_exprs: Vec::new(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}

/// The kind of a join that a marked one may have, and its constraint.
pub(super) fn kind_of(join: &Join, what: &str) -> Result<(JoinType, JoinConstraint)> {
    match &join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::CrossJoin(constraint) => Ok((JoinType::Inner, constraint.clone())),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
            Ok((JoinType::Left, constraint.clone()))
        }
        _ => Err(refused(format!("{what} is an inner or a LEFT join"), join)),
    }
}

fn refused(message: String, join: &Join) -> datafusion_common::DataFusionError {
    let error = PlannerError::invalid(message).with_span(span_of(join.relation.span()));
    carry(error)
}

/// The plan of a marked join.
pub(super) fn plan_asof(
    nested: TableWithJoins,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let TableWithJoins { relation, joins } = nested;
    let Ok([join]) = <[Join; 1]>::try_from(joins) else {
        return datafusion_common::internal_err!("an ASOF join has two sides");
    };
    let (kind, constraint) = kind_of(&join, "an ASOF join")?;
    let left = context.plan(relation)?;
    let right = context.plan(join.relation.clone())?;
    let mut using = Vec::new();
    let mut conditions = match constraint {
        JoinConstraint::On(condition) => {
            on_conditions(condition, &left, &right, &mut using, context)?
        }
        JoinConstraint::Using(names) => {
            let names = names.iter().filter_map(|name| name.0.last()?.as_ident().cloned());
            using.extend(names);
            using_conditions(&using, &left, &right, true, context)?
        }
        JoinConstraint::Natural | JoinConstraint::None => Vec::new(),
    };
    let times: Vec<usize> =
        (0..conditions.len()).filter(|&at| conditions[at].1 != Operator::Eq).collect();
    let [time] = times.as_slice() else {
        let message = format!(
            "an ASOF join has one comparison of times by >=, >, <= or <, and this one has {}",
            times.len()
        );
        let error = PlannerError::invalid(message)
            .with_hint("write ON a.k = b.k AND a.t >= b.t".to_string())
            .with_span(span_of(join.relation.span()));
        return Err(carry(error));
    };
    let time = conditions.remove(*time);
    nearest(left, right, kind, &conditions, time, Vec::new())
}

/// A condition: an expression over the left side, how it compares, and one over the right side.
pub(super) type Condition = (Expr, Operator, Expr);

fn on_conditions(
    condition: SqlExpr,
    left: &LogicalPlan,
    right: &LogicalPlan,
    using: &mut Vec<Ident>,
    context: &mut dyn RelationPlannerContext,
) -> Result<Vec<Condition>> {
    let mut parts = Vec::new();
    conjuncts(condition, &mut parts);
    let schema = left.schema().join(right.schema())?;
    let mut conditions = Vec::new();
    for part in parts {
        if let Some(names) = using_call(&part) {
            conditions.extend(using_conditions(&names, left, right, false, context)?);
            using.extend(names);
            continue;
        }
        let span = span_of(part.span());
        let text = part.to_string();
        for expr in split_conjunction_owned(context.sql_to_expr(part, &schema)?) {
            let found = comparison(expr, left.schema(), right.schema());
            conditions.push(found.ok_or_else(|| {
                let message = format!("a condition of an ASOF join compares a value of its left side with one of its right side, and {text} does not");
                let hint = "put other conditions into a subquery or into WHERE";
                let error = PlannerError::invalid(message).with_hint(hint.to_string());
                carry(error.with_span(span))
            })?);
        }
    }
    Ok(conditions)
}

/// The parts of a condition that are connected by AND.
pub(super) fn conjuncts(condition: SqlExpr, parts: &mut Vec<SqlExpr>) {
    match condition {
        SqlExpr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, parts);
            conjuncts(*right, parts);
        }
        SqlExpr::Nested(inner) => conjuncts(*inner, parts),
        other => parts.push(other),
    }
}

/// The columns of the call that stands for USING.
fn using_call(expr: &SqlExpr) -> Option<Vec<Ident>> {
    let SqlExpr::Function(function) = expr else { return None };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let column = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Identifier(ident))) => {
            Some(ident.clone())
        }
        _ => None,
    };
    if name.value != ASOF_USING { None } else { list.args.iter().map(column).collect() }
}

/// The comparisons of columns of the same names; the last may be that of times.
fn using_conditions(
    names: &[Ident],
    left: &LogicalPlan,
    right: &LogicalPlan,
    time_last: bool,
    context: &mut dyn RelationPlannerContext,
) -> Result<Vec<Condition>> {
    let last = names.len().saturating_sub(1);
    let conditions = names.iter().enumerate().map(|(at, name)| {
        let mut side = |plan: &LogicalPlan| {
            context.sql_to_expr(SqlExpr::Identifier(name.clone()), plan.schema())
        };
        let (l, r) = (side(left)?, side(right)?);
        let op = if time_last && at == last { Operator::GtEq } else { Operator::Eq };
        Ok((l, op, r))
    });
    conditions.collect()
}

/// A comparison of the sides, the left one first.
pub(super) fn comparison(expr: Expr, left: &DFSchema, right: &DFSchema) -> Option<Condition> {
    use Operator as O;
    let Expr::BinaryExpr(BinaryExpr { left: a, op, right: b }) = expr else { return None };
    if !matches!(op, O::Eq | O::Lt | O::LtEq | O::Gt | O::GtEq) {
        return None;
    }
    let of = |expr: &Expr, schema: &DFSchema| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.iter().all(|column| schema.has_column(column))
    };
    if of(&a, left) && of(&b, right) {
        Some((*a, op, *b))
    } else if of(&b, left) && of(&a, right) {
        Some((*b, op.swap()?, *a))
    } else {
        None
    }
}

/// The join with the right row that is nearest in time, if that one passes the other conditions.
pub(super) fn nearest(
    left: LogicalPlan,
    right: LogicalPlan,
    kind: JoinType,
    keys: &[Condition],
    (left_time, op, right_time): Condition,
    others: Vec<Expr>,
) -> Result<LogicalPlan> {
    let outputs: Vec<Expr> = left
        .schema()
        .columns()
        .into_iter()
        .chain(right.schema().columns())
        .map(Expr::Column)
        .collect();
    let key_exprs: Vec<Expr> = keys.iter().map(|(_, _, right)| right.clone()).collect();
    // The next row is the one that would be nearer.
    let later = matches!(op, Operator::Gt | Operator::GtEq);
    let (right, next) = with_next(right, &key_exprs, &right_time, later)?;
    let fits = |time: Expr| binary_expr(left_time.clone(), op, time);
    let mut conditions: Vec<Expr> =
        keys.iter().map(|(l, op, r)| binary_expr(l.clone(), *op, r.clone())).collect();
    conditions.push(fits(right_time));
    conditions.push(next.clone().is_null().or(not(fits(next))));
    conditions.extend(others);
    LogicalPlanBuilder::from(left).join_on(right, kind, conditions)?.project(outputs)?.build()
}

/// The right side, one row for each key and time, and the column in which each has the time of the next one.
fn with_next(
    right: LogicalPlan,
    keys: &[Expr],
    time: &Expr,
    later: bool,
) -> Result<(LogicalPlan, Expr)> {
    let columns: Vec<Expr> = right.schema().columns().into_iter().map(Expr::Column).collect();
    let moment: Vec<Expr> = keys.iter().chain([time]).cloned().collect();
    // Rows that come late are nearer to others, too: they are not waited for, but change results.
    let function = WindowFunctionDefinition::WindowUDF(PlanFunction::NumberAtOnce.function());
    let number = Expr::from(WindowFunction::new(function, Vec::new()))
        .partition_by(moment)
        .order_by(order_of_equals(right.schema()))
        .build()?;
    let number_name = number.schema_name().to_string();
    let first = Expr::Column(Column::from_name(number_name)).eq(lit(1_u64));
    let firsts = LogicalPlanBuilder::from(right)
        .filter(time.clone().is_not_null())?
        .window(vec![number])?
        .filter(first)?
        .project(columns.clone())?;
    let function = WindowFunctionDefinition::WindowUDF(lead_udwf());
    let next = Expr::from(WindowFunction::new(function, vec![time.clone()]))
        .partition_by(keys.to_vec())
        .order_by(vec![time.clone().sort(later, false)])
        .build()?;
    let next_name = next.schema_name().to_string();
    let hidden = hidden_name("next", columns.len());
    let next_column = Expr::Column(Column::from_name(next_name)).alias(hidden.clone());
    let plan = firsts.window(vec![next])?.project(columns.into_iter().chain([next_column]))?;
    Ok((plan.build()?, Expr::Column(Column::from_name(hidden))))
}

/// The order of rows that have the same time: by the primary key, then by all columns that have an order.
fn order_of_equals(schema: &DFSchemaRef) -> Vec<Sort> {
    let keys = schema.functional_dependencies().iter().next();
    let keys = keys.map(|key| key.source_indices.clone()).unwrap_or_default();
    let ordered = |at: &usize| !schema.field(*at).data_type().is_nested();
    let rest = (0..schema.fields().len()).filter(|at| !keys.contains(at));
    let places = keys.iter().copied().chain(rest).filter(ordered);
    let columns = schema.columns();
    places.map(|at| Expr::Column(columns[at].clone()).sort(true, false)).collect()
}
