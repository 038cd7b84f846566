//! Outer joins that conditions above make inner or anti joins.

use datafusion_common::JoinType;
use thalweg_optimizer::PhysicalPlan;
use thalweg_optimizer::physical::{PhysicalNode, PhysicalOp};

use super::catalog::{nodes, plan, scans, text};

fn join_types(plan: &PhysicalPlan) -> Vec<JoinType> {
    let of = |node: &&PhysicalNode| match &node.op {
        PhysicalOp::HashJoin { join_type, .. }
        | PhysicalOp::SortMergeJoin { join_type, .. }
        | PhysicalOp::NestedLoopJoin { join_type, .. } => Some(*join_type),
        _ => None,
    };
    nodes(plan).iter().filter_map(of).collect()
}

fn all_inner(sql: &str) {
    let plan = plan(sql);
    let inner = join_types(&plan).iter().all(|join| *join == JoinType::Inner);
    assert!(inner, "{}", text(&plan));
}

fn without(sql: &str, refused: &[JoinType]) {
    let plan = plan(sql);
    let found = join_types(&plan).iter().any(|join| refused.contains(join));
    assert!(!found, "{}", text(&plan));
}

fn has(sql: &str, wanted: JoinType) {
    let plan = plan(sql);
    assert!(join_types(&plan).contains(&wanted), "{}", text(&plan));
}

const OUTER: [JoinType; 3] = [JoinType::Left, JoinType::Right, JoinType::Full];

#[test]
fn an_equality_above_makes_a_left_join_inner_and_movable() {
    let sql =
        "select i.sale, i.amount from item i left join product p on i.product = p.id, country c
         where p.size = c.id and c.name = 'x'";
    all_inner(sql);
    let plan = plan(sql);
    let dimensions = nodes(&plan).into_iter().any(|node| {
        let mut tables = scans(node);
        tables.sort();
        tables == ["country", "product"]
    });
    assert!(dimensions, "the small tables meet first\n{}", text(&plan));
}

#[test]
fn semi_joins_and_groups_above_reject_nulls_too() {
    without(
        "select i.sale from item i left join product p on i.product = p.id
         where p.size in (select id from country)",
        &OUTER,
    );
    all_inner(
        "select c.name, n from (select p.size s, count(*) n from item i left join product p
         on i.product = p.id group by p.size) t join country c on t.s = c.id",
    );
}

#[test]
fn a_full_join_loses_the_side_that_is_dropped() {
    let sql = "select c.id from customer c full join vendor v on c.id = v.id, country n
         where c.country = n.id";
    without(sql, &[JoinType::Full]);
    all_inner(
        "select c.id from customer c full join vendor v on c.id = v.id, country n
         where c.country = n.id and v.country = n.id",
    );
}

#[test]
fn conditions_that_accept_nulls_keep_the_outer_join() {
    let sql = "select i.sale from item i left join product p on i.product = p.id, country c
         where coalesce(p.size, 0) = c.id";
    let plan = plan(sql);
    assert!(join_types(&plan).iter().any(|join| OUTER.contains(join)), "{}", text(&plan));
    // The rows of the kept side of a join above do not vanish.
    let two = join_types(&self::plan(
        "select i.sale from item i left join product p on i.product = p.id
         left join country c on p.size = c.id",
    ));
    assert!(two.iter().all(|join| OUTER.contains(join)), "{two:?}");
}

#[test]
fn a_missing_partner_is_an_anti_join() {
    let sql = "select i.sale from item i left join sale s on i.sale = s.id where s.id is null";
    without(sql, &OUTER);
    let anti = join_types(&plan(sql));
    assert!(matches!(anti[..], [JoinType::LeftAnti | JoinType::RightAnti]), "{anti:?}");
    let read = "select i.sale, s.status, s.id from item i left join sale s on i.sale = s.id
         where s.id is null and i.amount > 1";
    without(read, &OUTER);
    let movable = "select count(*) from item i left join sale s on i.sale = s.id, product p
         where s.id is null and i.product = p.id and p.kind = 'x'";
    without(movable, &OUTER);
    // A column that may be NULL in a partner tells nothing.
    let open = "select i.sale from item i left join sale s on i.sale = s.id where s.status is null";
    let kept = join_types(&plan(open));
    assert!(matches!(kept[..], [JoinType::Left | JoinType::Right]), "{kept:?}");
}

#[test]
fn nulls_of_an_outer_join_are_estimated_from_unmatched_rows() {
    let plan =
        plan("select s.id from sale s left join vendor v on s.id = v.id where v.country is null");
    let filter = nodes(&plan).into_iter().find(|node| matches!(node.op, PhysicalOp::Filter { .. }));
    let rows = filter.expect("a filter").estimates.rows;
    assert!(rows > 1_000_000.0, "{rows}\n{}", text(&plan));
}

#[test]
fn not_in_keeps_its_nulls() {
    has(
        "select id from vendor where country not in
         (select p.size from item i left join product p on i.product = p.id)",
        JoinType::Left,
    );
}
