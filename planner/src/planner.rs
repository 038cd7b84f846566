//! The front door: [`Planner`].

use std::sync::Arc;
use std::time::SystemTime;

use datafusion_common::config::ConfigOptions;
use datafusion_expr::LogicalPlan;

use crate::bind::{Parameter, plan_statement, rewrite_plan};
use crate::catalog::Catalog;
use crate::deep_stack::with_deep_stack;
use crate::error::Result;
use crate::functions::Functions;
use crate::parse::{ParsedStatement, parse_script};
use crate::statement::{QueryPlan, Statement};

/// What planning depends on besides the text and the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannerOptions {
    /// The session's time zone, an IANA name or `+hh:mm`; `None` reads and shows zoned timestamps in UTC.
    pub time_zone: Option<String>,
    /// What `now()` is; `None` takes the time at which each statement is planned.
    pub now: Option<SystemTime>,
    /// Read `1.5` as a decimal instead of a double.
    pub decimal_literals: bool,
    /// Let a division by zero be NULL instead of an error.
    pub null_divisions: bool,
    /// Let a division by zero, and a value that cannot be cast, be NULL in materialized views.
    pub null_view_errors: bool,
    /// Let `generate_series` in a select list be rows rather than a list.
    pub series_rows: bool,
    /// Turn a CTE that is referenced twice or more into one shared plan (hints in the query override it).
    pub share_ctes: bool,
    /// Keep columns of tables in the plan that nothing reads.
    pub all_columns: bool,
}

impl Default for PlannerOptions {
    fn default() -> Self {
        PlannerOptions {
            time_zone: None,
            now: None,
            decimal_literals: true,
            null_divisions: false,
            null_view_errors: false,
            series_rows: true,
            share_ctes: true,
            all_columns: false,
        }
    }
}

/// Reads and plans statements. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Planner {
    pub(crate) functions: Arc<Functions>,
    pub(crate) options: PlannerOptions,
    pub(crate) config: Arc<ConfigOptions>,
}

impl Default for Planner {
    fn default() -> Self {
        Self::new()
    }
}

impl Planner {
    /// A planner with all built-in functions and default options.
    pub fn new() -> Self {
        Self::with_options(PlannerOptions::default())
    }

    /// A planner with all built-in functions.
    pub fn with_options(options: PlannerOptions) -> Self {
        Planner { functions: Arc::new(Functions::default()), config: config(&options), options }
    }

    /// The same functions under other options.
    pub fn reconfigured(&self, options: PlannerOptions) -> Self {
        Planner { functions: Arc::clone(&self.functions), config: config(&options), options }
    }

    /// The options in force.
    pub fn options(&self) -> &PlannerOptions {
        &self.options
    }

    /// The functions SQL can name.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The functions SQL can name, to add to them; clones of this planner keep what they had.
    pub fn functions_mut(&mut self) -> &mut Functions {
        Arc::make_mut(&mut self.functions)
    }

    /// The configuration that functions are evaluated under (time zone, string types).
    pub fn config(&self) -> &Arc<ConfigOptions> {
        &self.config
    }

    /// All statements of a text; fails when one of them cannot be read.
    pub fn parse(&self, sql: &str) -> Result<Vec<ParsedStatement>> {
        match self.parse_script(sql) {
            (statements, None) => Ok(statements),
            (_, Some(error)) => Err(error),
        }
    }

    /// The statements of a text before the first that cannot be read, and why it cannot.
    pub fn parse_script(&self, sql: &str) -> (Vec<ParsedStatement>, Option<crate::PlannerError>) {
        with_deep_stack(|| parse_script(sql)).unwrap_or_else(|error| (Vec::new(), Some(error)))
    }

    /// Binds a statement to the catalog's tables, coerces types, and rewrites the plan.
    pub fn plan(&self, statement: &ParsedStatement, catalog: &dyn Catalog) -> Result<Statement> {
        with_deep_stack(|| plan_statement(self, statement, catalog, &[]))?
    }

    /// Plans a prepared statement; the values replace `$1`, `$2`, ….
    pub fn plan_with_parameters(
        &self,
        statement: &ParsedStatement,
        catalog: &dyn Catalog,
        parameters: &[Parameter],
    ) -> Result<Statement> {
        with_deep_stack(|| plan_statement(self, statement, catalog, parameters))?
    }

    /// Coerces types in a plan that was built without SQL, and rewrites it, as [`Planner::plan`] does with a query.
    pub fn rewrite(&self, plan: LogicalPlan, catalog: &dyn Catalog) -> Result<QueryPlan> {
        with_deep_stack(|| rewrite_plan(self, catalog, plan))?
    }
}

fn config(options: &PlannerOptions) -> Arc<ConfigOptions> {
    let mut config = ConfigOptions::default();
    config.execution.time_zone = options.time_zone.clone();
    config.execution.enable_recursive_ctes = true;
    config.sql_parser.collect_spans = true;
    config.sql_parser.map_string_types_to_utf8view = true;
    config.sql_parser.parse_float_as_decimal = options.decimal_literals;
    // Uncorrelated scalar subqueries stay expressions: the physical optimizer makes single-row joins of them.
    config.optimizer.enable_physical_uncorrelated_scalar_subquery = true;
    config.optimizer.skip_failed_rules = false;
    config.optimizer.max_passes = 3;
    Arc::new(config)
}
