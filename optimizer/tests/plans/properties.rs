//! Plans that are chosen because a property is reused.

use arrow::datatypes::DataType;
use thalweg_optimizer::OptimizerOptions;
use thalweg_optimizer::physical::{AggregatePhase, PhysicalNode, PhysicalOp, ShipStrategy};

use super::catalog::{Tables, count, nodes, plan_with, scans, text, threads};

/// A fact table with two keys, and two tables that drop few of its rows; `b` drops a little more than `c`.
fn tables() -> Tables {
    let int = DataType::Int64;
    let mut tables = Tables::default();
    let key = |name, distinct, max| (name, int.clone(), distinct, Some((1, max)));
    tables.add(
        "a",
        4_000_000.0,
        &[
            key("k", 2_000_000.0, 2_000_000),
            key("j", 2_000_000.0, 2_000_000),
            ("v", DataType::Int64, 1_000.0, Some((1, 1_000))),
        ],
    );
    tables.add("b", 1_800_000.0, &[key("k", 1_800_000.0, 2_000_000)]);
    tables.add("c", 1_840_000.0, &[key("j", 1_840_000.0, 2_000_000)]);
    tables
}

/// Only partitioned hash joins, so that every join needs its operands spread by its keys.
fn partitioned() -> OptimizerOptions {
    let mut options = threads(8);
    options.strategies.broadcast = false;
    options.strategies.sort_merge_join = false;
    options
}

/// The tables of the join that is computed first.
fn innermost(node: &PhysicalNode) -> Vec<String> {
    let below = node.inputs.iter().find(|channel| scans(&channel.node).len() >= 2);
    match below {
        Some(channel) => innermost(&channel.node),
        None => {
            let mut names = scans(node);
            names.sort();
            names
        }
    }
}

#[test]
fn a_larger_intermediate_result_is_accepted_for_a_spread_that_is_used_again() {
    let joins = "from a, b, c where a.k = b.k and a.j = c.j";
    let counted = plan_with(&format!("select count(*) {joins}"), &tables(), &partitioned());
    assert_eq!(innermost(&counted.root), ["a", "b"], "fewest rows first: {}", text(&counted));

    let sql = format!("select a.k, sum(v) {joins} group by a.k");
    let grouped = plan_with(&sql, &tables(), &partitioned());
    assert_eq!(innermost(&grouped.root), ["a", "c"], "the spread by k last: {}", text(&grouped));
    let single = nodes(&grouped).into_iter().find(|node| {
        matches!(&node.op, PhysicalOp::HashAggregate { phase: AggregatePhase::Single, .. })
    });
    let single = single.unwrap_or_else(|| panic!("{}", text(&grouped)));
    assert_eq!(single.inputs[0].ship, ShipStrategy::Forward, "{}", text(&grouped));
}

#[test]
fn a_spread_by_one_of_two_keys_serves_a_grouping_by_both() {
    let sql = "select a.k, v, count(*) from a, b where a.k = b.k group by a.k, v";
    let plan = plan_with(sql, &tables(), &partitioned());
    let forward = nodes(&plan).into_iter().any(|node| {
        matches!(&node.op, PhysicalOp::HashAggregate { phase: AggregatePhase::Single, .. })
            && node.inputs[0].ship == ShipStrategy::Forward
    });
    assert!(forward, "{}", text(&plan));
}

#[test]
fn an_order_made_for_a_merge_join_serves_the_result() {
    let sql = "select a.k, v from a, b where a.k = b.k order by a.k";
    let mut options = threads(1);
    options.strategies.hash_join = false;
    let plan = plan_with(sql, &tables(), &options);
    let sorts = count(&plan, |op| matches!(op, PhysicalOp::Sort { .. }));
    assert_eq!(sorts, 2, "one sort per operand and none above: {}", text(&plan));
}

#[test]
fn windows_over_one_partitioning_share_the_exchange_and_the_sort() {
    let sql =
        "select sum(v) over (partition by k order by j), count(*) over (partition by k) from a";
    let plan = plan_with(sql, &tables(), &threads(4));
    let hashed = nodes(&plan)
        .iter()
        .flat_map(|n| &n.inputs)
        .filter(|c| matches!(c.ship, ShipStrategy::Hash(_)))
        .count();
    assert_eq!(hashed, 1, "{}", text(&plan));
    assert_eq!(count(&plan, |op| matches!(op, PhysicalOp::Sort { .. })), 1, "{}", text(&plan));
}
