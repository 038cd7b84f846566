//! Estimates that decide plans.

use thalweg_optimizer::PhysicalPlan;
use thalweg_optimizer::physical::{PhysicalNode, PhysicalOp};

use arrow::datatypes::DataType;

use super::catalog::{Tables, nodes, plan, plan_with, text, threads};

fn rows_of(plan: &PhysicalPlan, is: impl Fn(&PhysicalNode) -> bool) -> f64 {
    let found = nodes(plan).into_iter().find(|node| is(node));
    found.unwrap_or_else(|| panic!("no such node\n{}", text(plan))).estimates.rows
}

#[test]
fn constants_of_union_branches_are_known() {
    let plan = plan(
        "with t as (select 'c' kind, country, count(*) n from customer group by country
         union all select 'v' kind, country, count(*) n from vendor group by country)
         select a.country from t a, t b where a.country = b.country and a.kind = 'c'
         and b.kind = 'v' and a.n > 0",
    );
    let filtered = rows_of(&plan, |node| matches!(node.op, PhysicalOp::Filter { .. }));
    assert!((10.0..=50.0).contains(&filtered), "{filtered}\n{}", text(&plan));
}

#[test]
fn sums_are_mostly_positive() {
    let plan = plan("select customer from sale group by customer having sum(id) > 0");
    let filtered = rows_of(&plan, |node| matches!(node.op, PhysicalOp::Filter { .. }));
    assert!(filtered > 50_000.0, "{filtered}\n{}", text(&plan));
}

#[test]
fn values_pinned_by_a_disjunction_are_remembered() {
    let plan = plan(
        "with t as (select country, segment, count(*) n from customer group by country, segment)
         select a.segment from t a, t b where a.segment = b.segment and a.country = 3
         and b.country = 4 and a.n > 0",
    );
    // The shared plan keeps two of 25 countries; each reader takes one of the two.
    let shared = plan.shared[0].root.estimates.rows;
    let filtered = rows_of(&plan, |node| matches!(node.op, PhysicalOp::Filter { .. }));
    assert!(filtered >= shared * 0.3, "{filtered} of {shared}\n{}", text(&plan));
}

#[test]
fn keys_of_different_relations_are_not_one_composite_key() {
    let sql = "select count(*) from sale s, item i, customer c, vendor v
         where s.id = i.sale and s.customer = c.id and i.vendor = v.id and c.country < v.country";
    let plan = plan(sql);
    let rows = rows_of(&plan, |node| matches!(node.op, PhysicalOp::HashJoin { .. }));
    assert!((1e6..1e7).contains(&rows), "{rows}\n{}", text(&plan));
}

#[test]
fn large_groups_are_rare() {
    let filtered = |condition: &str| {
        let plan = plan(&format!("select sale from item group by sale having {condition}"));
        rows_of(&plan, |node| matches!(node.op, PhysicalOp::Filter { .. }))
    };
    // Four items a sale: nearly all have more than none, few more than twenty.
    assert!(filtered("count(*) > 0") > 1_400_000.0);
    assert!(filtered("count(*) > 20") < 50_000.0);
    // A mean stays within the bounds of what it is made of.
    assert!(filtered("avg(vendor) > 9000") < 300_000.0);
}

#[test]
fn rows_that_refer_to_a_filtered_key_find_partners_as_seldom_as_the_filter_keeps_keys() {
    let int = DataType::Int64;
    let mut tables = Tables::default();
    tables.add(
        "key",
        1_000_000.0,
        &[
            ("id", int.clone(), 1_000_000.0, Some((1, 1_000_000))),
            ("kind", int.clone(), 100.0, None),
        ],
    );
    // Few of the keys are referred to, and by `near` only those in a small part of their range.
    let reference = |distinct, max| [("key", DataType::Int64, distinct, Some((1, max)))];
    tables.add("wide", 1_000_000.0, &reference(5_000.0, 1_000_000));
    tables.add("near", 1_000_000.0, &reference(5_000.0, 10_000));
    let rows = |table: &str| {
        let sql = format!("select count(*) from {table} f, key where f.key = id and kind = 7");
        let plan = plan_with(&sql, &tables, &threads(1));
        rows_of(&plan, |node| matches!(node.op, PhysicalOp::HashJoin { .. }))
    };
    // One in a hundred.
    assert!((9_000.0..11_000.0).contains(&rows("wide")), "{}", rows("wide"));
    // All keys that pass might lie in the part that is referred to.
    assert!(rows("near") > 900_000.0, "{}", rows("near"));
}

#[test]
fn a_fan_out_adds_no_values_of_a_key() {
    // Whatever pair comes first: of 200,000 products, whose sizes all are customers, the 10,000 with a vendor remain,
    // of which the inequality (stated once for each of its equal columns) keeps some.
    let sql = "select count(*) from customer c, vendor v, product p
         where c.country + v.id > 10 and p.size = c.id and p.id = v.id and c.segment = 'x'";
    let plan = plan(sql);
    let join = |node: &PhysicalNode| {
        matches!(node.op, PhysicalOp::HashJoin { .. } | PhysicalOp::NestedLoopJoin { .. })
    };
    let rows = rows_of(&plan, join);
    assert!((1_000.0..5_000.0).contains(&rows), "{rows}\n{}", text(&plan));
}
