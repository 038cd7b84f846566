//! Join hints are obeyed, or there is a warning.

use thalweg_optimizer::physical::{PhysicalNode, PhysicalOp, PhysicalPlan, ShipStrategy, Side};

use super::catalog::{nodes, plan_with, scans, shop, text, threads};

fn planned(hint: &str) -> PhysicalPlan {
    let sql = format!(
        "select /*+ {hint} */ count(*) from sale s, customer c where s.customer = c.id
         and c.country = 3"
    );
    plan_with(&sql, &shop(), &threads(4))
}

fn join(plan: &PhysicalPlan) -> &PhysicalNode {
    let joins = |node: &&PhysicalNode| {
        matches!(
            node.op,
            PhysicalOp::HashJoin { .. }
                | PhysicalOp::SortMergeJoin { .. }
                | PhysicalOp::NestedLoopJoin { .. }
        )
    };
    nodes(plan).into_iter().find(joins).unwrap_or_else(|| panic!("{}", text(plan)))
}

/// The table of the build side and how it is sent there.
fn built(plan: &PhysicalPlan) -> (String, ShipStrategy) {
    let node = join(plan);
    let (PhysicalOp::HashJoin { build, .. } | PhysicalOp::NestedLoopJoin { build, .. }) = &node.op
    else {
        panic!("no build\n{}", text(plan));
    };
    let channel = &node.inputs[usize::from(*build == Side::Right)];
    (scans(&channel.node).concat(), channel.ship.clone())
}

#[test]
fn a_hint_decides_the_strategy_and_the_build() {
    for (relation, table) in [("s", "sale"), ("c", "customer")] {
        let broadcast = planned(&format!("BROADCAST({relation})"));
        assert_eq!(built(&broadcast), (table.to_owned(), ShipStrategy::Broadcast));
        let spread = planned(&format!("SHUFFLE_HASH({relation})"));
        let (name, ship) = built(&spread);
        assert!(name == table && matches!(ship, ShipStrategy::Hash(_)), "{}", text(&spread));
        let nested = planned(&format!("NEST_LOOP({relation})"));
        assert_eq!(built(&nested).0, table);
        assert!(matches!(join(&nested).op, PhysicalOp::NestedLoopJoin { .. }), "{}", text(&nested));
        let merged = planned(&format!("SHUFFLE_MERGE({relation})"));
        assert!(matches!(join(&merged).op, PhysicalOp::SortMergeJoin { .. }), "{}", text(&merged));
        for plan in [broadcast, spread, nested, merged] {
            assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
        }
    }
}

#[test]
fn a_hint_that_no_join_obeys_is_a_warning() {
    let sql = "select /*+ SHUFFLE_MERGE(c) */ count(*) from sale s, customer c where s.id < c.id";
    let plan = plan_with(sql, &shop(), &threads(4));
    assert_eq!(plan.warnings, ["the hint SHUFFLE_MERGE(c) cannot be applied"]);
}
