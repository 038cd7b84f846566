//! What runs can be seen: rows that came too late, splits that hold windows open, and what operators do.

use std::io::Write;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use thalweg::Session;

use super::streams::{refusal, rows, run, session};
use super::{ROWS, tumble};

/// The call for a query's late rows.
fn late(query: &str) -> String {
    format!("late_rows('{}')", query.replace('\'', "''"))
}

fn number(session: &Session, sql: &str) -> i64 {
    run(session, sql)[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// The sum of a column of numbers.
fn sum(batches: &[RecordBatch], column: &str) -> i64 {
    let values = batches.iter().map(|batch| {
        let column = batch.column_by_name(column).expect("a column of the listing");
        column.as_primitive::<Int64Type>().iter().flatten().sum::<i64>()
    });
    values.sum()
}

/// The rows of a statement as text, once a part is among them: what runs in the background needs its time.
fn eventually(session: &Session, sql: &str, part: &str) -> String {
    loop {
        let text = rows(session, sql).join("\n");
        if text.contains(part) {
            return text;
        }
        std::thread::yield_now();
    }
}

/// The rows that EXPLAIN ANALYZE says were late.
fn counted(session: &Session, query: &str) -> i64 {
    let plan = rows(session, &format!("EXPLAIN ANALYZE {query}")).join("\n");
    let late = plan.match_indices(" late ").map(|(at, word)| {
        let number = plan[at + word.len()..].chars().take_while(char::is_ascii_digit);
        number.collect::<String>().parse::<i64>().expect("a number of late rows")
    });
    late.sum()
}

#[test]
fn late_rows_can_be_read_whole_with_what_made_them_late() {
    let mut lines = ROWS.to_vec();
    lines.extend([("c", 7, 1), ("a", 8, 1)]);
    let (session, _file) = session(&lines);
    let late = late(&tumble(""));
    for (threads, batch) in [(1, 1), (2, 1), (8, 7)] {
        run(&session, &format!("SET threads = {threads}"));
        run(&session, &format!("SET batch_size = {batch}"));
        // The query reads no column but these, and its result is of another kind; the rows are whole all the same.
        let found = rows(&session, &format!("SELECT k, v, ts FROM {late}"));
        let wanted =
            ["a,5,2024-01-01T00:00:02", "a,8,2024-01-01T00:00:01", "c,7,2024-01-01T00:00:01"];
        assert_eq!(found, wanted, "with {threads} threads");
    }
    let why = rows(
        &session,
        &format!(
            "SELECT DISTINCT operator, watermark >= '2024-01-01 00:00:10', reason FROM {late}"
        ),
    );
    assert_eq!(why.len(), 1, "{why:?}");
    assert!(why[0].starts_with("HashAggregate,true,the watermark had passed"), "{why:?}");
}

#[test]
fn every_row_that_is_counted_as_late_can_be_read() {
    let mut lines = ROWS.to_vec();
    lines.extend([
        ("a", 7, 1),
        ("b", 8, 2),
        ("b", 9, 29),
        ("c", 10, 0),
        ("a", 11, 55),
        ("a", 12, 30),
    ]);
    let (session, _file) = session(&lines);
    let windows = |table: &str| {
        format!(
            "SELECT k, window_start, count(*) FROM {table} GROUP BY k, window_start, window_end"
        )
    };
    let first = |emit: &str| {
        format!(
            "SELECT k, v FROM (SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY v) AS r \
             FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE r <= 1 {emit}"
        )
    };
    let hop = "HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)";
    let cumulate = "CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)";
    let sessions = "SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND)";
    for query in [
        tumble(""),
        tumble("EMIT ON UPDATE ALLOW LATENESS INTERVAL '2' SECOND"),
        windows(hop),
        windows(cumulate),
        windows(sessions),
        "SELECT date_trunc('minute', ts), max(v) FROM e GROUP BY 1".to_string(),
        "SELECT v, sum(v) OVER (PARTITION BY k ORDER BY ts) AS s FROM e".to_string(),
        first("EMIT ON UPDATE"),
        first("EMIT ON UPDATE ALLOW LATENESS INTERVAL '2' SECOND"),
    ] {
        for threads in [1, 4] {
            run(&session, &format!("SET threads = {threads}"));
            let expected = counted(&session, &query);
            let found = number(&session, &format!("SELECT count(*) FROM {}", late(&query)));
            assert_eq!(found, expected, "{query} with {threads} threads");
        }
    }
    assert!(counted(&session, &tumble("")) > 3, "there are late rows");
    assert!(counted(&session, &first("EMIT ON UPDATE")) > 3, "also of first rows");
    run(&session, "SET execution.runtime_mode = automatic");
    // A bounded query has no late rows as a batch; what would be late of it as a stream is told all the same.
    assert!(number(&session, &format!("SELECT count(*) FROM {}", late(&tumble("")))) > 3);
}

#[test]
fn a_view_keeps_its_late_rows() {
    let (session, _file) = session(&ROWS);
    let folder = tempfile::tempdir().expect("a folder");
    // The row of second 1 comes when the watermark is at second 21, the first of all rows of another key before it.
    let mut lines = String::from("k,v,ts\n");
    for (k, v, second) in ROWS.iter().chain(&[("c", 7, 1), ("a", 8, 1)]) {
        lines.push_str(&format!("{k},{v},2024-01-01 00:00:{second:02}\n"));
    }
    std::fs::write(folder.path().join("rows.csv"), lines).expect("a file");
    run(
        &session,
        &format!(
            "CREATE TABLE w_in (k VARCHAR, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH \
             ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'csv.header' = 'true', 'scan.watch' = 'true')",
            folder.path().display()
        ),
    );
    for (threads, batch) in [(1, 1), (4, 1), (1, 8192), (4, 8192)] {
        run(&session, &format!("SET threads = {threads}"));
        run(&session, &format!("SET batch_size = {batch}"));
        let query = tumble("").replace("TABLE e,", "TABLE w_in,");
        run(&session, &format!("CREATE MATERIALIZED VIEW w AS {query}"));
        let late = "SELECT k, v FROM late_rows('w')";
        while sum(&run(&session, "DESCRIBE JOB w"), "late_rows") < 3 {
            std::thread::yield_now();
        }
        assert_eq!(rows(&session, late), ["a,5", "a,8", "c,7"], "with {threads} threads");
        assert_eq!(sum(&run(&session, "DESCRIBE JOB w"), "late_rows"), 3);
        assert_eq!(sum(&run(&session, "SHOW JOBS"), "late_rows"), 3);
        assert_eq!(rows(&session, late), rows(&session, &late.replace("'w'", "'W'")));
        run(&session, "DROP MATERIALIZED VIEW w");
    }
    for (call, part) in [
        ("late_rows('nobody')", "nobody does not exist"),
        ("late_rows('17')", "the job \"17\" does not exist"),
        ("late_rows('SELECT nothing FROM e')", "the query of late_rows"),
        ("late_rows('DROP TABLE e')", "one query"),
        ("late_rows(3)", "not a text"),
    ] {
        let said = refusal(&session, &format!("SELECT * FROM {call}"));
        assert!(said.contains(part), "{call}: {said}");
    }
}

#[test]
fn describe_job_names_the_split_that_holds_a_window_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, seconds: &[u32]| {
        let mut file = std::fs::File::create(folder.path().join(name)).expect("a file");
        writeln!(file, "v,ts").expect("a header");
        for second in seconds {
            writeln!(file, "1,2024-01-01 00:00:{second:02}").expect("a row");
        }
    };
    file("ahead.csv", &[1, 50]);
    file("behind.csv", &[1, 7]);
    let session = Session::builder().threads(2).build().expect("a session");
    let create = |idle: &str| {
        format!(
            "CREATE TABLE IF NOT EXISTS t{} (v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', \
             'path' = '{}', 'format' = 'csv', 'csv.header' = 'true', 'scan.watch' = 'true', 'scan.watch.interval' = '10 ms', \
             'scan.watermark.idle-timeout' = '{idle}')",
            if idle == "0 s" { "_idle" } else { "" },
            folder.path().display()
        )
    };
    run(&session, &create("1 hour"));
    run(&session, &create("0 s"));
    let grouped = "window_start, count(*) AS n FROM TUMBLE(TABLE";
    let windows = "DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end";
    run(&session, &format!("CREATE MATERIALIZED VIEW held AS SELECT {grouped} t, {windows}"));
    run(&session, &format!("CREATE MATERIALIZED VIEW free AS SELECT {grouped} t_idle, {windows}"));
    let told = eventually(&session, "DESCRIBE JOB held", "behind.csv: at 2024-01-01 00:00:07");
    assert!(told.contains("t, ") && !told.contains("ahead.csv: at"), "{told}");
    assert_eq!(number(&session, "SELECT count(*) FROM held"), 0);
    // Where caught up files are idle at once, the window is closed, and who went furthest is told.
    let told = eventually(&session, "DESCRIBE JOB free", "idle as all others are");
    assert!(told.contains("ahead.csv: at 2024-01-01 00:00:50"), "{told}");
}

#[test]
fn describe_job_tells_how_busy_operators_are_and_what_they_keep() {
    let (session, _file) = session(&ROWS);
    run(
        &session,
        "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')",
    );
    run(
        &session,
        "CREATE MATERIALIZED VIEW w AS SELECT i % 7 AS k, count(*) AS n FROM n GROUP BY 1",
    );
    while number(&session, "SELECT count(*) FROM w") < 1 {
        std::thread::yield_now();
    }
    let told = run(&session, "DESCRIBE JOB w");
    for column in ["busy_pct", "idle_pct", "blocked_pct"] {
        for batch in &told {
            let shares = batch.column_by_name(column).expect("a share");
            let shares = shares.as_primitive::<Float64Type>();
            assert!(shares.null_count() == 0, "{column} is known of all that run");
            assert!(shares.iter().flatten().all(|share| (0.0..=100.0).contains(&share)));
        }
    }
    assert!(sum(&told, "state_rows") >= 1 && sum(&told, "state_bytes") > 0, "{told:?}");
    assert!(sum(&told, "rows_in") > 0 && sum(&told, "rows_out") > 0);
}

#[test]
fn an_upsert_sink_has_the_rows_of_its_key_or_is_refused() {
    let (session, _file) =
        session(&[("a", 1, 1), ("b", 2, 3), ("a", 3, 12), ("b", 9, 14), ("a", 5, 15)]);
    let sink = |name: &str, key: &str| {
        format!(
            "CREATE TABLE {name} (k VARCHAR, n BIGINT, m BIGINT, PRIMARY KEY ({key}) NOT ENFORCED) \
             WITH ('connector' = 'blackhole')"
        )
    };
    run(&session, &sink("by_k", "k"));
    run(&session, &sink("by_n", "n"));
    let query = "SELECT k, count(*) AS n, max(v) AS m FROM e GROUP BY k";
    run(&session, &format!("INSERT INTO by_k {query}"));
    let refused = refusal(&session, &format!("INSERT INTO by_n {query}"));
    assert!(refused.contains("another key") && refused.contains("ON CONFLICT"), "{refused}");
    run(&session, "CREATE TABLE kept (k VARCHAR PRIMARY KEY, n BIGINT, m BIGINT)");
    for threads in [1, 4] {
        run(&session, &format!("SET threads = {threads}"));
        run(&session, &format!("INSERT INTO kept {query} ON CONFLICT DO UPDATE"));
        assert_eq!(rows(&session, "SELECT * FROM kept"), ["a,3,5", "b,2,9"], "{threads} threads");
    }
}
