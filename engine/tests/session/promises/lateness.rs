//! Rows that come late: which are, and that none goes unseen.

use futures::StreamExt;
use futures::executor::block_on;

use super::streams::{rows, run, session};
use super::{ROWS, tumble};

#[test]
fn late_rows_are_counted_before_anything_is_grouped() {
    let mut lines = ROWS.to_vec();
    lines.extend([("a", 7, 1), ("a", 8, 1)]);
    let (session, _file) = session(&lines);
    for threads in [1, 2, 8] {
        run(&session, &format!("SET threads = {threads}"));
        let plan = rows(&session, &format!("EXPLAIN ANALYZE {}", tumble(""))).join("\n");
        assert!(plan.contains(" late 3"), "with {threads} threads: {plan}");
    }
}

#[test]
fn which_rows_are_late_depends_on_their_order_alone() {
    let mut lines = ROWS.to_vec();
    lines.extend([("a", 7, 1), ("b", 8, 21), ("a", 9, 55), ("a", 10, 49), ("b", 11, 50)]);
    let (session, _file) = session(&lines);
    let late = format!("SELECT v FROM late_rows('{}')", tumble("").replace('\'', "''"));
    let mut answers = Vec::new();
    for threads in [1, 2, 5] {
        for batch in [1, 3, 8192] {
            run(&session, &format!("SET threads = {threads}"));
            run(&session, &format!("SET batch_size = {batch}"));
            answers.push((rows(&session, &tumble("")), rows(&session, &late)));
        }
    }
    assert_eq!(answers[0].1, ["10", "5", "7"]);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[test]
fn a_row_that_can_match_earlier_rows_alone_is_not_late() {
    // The row of second 40 looks an hour and more back; the watermark is far past that when it comes.
    let (session, _file) = session(&[("a", 1, 1), ("b", 2, 70), ("a", 3, 75), ("b", 4, 76)]);
    let sql = "SELECT l.v AS l, r.v AS r FROM e l JOIN e r ON l.k = r.k AND l.ts <= r.ts - INTERVAL '1' MINUTE";
    assert_eq!(rows(&session, sql), ["1,3"]);
}

#[test]
fn chained_windows_drop_none_of_their_own_results() {
    let (session, _file) =
        session(&[("a", 1, 1), ("b", 2, 8), ("a", 3, 12), ("b", 4, 19), ("a", 5, 55)]);
    let sql = "WITH small AS (SELECT window_time AS t, k, sum(v) AS v FROM TUMBLE(TABLE e, DESCRIPTOR(ts), \
               INTERVAL '10' SECOND) GROUP BY window_start, window_end, window_time, k) \
               SELECT extract(second FROM window_start)::int AS s, sum(v) AS v FROM TUMBLE(TABLE small, DESCRIPTOR(t), \
               INTERVAL '20' SECOND) GROUP BY window_start, window_end";
    for threads in [1, 4] {
        run(&session, &format!("SET threads = {threads}"));
        assert_eq!(rows(&session, sql), ["0,10", "40,5"]);
    }
}

#[test]
fn what_an_interval_join_drops_is_told() {
    let (session, _file) =
        session(&[("a", 1, 1), ("a", 2, 4), ("a", 3, 50), ("a", 4, 2), ("a", 5, 53)]);
    let sql = "SELECT l.v AS l, r.v AS r FROM e l JOIN e r ON l.k = r.k \
               AND l.ts BETWEEN r.ts - INTERVAL '4' SECOND AND r.ts - INTERVAL '1' SECOND";
    // How far one side is when a row of the other comes depends on chance; that a pair is missing does not go unsaid.
    for threads in [1, 1, 2, 4, 4, 8] {
        run(&session, &format!("SET threads = {threads}"));
        let (pairs, told) = block_on(async {
            let mut stream = session.sql(sql).await.unwrap().stream().unwrap();
            let mut pairs = 0;
            while let Some(batch) = stream.next().await {
                pairs += batch.unwrap().num_rows();
            }
            (pairs, stream.left_out())
        });
        assert!((2..=4).contains(&pairs), "{pairs} pairs");
        assert!(pairs == 4 || told.iter().any(|line| line.contains("too late")), "{told:?}");
    }
}

#[test]
fn operators_that_keep_their_rows_lose_none_that_is_late() {
    let mut lines = ROWS.to_vec();
    lines.extend([("a", 7, 1), ("b", 8, 2)]);
    let (session, _file) = session(&lines);
    for sql in [
        "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY v) AS s FROM e",
        "SELECT v FROM (SELECT v, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM e) WHERE n <= 2",
        "SELECT l.v AS l, r.v AS r FROM e l ASOF JOIN e r ON l.k = r.k AND l.ts > r.ts",
        "SELECT k, count(*) AS n, max(v) AS m FROM e GROUP BY k",
        "SELECT l.v AS l, r.v AS r FROM e l FULL JOIN e r ON l.k = r.k AND l.v < r.v",
        "SELECT DISTINCT v FROM e EXCEPT SELECT 3",
    ] {
        run(&session, "SET execution.runtime_mode = batch");
        let batch = rows(&session, sql);
        run(&session, "SET execution.runtime_mode = streaming");
        for threads in [1, 4] {
            run(&session, &format!("SET threads = {threads}"));
            assert_eq!(rows(&session, sql), batch, "{sql}");
            let plan = rows(&session, &format!("EXPLAIN ANALYZE {sql}")).join("\n");
            assert!(!plan.contains(" late "), "{plan}");
        }
    }
}
