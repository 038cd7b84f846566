//! Plans all queries of two public benchmark suites, when their texts are there: with one thread and with several,
//! and with each strategy forbidden in turn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow::datatypes::DataType;
use thalweg_optimizer::{OptimizerOptions, StrategySwitches, optimize};

use super::catalog::{ColumnSpec, Statistics, Tables, input, plan_with, text, threads};

const TPCH: [(&str, &str, f64); 8] = [
    ("l", "lineitem", 6_000_000.0),
    ("o", "orders", 1_500_000.0),
    ("p", "part", 200_000.0),
    ("ps", "partsupp", 800_000.0),
    ("s", "supplier", 10_000.0),
    ("c", "customer", 150_000.0),
    ("n", "nation", 25.0),
    ("r", "region", 5.0),
];

const TPCDS: [(&str, &str, f64); 24] = [
    ("ss", "store_sales", 2_880_000.0),
    ("sr", "store_returns", 288_000.0),
    ("cs", "catalog_sales", 1_440_000.0),
    ("cr", "catalog_returns", 144_000.0),
    ("ws", "web_sales", 720_000.0),
    ("wr", "web_returns", 72_000.0),
    ("inv", "inventory", 11_700_000.0),
    ("s", "store", 12.0),
    ("cc", "call_center", 6.0),
    ("cp", "catalog_page", 11_700.0),
    ("web", "web_site", 30.0),
    ("wp", "web_page", 60.0),
    ("w", "warehouse", 5.0),
    ("c", "customer", 100_000.0),
    ("ca", "customer_address", 50_000.0),
    ("cd", "customer_demographics", 1_920_000.0),
    ("d", "date_dim", 73_000.0),
    ("hd", "household_demographics", 7_200.0),
    ("i", "item", 18_000.0),
    ("ib", "income_band", 20.0),
    ("p", "promotion", 300.0),
    ("r", "reason", 35.0),
    ("sm", "ship_mode", 20.0),
    ("t", "time_dim", 86_400.0),
];

fn suite(name: &str) -> Option<Vec<(PathBuf, String)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/queries").join(name);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .ok()?
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "sql"));
    paths.sort();
    let read =
        |path: PathBuf| (path.clone(), std::fs::read_to_string(path).expect("a readable text"));
    Some(paths.into_iter().map(read).collect())
}

fn type_of(column: &str) -> DataType {
    let ends = |endings: &[&str]| endings.iter().any(|e| column.ends_with(e));
    let money = [
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
    ];
    let whole = [
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
    ];
    if ends(&["_date", "date"]) {
        DataType::Date32
    } else if ends(&money) {
        DataType::Decimal128(15, 2)
    } else if ends(&whole) {
        DataType::Int32
    } else {
        DataType::Utf8View
    }
}

/// Tables with the columns the texts name. Keys have as many values as the table that bears them as its first column
/// has rows.
fn tables(suite: &[(&str, &str, f64)], texts: &[(PathBuf, String)]) -> Tables {
    let prefixes: BTreeMap<&str, (&str, f64)> =
        suite.iter().map(|(prefix, table, rows)| (*prefix, (*table, *rows))).collect();
    let mut columns: BTreeMap<&str, BTreeMap<String, ()>> = BTreeMap::new();
    for (_, text) in texts {
        let lower = text.to_lowercase();
        for word in column_words(&lower) {
            if let Some((prefix, _)) = word.split_once('_')
                && let Some((table, _)) = prefixes.get(prefix)
                && *table != word
            {
                columns.entry(table).or_default().insert(word.to_owned(), ());
            }
        }
    }
    let mut tables = Tables::default();
    for (_, table, rows) in suite {
        let names = columns.remove(table).unwrap_or_default();
        let specs: Vec<ColumnSpec<'_>> = names
            .keys()
            .map(|name| {
                let data_type = type_of(name);
                let bounds = matches!(data_type, DataType::Int32 | DataType::Date32);
                let range = match data_type {
                    DataType::Date32 => (8_000, 10_600),
                    _ => (1, key_values(name, *rows)),
                };
                (name.as_str(), data_type, 0.0, bounds.then_some(range))
            })
            .collect();
        tables.add(table, *rows, &specs);
    }
    tables
}

/// Words of a text that are no output names: those follow AS or a closing parenthesis somewhere.
fn column_words(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut words, mut names) = (Vec::new(), Vec::new());
    let mut start = None;
    for (i, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (is_word(c), start) {
            (true, None) => start = Some(i),
            (false, Some(from)) => {
                let before = text[..from].trim_end();
                let named = before.ends_with(')') || before.ends_with(" as");
                if named {
                    names.push(&text[from..i])
                } else {
                    words.push(&text[from..i])
                }
                start = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
    words.retain(|word| !names.contains(word));
    words
}

fn key_values(name: &str, rows: f64) -> i32 {
    let ending = name.split_once('_').map_or(name, |(_, ending)| ending);
    let known = [
        ("orderkey", 6_000_000),
        ("partkey", 200_000),
        ("suppkey", 10_000),
        ("custkey", 150_000),
        ("nationkey", 25),
        ("regionkey", 5),
        ("date_sk", 73_000),
        ("item_sk", 18_000),
        ("customer_sk", 100_000),
        ("store_sk", 12),
        ("year", 200),
    ];
    let found = known.iter().find(|(key, _)| ending.ends_with(key));
    found.map_or((rows as i32).clamp(1, 2_000), |(_, values)| *values)
}

fn check_suite(name: &str, suite_tables: &[(&str, &str, f64)], options: &OptimizerOptions) {
    let Some(texts) = suite(name) else { return };
    let tables = tables(suite_tables, &texts);
    for (path, sql) in &texts {
        let input = input(sql, &tables);
        let planned = optimize(&input, &Statistics, options);
        let plan = planned.unwrap_or_else(|error| {
            panic!("{}: {error}\n{}", path.display(), input.plan.display_indent())
        });
        assert!(!text(&plan).is_empty());
    }
}

#[test]
fn every_query_has_a_consistent_plan() {
    for count in [1, 4] {
        check_suite("tpch", &TPCH, &threads(count));
        check_suite("tpcds", &TPCDS, &threads(count));
    }
}

#[test]
fn forbidding_a_strategy_leaves_every_query_plannable() {
    for name in StrategySwitches::NAMES {
        for count in [1, 4] {
            let mut options = threads(count);
            *options.strategies.switch_mut(name).expect("names are switches") = false;
            check_suite("tpch", &TPCH, &options);
        }
    }
    let mut nothing = threads(4);
    for name in StrategySwitches::NAMES {
        *nothing.strategies.switch_mut(name).expect("names are switches") = false;
    }
    check_suite("tpch", &TPCH, &nothing);
    check_suite("tpcds", &TPCDS, &nothing);
}

/// Prints the plans of one query: `PLAN=tpch/q09 cargo test -p thalweg-optimizer print -- --nocapture`.
#[test]
fn print() {
    let Ok(wanted) = std::env::var("PLAN") else { return };
    let (name, query) = wanted.split_once('/').expect("suite/query");
    let suite_tables: &[_] = if name == "tpch" { &TPCH } else { &TPCDS };
    let Some(texts) = suite(name) else { return };
    let tables = tables(suite_tables, &texts);
    for (path, sql) in texts.iter().filter(|(path, _)| path.to_string_lossy().contains(query)) {
        println!("{}\n{}", path.display(), text(&plan_with(sql, &tables, &threads(4))));
    }
}
