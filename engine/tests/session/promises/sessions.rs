//! Sessions that grow, merge and fall apart: what was told of them is withdrawn by name.

use std::collections::BTreeMap;

use super::changelog;
use super::streams::{rows, run, session};

const BY_KEY: &str = "SELECT k, extract(second FROM window_start)::int AS s, extract(second FROM window_end)::int AS e, \
     sum(v) AS v FROM SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND) \
     GROUP BY window_start, window_end, k";

/// The rows that are left; a row that is withdrawn must be there.
fn left(told: &[String]) -> Vec<String> {
    let mut rows: BTreeMap<&str, i64> = BTreeMap::new();
    for change in told {
        let (op, row) = change.split_once(',').unwrap();
        let count = rows.entry(row).or_default();
        *count += if matches!(op, "+I" | "+U") { 1 } else { -1 };
        assert!(*count >= 0, "{change} withdraws a row that is not there: {told:?}");
    }
    let left = rows.into_iter().flat_map(|(row, n)| (0..n).map(move |_| row.to_string()));
    left.collect()
}

#[test]
fn sessions_that_merge_are_withdrawn_by_name() {
    // The row of second 3 joins the sessions of the seconds 1 and 6.
    let (session, _file) =
        session(&[("a", 1, 1), ("b", 9, 2), ("a", 2, 6), ("a", 4, 3), ("a", 8, 40)]);
    let sql = format!("{BY_KEY} EMIT ON UPDATE");
    for threads in [1, 3] {
        let told = changelog(&session, threads, &sql);
        for orphan in ["a,1,4,1", "a,6,9,2"] {
            assert!(told.contains(&format!("+I,{orphan}")), "{orphan} was never told: {told:?}");
        }
        assert_eq!(left(&told), ["a,1,9,7", "a,40,43,8", "b,2,5,9"]);
    }
    assert_eq!(rows(&session, BY_KEY), ["a,1,9,7", "a,40,43,8", "b,2,5,9"]);
}

#[test]
fn sessions_follow_rows_that_are_changed_and_deleted() {
    let (session, _file) = session(&[]);
    run(&session, "CREATE TABLE t (k VARCHAR, v BIGINT, ts TIMESTAMP)");
    let view = BY_KEY.replace("TABLE e", "TABLE t");
    run(&session, &format!("CREATE MATERIALIZED VIEW sessions AS {view}"));
    let at = |second: u32| format!("TIMESTAMP '2024-01-01 00:00:{second:02}'");
    let insert = |k: &str, v: i64, s: u32| format!("INSERT INTO t VALUES ('{k}', {v}, {})", at(s));
    let steps = [
        (insert("a", 1, 1), vec!["a,1,4,1"]),
        (insert("a", 2, 6), vec!["a,1,4,1", "a,6,9,2"]),
        (insert("a", 4, 3), vec!["a,1,9,7"]),
        ("UPDATE t SET v = 5 WHERE v = 4".to_string(), vec!["a,1,9,8"]),
        ("DELETE FROM t WHERE v = 5".to_string(), vec!["a,1,4,1", "a,6,9,2"]),
        (format!("UPDATE t SET ts = {} WHERE v = 1", at(20)), vec!["a,20,23,1", "a,6,9,2"]),
    ];
    for (statement, expected) in steps {
        run(&session, &statement);
        run(&session, "FLUSH");
        assert_eq!(rows(&session, "SELECT * FROM sessions"), expected, "{statement}");
    }
}
