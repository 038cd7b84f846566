//! Final passes over a chosen plan: runtime filters, late keys, exchange modes, node numbers, buffer timeouts.
//!
//! Invariant: these passes change neither operators' results nor strategies.

mod buffer_timeouts;
mod late_keys;
mod runtime_filters;

pub(crate) use runtime_filters::{LEAST_DROPPED_SHARE, drops_unmatched};

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{OptimizerError, Result};
use crate::finish::runtime_filters::RuntimeFilters;
use crate::input::OptimizerInput;
use crate::options::{ExchangePolicy, OptimizerOptions};
use crate::physical::check::check;
use crate::physical::{
    Channel, ColumnId, ExchangeMode, PhysicalNode, PhysicalPlan, SharedNode, ShipStrategy,
};
use crate::relational;
use crate::search;
use crate::statistics::StatisticsProvider;
use crate::streaming::{self, Prepared};

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
    let input = input.borrow();
    let mut query = relational::bind(input, options.all_columns)?;
    let Prepared { streaming, bounds } = streaming::prepare(&mut query, input, options)?;
    // A buffer timeout may be of one reader alone.
    if streaming && options.strategies.shared_scans && input.buffer_timeouts.is_empty() {
        streaming::share(&mut query);
    }
    let mut searched = search::search(&query, input, statistics, options)?;
    if options.strategies.runtime_filters {
        let mut filters = RuntimeFilters::new(&searched.estimator, &searched.columns);
        searched.root = filters.assign(&searched.root);
        searched.shared.iter_mut().for_each(|(_, _, node)| *node = filters.assign(node));
    }
    // An exchange that waits for the end of an endless table would wait for ever.
    let shared = query.shared.iter().map(|shared| &shared.root);
    let endless = shared.chain([&query.root]).any(streaming::has_endless);
    let policy = if endless { ExchangePolicy::Automatic } else { options.exchange_mode };
    if endless && options.exchange_mode == ExchangePolicy::Blocking {
        let warning = "execution.exchange_mode = blocking is left aside: a table has no end";
        searched.warnings.push(warning.to_owned());
    }
    let mut columns = searched.columns;
    let mut next_id = 0;
    let mut finish = |node: &Arc<PhysicalNode>| {
        let node = numbered(node, policy, &mut next_id);
        if options.strategies.late_keys { late_keys::assign(&node, &mut columns) } else { node }
    };
    let root = finish(&searched.root);
    let shared: Vec<SharedNode> = searched
        .shared
        .iter()
        .zip(&query.shared)
        .map(|((id, name, node), rel)| {
            let root = finish(node);
            // Readers of a stream take rows whatever the others do: no build is made of them.
            let (mode, reason) = match rel.root.flow.live {
                true => (ExchangeMode::Pipelined, "a stream that is read more than once"),
                false => {
                    (ExchangeMode::Blocking, "read more than once: its readers may join again")
                }
            };
            SharedNode {
                id: *id,
                name: name.clone(),
                columns: root.output.clone(),
                root,
                mode,
                reason: reason.to_owned(),
            }
        })
        .collect();
    let mut plan = PhysicalPlan {
        key: key_of(&root, &query.output),
        bounds,
        shared,
        root,
        output: query.output,
        columns: Arc::new(columns),
        warnings: searched.warnings,
        streaming,
        state_ttl_us: options.state_ttl_us,
        buffer_timeouts: BTreeMap::new(),
    };
    buffer_timeouts::assign(&mut plan, input);
    if cfg!(debug_assertions) {
        check(&plan).map_err(OptimizerError::InvalidPlan)?;
    }
    Ok(plan)
}

/// Positions of the result's columns that tell its rows apart.
fn key_of(root: &PhysicalNode, output: &[(ColumnId, String)]) -> Option<Vec<usize>> {
    let place = |id: &ColumnId| output.iter().position(|(column, _)| column == id);
    root.provided.unique.iter().find_map(|set| set.iter().map(place).collect())
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
