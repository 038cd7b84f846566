//! What the SQL library asks while binding: tables, functions, options. [`Binder`] answers from the catalog.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{DFSchema, DataFusionError, Result, SchemaError, TableReference};
use datafusion_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource,
    WindowUDF,
};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_sql::planner::SqlToRel;
use datafusion_sql::sqlparser::ast::{
    ObjectName, Query, SetExpr, Statement as SqlStatement, TableFactor,
};

use super::call_names::with_call_name;
use super::cte::select_all_from;
use super::merged_names::with_merged_name;
use super::names::{as_path, looks_like_path, table_name};
use super::outputs::{Renamed, names, rename_clashes};
use super::relation::{Relations, rename, stem};
use super::sharing::SharedRegistry;
use super::sort_names::hide_outputs;
use super::sources::{ViewSource, WorkTableSource};
use super::temporal::{Declarations, Declared};
use super::translate::{carry, translate};
use super::types::Types;
use super::written_case::with_written_case;
use crate::catalog::{Catalog, TableName, ViewDefinition};
use crate::error::PlannerError;
use crate::parse::{Ast, parse_script};
use crate::planner::Planner;
use crate::rewrite::Rewriter;
use crate::statement::Keep;
use crate::suggest::did_you_mean;
use crate::windows::EventTimes;

/// How many views may stand in each other's definitions; more means that they go round in a circle.
const MAX_VIEW_DEPTH: usize = 32;

/// The catalog part of a reference that stands for a path.
const PATH_CATALOG: &str = "\u{1}path";

/// A reference that [`Binder`] resolves as a path.
pub(super) fn path_reference(path: &str) -> TableReference {
    TableReference::full(PATH_CATALOG, "", path)
}

/// Binds the queries of one statement.
pub(super) struct Binder<'a> {
    pub(super) planner: &'a Planner,
    pub(super) catalog: &'a dyn Catalog,
    pub(super) rewriter: Arc<Rewriter>,
    relations: Vec<Arc<dyn RelationPlanner>>,
    pub(super) event_times: Arc<EventTimes>,
    declarations: Arc<Declarations>,
    types: Arc<dyn TypePlanner>,
    /// Which rows of groups the statement wants aggregated, if not all.
    pub(super) keep: Option<Keep>,
    view_depth: Cell<usize>,
    /// What was looked up: what a statement reads twice is one source, by which equal parts of plans are found.
    sources: RefCell<HashMap<String, Arc<dyn TableSource>>>,
}

impl<'a> Binder<'a> {
    pub(super) fn new(planner: &'a Planner, catalog: &'a dyn Catalog) -> Self {
        let now = planner.options.now.unwrap_or_else(std::time::SystemTime::now);
        let rewriter = Arc::new(Rewriter::new(
            Arc::clone(&planner.config),
            Arc::clone(&planner.functions),
            now,
            planner.options.all_columns,
        ));
        let event_times: Arc<EventTimes> = Arc::default();
        let declarations: Arc<Declarations> = Arc::default();
        let relations: Vec<Arc<dyn RelationPlanner>> = vec![Arc::new(Relations {
            registry: SharedRegistry::new(Arc::clone(&rewriter)),
            event_times: Arc::clone(&event_times),
            declarations: Arc::clone(&declarations),
        })];
        let time_zone = planner.options.time_zone.as_deref().unwrap_or("UTC").into();
        Binder {
            types: Arc::new(Types { time_zone }),
            planner,
            catalog,
            rewriter,
            relations,
            event_times,
            declarations,
            keep: None,
            view_depth: Cell::new(0),
            sources: RefCell::default(),
        }
    }

    /// The plan of a query whose tree has been prepared.
    pub(super) fn bind(&self, query: Query) -> crate::Result<LogicalPlan> {
        self.bind_sql(SqlStatement::Query(Box::new(query)))
    }

    /// The plan of a statement that the library knows, whose tree has been prepared.
    pub(super) fn bind_sql(&self, statement: SqlStatement) -> crate::Result<LogicalPlan> {
        if let Some(hidden) = hide_outputs(&statement)
            && let Ok(plan) = self.bind_renamed(hidden)
        {
            return Ok(plan);
        }
        self.bind_renamed(statement).map_err(translate)
    }

    /// The plan, with aliases for what the library would call alike.
    fn bind_renamed(&self, statement: SqlStatement) -> Result<LogicalPlan> {
        let mut result = self.bind_merged(statement.clone());
        for renamed in [Renamed::Clashing, Renamed::Computed, Renamed::Casts] {
            if !matches!(&result, Err(error) if clashes(error)) {
                break;
            }
            // Shared plans of the attempts before have no readers: they are dropped in the end.
            let mut other = statement.clone();
            rename_clashes(&mut other, renamed);
            result = self.bind_merged(other);
        }
        result
    }

    /// The plan, where names of merged columns are not ambiguous, and names are found in the letters they are written in, or
    /// as those of the functions that compute columns.
    fn bind_merged(&self, mut statement: SqlStatement) -> Result<LogicalPlan> {
        let mut result = self.sql().sql_statement_to_plan(statement.clone());
        // Each attempt leaves fewer unqualified names.
        while let Err(error) = &result
            && let Some(merged) = with_merged_name(&statement, error)
                .or_else(|| with_written_case(&statement, error))
                .or_else(|| with_call_name(&statement, error))
        {
            result = self.sql().sql_statement_to_plan(merged.clone());
            statement = merged;
        }
        result
    }

    pub(super) fn sql(&self) -> SqlToRel<'_, Self> {
        SqlToRel::new(self)
    }

    /// The table, view or path of this name.
    pub(super) fn resolve(&self, name: &TableName) -> crate::Result<Arc<dyn TableSource>> {
        if let Some(view) = self.catalog.view(name) {
            return self.view(name, &view);
        }
        self.looked_up(format!("table {name}"), || self.table_or_path(name))
    }

    fn table_or_path(&self, name: &TableName) -> crate::Result<Arc<dyn TableSource>> {
        if let Some(source) = self.catalog.table(name)? {
            let event_time = self.catalog.event_time(source.as_ref());
            self.event_times.add(&source, event_time.into_iter().collect());
            let declared = Declared {
                primary_key: self.catalog.primary_key(source.as_ref()),
                unbounded: self.catalog.is_unbounded(source.as_ref()),
            };
            self.declarations.add(&source, declared);
            return Ok(source);
        }
        if name.schema.is_none() && looks_like_path(&name.table) {
            return self.path(&name.table);
        }
        let known = self.catalog.table_names();
        let hint = did_you_mean(&name.to_string(), known.iter().map(String::as_str))
            .or_else(|| did_you_mean(&name.table, known.iter().map(String::as_str)));
        Err(PlannerError::name(format!("table {name} does not exist"))
            .about(name.table.as_str())
            .with_hint(hint))
    }

    /// The files of a path.
    fn path(&self, path: &str) -> crate::Result<Arc<dyn TableSource>> {
        self.looked_up(format!("path {path}"), || self.catalog.path(path))
    }

    /// The source that was looked up under this key before, or is found now.
    fn looked_up(
        &self,
        key: String,
        find: impl FnOnce() -> crate::Result<Arc<dyn TableSource>>,
    ) -> crate::Result<Arc<dyn TableSource>> {
        let before = self.sources.borrow().get(&key).cloned();
        if let Some(source) = before {
            return Ok(source);
        }
        let source = find()?;
        self.sources.borrow_mut().insert(key, Arc::clone(&source));
        Ok(source)
    }

    fn view(&self, name: &TableName, view: &ViewDefinition) -> crate::Result<Arc<dyn TableSource>> {
        let depth = self.view_depth.get();
        if depth >= MAX_VIEW_DEPTH {
            return Err(PlannerError::invalid(format!("view {name} refers to itself")));
        }
        self.view_depth.set(depth + 1);
        let plan = self.view_plan(name, view);
        self.view_depth.set(depth);
        // Places in the view's text mean nothing in the statement's.
        let plan = plan.map_err(|error| {
            let known = error.message.starts_with("view ");
            let message = if known {
                error.message.clone()
            } else {
                format!("view {name} is broken: {}", error.message)
            };
            PlannerError { span: None, subject: None, message, ..error }
        })?;
        Ok(Arc::new(ViewSource::new(plan)))
    }

    fn view_plan(&self, name: &TableName, view: &ViewDefinition) -> crate::Result<LogicalPlan> {
        let (mut statements, error) = parse_script(&view.sql);
        if let Some(error) = error {
            return Err(error);
        }
        match statements.pop().map(|statement| statement.ast) {
            Some(Ast::Query(query)) if statements.is_empty() => {
                if let ([], Some(table)) = (view.columns.as_slice(), whole_table(&query)) {
                    return self.scan(&table);
                }
                let plan = self.bind(self.prepare(query.as_ref().clone(), &[])?)?;
                let plan = self.coerced(plan)?;
                let names = match view.columns.as_slice() {
                    [] => names(&query, plan.schema()),
                    columns => columns.to_vec(),
                };
                rename(&name.to_string(), plan, names).map_err(translate)
            }
            _ => Err(PlannerError::invalid("its definition is not one query")),
        }
    }

    /// All rows of a table, view or path, without a projection that would only name all its columns.
    fn scan(&self, name: &ObjectName) -> crate::Result<LogicalPlan> {
        let (source, reference) = match as_path(name) {
            Some(path) => (self.path(path)?, TableReference::bare(stem(path))),
            None => {
                let name = table_name(name)?;
                (self.resolve(&name)?, TableReference::from(&name))
            }
        };
        let scan = LogicalPlanBuilder::scan(reference, source, None).map_err(translate)?;
        scan.build().map_err(translate)
    }

    /// Arguments of table functions as literals, where they can be.
    fn simplified(&self, args: Vec<Expr>) -> Result<Vec<Expr>> {
        let schema = Arc::new(DFSchema::empty());
        let context = SimplifyContext::builder()
            .with_schema(Arc::clone(&schema))
            .with_config_options(Arc::clone(&self.planner.config))
            .with_query_execution_start_time(self.rewriter.now())
            .build();
        let simplifier = ExprSimplifier::new(context);
        args.into_iter().map(|arg| simplifier.simplify(simplifier.coerce(arg, &schema)?)).collect()
    }

    fn table_function(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let args = self.simplified(args)?;
        let key = format!("function {name} {args:?}");
        self.looked_up(key, || self.function_or_reader(name, &args)).map_err(carry)
    }

    fn function_or_reader(&self, name: &str, args: &[Expr]) -> crate::Result<Arc<dyn TableSource>> {
        if let Some(source) = self.catalog.table_function(name, args)? {
            return Ok(source);
        }
        if matches!(name, "read_parquet" | "read_csv" | "read_json" | "read_arrow")
            && let [Expr::Literal(path, _)] = args
            && let Some(Some(path)) = path.try_as_str()
        {
            return self.path(path);
        }
        if let Some(scalar) = self.planner.functions.scalar(name) {
            // One row with the function's value.
            let value = scalar.call(args.to_vec()).alias(name);
            let plan = LogicalPlanBuilder::empty(true).project([value]).and_then(|b| b.build());
            let plan = self.coerced(plan.map_err(translate)?)?;
            return Ok(Arc::new(ViewSource::new(plan)));
        }
        let known = self.catalog.table_function_names();
        let hint = did_you_mean(name, known.iter().map(String::as_str));
        Err(PlannerError::name(format!("table function {name} does not exist"))
            .about(name)
            .with_hint(hint))
    }
}

/// The table, view or path that a query reads as it is: `SELECT * FROM name` and nothing else.
fn whole_table(query: &Query) -> Option<ObjectName> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, .. } = &from.relation else { return None };
    (*query == select_all_from(name.clone())).then(|| name.clone())
}

/// Whether binding failed because two output columns have the same name.
fn clashes(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Plan(message) => message.contains("require unique expression names"),
        DataFusionError::SchemaError(error, _) => matches!(
            **error,
            SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
        ),
        _ => false,
    }
}

impl ContextProvider for Binder<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        if name.catalog() == Some(PATH_CATALOG) {
            return self.path(name.table()).map_err(carry);
        }
        self.resolve(&TableName::from(&name)).map_err(carry)
    }

    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> Result<Arc<dyn TableSource>> {
        self.table_function(&name.to_lowercase(), args)
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(Arc::new(WorkTableSource::new(name.to_string(), schema)))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.planner.functions.planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::clone(&self.types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.planner.functions.scalar(name)
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.planner.functions.higher_order(name)
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.planner.functions.aggregate(name)
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.planner.functions.window(name)
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.planner.config
    }

    fn udf_names(&self) -> Vec<String> {
        self.planner.functions.scalar_names()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.planner.functions.higher_order_names()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.planner.functions.aggregate_names()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.planner.functions.window_names()
    }
}
