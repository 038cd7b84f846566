//! EXPLAIN as JSON: one object a node, inputs nested.
//!
//! Invariant: the keys are a contract with tools and users; they are added to, never renamed.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::physical::describe::Names;
use crate::physical::explain::{Actual, mode_name};
use crate::physical::state::changelog_mode;
use crate::physical::{Channel, ExchangeMode, PhysicalNode, PhysicalPlan};

/// The plan as JSON: the root's object, with `shared` (the shared plans) and `warnings` beside its own keys if there
/// are any.
pub fn explain_json(plan: &PhysicalPlan, actuals: Option<&HashMap<u32, Actual>>) -> Value {
    let names = &Context {
        names: Names::new(&plan.columns, true).forgetting(plan.state_ttl_us),
        streaming: plan.streaming,
    };
    let mut root = node(&plan.root, None, names, actuals);
    if !plan.shared.is_empty() {
        let shared = plan.shared.iter().map(|shared| {
            let mut object = node(&shared.root, None, names, actuals);
            object.insert("shared".into(), json!(shared.id));
            object.insert("name".into(), json!(shared.name));
            object.insert("exchange_mode".into(), json!(mode_name(shared.mode)));
            object.insert("exchange_reason".into(), json!(shared.reason));
            Value::Object(object)
        });
        root.insert("shared".into(), shared.collect());
    }
    if !plan.warnings.is_empty() {
        root.insert("warnings".into(), json!(plan.warnings));
    }
    Value::Object(root)
}

struct Context<'a> {
    names: Names<'a>,
    streaming: bool,
}

fn node(
    node_: &PhysicalNode,
    channel: Option<&Channel>,
    cx: &Context<'_>,
    actuals: Option<&HashMap<u32, Actual>>,
) -> Map<String, Value> {
    let names = &cx.names;
    let mut object = Map::new();
    object.insert("id".into(), json!(node_.id));
    object.insert("operator".into(), json!(node_.op.kind()));
    object.insert("driver_strategy".into(), json!(node_.op.name()));
    object.insert("detail".into(), json!(names.detail(node_)));
    let ship = channel.map_or_else(|| "FORWARD".to_owned(), |channel| names.ship(&channel.ship));
    object.insert("ship_strategy".into(), json!(ship));
    let blocking = channel.is_some_and(|channel| channel.mode == ExchangeMode::Blocking);
    object.insert("exchange_mode".into(), json!(if blocking { "BLOCKING" } else { "PIPELINED" }));
    if let Some(reason) = channel.and_then(|channel| channel.reason.as_ref()) {
        object.insert("exchange_reason".into(), json!(reason));
    }
    properties(node_, names, &mut object);
    if cx.streaming {
        object.insert("changelog_mode".into(), json!(changelog_mode(node_)));
        object.insert("state".into(), json!(names.state(node_)));
    }
    if let Some(actual) = actuals.and_then(|actuals| actuals.get(&node_.id)) {
        let actual = json!({
            "rows": actual.rows,
            "seconds": actual.seconds,
            "peak_bytes": actual.peak_bytes,
            "spilled_bytes": actual.spilled_bytes,
            "late_rows": actual.late_rows,
        });
        object.insert("actual".into(), actual);
    }
    let inputs =
        node_.inputs.iter().map(|input| Value::Object(node(&input.node, Some(input), cx, actuals)));
    object.insert("inputs".into(), inputs.collect());
    object
}

fn properties(node: &PhysicalNode, names: &Names<'_>, object: &mut Map<String, Value>) {
    let unique: Vec<Vec<String>> = node
        .provided
        .unique
        .iter()
        .map(|set| set.iter().map(|&id| names.column(id)).collect())
        .collect();
    let global = json!({
        "partitioning": names.partitioning(&node.provided.partitioning),
        "unique": unique,
    });
    object.insert("global_properties".into(), global);
    object.insert(
        "local_properties".into(),
        json!({ "ordering": names.ordering(&node.provided.ordering) }),
    );
    let estimates = json!({
        "rows": node.estimates.rows.round() + 0.0,
        "provenance": node.estimates.provenance.name(),
        "bytes": node.estimates.bytes.round() + 0.0,
    });
    object.insert("estimates".into(), estimates);
    let (own, all) = (&node.cost, &node.cumulative);
    let costs = json!({
        "network": own.network,
        "disk": own.disk,
        "cpu": own.cpu,
        "cumulative": { "network": all.network, "disk": all.disk, "cpu": all.cpu },
    });
    object.insert("costs".into(), costs);
    let columns: Vec<String> = node.output.iter().map(|&id| names.column(id)).collect();
    object.insert("output".into(), json!(columns));
}
