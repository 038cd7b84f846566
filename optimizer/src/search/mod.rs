//! The search: every relation is planned for all properties that operators above could use.
//!
//! Invariant: interesting properties go down, candidates come up, and each relation is planned once. Joins that belong
//! together are planned as one block (`joins`), every other operator by its file in `strategies`.

pub(crate) mod candidate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cardinality::{Estimator, Logical};
use crate::cost::CostProfile;
use crate::error::Result;
use crate::input::{OptimizerInput, StreamOf};
use crate::joins::hints::ResolvedHint;
use crate::options::OptimizerOptions;
use crate::physical::{ColumnTable, PhysicalNode};
use crate::properties::InterestingProperties;
use crate::relational::{Rel, RelOp, RelQuery};
use crate::search::candidate::Planned;
use crate::statistics::StatisticsProvider;

/// Memory assumed when no limit is given, bytes.
const UNLIMITED_MEMORY_BYTES: f64 = 1e15;

/// State of one optimization.
pub(crate) struct Search<'a> {
    pub options: &'a OptimizerOptions,
    pub statistics: &'a dyn StatisticsProvider,
    pub profile: CostProfile,
    pub estimator: Estimator,
    pub columns: ColumnTable,
    /// What is known of the shared plans that were planned.
    pub shared: BTreeMap<u32, Logical>,
    /// Estimated rows of a superstep of the recursive queries around.
    pub work_tables: BTreeMap<u32, f64>,
    pub warnings: Vec<String>,
    /// Join hints.
    pub hints: Vec<ResolvedHint>,
    /// What tables are to streams.
    pub stream_of: &'a StreamOf,
    /// The shared plans that withdraw rows.
    pub changing: BTreeSet<u32>,
}

/// Finished plans of a query, before the final passes.
pub(crate) struct Searched {
    pub root: Arc<PhysicalNode>,
    pub shared: Vec<(u32, String, Arc<PhysicalNode>)>,
    pub columns: ColumnTable,
    pub estimator: Estimator,
    pub warnings: Vec<String>,
}

/// Plans the shared plans in their order, then the query.
pub(crate) fn search(
    query: &RelQuery,
    input: &OptimizerInput,
    statistics: &dyn StatisticsProvider,
    options: &OptimizerOptions,
) -> Result<Searched> {
    let memory = options.memory_limit.map_or(UNLIMITED_MEMORY_BYTES, |bytes| bytes as f64);
    let mut search = Search {
        options,
        statistics,
        profile: CostProfile::in_process(options.threads, memory),
        estimator: Estimator::new(&query.columns),
        columns: query.columns.clone(),
        shared: BTreeMap::new(),
        work_tables: BTreeMap::new(),
        warnings: Vec::new(),
        hints: ResolvedHint::resolve(&input.hints, &query.named),
        stream_of: &input.stream_of,
        changing: BTreeSet::new(),
    };
    let mut shared = Vec::with_capacity(query.shared.len());
    for plan in &query.shared {
        let planned = search.plan(&plan.root, &InterestingProperties::default())?;
        let node = planned.cheapest().node.clone();
        search.shared.insert(plan.id, planned.logical);
        if node.changes {
            search.changing.insert(plan.id);
        }
        shared.push((plan.id, plan.name.clone(), node));
    }
    let planned = search.plan(&query.root, &InterestingProperties::default())?;
    let finished =
        planned.candidates.iter().map(|candidate| search.gathered(candidate, &planned.logical));
    let best = finished.min_by(|a, b| a.time.total_cmp(&b.time));
    search.warnings.extend(search.hints.iter().filter_map(ResolvedHint::warning));
    Ok(Searched {
        root: best.expect("every relation has a candidate").node,
        shared,
        columns: search.columns,
        estimator: search.estimator,
        warnings: search.warnings,
    })
}

impl Search<'_> {
    /// Plans any relation for the properties operators above could use.
    pub fn plan(&mut self, rel: &Rel, interesting: &InterestingProperties) -> Result<Planned> {
        match &rel.op {
            RelOp::Scan { .. } => Ok(self.plan_scan(rel)),
            RelOp::SharedScan { .. } => Ok(self.plan_shared_scan(rel)),
            RelOp::WorkTableScan { .. } => Ok(self.plan_work_table_scan(rel)),
            RelOp::Values { .. } => Ok(self.plan_values(rel)),
            RelOp::Empty { .. } => Ok(self.plan_empty(rel)),
            RelOp::Filter { .. } => self.plan_filter(rel, interesting),
            RelOp::Compute { .. } => self.plan_project(rel, interesting),
            RelOp::Join(_) => self.plan_joins(rel, interesting),
            RelOp::Aggregate(spec) => self.plan_aggregate(rel, spec, interesting),
            RelOp::Window { .. } => self.plan_window(rel, interesting),
            RelOp::RowWindows(spec) => self.plan_row_windows(rel, spec, interesting),
            RelOp::Sort { .. } => self.plan_sort(rel),
            RelOp::Limit { .. } => self.plan_limit(rel, interesting),
            RelOp::Union { .. } => self.plan_union(rel),
            RelOp::Unnest { .. } => self.plan_unnest(rel, interesting),
            RelOp::AssertSingleRow => self.plan_single_row(rel),
            RelOp::Fold => self.plan_fold(rel),
            RelOp::RecursiveCte { .. } => self.plan_recursive(rel),
        }
    }
}
