//! CREATE TABLE in all its forms, and CREATE [MATERIALIZED] VIEW.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion_sql::sqlparser::ast::{
    self, CreateTableOptions, HiveDistributionStyle, SqlOption, Value,
};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::columns::columns;
use super::current_time::follow_clock;
use super::event_time_field::with_event_time_field;
use super::names::{normalized, span_of_name, table_name};
use super::outputs::{distinct_names, names};
use super::relation::rename;
use super::statements::{Context, ours};
use super::view_errors::null_for_errors;
use crate::error::{PlannerError, Result};
use crate::parse::{ExternalTableAst, TableColumns, span_of};
use crate::statement::{
    CreateExternalTable, CreateMaterializedView, CreateTable, CreateView, QueryPlan, Statement,
};

/// The connector of tables that have none.
const IN_MEMORY: &str = "memory";

impl Context<'_> {
    pub(super) fn external_table(&self, table: &ExternalTableAst) -> Result<Statement> {
        let name = table_name(&table.name)?;
        let columns =
            columns(&self.binder(), &name, &table.columns, &table.constraints, &table.declared)?;
        if table.format.is_none() && table.locations.is_empty() {
            return Err(PlannerError::syntax("an external table needs STORED AS and LOCATION")
                .with_span(span_of_name(&table.name)));
        }
        Ok(Statement::CreateExternalTable(CreateExternalTable {
            name,
            connector: "filesystem".to_string(),
            format: table.format.clone(),
            locations: table.locations.clone(),
            schema: (!table.columns.is_empty()).then_some(columns.schema),
            constraints: columns.constraints,
            computed: columns.computed,
            metadata: columns.metadata,
            watermark: columns.watermark,
            options: table.options.clone(),
            partition_columns: table.partition_columns.clone(),
            if_not_exists: table.if_not_exists,
            or_replace: table.or_replace,
            temporary: table.temporary,
        }))
    }

    pub(super) fn create_table(
        &self,
        create: &ast::CreateTable,
        declared: &TableColumns,
    ) -> Result<Statement> {
        self.refuse_table_clauses(create)?;
        let mut options = options(&create.table_options)?;
        match options.iter().position(|(key, _)| key == "connector") {
            Some(at) => {
                let (_, connector) = options.remove(at);
                if connector.eq_ignore_ascii_case(IN_MEMORY) {
                    return self.memory_table(create, declared, options);
                }
                self.connector_table(create, declared, connector, options)
            }
            None => self.memory_table(create, declared, options),
        }
    }

    fn connector_table(
        &self,
        create: &ast::CreateTable,
        declared: &TableColumns,
        connector: String,
        mut options: Vec<(String, String)>,
    ) -> Result<Statement> {
        if create.query.is_some() {
            return Err(PlannerError::not_supported("CREATE TABLE … WITH ('connector' = …) AS")
                .with_hint("create the table first, then INSERT INTO it".to_string())
                .with_span(span_of_name(&create.name)));
        }
        let (name, binder) = (table_name(&create.name)?, self.binder());
        let declared = &with_event_time_field(declared, &mut options)?;
        let columns = columns(&binder, &name, &create.columns, &create.constraints, declared)?;
        if declared.append_only {
            return Err(PlannerError::not_supported("APPEND ONLY for a table with a connector")
                .with_span(span_of_name(&create.name)));
        }
        let mut take = |key: &str| {
            let at = options.iter().position(|(k, _)| k == key)?;
            Some(options.remove(at).1)
        };
        let (path, format) = (take("path"), take("format"));
        let partition_columns = match &create.hive_distribution {
            HiveDistributionStyle::PARTITIONED { columns } => {
                columns.iter().map(|c| normalized(&c.name)).collect()
            }
            HiveDistributionStyle::SKEWED { .. } | HiveDistributionStyle::NONE => Vec::new(),
        };
        Ok(Statement::CreateExternalTable(CreateExternalTable {
            name,
            connector,
            format: format.map(|f| f.to_lowercase()),
            locations: path.into_iter().collect(),
            schema: (!create.columns.is_empty()).then_some(columns.schema),
            constraints: columns.constraints,
            computed: columns.computed,
            metadata: columns.metadata,
            watermark: columns.watermark,
            options,
            partition_columns,
            if_not_exists: create.if_not_exists,
            or_replace: create.or_replace,
            temporary: create.temporary,
        }))
    }

    fn memory_table(
        &self,
        create: &ast::CreateTable,
        declared: &TableColumns,
        options: Vec<(String, String)>,
    ) -> Result<Statement> {
        let (table, binder) = (table_name(&create.name)?, self.binder());
        let mut columns = columns(&binder, &table, &create.columns, &create.constraints, declared)?;
        if !columns.computed.is_empty() && create.query.is_some() {
            return Err(PlannerError::not_supported("CREATE TABLE … AS with computed columns")
                .with_hint("create the table first, then INSERT INTO it".to_string())
                .with_span(span_of_name(&create.name)));
        }
        let query = match &create.query {
            None if create.columns.is_empty() => {
                return Err(PlannerError::syntax("a table needs columns, a query or a connector")
                    .with_span(span_of_name(&create.name)));
            }
            None => None,
            Some(query) => {
                let plan = binder.bind(binder.prepare(query.as_ref().clone(), self.parameters)?)?;
                let name = create.name.to_string();
                let plan = if create.columns.is_empty() {
                    let names = distinct_names(names(query, plan.schema()));
                    ours(rename(&name, plan, names))?
                } else {
                    cast_to(plan, &columns.schema)?
                };
                let query = binder.finish(plan)?;
                if create.columns.is_empty() {
                    columns.schema = Arc::clone(query.plan.schema().inner());
                }
                Some(query)
            }
        };
        Ok(Statement::CreateTable(Box::new(CreateTable {
            name: table,
            if_not_exists: create.if_not_exists,
            or_replace: create.or_replace,
            temporary: create.temporary,
            schema: columns.schema,
            constraints: columns.constraints,
            keys_enforced: columns.keys_enforced,
            defaults: columns.defaults,
            computed: columns.computed,
            metadata: columns.metadata,
            watermark: columns.watermark,
            options,
            query,
            append_only: declared.append_only,
        })))
    }

    fn refuse_table_clauses(&self, create: &ast::CreateTable) -> Result<()> {
        let partitioned = !matches!(create.hive_distribution, HiveDistributionStyle::NONE);
        let connector = matches!(create.table_options, CreateTableOptions::With(_));
        let refused = [
            (
                create.external || create.location.is_some() || create.file_format.is_some(),
                "this form of CREATE TABLE",
            ),
            (create.like.is_some() || create.clone.is_some(), "CREATE TABLE … LIKE or CLONE"),
            (
                create.partition_by.is_some() || (partitioned && !connector),
                "PARTITION BY in CREATE TABLE",
            ),
            (
                create.order_by.is_some()
                    || create.cluster_by.is_some()
                    || create.clustered_by.is_some(),
                "clustering",
            ),
            (create.inherits.is_some() || create.partition_of.is_some(), "table inheritance"),
            (create.on_commit.is_some(), "ON COMMIT"),
            (create.primary_key.is_some(), "PRIMARY KEY after the columns (write it among them)"),
            (create.comment.is_some(), "COMMENT on a table"),
            (
                create.dynamic || create.iceberg || create.snapshot || create.transient,
                "this kind of table",
            ),
            (
                create.version.is_some() || create.on_cluster.is_some(),
                "this clause of CREATE TABLE",
            ),
        ];
        match refused.iter().find(|(there, _)| *there) {
            Some((_, what)) => {
                Err(PlannerError::not_supported(what).with_span(span_of_name(&create.name)))
            }
            None => Ok(()),
        }
    }

    pub(super) fn create_view(&self, create: &ast::CreateView) -> Result<Statement> {
        let span = span_of_name(&create.name);
        refuse_view_clauses(create)?;
        let binder = self.binder();
        if binder.keep.is_some() {
            let error = PlannerError::not_supported("KEEP LAST in a view")
                .with_hint("write it behind the query that reads the view".to_string());
            return Err(error.with_span(span));
        }
        let plan = binder.bind(binder.prepare(create.query.as_ref().clone(), &[])?)?;
        let columns: Vec<String> = create.columns.iter().map(|c| normalized(&c.name)).collect();
        let name = table_name(&create.name)?;
        let shown =
            if columns.is_empty() { names(&create.query, plan.schema()) } else { columns.clone() };
        unique_names(&shown).map_err(|e| e.with_span(span))?;
        let plan = ours(rename(&name.to_string(), plan, shown))?;
        let plan = ours(binder.rewriter.analyze(plan))?;
        Ok(Statement::CreateView(CreateView {
            name,
            sql: text_after_as(self.parsed.sql()).unwrap_or_else(|| create.query.to_string()),
            columns,
            schema: Arc::clone(plan.schema().inner()),
            or_replace: create.or_replace,
            if_not_exists: create.if_not_exists,
            temporary: create.temporary,
        }))
    }

    pub(super) fn create_materialized_view(&self, create: &ast::CreateView) -> Result<Statement> {
        let span = span_of_name(&create.name);
        refuse_view_clauses(create)?;
        if create.temporary {
            let what = "a temporary materialized view";
            return Err(PlannerError::not_supported(what).with_span(span));
        }
        refuse_refresh_options(create)?;
        let binder = self.binder();
        let mut query = without_order(&create.query);
        follow_clock(&mut query);
        if self.planner.options.null_view_errors {
            null_for_errors(&mut query);
        }
        let plan = binder.bind(binder.prepare(query, &[])?)?;
        refuse_current_time(&plan).map_err(|e| e.with_span(span))?;
        let columns: Vec<String> = create.columns.iter().map(|c| normalized(&c.name)).collect();
        let name = table_name(&create.name)?;
        let shown = if columns.is_empty() { names(&create.query, plan.schema()) } else { columns };
        unique_names(&shown).map_err(|e| e.with_span(span))?;
        let plan = ours(rename(&name.to_string(), plan, shown.clone()))?;
        let query = QueryPlan { names: shown, ..binder.finish(plan)? };
        Ok(Statement::CreateMaterializedView(CreateMaterializedView {
            name,
            sql: text_after_as(self.parsed.sql()).unwrap_or_else(|| create.query.to_string()),
            query,
            or_replace: create.or_replace,
            if_not_exists: create.if_not_exists,
        }))
    }
}

/// Functions whose value changes as time goes by.
const CURRENT_TIME: [&str; 3] = ["current_date", "current_time", "now"];

/// A view follows the changes of tables; nobody tells it that time has passed.
fn refuse_current_time(plan: &LogicalPlan) -> Result<()> {
    let mut found = None;
    let looked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::ScalarFunction(call) = part
                    && CURRENT_TIME.contains(&call.name())
                {
                    found = Some(call.name().to_string());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    ours(looked)?;
    match found {
        None => Ok(()),
        Some(name) => Err(PlannerError::not_supported(format!("{name}() in a materialized view"))
            .with_hint(
                "the view would have to change as time goes by; compare when it is read"
                    .to_string(),
            )),
    }
}

/// The options of a materialized view: how old its rows may be at most. They are kept up to date all the time, so that any
/// number of seconds is kept to.
fn refuse_refresh_options(create: &ast::CreateView) -> Result<()> {
    let fail = |what: String| {
        let hint = "the option of a materialized view is refresh.interval.sec, a number of seconds";
        let error = PlannerError::invalid(what).with_hint(hint.to_string());
        Err(error.with_span(span_of_name(&create.name)))
    };
    for (key, value) in options(&create.options)? {
        if key != "refresh.interval.sec" {
            return fail(format!("unknown option \"{key}\""));
        }
        if !value.parse::<u64>().is_ok_and(|seconds| seconds > 0) {
            return fail(format!("{value} is no number of seconds"));
        }
    }
    Ok(())
}

fn refuse_view_clauses(create: &ast::CreateView) -> Result<()> {
    let plain = create.materialized || matches!(create.options, CreateTableOptions::None);
    let refused = !plain
        || create.or_alter
        || create.to.is_some()
        || create.with_no_schema_binding
        || !create.cluster_by.is_empty();
    match refused {
        true => Err(PlannerError::not_supported("this clause of CREATE VIEW")
            .with_span(span_of_name(&create.name))),
        false => Ok(()),
    }
}

/// The query without an ORDER BY that does not decide which rows there are: a table has no order.
fn without_order(query: &ast::Query) -> ast::Query {
    let decides = query.limit_clause.is_some()
        || query.fetch.is_some()
        || matches!(query.body.as_ref(), ast::SetExpr::Select(select)
            if matches!(select.distinct, Some(ast::Distinct::On(_))));
    let mut query = query.clone();
    if !decides {
        query.order_by = None;
    }
    query
}

fn unique_names(names: &[String]) -> Result<()> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(PlannerError::name(format!("column {name} appears twice"))
            .with_hint("give the columns different names with AS".to_string())),
    }
}

/// The text after the first AS outside parentheses: the query in `CREATE VIEW v (a, b) AS query`.
fn text_after_as(sql: &str) -> Option<String> {
    let dialect = datafusion_sql::sqlparser::dialect::GenericDialect;
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().ok()?;
    let mut depth = 0_i32;
    let at = tokens.iter().find(|token| match &token.token {
        Token::LParen => {
            depth += 1;
            false
        }
        Token::RParen => {
            depth -= 1;
            false
        }
        Token::Word(word) => {
            depth == 0 && word.keyword == Keyword::AS && word.quote_style.is_none()
        }
        _ => false,
    })?;
    Some(crate::parse::text_after(sql, at.span).trim().to_string())
}

/// The plan's columns under the schema's names and types, by position.
fn cast_to(plan: LogicalPlan, schema: &SchemaRef) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    if columns.len() != schema.fields().len() {
        return Err(PlannerError::invalid(format!(
            "the table has {} columns, but the query has {}",
            schema.fields().len(),
            columns.len()
        )));
    }
    let exprs = columns.into_iter().zip(schema.fields()).map(|(column, field)| {
        Ok(Expr::Column(column).cast_to(field.data_type(), plan.schema())?.alias(field.name()))
    });
    let exprs = ours(exprs.collect::<datafusion_common::Result<Vec<Expr>>>())?;
    ours(LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build))
}

/// The options of `WITH (key = value, …)`; keys are lower-case.
fn options(options: &CreateTableOptions) -> Result<Vec<(String, String)>> {
    let list = match options {
        CreateTableOptions::None => return Ok(Vec::new()),
        CreateTableOptions::With(list)
        | CreateTableOptions::Options(list)
        | CreateTableOptions::Plain(list)
        | CreateTableOptions::TableProperties(list) => list,
    };
    list.iter()
        .map(|option| match option {
            SqlOption::KeyValue { key, value } => {
                Ok((key.value.to_lowercase(), option_value(value)?))
            }
            other => Err(PlannerError::not_supported(format!("the table option {other}"))),
        })
        .collect()
}

fn option_value(value: &ast::Expr) -> Result<String> {
    match value {
        ast::Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Ok(text.clone()),
            Value::Number(number, _) => Ok(number.clone()),
            Value::Boolean(on) => Ok(on.to_string()),
            other => Err(PlannerError::invalid(format!("{other} is not the value of an option"))
                .with_span(span_of(value.span))),
        },
        ast::Expr::Identifier(ident) => Ok(ident.value.clone()),
        other => Ok(other.to_string()),
    }
}
