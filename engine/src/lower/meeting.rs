//! Which nodes' rows meet the rows of another input in the same subtask, by key.
//!
//! Between the phases of an aggregation rows travel as pages, split by another hash than batches are. That goes unseen
//! until a join or a union relies on it that equal keys of both its inputs are in the same subtask.

use std::collections::HashSet;

use thalweg_optimizer::physical::{Channel, PhysicalNode, PhysicalPlan, ShipStrategy};

/// Ids of the nodes whose rows reach a node of several partitioned inputs without another exchange. The rows of shared
/// plans count as such, whoever reads them.
pub(super) fn meeting_nodes(plan: &PhysicalPlan) -> HashSet<u32> {
    let mut found = HashSet::new();
    for shared in &plan.shared {
        visit(&shared.root, true, &mut found);
    }
    visit(&plan.root, false, &mut found);
    found
}

fn visit(node: &PhysicalNode, meets: bool, found: &mut HashSet<u32>) {
    if meets {
        found.insert(node.id);
    }
    let several = node.inputs.iter().filter(|channel| is_partitioned(channel)).count() > 1;
    for channel in &node.inputs {
        let forward = matches!(channel.ship, ShipStrategy::Forward);
        visit(&channel.node, forward && (meets || several), found);
    }
}

/// Whether each subtask gets its own part of the rows, and equal keys may be in the same part.
fn is_partitioned(channel: &Channel) -> bool {
    matches!(channel.ship, ShipStrategy::Forward | ShipStrategy::Hash(_))
}
