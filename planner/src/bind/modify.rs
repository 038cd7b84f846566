//! DELETE and UPDATE: each becomes a query for the rows that the table is to have afterwards.
//!
//! Invariant: the query reads the table once, so that every row is judged once, volatile conditions included. What
//! would need rows of other tables to be matched more than once (UPDATE … FROM) is refused.

use datafusion_common::Column;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, TableSource, when};
use datafusion_sql::planner::PlannerContext;
use datafusion_sql::sqlparser::ast::{
    self, AssignmentTarget, FromTable, Ident, ObjectName, Query, Select, SelectItem, SetExpr,
    Spanned, TableFactor, TableWithJoins, Value,
};

use super::computed::{refuse_written, without_computed};
use super::cte::{select_all, select_all_from};
use super::names::{normalized, span_of_name, table_name};
use super::sources::ViewSource;
use super::statements::{Context, ours};
use crate::catalog::TableName;
use crate::error::{PlannerError, Result};
use crate::parse::span_of;
use crate::statement::{Modification, Modify, Statement};
use crate::suggest::did_you_mean;

/// Names of columns that no user can mean: whether a row is changed, the new values, and what is returned.
const CHANGED: &str = "\u{1}changed";
const VALUE: &str = "\u{1}value";
const RETURNED: &str = "\u{1}returned";

/// The one table a statement changes.
struct Target {
    factor: TableFactor,
    /// What its columns are qualified with in the statement.
    alias: Ident,
    table: TableName,
    source: std::sync::Arc<dyn TableSource>,
    /// The positions of its computed columns, which no statement writes.
    computed: Vec<usize>,
}

impl Context<'_> {
    /// `DELETE FROM t [USING …] [WHERE …]`: the rows that stay.
    pub(super) fn delete(&self, delete: &ast::Delete) -> Result<Statement> {
        let span = span_of(delete.delete_token.0.span);
        let refused = !delete.tables.is_empty()
            || delete.returning.is_some()
            || delete.output.is_some()
            || !delete.order_by.is_empty()
            || delete.limit.is_some();
        if refused {
            let error =
                PlannerError::not_supported("RETURNING, ORDER BY, LIMIT or a list in DELETE");
            return Err(error.with_span(span));
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let target = self.target(from, "DELETE")?;
        let condition = delete.selection.clone().unwrap_or_else(truth);
        let stays = match &delete.using {
            None => ast::Expr::IsNotTrue(Box::new(ast::Expr::Nested(Box::new(condition)))),
            Some(using) => ast::Expr::Exists {
                subquery: Box::new(matching(using.clone(), condition)?),
                negated: true,
            },
        };
        let mut query = select_all(target.factor.clone());
        select_of(&mut query)?.selection = Some(stays);
        let binder = self.binder();
        let plan = binder.bind(binder.prepare(query, self.parameters)?)?;
        let Target { table, source, computed, .. } = target;
        let input = binder.finish(without_computed(plan, &computed)?)?;
        let returned = Vec::new();
        Ok(Statement::Modify(Modify { table, source, kind: Modification::Delete, input, returned }))
    }

    /// `UPDATE t SET c = value, … [WHERE …]`: all rows, the changed ones with their new values.
    pub(super) fn update(&self, update: &ast::Update) -> Result<Statement> {
        let span = span_of(update.update_token.0.span);
        let refused = [
            (update.from.is_some(), "UPDATE … FROM"),
            (update.output.is_some(), "OUTPUT in UPDATE"),
            (
                update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some(),
                "ORDER BY, LIMIT or OR in UPDATE",
            ),
        ];
        if let Some((_, what)) = refused.iter().find(|(there, _)| *there) {
            let error = PlannerError::not_supported(what).with_span(span);
            return Err(
                error.with_hint("a subquery as the new value can read another table".to_string())
            );
        }
        let target = self.target(std::slice::from_ref(&update.table), "UPDATE")?;
        let assigned = self.assignments(update, &target)?;
        let query = with_new_values(&target, update.selection.clone(), &assigned)?;
        let binder = self.binder();
        let plan = binder.bind(binder.prepare(query, self.parameters)?)?;
        let columns: Vec<usize> = assigned.iter().map(|(at, _)| *at).collect();
        let plan = ours(merged(binder.coerced(plan)?, &target, &columns))?;
        let (plan, returned) = match &update.returning {
            None => (plan, Vec::new()),
            Some(items) => self.with_returned(plan, items, &target)?,
        };
        let Target { table, source, .. } = target;
        let input = binder.finish(plan)?;
        Ok(Statement::Modify(Modify { table, source, kind: Modification::Update, input, returned }))
    }

    /// The plan of [`merged`] with the values of RETURNING behind it, and their names.
    fn with_returned(
        &self,
        plan: LogicalPlan,
        items: &[SelectItem],
        target: &Target,
    ) -> Result<(LogicalPlan, Vec<String>)> {
        let binder = self.binder();
        let plan = ours(LogicalPlanBuilder::from(plan).alias(normalized(&target.alias)))?;
        let plan = ours(plan.build())?;
        let columns = plan.schema().columns();
        let mut exprs: Vec<Expr> = columns.iter().cloned().map(Expr::Column).collect();
        let mut names = Vec::new();
        let mut add = |expr: Expr, name: String| {
            exprs.push(expr.alias(format!("{RETURNED}{}", names.len())));
            names.push(name);
        };
        for item in items {
            let (written, alias) = match item {
                SelectItem::UnnamedExpr(expr) => (expr, None),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(normalized(alias))),
                SelectItem::Wildcard(_) => {
                    for column in &columns[..columns.len() - 1] {
                        add(Expr::Column(column.clone()), column.name.clone());
                    }
                    continue;
                }
                other => {
                    let what = format!("{other} in RETURNING");
                    return Err(PlannerError::not_supported(what).with_span(span_of(other.span())));
                }
            };
            let name = alias.unwrap_or_else(|| match written {
                ast::Expr::Identifier(ident) => normalized(ident),
                other => other.to_string(),
            });
            let written = binder.prepare(written.clone(), self.parameters)?;
            let context = &mut PlannerContext::new();
            add(ours(binder.sql().sql_to_expr(written, plan.schema(), context))?, name);
        }
        let plan = ours(LogicalPlanBuilder::from(plan).project(exprs))?;
        Ok((binder.coerced(ours(plan.build())?)?, names))
    }

    /// `TRUNCATE t`: no row stays.
    pub(super) fn truncate(&self, names: &[ast::TruncateTableTarget]) -> Result<Statement> {
        let [target] = names else {
            return Err(PlannerError::not_supported("TRUNCATE of several tables"));
        };
        let Target { factor, table, source, computed, .. } =
            self.target_of(select_all_from(target.name.clone()))?;
        let mut query = select_all(factor);
        select_of(&mut query)?.selection = Some(ast::Expr::value(Value::Boolean(false)));
        let binder = self.binder();
        let plan = binder.bind(binder.prepare(query, self.parameters)?)?;
        let input = binder.finish(without_computed(plan, &computed)?)?;
        let returned = Vec::new();
        Ok(Statement::Modify(Modify { table, source, kind: Modification::Delete, input, returned }))
    }

    fn target_of(&self, query: Query) -> Result<Target> {
        let mut query = query;
        let from = std::mem::take(&mut select_of(&mut query)?.from);
        self.target(&from, "TRUNCATE")
    }

    fn target(&self, from: &[TableWithJoins], statement: &str) -> Result<Target> {
        let [TableWithJoins { relation, joins }] = from else {
            return Err(PlannerError::not_supported(format!("{statement} of several tables")));
        };
        let (true, TableFactor::Table { name, alias, args: None, .. }) =
            (joins.is_empty(), relation)
        else {
            let what = format!("{statement} of anything but a table");
            return Err(PlannerError::not_supported(what).with_span(span_of(relation.span())));
        };
        let table = table_name(name)?;
        let span = span_of_name(name);
        let source = self.binder().resolve(&table).map_err(|error| error.with_span(span))?;
        if source.is::<ViewSource>() {
            let error = PlannerError::invalid(format!("the view {table} cannot be changed"));
            return Err(error.with_span(span));
        }
        let own = || Ident::with_quote('"', table.table.clone());
        let alias = alias.as_ref().map_or_else(own, |alias| alias.name.clone());
        let computed = self.catalog.computed_columns(source.as_ref());
        Ok(Target { factor: relation.clone(), alias, table, source, computed })
    }

    /// The assigned columns by position, each with its new value.
    fn assignments(
        &self,
        update: &ast::Update,
        target: &Target,
    ) -> Result<Vec<(usize, ast::Expr)>> {
        let mut assigned: Vec<(usize, ast::Expr)> = Vec::new();
        for assignment in &update.assignments {
            for (name, value) in pairs(assignment)? {
                let at = column_of(&name, target)?;
                if assigned.iter().any(|(known, _)| *known == at) {
                    let error = PlannerError::invalid(format!("{name} is assigned twice"));
                    return Err(error.with_span(span_of_name(&name)));
                }
                if is_default(&value) {
                    let error = PlannerError::not_supported("DEFAULT in UPDATE");
                    return Err(error.with_span(span_of(value.span())));
                }
                assigned.push((at, value));
            }
        }
        Ok(assigned)
    }
}

/// The single assignments of `c = v` or `(c, d) = (v, w)`.
fn pairs(assignment: &ast::Assignment) -> Result<Vec<(ObjectName, ast::Expr)>> {
    match (&assignment.target, &assignment.value) {
        (AssignmentTarget::ColumnName(name), value) => Ok(vec![(name.clone(), value.clone())]),
        (AssignmentTarget::Tuple(names), ast::Expr::Tuple(values))
            if names.len() == values.len() =>
        {
            Ok(names.iter().cloned().zip(values.iter().cloned()).collect())
        }
        (AssignmentTarget::Tuple(_), value) => {
            let error = PlannerError::invalid("as many values as columns are needed here");
            Err(error.with_span(span_of(value.span())))
        }
    }
}

fn column_of(name: &ObjectName, target: &Target) -> Result<usize> {
    let last = name.0.last().and_then(|part| part.as_ident());
    let column = last.map(normalized).unwrap_or_default();
    let schema = target.source.schema();
    let at = schema.index_of(&column).map_err(|_| {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        PlannerError::name(format!("column {column} of {} does not exist", target.table))
            .with_hint(did_you_mean(&column, names))
            .with_span(span_of_name(name))
    })?;
    refuse_written(&column, at, &target.computed).map_err(|e| e.with_span(span_of_name(name)))?;
    Ok(at)
}

fn is_default(value: &ast::Expr) -> bool {
    matches!(value, ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// `SELECT 1 FROM using WHERE condition`.
fn matching(using: Vec<TableWithJoins>, condition: ast::Expr) -> Result<Query> {
    let mut query = select_all_from(ObjectName::from(Vec::new()));
    let select = select_of(&mut query)?;
    select.projection =
        vec![SelectItem::UnnamedExpr(ast::Expr::value(Value::Number("1".into(), false)))];
    select.from = using;
    select.selection = Some(condition);
    Ok(query)
}

/// All columns, whether the row is changed, and the new values, which are computed for changed rows alone.
fn with_new_values(
    target: &Target,
    condition: Option<ast::Expr>,
    assigned: &[(usize, ast::Expr)],
) -> Result<Query> {
    let mut judged = select_all(target.factor.clone());
    let condition = ast::Expr::Nested(Box::new(condition.unwrap_or_else(truth)));
    let changed = Ident::with_quote('"', CHANGED);
    select_of(&mut judged)?.projection.push(SelectItem::ExprWithAlias {
        expr: ast::Expr::IsTrue(Box::new(condition)),
        alias: changed.clone(),
    });
    let mut query = select_all(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(judged),
        alias: Some(ast::TableAlias {
            explicit: true,
            name: target.alias.clone(),
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    });
    let values = assigned.iter().enumerate().map(|(n, (_, value))| SelectItem::ExprWithAlias {
        expr: ast::Expr::Case {
            case_token: ast::helpers::attached_token::AttachedToken::empty(),
            end_token: ast::helpers::attached_token::AttachedToken::empty(),
            operand: None,
            conditions: vec![ast::CaseWhen {
                condition: ast::Expr::Identifier(changed.clone()),
                result: ast::Expr::Nested(Box::new(value.clone())),
            }],
            else_result: None,
        },
        alias: Ident::with_quote('"', format!("{VALUE}{n}")),
    });
    select_of(&mut query)?.projection.extend(values);
    Ok(query)
}

/// The table's stored columns with their types, new values in the place of old ones, and last whether the row was changed.
fn merged(
    plan: LogicalPlan,
    target: &Target,
    assigned: &[usize],
) -> datafusion_common::Result<LogicalPlan> {
    let fields = target.source.schema();
    let columns = plan.schema().columns();
    let width = fields.fields().len();
    let column = |at: usize| Expr::Column(Column::clone(&columns[at]));
    let changed = column(width);
    let mut exprs = Vec::with_capacity(width + 1);
    for (at, field) in fields.fields().iter().enumerate() {
        if target.computed.contains(&at) {
            continue;
        }
        let expr = match assigned.iter().position(|&assigned| assigned == at) {
            None => column(at),
            Some(n) => {
                let value = column(width + 1 + n).cast_to(field.data_type(), plan.schema())?;
                when(changed.clone(), value).otherwise(column(at))?
            }
        };
        exprs.push(expr.alias(field.name()));
    }
    exprs.push(changed.alias(CHANGED));
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}

fn truth() -> ast::Expr {
    ast::Expr::value(Value::Boolean(true))
}

fn select_of(query: &mut Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(PlannerError::internal("a query made of a SELECT is one")),
    }
}
