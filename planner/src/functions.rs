//! All functions by name and alias.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_expr::planner::ExprPlanner;
use datafusion_expr::registry::FunctionRegistry;
use datafusion_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion_functions::core::planner::CoreFunctionPlanner;
use datafusion_functions::datetime::planner::DatetimeFunctionPlanner;
use datafusion_functions::unicode::planner::UnicodeFunctionPlanner;
use datafusion_functions_aggregate::planner::AggregateFunctionPlanner;
use datafusion_functions_nested::planner::{FieldAccessPlanner, NestedFunctionPlanner};
use datafusion_functions_window::planner::WindowFunctionPlanner;

use crate::average::average;
use crate::bind::SqlFunction;
use crate::bytes::bytea;
use crate::conversions::{self, IntervalPlanner};
use crate::field_access::NoFieldPlanner;
use crate::jsonb;
use crate::map_access::MapAccessPlanner;
use crate::ordered_set;
use crate::rewrite::{QuotientPlanner, single_value};
use crate::vectors::{DistancePlanner, vector};
use crate::windows;

/// Functions that are none of users' business: plans call them, or nothing here can answer them.
const HIDDEN: [&str; 19] = [
    "as_interval",
    "as_text",
    "as_whole",
    "cast_to_type",
    "cumulate_ends",
    "file_row_index",
    "gap_share",
    "gap_times",
    "hop_starts",
    "input_file_name",
    "interval_length",
    "interval_times",
    "jsonb_get",
    "jsonb_get_text",
    "jsonb_of_lists",
    "jsonb_text",
    "single_value",
    "window_floor",
    "window_shift",
];

/// The registry: one map for each kind of function; aliases are entries of their own.
#[derive(Debug, Clone)]
pub struct Functions {
    scalar: HashMap<String, Arc<ScalarUDF>>,
    higher_order: HashMap<String, Arc<HigherOrderUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
    window: HashMap<String, Arc<WindowUDF>>,
    sql: HashMap<String, Arc<SqlFunction>>,
    expr_planners: Vec<Arc<dyn ExprPlanner>>,
}

/// Entries of functions under their name and all aliases.
fn by_name<F>(
    functions: Vec<Arc<F>>,
    names: impl Fn(&F) -> Vec<String>,
) -> HashMap<String, Arc<F>> {
    let entries = functions
        .into_iter()
        .flat_map(|f| names(&f).into_iter().map(move |name| (name, Arc::clone(&f))));
    entries.collect()
}

macro_rules! names {
    ($f:expr) => {
        std::iter::once($f.name().to_string())
            .chain($f.aliases().iter().cloned())
            .collect::<Vec<String>>()
    };
}

impl Default for Functions {
    fn default() -> Self {
        let mut scalar = datafusion_functions::all_default_functions();
        scalar.extend(datafusion_functions_nested::all_default_nested_functions());
        let mut functions = Functions {
            scalar: by_name(scalar, |f| names!(f)),
            higher_order: by_name(
                datafusion_functions_nested::all_default_higher_order_functions(),
                |f| names!(f),
            ),
            aggregate: by_name(
                datafusion_functions_aggregate::all_default_aggregate_functions(),
                |f| names!(f),
            ),
            window: by_name(datafusion_functions_window::all_default_window_functions(), |f| {
                names!(f)
            }),
            sql: HashMap::new(),
            expr_planners: expr_planners(),
        };
        functions.register_aggregate(average());
        ordered_set::functions()
            .into_iter()
            .for_each(|function| functions.register_aggregate(function));
        own_scalar_functions().into_iter().for_each(|function| functions.register_scalar(function));
        functions.alias_scalar("len", "character_length");
        functions.alias_scalar("sign", "signum");
        functions.alias_scalar("strftime", "to_char");
        functions.alias_aggregate("every", "bool_and");
        functions.alias_aggregate("first", "first_value");
        functions.alias_aggregate("last", "last_value");
        functions
    }
}

/// The scalar functions that are in no library: whoever evaluates expressions must know them too.
pub fn own_scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions = conversions::functions();
    functions.extend([bytea(), vector(), single_value()]);
    functions.extend(windows::functions());
    functions.extend(jsonb::functions());
    functions
}

/// In this order: the first that knows an expression plans it.
fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    vec![
        Arc::new(QuotientPlanner),
        Arc::new(IntervalPlanner),
        Arc::new(DistancePlanner),
        Arc::new(MapAccessPlanner),
        Arc::new(NoFieldPlanner),
        Arc::new(CoreFunctionPlanner::default()),
        Arc::new(NestedFunctionPlanner),
        Arc::new(FieldAccessPlanner),
        Arc::new(DatetimeFunctionPlanner),
        Arc::new(UnicodeFunctionPlanner),
        Arc::new(AggregateFunctionPlanner),
        Arc::new(WindowFunctionPlanner),
    ]
}

impl Functions {
    /// The scalar function of this name.
    pub fn scalar(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.scalar.get(name).cloned()
    }

    /// The function of this name that takes lambdas.
    pub fn higher_order(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.higher_order.get(name).cloned()
    }

    /// The aggregate function of this name.
    pub fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.aggregate.get(name).cloned()
    }

    /// The window function of this name.
    pub fn window(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.window.get(name).cloned()
    }

    /// Adds a scalar function, or replaces the one of its name.
    pub fn register_scalar(&mut self, function: Arc<ScalarUDF>) {
        let names = names!(function);
        self.scalar.extend(names.into_iter().map(|name| (name, Arc::clone(&function))));
    }

    /// Adds an aggregate function, or replaces the one of its name.
    pub fn register_aggregate(&mut self, function: Arc<AggregateUDF>) {
        let names = names!(function);
        self.aggregate.extend(names.into_iter().map(|name| (name, Arc::clone(&function))));
    }

    /// The function of this name that is defined by an SQL expression.
    pub fn sql(&self, name: &str) -> Option<Arc<SqlFunction>> {
        self.sql.get(name).cloned()
    }

    /// Adds a function that is defined by an SQL expression, or replaces the one of its name.
    pub fn register_sql(&mut self, function: SqlFunction) {
        self.sql.insert(function.name().to_string(), Arc::new(function));
    }

    /// Removes a function that is defined by an SQL expression; false when there is none of this name.
    pub fn remove_sql(&mut self, name: &str) -> bool {
        self.sql.remove(name).is_some()
    }

    /// The names of all functions that are defined by SQL expressions, sorted.
    pub fn sql_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.sql.keys().cloned().collect();
        names.sort();
        names
    }

    pub(crate) fn has_sql_functions(&self) -> bool {
        !self.sql.is_empty()
    }

    /// Whether a function of this name is there that no SQL expression defines.
    pub(crate) fn is_built_in(&self, name: &str) -> bool {
        self.scalar.contains_key(name)
            || self.higher_order.contains_key(name)
            || self.aggregate.contains_key(name)
            || self.window.contains_key(name)
    }

    /// Another name for a scalar function that is there.
    fn alias_scalar(&mut self, alias: &str, name: &str) {
        if let Some(function) = self.scalar(name) {
            self.scalar.insert(alias.to_string(), function);
        }
    }

    /// Another name for an aggregate function that is there.
    fn alias_aggregate(&mut self, alias: &str, name: &str) {
        if let Some(function) = self.aggregate(name) {
            self.aggregate.insert(alias.to_string(), function);
        }
    }

    /// The names and aliases of all functions with their kind, sorted. Left out are those that only plans call, and those
    /// that only a scan of the library could answer.
    pub fn names(&self) -> Vec<(String, FunctionKind)> {
        let mut names: Vec<(String, FunctionKind)> = Vec::new();
        names.extend(self.scalar.keys().map(|n| (n.clone(), FunctionKind::Scalar)));
        names.extend(self.higher_order.keys().map(|n| (n.clone(), FunctionKind::Scalar)));
        names.extend(self.aggregate.keys().map(|n| (n.clone(), FunctionKind::Aggregate)));
        names.extend(self.window.keys().map(|n| (n.clone(), FunctionKind::Window)));
        names.extend(self.sql.keys().map(|n| (n.clone(), FunctionKind::Scalar)));
        names.retain(|(name, _)| !HIDDEN.contains(&name.as_str()));
        names.sort();
        names
    }

    pub(crate) fn scalar_names(&self) -> Vec<String> {
        self.scalar.keys().cloned().collect()
    }

    pub(crate) fn higher_order_names(&self) -> Vec<String> {
        self.higher_order.keys().cloned().collect()
    }

    pub(crate) fn aggregate_names(&self) -> Vec<String> {
        self.aggregate.keys().cloned().collect()
    }

    pub(crate) fn window_names(&self) -> Vec<String> {
        self.window.keys().cloned().collect()
    }

    pub(crate) fn planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.expr_planners
    }
}

/// What a function computes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FunctionKind {
    /// One row.
    Scalar,
    /// All rows of a group.
    Aggregate,
    /// The rows of a window.
    Window,
}

fn missing(name: &str) -> DataFusionError {
    DataFusionError::Plan(format!("function {name} does not exist"))
}

impl FunctionRegistry for Functions {
    fn udfs(&self) -> HashSet<String> {
        self.scalar.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> HashSet<String> {
        self.higher_order.keys().cloned().collect()
    }

    fn udafs(&self) -> HashSet<String> {
        self.aggregate.keys().cloned().collect()
    }

    fn udwfs(&self) -> HashSet<String> {
        self.window.keys().cloned().collect()
    }

    fn udf(&self, name: &str) -> Result<Arc<ScalarUDF>> {
        self.scalar(name).ok_or_else(|| missing(name))
    }

    fn higher_order_function(&self, name: &str) -> Result<Arc<HigherOrderUDF>> {
        self.higher_order(name).ok_or_else(|| missing(name))
    }

    fn udaf(&self, name: &str) -> Result<Arc<AggregateUDF>> {
        self.aggregate(name).ok_or_else(|| missing(name))
    }

    fn udwf(&self, name: &str) -> Result<Arc<WindowUDF>> {
        self.window(name).ok_or_else(|| missing(name))
    }

    fn expr_planners(&self) -> Vec<Arc<dyn ExprPlanner>> {
        self.expr_planners.clone()
    }
}
