//! Final passes over a chosen plan: runtime filters, exchange modes, node numbers.
//!
//! Invariant: these passes change neither operators' results nor strategies.

mod runtime_filters;

pub(crate) use runtime_filters::{LEAST_DROPPED_SHARE, drops_unmatched};

use std::borrow::Borrow;
use std::sync::Arc;

use crate::error::{OptimizerError, Result};
use crate::finish::runtime_filters::RuntimeFilters;
use crate::input::OptimizerInput;
use crate::options::{ExchangePolicy, OptimizerOptions};
use crate::physical::check::check;
use crate::physical::{
    Channel, ExchangeMode, PhysicalNode, PhysicalPlan, SharedNode, ShipStrategy,
};
use crate::relational;
use crate::search;
use crate::statistics::StatisticsProvider;

/// Optimizes a query: from its logical plan to the plan that is estimated to take the least time.
///
/// # Errors
/// `Unsupported` for steps and expressions that no strategy executes; `InvalidPlan` if the logical plan contradicts
/// itself.
pub fn optimize(
    input: impl Borrow<OptimizerInput>,
    statistics: &dyn StatisticsProvider,
    options: &OptimizerOptions,
) -> Result<PhysicalPlan> {
    let query = relational::bind(input.borrow())?;
    let searched = search::search(&query, statistics, options)?;
    let mut filters = RuntimeFilters::new(&searched.estimator, &searched.columns);
    let mut next_id = 0;
    let mut finish = |node: &Arc<PhysicalNode>| {
        let node =
            if options.strategies.runtime_filters { filters.assign(node) } else { node.clone() };
        numbered(&node, options.exchange_mode, &mut next_id)
    };
    let root = finish(&searched.root);
    let shared = searched.shared.iter().map(|(id, name, node)| {
        let root = finish(node);
        SharedNode {
            id: *id,
            name: name.clone(),
            columns: root.output.clone(),
            root,
            mode: ExchangeMode::Blocking,
            reason: "read more than once: its readers may join again".to_owned(),
        }
    });
    let plan = PhysicalPlan {
        shared: shared.collect(),
        root,
        output: query.output,
        columns: Arc::new(searched.columns),
        warnings: searched.warnings,
    };
    if cfg!(debug_assertions) {
        check(&plan).map_err(OptimizerError::InvalidPlan)?;
    }
    Ok(plan)
}

/// Numbers the nodes from the root downwards and sets the exchange modes.
fn numbered(node: &PhysicalNode, policy: ExchangePolicy, next_id: &mut u32) -> Arc<PhysicalNode> {
    let mut numbered = node.clone();
    numbered.id = *next_id;
    *next_id += 1;
    numbered.inputs = node.inputs.iter().map(|channel| moded(channel, policy, next_id)).collect();
    Arc::new(numbered)
}

fn moded(channel: &Channel, policy: ExchangePolicy, next_id: &mut u32) -> Channel {
    let forced = policy == ExchangePolicy::Blocking && channel.ship != ShipStrategy::Forward;
    let (mode, reason) = if forced {
        (ExchangeMode::Blocking, Some("execution.exchange_mode = blocking".to_owned()))
    } else {
        (channel.mode, channel.reason.clone())
    };
    Channel {
        node: numbered(&channel.node, policy, next_id),
        ship: channel.ship.clone(),
        mode,
        reason,
    }
}
