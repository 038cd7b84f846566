//! Plans all queries of two public benchmark suites, when their texts are there.
//!
//! The tables are derived from the texts: every column of these suites begins with a prefix that belongs to one table,
//! and its ending tells its type well enough.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan};
use thalweg_planner::{QueryPlan, SharedSource, Statement};

use super::stub::{Stub, plan_in, table};

const TPCH: [(&str, &str); 8] = [
    ("l", "lineitem"),
    ("o", "orders"),
    ("p", "part"),
    ("ps", "partsupp"),
    ("s", "supplier"),
    ("c", "customer"),
    ("n", "nation"),
    ("r", "region"),
];

const TPCDS: [(&str, &str); 24] = [
    ("ss", "store_sales"),
    ("sr", "store_returns"),
    ("cs", "catalog_sales"),
    ("cr", "catalog_returns"),
    ("ws", "web_sales"),
    ("wr", "web_returns"),
    ("inv", "inventory"),
    ("s", "store"),
    ("cc", "call_center"),
    ("cp", "catalog_page"),
    ("web", "web_site"),
    ("wp", "web_page"),
    ("w", "warehouse"),
    ("c", "customer"),
    ("ca", "customer_address"),
    ("cd", "customer_demographics"),
    ("d", "date_dim"),
    ("hd", "household_demographics"),
    ("i", "item"),
    ("ib", "income_band"),
    ("p", "promotion"),
    ("r", "reason"),
    ("sm", "ship_mode"),
    ("t", "time_dim"),
];

fn suite(name: &str) -> Option<Vec<(PathBuf, String)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/queries").join(name);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&folder).ok()?.map(|entry| entry.expect("it works").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "sql"));
    paths.sort();
    Some(
        paths
            .into_iter()
            .map(|path| (path.clone(), std::fs::read_to_string(path).expect("it works")))
            .collect(),
    )
}

fn type_of(column: &str) -> DataType {
    let ends = |endings: &[&str]| endings.iter().any(|e| column.ends_with(e));
    if ends(&["_date", "date"]) {
        DataType::Date32
    } else if ends(&[
        "price",
        "cost",
        "amt",
        "amount",
        "tax",
        "paid",
        "profit",
        "fee",
        "loss",
        "charge",
        "cash",
        "credit",
        "offset",
        "bal",
        "discount",
        "income_upper_bound",
    ]) {
        DataType::Decimal128(15, 2)
    } else if ends(&[
        "key",
        "_sk",
        "_number",
        "quantity",
        "year",
        "moy",
        "dom",
        "dow",
        "qoy",
        "seq",
        "count",
        "p_size",
        "qty",
        "hour",
        "minute",
        "bound",
        "employees",
        "on_hand",
        "sq_ft",
    ]) {
        DataType::Int32
    } else {
        DataType::Utf8View
    }
}

fn catalog(tables: &[(&str, &str)], texts: &[(PathBuf, String)]) -> Stub {
    let prefixes: BTreeMap<&str, &str> = tables.iter().copied().collect();
    let mut columns: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for word in
        texts.iter().flat_map(|(_, text)| text.split(|c: char| !c.is_alphanumeric() && c != '_'))
    {
        let word = word.to_lowercase();
        // An alias that two tables would share.
        if word == "w_substr" {
            continue;
        }
        if let Some(table) = word.split_once('_').and_then(|(prefix, _)| prefixes.get(prefix)) {
            columns.entry(table).or_default().insert(word);
        }
    }
    let mut stub = Stub::default();
    for (_, name) in tables {
        let of_table: Vec<(&str, DataType)> =
            columns.get(name).into_iter().flatten().map(|c| (c.as_str(), type_of(c))).collect();
        stub.tables.insert((*name).to_string(), table(&of_table));
    }
    stub
}

/// What remains in a plan that the optimizer could not work with.
fn leftovers(query: &QueryPlan) -> Vec<String> {
    let mut found = Vec::new();
    for plan in std::iter::once(&query.plan).chain(query.shared.iter().map(|s| &s.plan)) {
        plan.apply(|node| {
            if let LogicalPlan::Subquery(_) = node {
                found.push("lateral subquery".to_string());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .expect("it works");
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|e| {
                    if matches!(
                        e,
                        Expr::Exists(_) | Expr::InSubquery(_) | Expr::OuterReferenceColumn(..)
                    ) {
                        found.push(e.to_string());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })
        .expect("it works");
    }
    found
}

/// The plan, when it reads the domain of a subquery: these suites' subqueries are of the shapes that need none.
fn general(query: &QueryPlan) -> Option<String> {
    let plans = std::iter::once(&query.plan).chain(query.shared.iter().map(|s| &s.plan));
    let mut texts = plans.map(|plan| plan.display_indent().to_string());
    texts.find(|text| text.contains("__outer_"))
}

/// Every shared scan reads a plan that comes before its reader.
fn check_order(query: &QueryPlan) {
    for (at, plan) in query.shared.iter().map(|s| &s.plan).chain([&query.plan]).enumerate() {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Some(source) = scan.source.downcast_ref::<SharedSource>()
            {
                let read = query
                    .shared
                    .iter()
                    .position(|s| s.id == source.id())
                    .expect("the plan is there");
                assert!(read < at);
                assert_eq!(
                    scan.source.schema().fields().len(),
                    query.shared[read].plan.schema().fields().len()
                );
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .expect("it works");
    }
}

fn plan_suite(name: &str, tables: &[(&str, &str)], wanted: usize) -> usize {
    let Some(texts) = suite(name) else {
        println!("the query texts of {name} are not there: nothing was planned");
        return 0;
    };
    let catalog = catalog(tables, &texts);
    let mut failures = Vec::new();
    let (mut planned, mut shared) = (0, 0);
    for (path, text) in &texts {
        match plan_in(text, &catalog) {
            Ok(Statement::Query(query)) => {
                planned += 1;
                shared += query.shared.len();
                check_order(&query);
                failures.extend(general(&query).map(|plan| format!("{}: {plan}", path.display())));
                failures.extend(
                    leftovers(&query).into_iter().map(|l| format!("{}: {l}", path.display())),
                );
            }
            Ok(other) => failures.push(format!("{}: {other:?}", path.display())),
            Err(error) => failures.push(format!("{}: {}", path.display(), error.render(text))),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(planned, wanted);
    shared
}

#[test]
fn all_tpch_queries_are_planned() {
    plan_suite("tpch", &TPCH, 22);
}

#[test]
fn all_tpcds_queries_are_planned() {
    let shared = plan_suite("tpcds", &TPCDS, 99);
    println!("{shared} shared plans");
}
