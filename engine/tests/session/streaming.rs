//! Continuous queries: windows that close by the watermark, late rows, and what is refused.

use arrow::record_batch::RecordBatch;
use futures::StreamExt;
use futures::executor::block_on;
use thalweg::Session;

use queries::{refusal, rows, run, session};

mod queries {
    use std::io::Write;

    use arrow::record_batch::RecordBatch;
    use arrow::util::pretty::pretty_format_batches;
    use futures::executor::block_on;
    use thalweg::Session;

    /// A session with a table `e` (k, v, ts) over these lines, with a watermark of 5 s.
    pub fn session(lines: &str) -> (Session, tempfile::NamedTempFile) {
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        write!(file, "k,v,ts\n{lines}").unwrap();
        let session = Session::new();
        let create = format!(
            "CREATE TABLE e (k VARCHAR, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) \
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'csv.header' = 'true')",
            file.path().display()
        );
        run(&session, &create);
        (session, file)
    }

    pub fn run(session: &Session, sql: &str) -> Vec<RecordBatch> {
        block_on(async { session.sql(sql).await?.collect().await }).unwrap()
    }

    pub fn rows(session: &Session, sql: &str) -> Vec<String> {
        let text = pretty_format_batches(&run(session, sql)).unwrap().to_string();
        let cells = text.lines().filter(|line| line.starts_with('|')).skip(1).map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            cells.join(",")
        });
        let mut rows: Vec<String> = cells.collect();
        rows.sort();
        rows
    }

    pub fn refusal(session: &Session, sql: &str) -> String {
        block_on(async { session.sql(sql).await?.collect().await }).unwrap_err().to_string()
    }
}

/// Times of one minute, by seconds.
fn lines(rows: &[(&str, i64, u32)]) -> String {
    let line = |(k, v, s): &(&str, i64, u32)| format!("{k},{v},2024-01-01 00:00:{s:02}\n");
    rows.iter().map(line).collect()
}

const ROWS: [(&str, i64, u32); 8] = [
    ("a", 1, 1),
    ("b", 2, 3),
    ("a", 3, 9),
    ("b", 4, 12),
    ("a", 5, 8),
    ("a", 6, 25),
    // The window of this row closed when the row before it came.
    ("a", 7, 2),
    ("b", 8, 31),
];

const TUMBLE: &str = "SELECT extract(second FROM window_start)::int AS s, k, sum(v) AS v, count(*) AS n \
     FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end, k";

#[test]
fn a_row_is_late_when_its_window_has_closed_whatever_the_batches_and_threads() {
    let (session, _file) = session(&lines(&ROWS));
    let batch = ["0,a,16,4", "0,b,2,1", "10,b,4,1", "20,a,6,1", "30,b,8,1"];
    assert_eq!(rows(&session, TUMBLE), batch);
    run(&session, "SET execution.runtime_mode = streaming");
    let streamed = ["0,a,9,3", "0,b,2,1", "10,b,4,1", "20,a,6,1", "30,b,8,1"];
    for threads in ["1", "2", "8"] {
        for batch_size in ["1", "2", "8192"] {
            run(&session, &format!("SET threads = {threads}"));
            run(&session, &format!("SET batch_size = {batch_size}"));
            assert_eq!(rows(&session, TUMBLE), streamed, "threads {threads}, batches {batch_size}");
        }
    }
}

#[test]
fn late_rows_are_counted_aloud() {
    let (session, _file) = session(&lines(&ROWS));
    run(&session, "SET execution.runtime_mode = streaming");
    let warnings = block_on(async {
        let mut stream = session.sql(TUMBLE).await.unwrap().stream().unwrap();
        while stream.next().await.is_some() {}
        stream.left_out()
    });
    assert_eq!(
        warnings,
        ["1 row that came too late was dropped: the watermark had passed their group"]
    );
    let plan = rows(&session, &format!("EXPLAIN ANALYZE {TUMBLE}")).join("\n");
    assert!(plan.contains(" late 1"), "{plan}");
}

#[test]
fn a_row_counts_in_the_windows_that_are_open() {
    let (session, _file) = session(&lines(&[("a", 1, 8), ("a", 2, 14), ("a", 4, 6), ("a", 8, 40)]));
    run(&session, "SET execution.runtime_mode = streaming");
    // The row of second 6 comes when the watermark is at 9: the window that ended at 5 is closed for all, and both of its
    // own are open.
    let hop = "SELECT extract(second FROM window_end)::int AS s, sum(v) AS v \
               FROM HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND) \
               GROUP BY window_start, window_end";
    assert_eq!(rows(&session, hop), ["10,5", "15,7", "20,2", "45,8", "50,8"]);
    let cumulate = "SELECT extract(second FROM window_start)::int AS b, extract(second FROM window_end)::int AS e, \
                    sum(v) AS v FROM CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND) \
                    GROUP BY window_start, window_end";
    assert_eq!(rows(&session, cumulate), ["0,10,5", "10,15,2", "10,20,2", "40,45,8", "40,50,8"]);
}

#[test]
fn any_monotone_function_of_event_time_closes_groups() {
    let (session, _file) = session(&lines(&ROWS));
    run(&session, "SET execution.runtime_mode = streaming");
    let sql = "SELECT date_bin(INTERVAL '10' SECOND, ts) AS b, sum(v) AS v FROM e GROUP BY 1";
    let plan = rows(&session, &format!("EXPLAIN {sql}")).join("\n");
    assert!(plan.contains("groups leave when the watermark passes"), "{plan}");
    let sums: Vec<String> =
        rows(&session, sql).iter().map(|row| row.split(',').nth(1).unwrap().to_string()).collect();
    assert_eq!(sums, ["11", "4", "6", "8"]);
    let by_key = rows(&session, "EXPLAIN SELECT k, sum(v) FROM e GROUP BY k").join("\n");
    assert!(!by_key.contains("groups leave"), "{by_key}");
}

#[test]
fn rows_that_an_operator_keeps_back_are_not_late() {
    let ordered: Vec<(&str, i64, u32)> =
        (0..40).map(|s| (["a", "b"][s as usize % 2], i64::from(s), s)).collect();
    let (session, _file) = session(&lines(&ordered));
    run(&session, "CREATE TABLE names AS SELECT k, v AS w, ts AS at FROM e");
    let queries = [
        "SELECT date_bin(INTERVAL '10' SECOND, ts) AS b, sum(v) AS v FROM (SELECT * FROM e ORDER BY v DESC LIMIT 30) GROUP BY 1",
        "SELECT date_bin(INTERVAL '10' SECOND, ts) AS b, sum(n) AS n FROM \
         (SELECT ts, row_number() OVER (ORDER BY v DESC) AS n FROM e) GROUP BY 1",
        "SELECT date_bin(INTERVAL '5' SECOND, y.ts) AS b, count(*) AS n FROM e x JOIN e y ON x.v + 30 = y.v GROUP BY 1",
        "SELECT date_bin(INTERVAL '5' SECOND, y.ts) AS b, count(*) AS n FROM e x FULL JOIN e y ON x.v = y.v + 35 GROUP BY 1",
        "SELECT date_bin(INTERVAL '5' SECOND, x.ts) AS b, count(*) AS n FROM e x JOIN names ON v = w GROUP BY 1",
        "SELECT m, sum(n) AS n FROM (SELECT date_bin(INTERVAL '5' SECOND, ts) AS m, date_bin(INTERVAL '30' SECOND, ts) AS d, \
         count(*) AS n FROM e GROUP BY 1, 2) GROUP BY m",
        "SELECT m, sum(n) AS n FROM (SELECT date_bin(INTERVAL '30' SECOND, ts) AS d, date_bin(INTERVAL '5' SECOND, ts) AS m, \
         count(*) AS n FROM e GROUP BY 1, 2) GROUP BY m",
        "SELECT window_end, count(*) AS n FROM TUMBLE(TABLE (SELECT window_time AS t, k, sum(v) AS v \
         FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND) GROUP BY window_start, window_end, window_time, k), \
         DESCRIPTOR(t), INTERVAL '10' SECOND) GROUP BY window_start, window_end",
    ];
    for sql in queries {
        run(&session, "SET execution.runtime_mode = batch");
        let batch = rows(&session, sql);
        run(&session, "SET execution.runtime_mode = streaming");
        for batch_size in ["2", "8192"] {
            run(&session, &format!("SET batch_size = {batch_size}"));
            assert_eq!(rows(&session, sql), batch, "{sql}, batches {batch_size}");
        }
    }
    let cascade = rows(&session, &format!("EXPLAIN {}", queries[queries.len() - 1]));
    let closing = cascade.iter().filter(|line| line.contains("groups leave")).count();
    // One of them in two phases.
    assert_eq!(closing, 3, "{cascade:?}");
}

#[test]
fn an_endless_table_gives_windows_as_they_close_and_is_refused_where_an_end_is_needed() {
    let session = Session::new();
    run(
        &session,
        "CREATE TABLE g (a BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', \
         'rows-per-second' = '0', 'seed' = '1', 'fields.a.min' = '0', 'fields.a.max' = '3', \
         'fields.ts.kind' = 'sequence', 'fields.ts.start' = '2024-01-01 00:00:00')",
    );
    run(
        &session,
        "CREATE TABLE names AS SELECT * FROM (VALUES (0, 'zero'), (1, 'one')) t(a, name)",
    );
    let windows = "SELECT name, count(*) AS n FROM TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '1' SECOND) w \
                   JOIN names USING (a) GROUP BY window_start, window_end, name";
    let first: RecordBatch = block_on(async {
        let mut stream = session.sql(windows).await.unwrap().stream().unwrap();
        assert!(stream.is_continuous());
        stream.next().await.unwrap().unwrap()
    });
    assert!(first.num_rows() > 0);
    for (sql, wanted) in [
        ("SELECT a, count(*) FROM g GROUP BY a", "a result that goes on changing"),
        ("SELECT count(*) FROM g", "a result that goes on changing"),
        ("SELECT * FROM g ORDER BY a", "ORDER BY over an endless table"),
        ("SELECT * FROM g x LEFT JOIN g y USING (a)", "a result that goes on changing"),
        ("SELECT * FROM g RIGHT JOIN names USING (a)", "a result that goes on changing"),
        ("SELECT row_number() OVER (ORDER BY a) FROM g", "a result that goes on changing"),
        ("SELECT * FROM names WHERE a = (SELECT a FROM g)", "such a subquery"),
    ] {
        let refused = refusal(&session, sql);
        assert!(refused.contains(wanted), "{sql}: {refused}");
    }
    run(&session, "SET execution.runtime_mode = batch");
    assert!(refusal(&session, "SELECT * FROM g").contains("a table without an end"));
    run(&session, "RESET execution.runtime_mode");
    assert_eq!(rows(&session, "SELECT count(*) AS n FROM (SELECT * FROM g LIMIT 10)"), ["10"]);
}

#[test]
fn explain_shows_what_goes_on_changing() {
    let (session, _file) = session(&lines(&ROWS));
    // Tables that end are read as a stream for CHANGELOG_MODE, whatever mode queries run in.
    let kept =
        rows(&session, "EXPLAIN CHANGELOG_MODE SELECT k, count(*) FROM e GROUP BY k").join("\n");
    assert!(kept.contains("changelog [") && kept.contains("state "), "{kept}");
    run(&session, "CREATE TABLE g (k INT) WITH ('connector' = 'datagen')");
    let query = "SELECT k, count(*) FROM g GROUP BY k";
    assert!(refusal(&session, query).contains("goes on changing"));
    let shown = rows(&session, &format!("EXPLAIN {query}")).join("\n");
    assert!(shown.contains("state UNBOUNDED"), "{shown}");
}

#[test]
fn changes_that_end_are_read_in_batch_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.json");
    let text = "{\"before\":null,\"after\":{\"id\":1,\"v\":10},\"op\":\"c\"}\n\
                {\"before\":{\"id\":1,\"v\":10},\"after\":{\"id\":1,\"v\":15},\"op\":\"u\"}\n";
    std::fs::write(&path, text).unwrap();
    let session = Session::new();
    run(
        &session,
        &format!(
            "CREATE TABLE d (id BIGINT, v BIGINT) WITH ('connector' = 'single_file', 'path' = '{}', \
             'format' = 'debezium_json')",
            path.display()
        ),
    );
    let verified =
        rows(&session, "EXPLAIN (VERIFY) SELECT v, count(*) FROM d GROUP BY v").join("\n");
    assert!(!verified.contains("differ"), "{verified}");
    run(&session, "SET execution.runtime_mode = batch");
    assert_eq!(rows(&session, "SELECT * FROM d"), ["1,15"]);
    run(&session, "CREATE TABLE g (k INT) WITH ('connector' = 'datagen')");
    assert!(refusal(&session, "SELECT k FROM g").contains("without an end"));
}
