//! Grouping keys that stay in the build they come from.

use arrow::datatypes::DataType;
use thalweg_optimizer::physical::{PhysicalOp, PhysicalPlan};

use super::catalog::{Tables, nodes, plan_with, text, threads};

fn tables() -> Tables {
    let mut tables = Tables::default();
    let int = |name, distinct, max| (name, DataType::Int64, distinct, Some((1, max)));
    let string = |name, distinct| (name, DataType::Utf8View, distinct, None);
    let sales = [int("item", 1_000.0, 1_000), int("shop", 50.0, 50), int("price", 900.0, 900)];
    tables.add("sales", 5_000_000.0, &sales);
    let items = [int("id", 1_000.0, 1_000), string("name", 60.0), string("brand", 20.0)];
    tables.add("items", 1_000.0, &items);
    tables.add("shops", 50.0, &[int("id", 50.0, 50), string("city", 4.0)]);
    tables
}

fn planned(sql: &str) -> PhysicalPlan {
    plan_with(sql, &tables(), &threads(4))
}

/// The names of the columns that joins keep behind, and of those that aggregates fetch.
fn late(plan: &PhysicalPlan) -> (Vec<String>, Vec<String>) {
    let name = |id| plan.columns.get(id).name.clone();
    let (mut behind, mut fetched) = (Vec::new(), Vec::new());
    for node in nodes(plan) {
        match &node.op {
            PhysicalOp::HashJoin { late_columns: Some(late), .. } => {
                behind.extend(late.columns.iter().map(|&id| name(id)));
            }
            PhysicalOp::HashAggregate { late_keys, .. } => {
                let keys = late_keys.iter().flat_map(|late| late.keys.iter());
                fetched.extend(keys.map(|&(_, id)| name(id)));
            }
            _ => {}
        }
    }
    behind.sort();
    fetched.sort();
    (behind, fetched)
}

#[test]
fn text_keys_stay_in_their_builds() {
    let plan = planned(
        "select name, brand, city, sum(price) from sales, items, shops
         where item = items.id and shop = shops.id group by name, brand, city",
    );
    let expected: Vec<String> = ["brand", "city", "name"].map(String::from).into();
    assert_eq!(late(&plan), (expected.clone(), expected), "{}", text(&plan));
}

#[test]
fn a_key_that_something_looks_at_is_carried_along() {
    let argument = planned(
        "select name, brand, max(brand) from sales, items where item = items.id group by name, brand",
    );
    assert_eq!(late(&argument).1, ["name"], "{}", text(&argument));
}

#[test]
fn a_single_number_is_carried_along_and_the_switch_works() {
    let sql =
        "select items.id, sum(price) from sales, items where item = items.id group by items.id";
    assert!(late(&planned(sql)).1.is_empty());
    let mut options = threads(4);
    options.strategies.late_keys = false;
    let sql = "select name, sum(price) from sales, items where item = items.id group by name";
    assert_eq!(late(&planned(sql)).1, ["name"]);
    assert!(late(&plan_with(sql, &tables(), &options)).1.is_empty());
}
