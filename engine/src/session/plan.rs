//! From a logical plan to a physical one.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::Dependency;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::logical_plan::TableScanBuilder;
use datafusion_expr::{LogicalPlan, TableScan};
use thalweg_optimizer::{
    HintedStrategy, JoinHint, OptimizerInput, OptimizerOptions, PhysicalPlan, ResultUse,
    SharedInput, StreamInput, TimeoutHint, TimeoutScope, optimize,
};
use thalweg_planner::{
    HintScope, OptionHint, QueryPlan, RelationHint, SharedSource, with_deep_stack,
};

use super::inserts::is_endless;
use crate::catalog::{EngineStatistics, EngineTable, TableSink};
use crate::error::{Error, Report, Result};
use crate::settings::{self, RuntimeMode, Settings};

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PlanUse {
    /// What the reader of the result can take.
    pub(crate) result: ResultUse,
    /// Whether tables whose changes are known are read with all changes to come, rather than as they are now.
    pub(crate) follow: bool,
    /// Whether operators get all columns of their inputs, since somebody wants to see the rows that they drop.
    pub(crate) all_columns: bool,
}

impl PlanUse {
    /// Changes go to a result that is kept up to date with the tables.
    pub(crate) const VIEW: PlanUse =
        PlanUse { result: ResultUse::Changelog, follow: true, all_columns: false };

    /// Nobody looks at the result: the query runs for the rows that come too late.
    pub(crate) const LATE_ROWS: PlanUse =
        PlanUse { result: ResultUse::Changelog, follow: false, all_columns: true };

    /// What a sink can take.
    pub(crate) fn of_sink(sink: &TableSink) -> PlanUse {
        let result = match sink.kind.takes_changes() {
            true => ResultUse::Changelog,
            false => ResultUse::Rows,
        };
        PlanUse { result, ..PlanUse::default() }
    }
}

/// The physical plan of a query under the settings.
pub(crate) fn physical_plan(
    query: &QueryPlan,
    settings: &Settings,
    wanted: PlanUse,
) -> Result<PhysicalPlan> {
    let input = OptimizerInput {
        plan: query.plan.clone(),
        shared: query
            .shared
            .iter()
            .map(|shared| SharedInput {
                id: shared.id.0 as u32,
                name: shared.name.clone(),
                plan: shared.plan.clone(),
            })
            .collect(),
        shared_id: Arc::new(|source| {
            source.downcast_ref::<SharedSource>().map(|shared| shared.id().0 as u32)
        }),
        stream_of: Arc::new(move |source| {
            let table = &EngineTable::of(source)?.table;
            let event_time = table.event_time().map(|time| time.column);
            let followed = wanted.follow && table.can_be_followed();
            let unbounded = table.is_unbounded() || followed;
            let changes = table.withdraws() || followed;
            let bounds = table.bounds().to_vec();
            let stream = StreamInput { unbounded, changes, event_time, bounds };
            (unbounded || changes || event_time.is_some()).then_some(stream)
        }),
        hints: query.hints.iter().filter_map(join_hint).collect(),
        emit: query.emit,
        buffer_timeouts: query.options.iter().map(timeout_hint).collect::<Result<_>>()?,
        blocks: query.options.first().map(|o| o.blocks.to_vec()).unwrap_or_default(),
    };
    let options = OptimizerOptions {
        threads: settings.threads(),
        batch: settings.batch_rows(),
        exchange_mode: settings.exchange_policy(),
        strategies: settings.strategies(),
        memory_limit: settings.memory_limit(),
        streaming: settings.runtime_mode() == RuntimeMode::Streaming,
        state_ttl_us: settings.state_ttl_us(),
        result: wanted.result,
        all_columns: wanted.all_columns,
        ..OptimizerOptions::default()
    };
    let statistics = EngineStatistics { enabled: settings.use_statistics() };
    let planned =
        with_deep_stack(|| optimize(input, &statistics, &options)).map_err(deep_stack_failure)?;
    let planned = planned?;
    // Tables of changes that have an end are read as a stream in any mode.
    let is_batch = settings.runtime_mode() == RuntimeMode::Batch;
    if planned.streaming && is_batch && is_endless(query)? {
        let report = Report::new("a batch query cannot read a table without an end")
            .with_hint("RESET execution.runtime_mode runs it as a continuous query.".to_string());
        return Err(Error::Unsupported(Box::new(report)));
    }
    Ok(planned)
}

/// The keys of a query's result, by position, if the keys that tables declare are believed.
pub(crate) fn declared_keys(query: &QueryPlan) -> Vec<Vec<usize>> {
    let believed = query.plan.clone().transform_up(|node| {
        let LogicalPlan::TableScan(scan) = node else {
            return node.recompute_schema().map(Transformed::yes);
        };
        let Some(engine) = EngineTable::of(scan.source.as_ref()).map(EngineTable::trusting) else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let source = Arc::new(engine);
        let TableScan { table_name, projection, filters, fetch, .. } = scan;
        let scan = TableScanBuilder::new(table_name, source)
            .with_projection(projection)
            .with_filters(filters)
            .with_fetch(fetch)
            .build()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    });
    // A plan that cannot be put together anew tells nothing of its keys.
    let Ok(believed) = believed else { return Vec::new() };
    let schema = believed.data.schema();
    let all = schema.fields().len();
    let dependencies = schema.functional_dependencies().iter();
    let keys = dependencies.filter(|dependency| {
        dependency.mode == Dependency::Single && dependency.target_indices.len() == all
    });
    keys.map(|key| key.source_indices.clone()).collect()
}

/// A hint as the optimizer takes it; the planner lets none pass that has no such form.
fn join_hint(hint: &RelationHint) -> Option<JoinHint> {
    let strategy = HintedStrategy::of_name(&hint.name)?;
    Some(JoinHint { strategy, relation: hint.relation.clone() })
}

/// The timeout that a hint gives a part of a query, in the form of the setting.
fn timeout_hint(option: &OptionHint) -> Result<TimeoutHint> {
    let scope = match &option.scope {
        HintScope::Query => TimeoutScope::Query,
        HintScope::Block(name) => TimeoutScope::Block(name.clone()),
        HintScope::Table(name) => TimeoutScope::Table(name.clone()),
        HintScope::Unnamed | HintScope::Nowhere => {
            return Err(Error::internal("a hint that belongs to nothing was planned"));
        }
    };
    Ok(TimeoutHint { scope, micros: settings::buffer_timeout_us(&option.value)? })
}

/// The columns of a query's result as users see them. What the planner proves never to be NULL is not promised.
pub(crate) fn result_schema(query: &QueryPlan) -> SchemaRef {
    let fields = query.plan.schema().fields().iter().zip(&query.names);
    let fields: Vec<Field> =
        fields.map(|(f, name)| Field::new(name, f.data_type().clone(), true)).collect();
    Arc::new(Schema::new(fields))
}

/// A failure of the deep stack itself: it could not start, or what ran on it panicked.
pub(crate) fn deep_stack_failure(error: thalweg_planner::PlannerError) -> Error {
    Error::from_planner(error, &Arc::from(""))
}
