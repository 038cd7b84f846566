//! State: what bounds it, and that a query says so.

use super::ROWS;
use super::streams::{rows, session};

#[test]
fn explain_tells_what_bounds_the_state_of_each_operator() {
    let (session, _file) = session(&ROWS);
    let plan = |sql: &str| rows(&session, &format!("EXPLAIN {sql}")).join("\n");
    let grouped = plan("SELECT k, count(*) FROM e GROUP BY k");
    assert!(grouped.contains("state UNBOUNDED because no watermark closes"), "{grouped}");
    let joined = plan(
        "SELECT * FROM e l JOIN e r ON l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL '5' SECOND AND r.ts",
    );
    assert!(joined.contains("state bounded by the watermark on"), "{joined}");
    let unbounded = plan("SELECT * FROM e l JOIN e r ON l.k = r.k");
    assert!(
        unbounded.contains("UNBOUNDED because rows of either side may match for ever"),
        "{unbounded}"
    );
}
