//! Materialized views in event time: watermarks go from tables in memory through views to the views over them, and rows
//! that come too late for a table that is append only never enter it.

use arrow::array::RecordBatch;
use futures::executor::block_on;
use thalweg::{Result, Session};

use crate::shown::sorted_lines;

/// A session whose views show a statement's changes behind it.
fn session() -> Session {
    let session = Session::builder().threads(2).set("view_commit_interval", "1 h");
    let session = session.build().expect("the settings are right");
    ok(&session, "SET implicit_flush = on");
    session
}

/// Runs all statements of a text; the rows and the warnings of the last one.
fn run(session: &Session, sql: &str) -> Result<(Vec<RecordBatch>, Vec<String>)> {
    block_on(async {
        let mut script = session.execute(sql);
        let mut last = Default::default();
        while let Some(frame) = script.next_frame().await? {
            let warnings = frame.warnings().to_vec();
            last = (frame.collect().await?, warnings);
        }
        Ok(last)
    })
}

fn ok(session: &Session, sql: &str) -> Vec<String> {
    run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}")).1
}

/// The rows as sorted lines, values separated by blanks.
fn rows(session: &Session, sql: &str) -> Vec<String> {
    sorted_lines(&run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}")).0)
}

/// A table of numbered rows by the second of their time.
fn timed(session: &Session, name: &str) {
    let columns = "id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND";
    ok(session, &format!("CREATE TABLE {name} ({columns}) APPEND ONLY"));
}

/// Adds rows to such a table; what the statement warns of.
fn add(session: &Session, name: &str, added: &[(i32, u32)]) -> Vec<String> {
    let row = |(id, second): &(i32, u32)| format!("({id}, '2026-01-01 00:00:{second:02}')");
    let added: Vec<String> = added.iter().map(row).collect();
    ok(session, &format!("INSERT INTO {name} VALUES {}", added.join(", ")))
}

#[test]
fn rows_that_come_too_late_do_not_enter_a_table_that_is_append_only() {
    let session = session();
    timed(&session, "t");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT id FROM t");
    // The rows of one statement are not late to each other.
    assert!(add(&session, "t", &[(1, 30), (2, 10)]).is_empty());
    let warnings = add(&session, "t", &[(3, 25), (4, 26), (5, 20)]);
    assert!(warnings[0].contains("2 rows that came too late were left out"), "{warnings:?}");
    ok(&session, "INSERT INTO t VALUES (6, NULL)");
    for read in ["t", "v"] {
        assert_eq!(rows(&session, &format!("SELECT id FROM {read}")), ["1", "2", "4", "6"]);
    }
    ok(&session, "CREATE TABLE u (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)");
    add(&session, "u", &[(1, 30)]);
    assert!(add(&session, "u", &[(2, 10)]).is_empty());
    assert_eq!(rows(&session, "SELECT id FROM u"), ["1", "2"], "rows of others may come any time");
}

#[test]
fn a_view_over_a_join_knows_when_its_rows_are_final() {
    let session = session();
    timed(&session, "a");
    timed(&session, "b");
    let matched = "b.ts BETWEEN a.ts - INTERVAL '10' SECOND AND a.ts";
    ok(
        &session,
        &format!(
            "CREATE MATERIALIZED VIEW pairs AS SELECT a.id, b.id AS other, a.ts FROM a \
             LEFT JOIN b ON a.id = b.id AND {matched}"
        ),
    );
    ok(&session, "CREATE MATERIALIZED VIEW done AS SELECT * FROM pairs EMIT ON WINDOW CLOSE");
    add(&session, "a", &[(1, 8), (2, 20)]);
    // A row without a match is shown at once, and taken back when the match comes.
    assert_eq!(rows(&session, "SELECT id, other FROM pairs"), ["1 NULL", "2 NULL"]);
    add(&session, "b", &[(1, 5)]);
    assert_eq!(rows(&session, "SELECT id, other FROM pairs"), ["1 1", "2 NULL"]);
    assert!(rows(&session, "SELECT id, other FROM done").is_empty(), "b has hardly begun");
    add(&session, "b", &[(9, 16)]);
    add(&session, "a", &[(9, 40)]);
    assert_eq!(rows(&session, "SELECT id, other FROM done"), ["1 1"]);
    add(&session, "b", &[(9, 39)]);
    assert_eq!(rows(&session, "SELECT id, other FROM done"), ["1 1", "2 NULL"]);
    assert_eq!(rows(&session, "SELECT id, other FROM pairs"), ["1 1", "2 NULL", "9 9"]);
}

#[test]
fn watermarks_pass_groups_and_several_views() {
    let session = session();
    timed(&session, "t");
    ok(
        &session,
        "CREATE MATERIALIZED VIEW counts AS SELECT window_start, window_end, count(*) AS n \
         FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY 1, 2",
    );
    ok(&session, "CREATE MATERIALIZED VIEW same AS SELECT window_end AS at, n FROM counts");
    ok(
        &session,
        "CREATE MATERIALIZED VIEW closed AS SELECT at, n FROM same \
         EMIT ON WINDOW CLOSE",
    );
    ok(
        &session,
        "CREATE MATERIALIZED VIEW sums AS SELECT at, sum(n) AS n FROM same GROUP BY at \
         EMIT ON WINDOW CLOSE",
    );
    add(&session, "t", &[(1, 1), (2, 4)]);
    assert_eq!(rows(&session, "SELECT n FROM counts"), ["2"], "a view without EMIT does not wait");
    add(&session, "t", &[(3, 9), (4, 12)]);
    assert_eq!(rows(&session, "SELECT n FROM counts"), ["1", "3"]);
    assert!(rows(&session, "SELECT date_part('second', at)::INT, n FROM closed").is_empty());
    add(&session, "t", &[(5, 17)]);
    assert_eq!(rows(&session, "SELECT date_part('second', at)::INT, n FROM closed"), ["10 3"]);
    assert_eq!(rows(&session, "SELECT date_part('second', at)::INT, n FROM sums"), ["10 3"]);
    add(&session, "t", &[(6, 40)]);
    assert_eq!(
        rows(&session, "SELECT date_part('second', at)::INT, n FROM closed"),
        ["10 3", "20 2"]
    );
    assert_eq!(
        rows(&session, "SELECT date_part('second', at)::INT, n FROM sums"),
        ["10 3", "20 2"]
    );
}

#[test]
fn a_view_that_is_made_later_begins_with_what_is_known() {
    let session = session();
    timed(&session, "t");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT id, ts FROM t");
    add(&session, "t", &[(1, 1), (2, 20)]);
    ok(&session, "CREATE MATERIALIZED VIEW done AS SELECT id, ts FROM v EMIT ON WINDOW CLOSE");
    assert_eq!(rows(&session, "SELECT id FROM done"), ["1"]);
    add(&session, "t", &[(3, 40)]);
    assert_eq!(rows(&session, "SELECT id FROM done"), ["1", "2"]);
}

#[test]
fn rows_behind_the_watermark_leave_a_table_with_ttl_and_not_its_views() {
    let session = session();
    ok(&session, "CREATE TABLE t (n INT, WATERMARK FOR n AS n - 10 WITH TTL) APPEND ONLY");
    ok(&session, "CREATE MATERIALIZED VIEW v AS SELECT n FROM t");
    ok(&session, "INSERT INTO t VALUES (1)");
    ok(&session, "INSERT INTO t VALUES (20)");
    ok(&session, "INSERT INTO t VALUES (5), (15)");
    assert_eq!(rows(&session, "SELECT n FROM v"), ["1", "15", "20"]);
    assert_eq!(rows(&session, "SELECT n FROM t"), ["15", "20"]);
    ok(
        &session,
        "CREATE TABLE p (n INT, at TIMESTAMPTZ AS proctime(), WATERMARK FOR at AS at WITH TTL) \
         APPEND ONLY",
    );
    ok(&session, "INSERT INTO p VALUES (1)");
    ok(&session, "INSERT INTO p VALUES (2)");
    assert_eq!(rows(&session, "SELECT n FROM p"), ["1", "2"]);
    let refused = run(&session, "CREATE TABLE q (ts TIMESTAMP, WATERMARK FOR ts AS ts WITH TTL)");
    let Err(refused) = refused else { panic!("only tables that are append only") };
    assert!(refused.to_string().contains("APPEND ONLY"), "{refused}");
}

#[test]
fn lookups_need_no_condition() {
    let session = session();
    ok(&session, "CREATE TABLE s (a INT) APPEND ONLY; CREATE TABLE d (b INT PRIMARY KEY)");
    ok(&session, "INSERT INTO d VALUES (1), (2)");
    for (view, joined) in [
        ("x", "s CROSS JOIN d FOR SYSTEM_TIME AS OF PROCTIME()"),
        ("y", "s, d FOR SYSTEM_TIME AS OF PROCTIME()"),
        ("z", "s LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON a < b"),
    ] {
        ok(&session, &format!("CREATE MATERIALIZED VIEW {view} AS SELECT a, b FROM {joined}"));
    }
    ok(&session, "INSERT INTO s VALUES (1), (2)");
    ok(&session, "INSERT INTO d VALUES (3)");
    for view in ["x", "y"] {
        let pairs = rows(&session, &format!("SELECT * FROM {view}"));
        assert_eq!(pairs, ["1 1", "1 2", "2 1", "2 2"], "{view}");
    }
    assert_eq!(rows(&session, "SELECT * FROM z"), ["1 2", "2 NULL"]);
    ok(&session, "INSERT INTO s VALUES (2)");
    assert_eq!(rows(&session, "SELECT * FROM z"), ["1 2", "2 3", "2 NULL"]);
}
