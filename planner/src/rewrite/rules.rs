//! The analyser and the logical rules, in order, and the configuration they see.
//!
//! Left out are rules that belong to the cost-based optimizer: splitting a distinct aggregation in two, and extracting
//! leaf expressions into projections of their own. No rule here orders joins.

use std::sync::Arc;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use datafusion_common::Result;
use datafusion_common::alias::AliasGenerator;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::LogicalPlan;
use datafusion_expr::registry::FunctionRegistry;
use datafusion_optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion_optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion_optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion_optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion_optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion_optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion_optimizer::eliminate_filter::EliminateFilter;
use datafusion_optimizer::eliminate_group_by_constant::EliminateGroupByConstant;
use datafusion_optimizer::eliminate_join::EliminateJoin;
use datafusion_optimizer::eliminate_limit::EliminateLimit;
use datafusion_optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion_optimizer::optimize_projections::OptimizeProjections;
use datafusion_optimizer::optimize_unions::OptimizeUnions;
use datafusion_optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion_optimizer::push_down_limit::PushDownLimit;
use datafusion_optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion_optimizer::unions_to_filter::UnionsToFilter;
use datafusion_optimizer::{Analyzer, Optimizer, OptimizerConfig, OptimizerContext, OptimizerRule};

use super::coercion::{self, Coercion};
use super::conversions::Conversions;
use super::dates::DateComparisons;
use super::decimal_constants::DecimalConstants;
use super::dependencies::{SoundDependencies, SoundDistinct};
use super::filters::PushFilters;
use super::in_lists::SoundSimplification;
use super::join_keys::{self, JoinKeys};
use super::scan_names::ScanNames;
use super::shared::SharedPlans;
use super::unnesting::Unnesting;
use super::{outer_aggregates, overflow, struct_parts, subquery_values};
use crate::functions::Functions;

/// Analyses and optimises the plans of one statement; all see the same clock and the same generated names.
pub(crate) struct Rewriter {
    analyzer: Analyzer,
    optimizer: Optimizer,
    config: StatementConfig,
    shared: SharedPlans,
    scans: ScanNames,
}

impl Rewriter {
    pub(crate) fn new(
        options: Arc<ConfigOptions>,
        functions: Arc<Functions>,
        now: SystemTime,
        all_columns: bool,
    ) -> Self {
        let context = OptimizerContext::new_with_config_options(options)
            .with_query_execution_start_time(now.into());
        let shared = SharedPlans::default();
        Rewriter {
            analyzer: analyzer(&shared),
            optimizer: Optimizer::with_rules(rules(all_columns)),
            config: StatementConfig { context, functions },
            shared,
            scans: ScanNames::default(),
        }
    }

    /// The statement's shared plans.
    pub(crate) fn shared(&self) -> &SharedPlans {
        &self.shared
    }

    /// The statement's clock.
    pub(crate) fn now(&self) -> Option<DateTime<Utc>> {
        self.config.query_execution_start_time()
    }

    /// The plan with the types that it ends up with, for those who have to know them before the rest of the analysis.
    pub(crate) fn coerce(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        coercion::coerce(plan)
    }

    /// Coerces types and checks the plan.
    pub(crate) fn analyze(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        outer_aggregates::check(&plan)?;
        let plan = self.scans.tell_apart(plan)?;
        self.analyzer.execute_and_check(plan, &self.config.options(), |_, _| {})
    }

    /// Rewrites an analysed plan.
    pub(crate) fn optimize(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        overflow::check(&plan)?;
        let plan = subquery_values::rewrite(plan, &self.config)?;
        let plan = struct_parts::take_apart(plan)?;
        join_keys::null_safe(self.optimizer.optimize(plan, &self.config, |_, _| {})?)
    }
}

/// Types first, then what goes by them, and then what the library would refuse of subqueries.
fn analyzer(shared: &SharedPlans) -> Analyzer {
    Analyzer::with_rules(vec![
        Arc::new(ResolveGroupingFunction::new()),
        Arc::new(Coercion),
        Arc::new(Conversions),
        Arc::new(Unnesting::new(shared.clone())),
    ])
}

/// The rules in their order; without those that drop columns where all are wanted.
fn rules(all_columns: bool) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = vec![
        Arc::new(OptimizeUnions::new()),
        Arc::new(UnionsToFilter::new()),
        Arc::new(DecimalConstants),
        Arc::new(SoundSimplification::default()),
        Arc::new(DateComparisons),
        Arc::new(SoundDistinct::default()),
        Arc::new(SoundDependencies),
        Arc::new(EliminateJoin::new()),
        Arc::new(DecorrelatePredicateSubquery::new()),
        Arc::new(ScalarSubqueryToJoin::new()),
        Arc::new(DecorrelateLateralJoin::new()),
        // Without the columns that nothing reads all rules below have far smaller schemas to build.
        Arc::new(SoundDependencies),
        Arc::new(OptimizeProjections::new()),
        Arc::new(JoinKeys),
        Arc::new(EliminateDuplicatedExpr::new()),
        Arc::new(EliminateFilter::new()),
        Arc::new(EliminateCrossJoin::new()),
        Arc::new(EliminateLimit::new()),
        Arc::new(PropagateEmptyRelation::new()),
        Arc::new(EliminateOuterJoin::new()),
        // Filters do not pass limits: limits move first.
        Arc::new(PushDownLimit::new()),
        Arc::new(PushFilters::default()),
        Arc::new(EliminateGroupByConstant::new()),
        Arc::new(CommonSubexprEliminate::new()),
        Arc::new(SoundDependencies),
        Arc::new(OptimizeProjections::new()),
    ];
    if all_columns {
        rules.retain(|rule| rule.name() != OptimizeProjections::new().name());
    }
    rules
}

/// The optimizer's context with a function registry: without one, DISTINCT ON panics.
#[derive(Debug)]
struct StatementConfig {
    context: OptimizerContext,
    functions: Arc<Functions>,
}

impl OptimizerConfig for StatementConfig {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        self.context.query_execution_start_time()
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        self.context.alias_generator()
    }

    fn options(&self) -> Arc<ConfigOptions> {
        self.context.options()
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.functions.as_ref())
    }
}
