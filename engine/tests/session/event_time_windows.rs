//! Window functions, sessions and plain rows of streams that leave when event time completes them.

use arrow::record_batch::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use futures::executor::block_on;
use std::io::Write;
use thalweg::{Result, Session};

/// A session with a table `e` (k, v, ts) of rows by seconds, some of them out of order, with a watermark of 5 s.
fn session(rows: &[(&str, i64, u32)]) -> (Session, tempfile::NamedTempFile) {
    let mut file =
        tempfile::Builder::new().suffix(".csv").tempfile().expect("there is room for a file");
    writeln!(file, "k,v,ts").expect("the file can be written");
    for (k, v, s) in rows {
        let time = format!("2024-01-01 00:{:02}:{:02}", s / 60, s % 60);
        writeln!(file, "{k},{v},{time}").expect("the file can be written");
    }
    let session = Session::new();
    let create = format!(
        "CREATE TABLE e (k VARCHAR, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) \
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'csv.header' = 'true')",
        file.path().display()
    );
    run(&session, &create).expect("the table can be created");
    (session, file)
}

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

/// The rows as text, in order of the text.
fn rows(session: &Session, sql: &str) -> Vec<String> {
    let batches = run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let text = pretty_format_batches(&batches).expect("rows can be shown").to_string();
    let cells = text.lines().filter(|line| line.starts_with('|')).skip(1).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.join(",")
    });
    let mut rows: Vec<String> = cells.collect();
    rows.sort();
    rows
}

/// A generator of numbers that is the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Random rows that are never late.
fn random_rows(seed: u64) -> Vec<(&'static str, i64, u32)> {
    let mut random = Random(seed);
    let mut now = 5;
    let row = |i| {
        now += random.below(4) as u32;
        (["a", "b", "c"][random.below(3) as usize], i, now - random.below(5) as u32)
    };
    (0..200).map(row).collect()
}

const OVER: [&str; 13] = [
    "max(v) OVER (PARTITION BY k ORDER BY ts), min(k) OVER (ORDER BY ts, v), first_value(v) OVER (PARTITION BY k ORDER BY ts, v)",
    "avg(nullif(v % 5, 0)) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '4' SECOND PRECEDING)",
    "last_value(nullif(v % 5, 0)) IGNORE NULLS OVER (ORDER BY ts, v ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING), \
     nth_value(v, 4) OVER (PARTITION BY k ORDER BY ts, v), count(DISTINCT v % 7) OVER (PARTITION BY k ORDER BY ts, v)",
    "sum(v) FILTER (WHERE v % 3 = 0) OVER (PARTITION BY k ORDER BY ts), string_agg(k, ',') OVER (ORDER BY ts, v), \
     count(*) OVER (PARTITION BY k ORDER BY ts, v ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), \
     sum(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW)",
    "row_number() OVER (PARTITION BY k ORDER BY ts, v)",
    "rank() OVER (PARTITION BY k ORDER BY ts), dense_rank() OVER (PARTITION BY k ORDER BY ts)",
    "sum(v) OVER (PARTITION BY k ORDER BY ts RANGE INTERVAL '10' SECOND PRECEDING)",
    "max(v) OVER (ORDER BY ts, v ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)",
    "lag(v, 2) OVER (PARTITION BY k ORDER BY ts, v)",
    "count(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND INTERVAL '4' SECOND FOLLOWING)",
    "avg(v) OVER (PARTITION BY k ORDER BY ts)",
    "ntile(3) OVER (PARTITION BY date_trunc('minute', ts) ORDER BY v)",
    "sum(v) OVER (PARTITION BY date_trunc('minute', ts), k)",
];

#[test]
fn windows_over_streams_answer_as_the_batch_does_and_take_nothing_back() {
    for seed in 1..4 {
        let (session, _file) = session(&random_rows(seed));
        for over in OVER {
            let sql = format!("SELECT k, v, ts, {over} FROM e");
            let batch = rows(&session, &sql);
            run(&session, "SET execution.runtime_mode = streaming").unwrap();
            for settings in
                ["SET threads = 1; SET batch_size = 1", "SET threads = 3; SET batch_size = 7"]
            {
                run(&session, settings).unwrap();
                assert_eq!(rows(&session, &sql), batch, "seed {seed}: {sql}");
            }
            let plan = rows(&session, &format!("EXPLAIN {sql}")).join("\n");
            assert!(plan.contains("EventTimeWindow") && !plan.contains("I,D"), "{sql}: {plan}");
            run(&session, "RESET execution.runtime_mode; RESET threads; RESET batch_size").unwrap();
        }
    }
}

#[test]
fn a_row_waits_for_the_next_one_only_if_the_query_says_so() {
    let (session, _file) = session(&random_rows(5));
    let sql = "SELECT k, v, lead(v) OVER (PARTITION BY k ORDER BY ts, v) FROM e";
    let batch = rows(&session, sql);
    run(&session, "SET execution.runtime_mode = streaming; SET batch_size = 3").unwrap();
    for (emit, operator) in [("", "ChangelogWindow"), (" EMIT ON WINDOW CLOSE", "EventTimeWindow")]
    {
        let sql = format!("{sql}{emit}");
        assert_eq!(rows(&session, &sql), batch, "{sql}");
        let plan = rows(&session, &format!("EXPLAIN {sql}")).join("\n");
        assert!(plan.contains(operator), "{sql}: {plan}");
    }
}

#[test]
fn times_of_rows_that_wait_for_later_ones_close_nothing() {
    let (session, _file) = session(&random_rows(6));
    let sql = "SELECT date_trunc('minute', ts) AS m, sum(c) AS c FROM (SELECT ts, count(*) OVER \
               (PARTITION BY k ORDER BY ts RANGE BETWEEN CURRENT ROW AND INTERVAL '20' SECOND FOLLOWING) AS c FROM e) GROUP BY 1";
    let batch = rows(&session, sql);
    run(&session, "SET execution.runtime_mode = streaming; SET batch_size = 2").unwrap();
    assert_eq!(rows(&session, sql), batch);
}

#[test]
fn what_is_kept_is_told() {
    let (session, _file) = session(&random_rows(1));
    run(&session, "SET execution.runtime_mode = streaming").unwrap();
    for (over, state) in [
        (
            "count(*) OVER (PARTITION BY k ORDER BY ts RANGE INTERVAL '9' SECOND PRECEDING)",
            "bounded by the watermark on ts",
        ),
        ("count(*) OVER (ORDER BY ts ROWS 2 PRECEDING)", "bounded by the watermark on ts"),
        (
            "lag(v) OVER (PARTITION BY k ORDER BY ts)",
            "UNBOUNDED because the last 1 rows of every partition are kept",
        ),
        (
            "row_number() OVER (PARTITION BY k ORDER BY ts)",
            "UNBOUNDED because the rows of every partition are numbered",
        ),
        (
            "sum(v) OVER (PARTITION BY k ORDER BY ts)",
            "UNBOUNDED because one state of every partition is kept",
        ),
        ("sum(v) OVER (ORDER BY ts)", "bounded by the watermark on ts"),
        (
            "lag(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY ts)",
            "UNBOUNDED because every row before may count",
        ),
        (
            "sum(v) OVER (PARTITION BY k ORDER BY v)",
            "UNBOUNDED because every row of a partition may count",
        ),
        (
            "rank() OVER (PARTITION BY date_trunc('hour', ts) ORDER BY v)",
            "bounded by the watermark on date_trunc",
        ),
    ] {
        let plan = rows(&session, &format!("EXPLAIN SELECT {over} FROM e")).join("\n");
        assert!(plan.contains(&format!("state {state}")), "{over}: {plan}");
    }
}

#[test]
fn sessions_of_a_stream_close() {
    let sql = "SELECT k, window_start, window_end, count(*) AS n, sum(v) AS v \
               FROM SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND) \
               GROUP BY k, window_start, window_end";
    for seed in 1..6 {
        let (session, _file) = session(&random_rows(seed));
        let batch = rows(&session, sql);
        assert!(batch.len() > 20, "{batch:?}");
        run(&session, "SET execution.runtime_mode = streaming").unwrap();
        for settings in
            ["SET threads = 1; SET batch_size = 1", "SET threads = 3; SET batch_size = 16"]
        {
            run(&session, settings).unwrap();
            assert_eq!(rows(&session, sql), batch, "seed {seed}");
        }
        let plan = rows(&session, &format!("EXPLAIN {sql}")).join("\n");
        assert!(plan.contains("sessions leave when the watermark passes ts"), "{plan}");
        assert!(!plan.contains("state UNBOUNDED"), "{plan}");
    }
}

#[test]
fn rows_of_an_endless_table_are_numbered() {
    let (session, _file) = session(&[]);
    let create = "CREATE TABLE g (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')";
    run(&session, create).unwrap();
    let numbered = "SELECT n FROM (SELECT row_number() OVER (ORDER BY ts) AS n FROM g) LIMIT 3";
    assert_eq!(rows(&session, numbered), ["1", "2", "3"]);
}

#[test]
fn rows_wait_for_the_watermark_where_the_query_says_so() {
    let (session, _file) = session(&[]);
    run(
        &session,
        "CREATE TABLE t (ts TIMESTAMP, v INT, WATERMARK FOR ts AS ts - INTERVAL '5' MINUTE) APPEND ONLY; \
         CREATE MATERIALIZED VIEW plain AS SELECT ts, v FROM t WHERE v > 0 EMIT ON WINDOW CLOSE; \
         CREATE MATERIALIZED VIEW numbered AS SELECT v, row_number() OVER (ORDER BY ts) AS n FROM t EMIT ON WINDOW CLOSE; \
         CREATE MATERIALIZED VIEW first AS SELECT window_start, v FROM (SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY v) AS n \
           FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) WHERE n <= 1 EMIT ON WINDOW CLOSE; \
         CREATE MATERIALIZED VIEW at_once AS SELECT count(*) AS n FROM t; \
         INSERT INTO t VALUES ('2024-01-01 16:51:00', 1), ('2024-01-01 16:56:00', 8), ('2024-01-01 17:30:00', 3); FLUSH",
    )
    .unwrap();
    assert_eq!(rows(&session, "SELECT v FROM plain"), ["1", "8"]);
    assert_eq!(rows(&session, "SELECT v, n FROM numbered"), ["1,1", "8,2"]);
    assert_eq!(rows(&session, "SELECT v FROM first"), ["1"]);
    assert_eq!(rows(&session, "SELECT n FROM at_once"), ["3"]);
    run(&session, "INSERT INTO t VALUES ('2024-01-01 18:10:00', 7); FLUSH").unwrap();
    assert_eq!(rows(&session, "SELECT v FROM plain"), ["1", "3", "8"]);
    assert_eq!(rows(&session, "SELECT v, n FROM numbered"), ["1,1", "3,3", "8,2"]);
    assert_eq!(rows(&session, "SELECT v FROM first"), ["1", "3"]);
    assert_eq!(rows(&session, "SELECT n FROM at_once"), ["4"]);
}

#[test]
fn a_lookup_is_of_what_there_is_when_a_row_comes() {
    let (session, _file) = session(&[]);
    run(
        &session,
        "CREATE TABLE orders (id INT, k INT); CREATE TABLE rates (k INT PRIMARY KEY, rate INT); \
         INSERT INTO rates VALUES (1, 10); \
         CREATE MATERIALIZED VIEW v AS SELECT o.id, r.rate FROM orders o LEFT JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r ON o.k = r.k; \
         INSERT INTO orders VALUES (1, 1), (2, 2); FLUSH; \
         UPDATE rates SET rate = 11 WHERE k = 1; INSERT INTO rates VALUES (2, 20); FLUSH; \
         INSERT INTO orders VALUES (3, 1), (4, 2); FLUSH",
    )
    .unwrap();
    assert_eq!(rows(&session, "SELECT * FROM v"), ["1,10", "2,", "3,11", "4,20"]);
    // What a row was given goes with it.
    run(&session, "DELETE FROM orders WHERE id IN (1, 3); DELETE FROM rates; FLUSH").unwrap();
    assert_eq!(rows(&session, "SELECT * FROM v"), ["2,", "4,20"]);
}
