//! Deep and wide statements: planned or refused, never a crash. These tests run on threads with small stacks.

use super::stub::plan;

/// Plans on a thread whose stack is as small as a runtime's worker may have; the outcome is dropped there too.
fn survives(sql: String) -> Option<String> {
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let thread = small.spawn(move || plan(&sql).err().map(|error| error.message));
    thread.expect("it works").join().expect("it works")
}

#[test]
fn long_chains_of_conditions_are_planned() {
    let terms: Vec<String> = (0..5_000).map(|n| format!("id = {n}")).collect();
    assert_eq!(survives(format!("SELECT * FROM t WHERE {}", terms.join(" OR "))), None);
    let terms: Vec<String> = (0..5_000).map(|n| format!("id <> {n}")).collect();
    assert_eq!(survives(format!("SELECT * FROM t WHERE {}", terms.join(" AND "))), None);
}

#[test]
fn long_sums_are_planned_or_refused() {
    assert_eq!(survives(format!("SELECT {} FROM t", vec!["k"; 900].join(" + "))), None);
    let refused = survives(format!("SELECT {} FROM t", vec!["k"; 5_000].join(" + ")));
    assert_eq!(refused.as_deref(), Some("the expression is nested too deeply"));
    assert_eq!(
        survives(format!("SELECT * FROM t WHERE id IN ({})", vec!["1"; 5_000].join(", "))),
        None
    );
}

#[test]
fn deep_nesting_is_refused() {
    let parentheses = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(survives(parentheses).as_deref(), Some("the statement is nested too deeply"));
    let subqueries = format!("{}SELECT 1{}", "SELECT * FROM (".repeat(3_000), ") x".repeat(3_000));
    assert_eq!(survives(subqueries).as_deref(), Some("the statement is nested too deeply"));
    let modest = format!("{}SELECT 1 AS a{}", "SELECT * FROM (".repeat(40), ") x".repeat(40));
    assert_eq!(survives(modest), None);
    let calls = format!("SELECT {}v{} FROM t", "abs(".repeat(90), ")".repeat(90));
    assert_eq!(survives(calls), None);
}

#[test]
fn many_relations_are_refused() {
    let unions = vec!["SELECT 1"; 3_000].join(" UNION ALL ");
    assert_eq!(survives(unions).as_deref(), Some("the statement names too many relations"));
    let joins = format!(
        "SELECT 1 FROM {}",
        (0..3_000).map(|n| format!("t a{n}")).collect::<Vec<_>>().join(", ")
    );
    assert_eq!(survives(joins).as_deref(), Some("the statement names too many relations"));
    assert_eq!(survives(vec!["SELECT id FROM t"; 100].join(" UNION ALL ")), None);
}
