//! Windows of calendars, zones and rows, and rows of windows that are kept: what a stream answers is what a batch does,
//! whatever batches, threads and the order of rows within the watermark.

use std::fmt::Write as _;
use std::io::Write;

use arrow::util::pretty::pretty_format_batches;
use futures::executor::block_on;
use thalweg::Session;

/// A generator of numbers that is the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Rows of (ts, k, v) over some weeks around the days on which clocks are turned in Europe and America, each less than a
/// minute behind those before it.
fn lines(seed: u64, rows: usize) -> String {
    let mut random = Random(seed);
    // 2026-03-01, soon after midnight.
    let mut now = 1_772_323_300_i64;
    let mut text = String::new();
    for _ in 0..rows {
        now += [0, 0, 1, 700, 5_000, 9_000][random.below(6) as usize];
        let at = now - random.below(60) as i64;
        let at = chrono_text(at);
        writeln!(text, "{at},k{},{}", random.below(3), random.below(30)).expect("it is a string");
    }
    text
}

/// Seconds since 1970 as a time.
fn chrono_text(seconds: i64) -> String {
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days from 1 March 2026 on; the months of a spring and summer.
    let mut day = day - 20_513;
    let mut month = 3;
    for length in [31, 30, 31, 30, 31, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("2026-{month:02}-{:02} {hour:02}:{minute:02}:{:02}", day + 1, second % 60)
}

fn run(session: &Session, sql: &str) -> String {
    let batches = block_on(async { session.sql(sql).await?.collect().await })
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let text = pretty_format_batches(&batches).expect("rows can be shown").to_string();
    let mut rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('+')).collect();
    rows.sort_unstable();
    rows.join("\n")
}

fn session(path: &str, settings: &[(&str, &str)]) -> Session {
    let session = Session::new();
    for (key, value) in settings {
        session.set(key, value).expect("a setting");
    }
    for (table, data_type) in [("t", "TIMESTAMP"), ("z", "TIMESTAMP WITH TIME ZONE")] {
        run(
            &session,
            &format!(
                "CREATE TABLE {table} (ts {data_type}, k VARCHAR, v BIGINT, \
                 WATERMARK FOR ts AS ts - INTERVAL '61' SECOND) WITH ('connector' = 'filesystem', \
                 'path' = '{path}', 'format' = 'csv', 'csv.header' = 'true')"
            ),
        );
    }
    session
}

const QUERIES: [&str; 22] = [
    "SELECT window_start, window_end, sum(v), count(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH) GROUP BY 1, 2",
    "SELECT window_start, window_end, k, sum(v) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' QUARTER, INTERVAL '10' DAY) GROUP BY 1, 2, 3",
    "SELECT window_start, window_end, window_time, sum(v) FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '3' MONTH) GROUP BY 1, 2, 3",
    "SELECT window_start, window_end, sum(v) FROM CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '1' MONTH) GROUP BY 1, 2",
    "SELECT window_start, window_end, window_time, k, sum(v) FROM TUMBLE(TABLE z, DESCRIPTOR(ts), INTERVAL '1' DAY, 'Europe/Berlin') GROUP BY 1, 2, 3, 4",
    "SELECT window_start, window_end, sum(v) FROM HOP(TABLE z, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '7' DAY, INTERVAL '6' HOUR, 'America/New_York') GROUP BY 1, 2",
    "SELECT window_start, window_end, sum(v) FROM CUMULATE(TABLE z, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' DAY, TIME_ZONE => 'Europe/Berlin') GROUP BY 1, 2",
    "SELECT w.start, w.end, sum(v) FROM (SELECT TUMBLE(ts, INTERVAL '1' MONTH, 'Asia/Kolkata') AS w, sum(v) AS v FROM z GROUP BY w) GROUP BY 1, 2",
    "SELECT window_start, window_end, k, sum(v), count(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '6' HOUR) GROUP BY 1, 2, 3 KEEP LAST 3 ROWS",
    "SELECT window_start, window_end, sum(v), count(*) FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '12' HOUR) GROUP BY 1, 2 EMIT AFTER WINDOW CLOSE KEEP LAST INTERVAL '30' MINUTE",
    "SELECT window_start, window_end, k, sum(v), count(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '6' HOUR) GROUP BY 1, 2, 3 EMIT ON UPDATE KEEP LAST 3 ROWS",
    "SELECT window_start, window_end, sum(v), count(*) FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '12' HOUR) GROUP BY 1, 2 EMIT PERIODIC INTERVAL '1' MILLISECOND KEEP LAST INTERVAL '30' MINUTE",
    "SELECT window_start, window_end, max(v), count(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '6' HOUR) GROUP BY 1, 2 EMIT ON UPDATE ALLOW LATENESS INTERVAL '1' HOUR KEEP LAST INTERVAL '2' HOUR",
    "SELECT window_start, window_end, min(v), count(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '6' HOUR) GROUP BY 1, 2 EMIT AFTER WINDOW CLOSE ALLOW LATENESS INTERVAL '1' HOUR KEEP LAST 5 ROWS",
    "SELECT k, window_number, window_start, window_end, sum(v), count(*) FROM COUNT_WINDOW(TABLE t PARTITION BY k, DESCRIPTOR(ts), 7) GROUP BY 1, 2, 3, 4",
    "SELECT window_number, window_start, window_end, sum(v), count(*) FROM COUNT_WINDOW(TABLE t, DESCRIPTOR(ts), 10, 3) GROUP BY 1, 2, 3",
    "SELECT k, window_number, window_start, window_end, sum(v), count(*) FROM DELTA_WINDOW(TABLE t PARTITION BY k, DESCRIPTOR(ts), v, 12.5) GROUP BY 1, 2, 3, 4",
    "SELECT k, window_number, window_start, window_end, sum(v), count(*) FROM PUNCTUATION_WINDOW(TABLE t PARTITION BY k, DESCRIPTOR(ts), v = 0) GROUP BY 1, 2, 3, 4",
    "SELECT k, window_number, window_start, window_end, sum(v), count(*) FROM LANDMARK_WINDOW(TABLE t PARTITION BY k, DESCRIPTOR(ts), v = 0) GROUP BY 1, 2, 3, 4",
    "SELECT date_trunc('hour', ts AT TIME ZONE 'Europe/Berlin') AS hour, sum(v) FROM z GROUP BY 1",
    "SELECT date_trunc('day', ts AT TIME ZONE 'America/New_York') AT TIME ZONE 'America/New_York' AS day, sum(v) FROM z GROUP BY 1",
    "SELECT k, count(*), sum(v) FROM t GROUP BY k EMIT PERIODIC INTERVAL '1' MILLISECOND",
];

#[test]
fn streams_answer_what_batches_do() {
    for seed in [3, 4] {
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().expect("a file");
        write!(file, "ts,k,v\n{}", lines(seed, 1_500)).expect("a file");
        let path = file.path().display().to_string();
        let batch = session(&path, &[]);
        for query in QUERIES {
            let wanted = run(&batch, query);
            assert!(wanted.lines().count() > 2, "{query}: {wanted}");
            for settings in [
                [("threads", "1"), ("batch_size", "8192")],
                [("threads", "1"), ("batch_size", "3")],
                [("threads", "3"), ("batch_size", "64")],
            ] {
                let stream = session(&path, &settings);
                run(&stream, "SET execution.runtime_mode = streaming");
                assert_eq!(run(&stream, query), wanted, "seed {seed}, {settings:?}: {query}");
            }
        }
    }
}

#[test]
fn windows_close_over_endless_tables() {
    let session = Session::new();
    let source = |name: &str, columns: &str| {
        format!(
            "CREATE TABLE {name} ({columns}) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')"
        )
    };
    let watermark = "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND";
    run(&session, &source("g", &format!("k BIGINT, ts TIMESTAMP WITH TIME ZONE, {watermark}")));
    run(&session, &source("n", "k BIGINT, ts TIMESTAMP"));
    let explain = |query: &str| run(&session, &format!("EXPLAIN {query}"));
    for (query, wanted) in [
        (
            "SELECT window_start, count(*) FROM TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '1' MONTH, 'Europe/Berlin') GROUP BY 1",
            "bounded by the watermark on window_start",
        ),
        (
            "SELECT window_end, count(*) FROM CUMULATE(TABLE g, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '1' YEAR) GROUP BY 1",
            "bounded by the watermark on window_end",
        ),
        (
            "SELECT window_start, count(*) FROM TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '1' DAY) GROUP BY 1 KEEP LAST 2 ROWS",
            "the last 2 rows",
        ),
        (
            "SELECT window_number, window_end, count(*) FROM COUNT_WINDOW(TABLE g, DESCRIPTOR(ts), 5) GROUP BY 1, 2",
            "bounded by 5 rows",
        ),
        (
            "SELECT k, window_number, window_end, count(*) FROM COUNT_WINDOW(TABLE g PARTITION BY k, DESCRIPTOR(ts), 5) GROUP BY 1, 2, 3",
            "UNBOUNDED because 5 rows of every key are kept",
        ),
        (
            "SELECT * FROM PUNCTUATION_WINDOW(TABLE g, DESCRIPTOR(ts), k < 0)",
            "UNBOUNDED because a window may never be complete",
        ),
    ] {
        let plan = explain(query);
        assert!(plan.contains(wanted), "{query}: {plan}");
    }
    let refused = |query: &str| {
        let error = block_on(session.sql(query)).map(|_| ()).expect_err("it has no watermark");
        error.to_string()
    };
    let by_time = "SELECT * FROM COUNT_WINDOW(TABLE n, DESCRIPTOR(ts), 5)";
    assert!(refused(by_time).contains("no watermark passes"), "{}", refused(by_time));
    let count = "SELECT count(*) AS c FROM (SELECT * FROM COUNT_WINDOW(TABLE n, DESCRIPTOR(ts), 5, row_order => 'arrival') LIMIT 5)";
    assert!(run(&session, count).contains("| 5 |"), "{}", run(&session, count));
}

#[test]
fn what_is_told_early_is_forgotten_when_windows_close() {
    let session = Session::new();
    run(
        &session,
        "CREATE TABLE g (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) \
         WITH ('connector' = 'datagen', 'rows-per-second' = '1000')",
    );
    let windows = "TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '1' DAY)";
    let groups = format!("SELECT window_start, sum(k) FROM {windows} GROUP BY 1");
    let first = format!(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY k) AS r FROM {windows}) WHERE r <= 3"
    );
    for (query, wanted) in [
        (format!("{groups} EMIT ON UPDATE KEEP LAST 2 ROWS"), "watermark passes window_start"),
        (
            format!(
                "{groups} EMIT ON UPDATE ALLOW LATENESS INTERVAL '5' SECOND KEEP LAST INTERVAL '1' HOUR"
            ),
            "watermark is 5 s past window_start",
        ),
        (format!("{first} EMIT ON UPDATE"), "watermark passes window_start"),
    ] {
        let plan = run(&session, &format!("EXPLAIN CHANGELOG_MODE {query}"));
        assert!(plan.contains(wanted) && !plan.contains("state UNBOUNDED"), "{query}: {plan}");
    }
}
