//! The shape of single plans: which strategy is chosen and where rows go.

use datafusion_common::JoinType;
use thalweg_optimizer::physical::{AggregatePhase, PhysicalOp, ShipStrategy, Side};

use super::catalog::{count, nodes, plan, plan_with, scans, shop, text, threads};

#[test]
fn one_thread_needs_no_exchange_and_one_phase() {
    let sql = "select segment, count(*) from customer group by segment order by segment";
    let plan = plan_with(sql, &shop(), &threads(1));
    let exchanges = nodes(&plan)
        .iter()
        .flat_map(|n| &n.inputs)
        .filter(|c| c.ship != ShipStrategy::Forward)
        .count();
    assert_eq!(exchanges, 0, "{}", text(&plan));
    let single = |op: &PhysicalOp| {
        matches!(op, PhysicalOp::HashAggregate { phase: AggregatePhase::Single, .. })
    };
    assert_eq!(count(&plan, single), 1, "{}", text(&plan));
}

#[test]
fn few_groups_are_aggregated_in_two_phases() {
    let plan = plan("select segment, count(*) from customer group by segment");
    let partial = |op: &PhysicalOp| {
        matches!(op, PhysicalOp::HashAggregate { phase: AggregatePhase::Partial, .. })
    };
    assert_eq!(count(&plan, partial), 1, "{}", text(&plan));
}

#[test]
fn a_count_reads_no_column() {
    let plan = plan("select count(*) from item");
    let scan = nodes(&plan)
        .into_iter()
        .find(|node| matches!(node.op, PhysicalOp::Scan { .. }))
        .expect("a scan");
    assert!(scan.output.is_empty(), "{}", text(&plan));
}

#[test]
fn the_smaller_side_is_built() {
    let plan =
        plan("select sum(amount) from product, item where item.product = product.id and size = 5");
    let join = nodes(&plan)
        .into_iter()
        .find(|node| matches!(node.op, PhysicalOp::HashJoin { .. }))
        .expect("a hash join");
    let PhysicalOp::HashJoin { build, .. } = &join.op else { unreachable!() };
    let built = match build {
        Side::Left => &join.inputs[0],
        Side::Right => &join.inputs[1],
    };
    assert_eq!(scans(&built.node), ["product"], "{}", text(&plan));
    assert_eq!(built.ship, ShipStrategy::Broadcast, "{}", text(&plan));
}

#[test]
fn a_selective_build_filters_the_scan_of_the_probe() {
    let plan =
        plan("select sum(amount) from product, item where item.product = product.id and size = 5");
    let filtered = nodes(&plan).into_iter().any(|node| {
        matches!(&node.op, PhysicalOp::Scan { table, runtime_filters, .. } if table == "item" && runtime_filters.len() == 1)
    });
    assert!(filtered, "{}", text(&plan));
}

#[test]
fn runtime_filters_pass_aggregates_by_their_key_and_not_limits() {
    let grouped = plan(
        "select p.kind, t from product p join (select product, sum(amount) t from item group by product) i
         on p.id = i.product where size = 5",
    );
    let filters = |plan: &thalweg_optimizer::PhysicalPlan| {
        let uses = |op: &PhysicalOp| match op {
            PhysicalOp::Scan { runtime_filters, .. } => runtime_filters.len(),
            _ => 0,
        };
        nodes(plan).iter().map(|node| uses(&node.op)).sum::<usize>()
    };
    assert_eq!(filters(&grouped), 1, "{}", text(&grouped));
    let limited = plan(
        "select p.kind from product p join (select product from item order by amount limit 1000000) i
         on p.id = i.product where size = 5",
    );
    assert_eq!(filters(&limited), 0, "{}", text(&limited));
}

#[test]
fn a_scalar_subquery_becomes_a_single_row_input() {
    let plan = plan("select count(*) from item where amount > (select avg(amount) from item)");
    assert_eq!(count(&plan, |op| matches!(op, PhysicalOp::AssertSingleRow)), 1, "{}", text(&plan));
    assert_eq!(
        count(&plan, |op| matches!(op, PhysicalOp::NestedLoopJoin { .. })),
        1,
        "{}",
        text(&plan)
    );
}

#[test]
fn top_n_is_cut_locally_and_merged() {
    let plan = plan("select amount from item order by amount desc limit 10");
    assert_eq!(
        count(&plan, |op| matches!(op, PhysicalOp::TopN { fetch: 10, .. })),
        1,
        "{}",
        text(&plan)
    );
    let merged = nodes(&plan)
        .iter()
        .flat_map(|n| &n.inputs)
        .any(|c| matches!(c.ship, ShipStrategy::Merge(_)));
    assert!(merged, "{}", text(&plan));
}

#[test]
fn exists_may_build_either_side() {
    let small_outer = plan(
        "select name from country c where exists (select 1 from vendor v where v.country = c.id)",
    );
    let semi = |op: &PhysicalOp| match op {
        PhysicalOp::HashJoin { join_type, build, .. } => {
            (*join_type == JoinType::LeftSemi).then_some(*build)
        }
        _ => None,
    };
    let build = nodes(&small_outer).iter().find_map(|node| semi(&node.op));
    assert_eq!(build, Some(Side::Left), "{}", text(&small_outer));
}

#[test]
fn a_global_distinct_count_is_deduplicated_in_parallel() {
    let plan = plan("select count(distinct product) from item");
    let distinct = |op: &PhysicalOp| match op {
        PhysicalOp::HashAggregate { aggregates, .. } => aggregates.iter().any(|call| call.distinct),
        _ => false,
    };
    assert_eq!(count(&plan, distinct), 0, "{}", text(&plan));
    assert!(
        count(&plan, |op| matches!(op, PhysicalOp::HashAggregate { .. })) >= 3,
        "{}",
        text(&plan)
    );
}

#[test]
fn a_shared_expression_is_spooled() {
    let plan = plan(
        "with t as (select product, sum(amount) s from item group by product)
         select a.product from t a, t b where a.product = b.product and a.s > b.s",
    );
    assert_eq!(plan.shared.len(), 1, "{}", text(&plan));
    assert_eq!(
        count(&plan, |op| matches!(op, PhysicalOp::SharedScan { .. })),
        2,
        "{}",
        text(&plan)
    );
}

#[test]
fn recursion_probes_with_the_work_table() {
    let plan = plan(
        "with recursive r(id) as (select id from country where id = 1
         union all select c.id from r join country c on c.region = r.id)
         select count(*) from r",
    );
    let join = nodes(&plan)
        .into_iter()
        .find(|node| matches!(node.op, PhysicalOp::HashJoin { .. }))
        .expect("a hash join");
    let PhysicalOp::HashJoin { build, .. } = &join.op else { unreachable!() };
    let built = match build {
        Side::Left => &join.inputs[0],
        Side::Right => &join.inputs[1],
    };
    assert_eq!(scans(&built.node), ["country"], "{}", text(&plan));
}

#[test]
fn unusual_nodes_are_planned() {
    for sql in [
        "select * from (values (1, 'a'), (2, 'b')) v(x, y)",
        "select 1",
        "select id from vendor union all select id from customer",
        "select id from vendor union select id from customer",
        "select id from vendor except select id from customer",
        "select id from vendor intersect select id from customer",
        "select country, segment, count(*) from customer group by rollup (country, segment)",
        "select country, segment, count(distinct id) from customer group by cube (country, segment)",
        "select v.id from vendor v full join customer c on v.id = c.id and v.country > c.country",
        "select v.id from vendor v left join customer c on v.country > c.country",
        "select v.id from vendor v right join customer c on v.id = c.id",
        "select id from vendor where id not in (select country from customer)",
        "select id from vendor where id in (select country from customer) or country = 3",
        "select id, row_number() over (partition by country order by id), sum(id) over () from vendor",
        "select id from vendor limit 5 offset 3",
        "select * from vendor, customer limit 3",
        "select unnest([1, 2, 3]) x",
        "select id from vendor where false",
        "select distinct on (country) country, id from vendor order by country, id desc",
        "select country, string_agg(name, ',' order by name) from (select id country, name from country) group by country",
        "select (select max(id) from vendor) + id from customer",
    ] {
        for count in [1, 4] {
            let plan = plan_with(sql, &shop(), &threads(count));
            assert!(!text(&plan).is_empty());
        }
    }
}
