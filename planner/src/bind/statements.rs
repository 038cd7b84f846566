//! One planned [`Statement`] for each kind of parsed statement.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, WriteOp, dml::InsertOp,
};
use datafusion_sql::sqlparser::ast::{
    self, ObjectName, ObjectType, Query, SchemaName, Spanned, Statement as SqlStatement, Visit,
    VisitMut,
};

use super::asof::mark_asof;
use super::computed::{name_stored, stored_schema, without_computed};
use super::cte::{resolve_ctes, select_all_from};
use super::desugar::{Parameter, desugar};
use super::group_windows::group_by_windows;
use super::locate::complete;
use super::names::{as_path, normalized, span_of_name, table_name};
use super::outputs::names;
use super::provider::Binder;
use super::quotients::divide_to_null;
use super::refuse::refuse;
use super::relation_hints;
use super::row_in::compare_rows;
use super::set_operations::mark_operations;
use super::sources::ViewSource;
use super::sql_function::expand;
use super::temporal::mark_temporal;
use super::text_casts::rewrite_values;
use super::translate::translate;
use super::using::resolve_using;
use crate::catalog::{Catalog, TableName};
use crate::error::{PlannerError, Result};
use crate::inspection::{DescribeTarget, ShowKind};
use crate::parse::{
    Ast, CopyAst, CopySource, DescribeAst, ParsedStatement, ShowAst, TableColumns, span_of,
};
use crate::planner::Planner;
use crate::rewrite::finish_query;
use crate::statement::{Copy, DropKind, Insert, QueryPlan, Statement};
use crate::windows::keep_last;

/// Plans one statement; `parameters` are the values of `$1`, `$2`, ….
pub(crate) fn plan_statement(
    planner: &Planner,
    statement: &ParsedStatement,
    catalog: &dyn Catalog,
    parameters: &[Parameter],
) -> Result<Statement> {
    let context = Context { planner, catalog, parsed: statement, parameters };
    let planned = context.plan(&statement.ast).and_then(|mut planned| {
        relation_hints::attach(&mut planned, &statement.hints)?;
        if let (Some(emit), Some(query)) = (statement.emit, relation_hints::query_of(&mut planned))
        {
            query.emit = Some(emit);
        }
        Ok(planned)
    });
    planned.map_err(|error| complete(error, statement, &planner.functions))
}

/// Analyses and rewrites a plan that was not made from SQL.
pub(crate) fn rewrite_plan(
    planner: &Planner,
    catalog: &dyn Catalog,
    plan: LogicalPlan,
) -> Result<QueryPlan> {
    Binder::new(planner, catalog).finish(plan)
}

/// What the statements of one text share.
pub(super) struct Context<'a> {
    pub(super) planner: &'a Planner,
    pub(super) catalog: &'a dyn Catalog,
    pub(super) parsed: &'a ParsedStatement,
    pub(super) parameters: &'a [Parameter],
}

impl Binder<'_> {
    /// Checks a tree and rewrites it into what the library binds as meant.
    pub(super) fn prepare<T: Visit + VisitMut>(
        &self,
        mut tree: T,
        parameters: &[Parameter],
    ) -> Result<T> {
        expand(&mut tree, &self.planner.functions)?;
        if self.planner.options.null_divisions {
            divide_to_null(&mut tree);
        }
        mark_temporal(&mut tree);
        refuse(&tree)?;
        desugar(&mut tree, parameters, self.planner.options.series_rows)?;
        compare_rows(&mut tree);
        mark_asof(&mut tree);
        resolve_using(&mut tree)?;
        group_by_windows(&mut tree)?;
        resolve_ctes(&mut tree, self.planner.options.share_ctes)?;
        mark_operations(&mut tree);
        Ok(tree)
    }

    /// Analyses and rewrites a bound plan with all plans it shares.
    pub(super) fn finish(&self, plan: LogicalPlan) -> Result<QueryPlan> {
        let plan = match self.keep {
            Some(keep) => keep_last(plan, keep, &self.event_times).map_err(translate)?,
            None => plan,
        };
        finish_query(&self.rewriter, plan)
    }

    /// The plan with the types that its columns end up with.
    pub(super) fn coerced(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        self.rewriter.coerce(plan).map_err(translate)
    }

    /// The same for rows that go into a table: its columns come first, in its types. The library casts by the types it
    /// binds with, which a CASE may not keep.
    pub(super) fn finish_into(&self, plan: LogicalPlan, table: &Schema) -> Result<QueryPlan> {
        let plan = self.coerced(plan)?;
        let fields = plan.schema().fields();
        let fits = fields.iter().zip(table.fields()).all(|(f, t)| f.data_type() == t.data_type());
        if fits || fields.len() < table.fields().len() {
            return self.finish(plan);
        }
        let columns = plan.schema().columns().into_iter().enumerate().map(|(at, column)| {
            let name = column.name.clone();
            match table.fields().get(at) {
                Some(field) => {
                    let value = Expr::Column(column).cast_to(field.data_type(), plan.schema())?;
                    Ok(value.alias(name))
                }
                None => Ok(Expr::Column(column)),
            }
        });
        let columns = columns.collect::<datafusion_common::Result<Vec<_>>>().map_err(translate)?;
        let cast = LogicalPlanBuilder::from(plan).project(columns).and_then(|b| b.build());
        self.finish(cast.map_err(translate)?)
    }
}

impl<'a> Context<'a> {
    pub(super) fn binder(&self) -> Binder<'a> {
        let mut binder = Binder::new(self.planner, self.catalog);
        binder.keep = self.parsed.emit.and_then(|emit| emit.keep);
        binder
    }

    fn plan(&self, ast: &Ast) -> Result<Statement> {
        match ast {
            Ast::Query(query) => self.query(query).map(Statement::Query),
            Ast::Table(name) => self.query(&select_all_from(name.clone())).map(Statement::Query),
            Ast::Explain { options, inner } => {
                Ok(Statement::Explain { options: *options, statement: Box::new(self.plan(inner)?) })
            }
            Ast::Copy(copy) => self.copy(copy),
            Ast::CreateTable { create, columns } => self.create_table(create, columns),
            Ast::ExternalTable(table) => self.external_table(table),
            Ast::Set { key, value } => {
                Ok(Statement::Set { key: key.clone(), value: value.clone() })
            }
            Ast::Reset { key } => Ok(Statement::Reset { key: key.clone() }),
            Ast::Show(show) => self.show(show),
            Ast::Describe(describe) => self.describe(describe),
            Ast::StatementSet(inserts) => self.statement_set(inserts),
            Ast::Flush => Ok(Statement::Flush),
            Ast::StopJob(job) => Ok(Statement::StopJob(job.clone())),
            Ast::CreateSink(sink) => self.create_sink(sink),
            Ast::DropSink { name, if_exists } => Ok(Statement::DropSink {
                name: table_name(name)?.to_string(),
                if_exists: *if_exists,
            }),
            Ast::Rename { kind, from, to } => {
                Ok(Statement::Rename { kind: *kind, from: table_name(from)?, to: table_name(to)? })
            }
            Ast::Sql(statement) => self.sql(statement),
        }
    }

    fn statement_set(&self, inserts: &[Ast]) -> Result<Statement> {
        let insert = |ast: &Ast| match self.plan(ast)? {
            Statement::Insert(insert) => Ok(insert),
            _ => Err(PlannerError::internal("a statement set holds INSERTs alone")),
        };
        Ok(Statement::StatementSet(inserts.iter().map(insert).collect::<Result<_>>()?))
    }

    pub(super) fn query(&self, query: &Query) -> Result<QueryPlan> {
        let binder = self.binder();
        let plan = binder.bind(binder.prepare(query.clone(), self.parameters)?)?;
        let names = names(query, plan.schema());
        Ok(QueryPlan { names, ..binder.finish(plan)? })
    }

    fn copy(&self, copy: &CopyAst) -> Result<Statement> {
        let input = match &copy.source {
            CopySource::Query(query) => self.query(query)?,
            CopySource::Table(name) => self.query(&select_all_from(name.clone()))?,
            CopySource::File { table, columns } => return self.copy_from(copy, table, columns),
        };
        for column in &copy.partition_by {
            let schema = input.plan.schema();
            if !schema.has_column_with_unqualified_name(column) {
                let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                return Err(PlannerError::name(format!(
                    "column {column} in PARTITION BY does not exist"
                ))
                .about(column.as_str())
                .with_hint(crate::suggest::did_you_mean(column, names)));
            }
        }
        Ok(Statement::Copy(Copy {
            input,
            path: copy.path.clone(),
            format: copy.format.clone(),
            options: copy.options.clone(),
            partition_by: copy.partition_by.clone(),
        }))
    }

    fn show(&self, show: &ShowAst) -> Result<Statement> {
        let kind = match show {
            ShowAst::Setting(key) => ShowKind::Setting(key.clone()),
            ShowAst::All => ShowKind::All,
            ShowAst::Tables => ShowKind::Tables,
            ShowAst::Views => ShowKind::Views,
            ShowAst::Schemas => ShowKind::Schemas,
            ShowAst::Functions => ShowKind::Functions,
            ShowAst::Jobs => ShowKind::Jobs,
            ShowAst::Columns(name) => {
                let DescribeTarget::Table { name, .. } = self.describe_table(name)? else {
                    return Err(PlannerError::internal("a table's description is a query's"));
                };
                ShowKind::Columns(name)
            }
            ShowAst::Create(name) => ShowKind::Create(table_name(name)?),
        };
        Ok(Statement::Show(kind))
    }

    fn describe(&self, describe: &DescribeAst) -> Result<Statement> {
        let target = match describe {
            DescribeAst::Table(name) => self.describe_table(name)?,
            DescribeAst::Job(job) => DescribeTarget::Job(job.clone()),
            DescribeAst::Query(query) => {
                let query = self.query(query)?;
                DescribeTarget::Query { schema: Arc::clone(query.plan.schema().inner()) }
            }
        };
        Ok(Statement::Describe(target))
    }

    fn describe_table(&self, name: &ObjectName) -> Result<DescribeTarget> {
        if let Some(path) = as_path(name) {
            let source = self.catalog.path(path).map_err(|e| e.with_span(span_of_name(name)))?;
            return Ok(DescribeTarget::Table {
                name: TableName::bare(path),
                schema: source.schema(),
            });
        }
        let table = table_name(name)?;
        let source = self.binder().resolve(&table).map_err(|e| e.with_span(span_of_name(name)))?;
        Ok(DescribeTarget::Table { name: table, schema: source.schema() })
    }

    fn sql(&self, statement: &SqlStatement) -> Result<Statement> {
        match statement {
            SqlStatement::Query(query) => self.query(query).map(Statement::Query),
            SqlStatement::CreateTable(create) => {
                self.create_table(create, &TableColumns::default())
            }
            SqlStatement::CreateView(create) if create.materialized => {
                self.create_materialized_view(create)
            }
            SqlStatement::CreateView(create) => self.create_view(create),
            SqlStatement::CreateSchema {
                schema_name: SchemaName::Simple(name),
                if_not_exists,
                ..
            } => Ok(Statement::CreateSchema {
                name: table_name(name)?.to_string(),
                if_not_exists: *if_not_exists,
            }),
            SqlStatement::Insert(insert) => self.insert(insert),
            SqlStatement::Delete(delete) => self.delete(delete),
            SqlStatement::Update(update) => self.update(update),
            SqlStatement::Truncate(truncate) => self.truncate(&truncate.table_names),
            SqlStatement::CreateIndex(create) => self.create_index(create),
            SqlStatement::CreateFunction(create) => self.create_function(create),
            SqlStatement::CreateMacro { or_replace, name, args, definition, .. } => {
                self.create_macro(name, args.as_deref().unwrap_or(&[]), definition, *or_replace)
            }
            SqlStatement::DropFunction(drop) => {
                let names = drop.func_desc.iter().map(|f| Ok(table_name(&f.name)?.to_string()));
                let names = names.collect::<Result<Vec<_>>>()?;
                Ok(Statement::DropFunction { names, if_exists: drop.if_exists })
            }
            SqlStatement::Drop { object_type, if_exists, names, cascade, .. } => {
                self.drop(*object_type, *if_exists, names, *cascade)
            }
            SqlStatement::Prepare { name, statement, .. } => {
                let ast = match statement.as_ref() {
                    SqlStatement::Query(query) => Ast::Query(query.clone()),
                    other => Ast::Sql(Box::new(other.clone())),
                };
                let statement = Box::new(ParsedStatement { ast, ..self.parsed.clone() });
                Ok(Statement::Prepare { name: normalized(name), statement })
            }
            SqlStatement::Execute { name: Some(name), parameters, using, .. }
                if using.is_empty() =>
            {
                let parameters = parameters.iter().map(|p| Parameter(p.clone())).collect();
                Ok(Statement::Execute { name: table_name(name)?.to_string(), parameters })
            }
            SqlStatement::Deallocate { name, .. } => {
                let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
                Ok(Statement::Deallocate { name: (!all).then(|| normalized(name)) })
            }
            other => Err(self.unsupported(other)),
        }
    }

    /// The error for statements that nothing here handles: names the statement by its first words.
    fn unsupported(&self, statement: &SqlStatement) -> PlannerError {
        let text = self.parsed.sql();
        let words: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .take_while(|word| word.chars().all(|c| c.is_ascii_alphabetic()))
            .take(2)
            .collect();
        let shown = match words.as_slice() {
            [first, second]
                if ["create", "drop", "alter", "start", "show"]
                    .contains(&first.to_lowercase().as_str()) =>
            {
                format!("{first} {second}")
            }
            [first, ..] => (*first).to_string(),
            [] => "this statement".to_string(),
        };
        let place = span_of(statement.span()).unwrap_or(self.parsed.span());
        PlannerError::not_supported(shown.to_uppercase()).with_span(Some(place))
    }

    pub(super) fn insert(&self, insert: &ast::Insert) -> Result<Statement> {
        let span = span_of(insert.insert_token.0.span);
        if insert.partitioned.is_some() || insert.returning.is_some() {
            let error = PlannerError::not_supported("PARTITION or RETURNING in INSERT");
            return Err(error.with_span(span));
        }
        let binder = self.binder();
        let mut statement = insert.clone();
        let mut computed = Vec::new();
        if let ast::TableObject::TableName(name) = &insert.table
            && let Ok(table) = table_name(name).and_then(|name| binder.resolve(&name))
        {
            if table.schema().fields().is_empty() && !table.is::<ViewSource>() {
                return self.insert_into_any(insert, name, table);
            }
            computed = self.catalog.computed_columns(table.as_ref());
            name_stored(&mut statement, &table.schema(), &computed)?;
            let columns =
                statement.columns.iter().filter_map(|name| name.0.last()?.as_ident().cloned());
            let columns: Vec<ast::Ident> = columns.collect();
            if let Some(source) = &mut statement.source {
                rewrite_values(source, &table.schema(), &columns);
            }
        }
        statement.on = None;
        let statement = binder.prepare(SqlStatement::Insert(statement), self.parameters)?;
        let name_span = match &insert.table {
            ast::TableObject::TableName(name) => span_of_name(name),
            ast::TableObject::TableFunction(_) | ast::TableObject::TableQuery(_) => span,
        };
        let plan = binder.bind_sql(statement).map_err(|e| e.with_span(name_span))?;
        let LogicalPlan::Dml(DmlStatement {
            table_name,
            target,
            op: WriteOp::Insert(op),
            input,
            ..
        }) = plan
        else {
            return Err(PlannerError::internal("an INSERT was not planned as one"));
        };
        let table = TableName::from(&table_name);
        if target.is::<ViewSource>() {
            let error = PlannerError::invalid(format!("cannot insert into the view {table}"));
            return Err(error.with_span(name_span));
        }
        let overwrite = match op {
            InsertOp::Append => false,
            InsertOp::Overwrite => true,
            InsertOp::Replace => {
                return Err(PlannerError::not_supported("REPLACE INTO").with_span(span));
            }
        };
        let input = without_computed(Arc::unwrap_or_clone(input), &computed)?;
        let input = binder.finish_into(input, &stored_schema(&target.schema(), &computed))?;
        let on_conflict = self.conflict_action(insert, target.as_ref())?;
        Ok(Statement::Insert(Insert { table, source: target, input, overwrite, on_conflict }))
    }

    fn drop(
        &self,
        object: ObjectType,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
    ) -> Result<Statement> {
        let kind = match object {
            ObjectType::Table => DropKind::Table,
            ObjectType::View => DropKind::View,
            ObjectType::MaterializedView => DropKind::MaterializedView,
            ObjectType::Schema => DropKind::Schema,
            ObjectType::Index => DropKind::Index,
            other => {
                return Err(PlannerError::not_supported(format!("DROP {other}"))
                    .with_span(Some(self.parsed.span())));
            }
        };
        let names = names.iter().map(table_name).collect::<Result<Vec<_>>>()?;
        Ok(Statement::Drop { kind, names, if_exists, cascade })
    }
}

/// An error of the libraries as one of ours.
pub(super) fn ours<T>(result: datafusion_common::Result<T>) -> Result<T> {
    result.map_err(translate)
}
