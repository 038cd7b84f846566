//! What users of other stream processors complain about, each as a test that it does not happen here.

use thalweg::Session;

use streams::{changes, refusal, rows, run, session};

mod streams {
    use std::io::Write;

    use arrow::record_batch::RecordBatch;
    use arrow::util::pretty::pretty_format_batches;
    use futures::executor::block_on;
    use thalweg::Session;

    /// A session that runs streams, one row a batch, with a table `e` (k, v, ts) of rows by seconds and a watermark of 5 s.
    pub fn session(lines: &[(&str, i64, u32)]) -> (Session, tempfile::NamedTempFile) {
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        writeln!(file, "k,v,ts").unwrap();
        for (k, v, s) in lines {
            writeln!(file, "{k},{v},2024-01-01 00:{:02}:{:02}", s / 60, s % 60).unwrap();
        }
        let session = Session::new();
        let create = format!(
            "CREATE TABLE e (k VARCHAR, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) \
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'csv.header' = 'true')",
            file.path().display()
        );
        run(&session, &create);
        run(&session, "SET execution.runtime_mode = streaming");
        run(&session, "SET batch_size = 1");
        (session, file)
    }

    pub fn run(session: &Session, sql: &str) -> Vec<RecordBatch> {
        block_on(async { session.sql(sql).await?.collect().await }).unwrap()
    }

    /// The rows in the order of the answer.
    pub fn changes(session: &Session, sql: &str) -> Vec<String> {
        let text = pretty_format_batches(&run(session, sql)).unwrap().to_string();
        let cells = text.lines().filter(|line| line.starts_with('|')).skip(1).map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            cells.join(",")
        });
        cells.collect()
    }

    pub fn rows(session: &Session, sql: &str) -> Vec<String> {
        let mut rows = changes(session, sql);
        rows.sort();
        rows
    }

    pub fn refusal(session: &Session, sql: &str) -> String {
        block_on(async { session.sql(sql).await?.collect().await }).unwrap_err().to_string()
    }
}

/// A row of second 2 comes when the window of its second has closed; one of second 14 comes out of order in time.
const ROWS: [(&str, i64, u32); 6] =
    [("a", 1, 1), ("b", 2, 3), ("a", 3, 12), ("a", 4, 26), ("a", 5, 2), ("b", 6, 24)];

fn tumble(emit: &str) -> String {
    format!(
        "SELECT extract(second FROM window_start)::int AS s, k, sum(v) AS v \
         FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end, k {emit}"
    )
}

fn changelog(session: &Session, threads: u32, sql: &str) -> Vec<String> {
    run(session, &format!("SET threads = {threads}"));
    session.show_changes(true);
    let told = changes(session, sql);
    session.show_changes(false);
    told
}

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
fn subtasks_without_a_split_hold_no_window_open() {
    let (session, _file) = session(&ROWS);
    for threads in [1, 3, 16] {
        let told = changelog(&session, threads, &tumble(""));
        let mut told: Vec<&str> = told.iter().map(String::as_str).collect();
        told.sort_unstable();
        assert_eq!(told, ["+I,0,a,1", "+I,0,b,2", "+I,10,a,3", "+I,20,a,4", "+I,20,b,6"]);
    }
}

#[test]
fn by_default_each_result_of_a_window_comes_once_and_final() {
    let (session, _file) = session(&ROWS);
    let told = changelog(&session, 1, &tumble(""));
    assert!(told.iter().all(|row| row.starts_with("+I")), "{told:?}");
    let plan = rows(&session, &format!("EXPLAIN {}", tumble(""))).join("\n");
    assert!(plan.contains("state bounded by the watermark"), "{plan}");
}

#[test]
fn results_of_a_window_can_be_seen_before_it_closes() {
    let (session, _file) = session(&[("a", 1, 1), ("a", 2, 3), ("a", 3, 30)]);
    let told = changelog(&session, 1, &tumble("EMIT ON UPDATE"));
    assert_eq!(told, ["+I,0,a,1", "-D,0,a,1", "+I,0,a,3", "+I,30,a,3"]);
}

#[test]
fn a_correction_leaves_before_its_window_is_forgotten() {
    let (session, _file) = session(&ROWS);
    let sql = tumble("EMIT AFTER WINDOW CLOSE ALLOW LATENESS INTERVAL '1' MINUTE");
    let told = changelog(&session, 1, &sql);
    let corrected = ["-D,0,a,1".to_string(), "+I,0,a,6".to_string()];
    assert!(told.windows(2).any(|pair| pair == corrected), "{told:?}");
    assert_eq!(rows(&session, &sql), ["0,a,6", "0,b,2", "10,a,3", "20,a,4", "20,b,6"]);
}

#[test]
fn windows_of_two_streams_are_joined_and_grouped_again() {
    let (session, _file) =
        session(&[("a", 1, 1), ("b", 2, 3), ("a", 3, 12), ("b", 4, 14), ("a", 5, 40)]);
    let side = |name: &str, key: &str| {
        format!(
            "(SELECT window_start, window_end, sum(v) AS v FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND) \
             WHERE k = '{key}' GROUP BY window_start, window_end) {name}"
        )
    };
    let sql = format!(
        "SELECT extract(second FROM l.window_start)::int AS s, sum(l.v + r.v) AS v FROM {} JOIN {} \
         ON l.window_start = r.window_start AND l.window_end = r.window_end GROUP BY l.window_start, l.window_end",
        side("l", "a"),
        side("r", "b")
    );
    assert_eq!(rows(&session, &sql), ["0,3", "10,7"]);
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

#[test]
fn a_row_that_can_match_earlier_rows_alone_is_not_late() {
    // The row of second 40 looks an hour and more back; the watermark is far past that when it comes.
    let (session, _file) = session(&[("a", 1, 1), ("b", 2, 70), ("a", 3, 75), ("b", 4, 76)]);
    let sql = "SELECT l.v AS l, r.v AS r FROM e l JOIN e r ON l.k = r.k AND l.ts <= r.ts - INTERVAL '1' MINUTE";
    assert_eq!(rows(&session, sql), ["1,3"]);
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
