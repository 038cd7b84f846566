//! Materialized views: what they show, when, and what happens to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use futures::executor::block_on;
use thalweg::{Result, Session};

use crate::shown::sorted_lines;

/// A session whose views commit when they are told to.
fn session() -> Session {
    let session = Session::builder().threads(2).set("view_commit_interval", "1 h");
    session.build().expect("the settings are right")
}

/// Runs all statements of a text; the rows of the last one.
fn run(session: &Session, sql: &str) -> Result<Vec<RecordBatch>> {
    block_on(async {
        let mut script = session.execute(sql);
        let mut rows = Vec::new();
        while let Some(frame) = script.next_frame().await? {
            rows = frame.collect().await?;
        }
        Ok(rows)
    })
}

fn ok(session: &Session, sql: &str) {
    run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn error(session: &Session, sql: &str) -> String {
    match run(session, sql) {
        Ok(_) => panic!("{sql} should have failed"),
        Err(error) => error.to_string(),
    }
}

/// The rows as sorted lines, values separated by blanks.
fn rows(session: &Session, sql: &str) -> Vec<String> {
    sorted_lines(&run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}")))
}

#[test]
fn a_view_begins_with_the_rows_there_are_and_follows_changes() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT, b TEXT); INSERT INTO t VALUES (1, 'x'), (5, 'y')");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT a * 10 AS a, b FROM t WHERE a < 100");
    assert_eq!(rows(&session, "SELECT * FROM v"), ["10 x", "50 y"]);
    ok(&session, "INSERT INTO t VALUES (7, NULL), (700, 'z'); DELETE FROM t WHERE a = 1");
    assert_eq!(rows(&session, "SELECT * FROM v"), ["10 x", "50 y"], "nobody has had it commit");
    ok(&session, "FLUSH");
    assert_eq!(rows(&session, "SELECT * FROM v"), ["50 y", "70 NULL"]);
    ok(&session, "UPDATE t SET a = a - 650 WHERE a > 600; FLUSH");
    assert_eq!(rows(&session, "SELECT * FROM v"), ["50 y", "500 z", "70 NULL"]);
    ok(&session, "TRUNCATE t; FLUSH");
    assert!(rows(&session, "SELECT * FROM v").is_empty());
    ok(&session, "SET implicit_flush = on; INSERT INTO t VALUES (2, 'w')");
    assert_eq!(rows(&session, "SELECT * FROM v"), ["20 w"]);
}

#[test]
fn rows_that_are_there_several_times_go_one_by_one() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT, n BIGINT)");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT a FROM t");
    ok(&session, "INSERT INTO t SELECT 7, * FROM generate_series(1, 3); FLUSH");
    ok(&session, "INSERT INTO t VALUES (8, 1); DELETE FROM t WHERE n = 2; FLUSH");
    assert_eq!(rows(&session, "SELECT a FROM v"), ["7", "7", "8"]);
    ok(&session, "DELETE FROM t WHERE a = 7; FLUSH; INSERT INTO t VALUES (7, 9); FLUSH");
    assert_eq!(rows(&session, "SELECT a FROM v"), ["7", "8"]);
}

#[test]
fn views_follow_views() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2)");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a % 2 = 1");
    ok(&session, "CREATE MATERIALIZED VIEW w (x) AS SELECT a FROM v UNION ALL SELECT -a FROM t");
    assert_eq!(rows(&session, "SELECT x FROM w"), ["-1", "-2", "1"]);
    ok(&session, "INSERT INTO t VALUES (3); DELETE FROM t WHERE a = 1; FLUSH");
    assert_eq!(rows(&session, "SELECT x FROM w"), ["-2", "-3", "3"]);
}

#[test]
fn rows_of_a_table_that_is_append_only_stay() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT) APPEND ONLY; INSERT INTO t VALUES (1)");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT a FROM t");
    ok(&session, "INSERT INTO t VALUES (2); FLUSH");
    assert_eq!(rows(&session, "SELECT a FROM v"), ["1", "2"]);
    for sql in ["DELETE FROM t", "UPDATE t SET a = 2", "TRUNCATE t", "INSERT OVERWRITE t SELECT 1"]
    {
        assert!(error(&session, sql).contains("The table is APPEND ONLY"), "{sql}");
    }
}

#[test]
fn values_that_nobody_can_keep_up_to_date_are_refused() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT); CREATE TABLE u (a BIGINT) APPEND ONLY");
    let now = "CREATE MATERIALIZED VIEW v AS SELECT a, current_date AS at FROM t";
    assert!(error(&session, now).contains("in a materialized view"));
    let random = "CREATE MATERIALIZED VIEW v AS SELECT a, random() AS r FROM t";
    assert!(error(&session, random).contains("a volatile function"));
    ok(&session, &random.replace("FROM t", "FROM u"));
    ok(&session, "INSERT INTO u VALUES (1); INSERT INTO t VALUES (1), (2)");
    let single =
        "CREATE MATERIALIZED VIEW w AS SELECT a, (SELECT u.a FROM u WHERE u.a = t.a) AS b FROM t";
    ok(&session, single);
    assert_eq!(rows(&session, "SELECT * FROM w"), ["1 1", "2 NULL"]);
}

#[test]
fn the_first_rows_stay_the_first_rows() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2), (3)");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT a FROM t LIMIT 2");
    ok(&session, "CREATE MATERIALIZED VIEW w AS SELECT a FROM t ORDER BY a LIMIT 2");
    assert_eq!(rows(&session, "SELECT a FROM w"), ["1", "2"]);
    ok(&session, "DELETE FROM t WHERE a <= 2; FLUSH; INSERT INTO t VALUES (0); FLUSH");
    assert_eq!(rows(&session, "SELECT a FROM v"), ["0", "3"]);
    assert_eq!(rows(&session, "SELECT a FROM w"), ["0", "3"]);
}

#[test]
fn a_view_over_what_has_an_end_stays() {
    let session = session();
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT * FROM generate_series(1, 1000) AS s(a)");
    assert_eq!(rows(&session, "SELECT count(*), sum(a) FROM v"), ["1000 500500"]);
    ok(&session, "CREATE MATERIALIZED VIEW one AS SELECT 1 AS a; FLUSH");
    assert_eq!(rows(&session, "SELECT a FROM one"), ["1"]);
}

#[test]
fn what_views_read_is_not_dropped_by_accident() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT); CREATE VIEW plain AS SELECT a FROM t");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT a FROM plain");
    ok(&session, "CREATE MATERIALIZED VIEW w AS SELECT a FROM v");
    for sql in ["DROP TABLE t", "DROP VIEW plain", "CREATE OR REPLACE TABLE t (b BIGINT)"] {
        let error = error(&session, sql);
        assert!(error.contains("Materialized views read it: v."), "{sql}: {error}");
    }
    assert!(error(&session, "DROP MATERIALIZED VIEW v").contains("read it: w."));
    assert!(error(&session, "DROP VIEW v").contains("is a materialized view, not a view"));
    ok(&session, "DROP MATERIALIZED VIEW w; CREATE MATERIALIZED VIEW w AS SELECT a FROM v");
    ok(&session, "DROP TABLE t CASCADE");
    assert!(error(&session, "SELECT * FROM w").contains("w"));
    assert!(rows(&session, "SHOW JOBS").is_empty());
    ok(&session, "DROP MATERIALIZED VIEW IF EXISTS v");
}

#[test]
fn names_that_are_taken() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT a FROM t");
    assert!(
        error(&session, "CREATE MATERIALIZED VIEW v AS SELECT 2 AS a").contains("already exists")
    );
    ok(&session, "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 2 AS a");
    assert_eq!(rows(&session, "SELECT a FROM v"), ["1"]);
    ok(&session, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a + 1 AS a FROM t");
    assert_eq!(rows(&session, "SELECT a FROM v"), ["2"]);
    assert!(error(&session, "CREATE OR REPLACE MATERIALIZED VIEW t AS SELECT 1").contains("table"));
    assert!(
        error(&session, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM v")
            .contains("cannot read itself")
    );
    for sql in ["INSERT INTO v VALUES (1)", "DELETE FROM v", "UPDATE v SET a = 1", "TRUNCATE v"] {
        assert!(error(&session, sql).contains("A materialized view changes with the tables"));
    }
}

#[test]
fn a_view_whose_job_has_failed_says_why() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT 10 / a AS a FROM t");
    ok(&session, "INSERT INTO t VALUES (0); FLUSH");
    let message = error(&session, "SELECT * FROM v");
    assert!(message.contains("the materialized view \"v\" has failed"), "{message}");
    assert!(message.contains("division by zero"), "{message}");
    ok(&session, "DELETE FROM t WHERE a = 0");
    ok(&session, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 10 / a AS a FROM t");
    assert_eq!(rows(&session, "SELECT a FROM v"), ["10"]);
    assert!(
        error(&session, "CREATE MATERIALIZED VIEW w AS SELECT a / 0 FROM t").contains("division")
    );
    assert!(error(&session, "SELECT * FROM w").contains("does not exist"));
}

#[test]
fn views_over_endless_tables_commit_by_themselves() {
    let session =
        Session::builder().threads(2).set("view_commit_interval", "5 ms").build().unwrap();
    ok(
        &session,
        "CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')",
    );
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT n FROM g");
    while rows(&session, "SELECT count(*) FROM v") == ["0"] {
        std::thread::yield_now();
    }
    ok(&session, "CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW w AS SELECT a FROM t");
    ok(&session, "INSERT INTO t VALUES (1)");
    while rows(&session, "SELECT a FROM w").is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_view_never_shows_half_of_a_statement() {
    let session =
        Session::builder().threads(2).set("view_commit_interval", "1 ms").build().unwrap();
    ok(&session, "CREATE TABLE account (id BIGINT, amount BIGINT)");
    ok(&session, "INSERT INTO account VALUES (1, 1000), (2, 0)");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT id, amount FROM account");
    ok(
        &session,
        "CREATE MATERIALIZED VIEW w AS SELECT amount FROM v UNION ALL SELECT -amount FROM account",
    );
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (session, done) = (session.clone(), done.clone());
        std::thread::spawn(move || {
            for _ in 0..60 {
                ok(
                    &session,
                    "UPDATE account SET amount = amount + CASE id WHEN 1 THEN -1 ELSE 1 END",
                );
            }
            done.store(true, Ordering::Release);
        })
    };
    let sum = |sql: &str| -> Vec<i64> {
        let batches = run(&session, sql).unwrap();
        batches
            .iter()
            .flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect()
    };
    while !done.load(Ordering::Acquire) {
        assert_eq!(sum("SELECT CAST(sum(amount) AS BIGINT) FROM v"), [1000]);
        assert_eq!(sum("SELECT count(*) FROM v"), [2]);
        assert_eq!(sum("SELECT CAST(sum(amount) AS BIGINT) FROM w"), [0]);
        let twice =
            "SELECT count(*) FROM v JOIN v AS other ON v.id = other.id AND v.amount = other.amount";
        assert_eq!(sum(twice), [2], "all scans of a query see the same rows");
    }
    writer.join().unwrap();
    ok(&session, "FLUSH");
    assert_eq!(rows(&session, "SELECT * FROM v"), ["1 940", "2 60"]);
}
