//! Results that change: what is told of them, and to whom.

use super::ROWS;
use super::changelog;
use super::streams::{refusal, rows, run, session};

#[test]
fn updates_that_change_nothing_are_not_told() {
    let (session, _file) = session(&[("a", 9, 1), ("a", 2, 2), ("a", 9, 3), ("a", 10, 4)]);
    let told = changelog(&session, 1, "SELECT k, max(v) AS v FROM e GROUP BY k");
    assert_eq!(told, ["+I,a,9", "-U,a,9", "+U,a,10"]);
}

#[test]
fn a_result_that_goes_on_changing_is_refused_where_rows_must_be_final() {
    let (session, _file) = session(&ROWS);
    run(
        &session,
        "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')",
    );
    let refused = refusal(&session, "SELECT i % 2, count(*) FROM n GROUP BY 1");
    assert!(refused.contains("goes on changing"), "{refused}");
}

#[test]
fn a_stream_answers_as_the_batch_does() {
    let (session, _file) =
        session(&[("a", 1, 1), ("b", 2, 3), ("a", 3, 12), ("b", 4, 14), ("a", 5, 40)]);
    for sql in [
        "SELECT k, sum(v), array_agg(v) FROM e GROUP BY k",
        "SELECT avg(s) FROM (SELECT sum(v) AS s FROM e GROUP BY k)",
        "SELECT l.k, r.v FROM e l LEFT JOIN e r ON l.k = r.k AND l.v < r.v",
        "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC) FROM e",
        "SELECT k FROM e EXCEPT SELECT k FROM e WHERE v > 4",
        "SELECT k, sum(v) FROM SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND) \
         GROUP BY window_start, window_end, k",
    ] {
        let verified = rows(&session, &format!("EXPLAIN (VERIFY) {sql}"));
        assert!(
            verified.iter().filter(|line| line.ends_with("equal")).count() >= 6,
            "{verified:?}"
        );
    }
}
