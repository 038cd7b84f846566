//! Jobs of a session: INSERTs in the background, statement sets, SHOW JOBS, STOP JOB.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use collected::Collected;
use futures::executor::block_on;
use thalweg::{Result, Session};

/// A list that a listener fills.
mod collected {
    use std::sync::Mutex;

    #[derive(Default)]
    pub struct Collected(Mutex<Vec<String>>);

    impl Collected {
        pub fn add(&self, text: &str) {
            self.0.lock().expect("no thread panics").push(text.to_string());
        }

        pub fn all(&self) -> Vec<String> {
            self.0.lock().expect("no thread panics").clone()
        }
    }
}

fn session() -> Session {
    let session = Session::builder().threads(2).set("view_commit_interval", "2 ms").build();
    session.expect("the settings are right")
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

fn ok(session: &Session, sql: &str) -> Vec<RecordBatch> {
    run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn number(session: &Session, sql: &str) -> i64 {
    ok(session, sql)[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// The texts of a column of SHOW JOBS.
fn jobs(session: &Session, column: &str) -> Vec<String> {
    let batches = ok(session, "SHOW JOBS");
    let texts = batches.iter().flat_map(|batch| {
        let texts = batch.column_by_name(column).expect("a column of SHOW JOBS").as_string_view();
        texts.iter().map(|text| text.unwrap_or("-").to_string()).collect::<Vec<_>>()
    });
    texts.collect()
}

const GENERATOR: &str =
    "CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10000')";

#[test]
fn an_endless_insert_goes_on_in_the_background() {
    let session = session();
    session.run_inserts_in_background(true);
    ok(&session, GENERATOR);
    ok(&session, "CREATE TABLE t (n BIGINT); INSERT INTO t SELECT n FROM g");
    while number(&session, "SELECT count(*) FROM t") == 0 {
        std::thread::yield_now();
    }
    assert_eq!(jobs(&session, "name"), ["insert_into_t"]);
    assert_eq!(jobs(&session, "state"), ["RUNNING"]);
    let operators = ok(&session, "DESCRIBE JOB 1");
    assert!(operators[0].num_rows() >= 2);
    // What ends is waited for.
    ok(&session, "CREATE TABLE u (n BIGINT); INSERT INTO u SELECT n FROM t LIMIT 3");
    assert_eq!(number(&session, "SELECT count(*) FROM u"), 3);
    ok(&session, "STOP JOB insert_into_t");
    while jobs(&session, "state") != ["STOPPED"] {
        std::thread::yield_now();
    }
    let error = run(&session, "STOP JOB 1").unwrap_err().to_string();
    assert!(error.contains("is not running"), "{error}");
    assert!(run(&session, "STOP JOB nobody").is_err() && run(&session, "DESCRIBE JOB 9").is_err());
}

#[test]
fn a_statement_set_goes_well_as_a_whole() {
    let session = session();
    ok(&session, "CREATE TABLE t (n BIGINT); CREATE TABLE u (n BIGINT)");
    let set = "EXECUTE STATEMENT SET BEGIN \
               INSERT INTO t SELECT * FROM generate_series(1, 10); \
               INSERT INTO u SELECT * FROM generate_series(1, 20); END";
    ok(&session, set);
    assert_eq!(number(&session, "SELECT count(*) FROM t"), 10);
    assert_eq!(number(&session, "SELECT count(*) FROM u"), 20);
    ok(&session, GENERATOR);
    let failing = "EXECUTE STATEMENT SET BEGIN \
                   INSERT INTO t SELECT n FROM g; \
                   INSERT INTO u SELECT 1 / (n - 5) FROM generate_series(1, 20) AS s(n); END";
    let error = run(&session, failing).unwrap_err().to_string();
    assert!(error.contains("division by zero"), "{error}");
    assert_eq!(number(&session, "SELECT count(*) FROM t"), 10);
    for wrong in ["BEGIN END", "BEGIN SELECT 1; END", "BEGIN INSERT INTO t VALUES (1) END"] {
        assert!(run(&session, &format!("EXECUTE STATEMENT SET {wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn failures_in_the_background_are_told_once_and_listed() {
    let session = session();
    let heard = Arc::new(Collected::default());
    let listener = heard.clone();
    session.on_job_failure(move |text| listener.add(text));
    ok(
        &session,
        "CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT 1 / a AS a FROM t",
    );
    ok(&session, "INSERT INTO t VALUES (0)");
    while heard.all().is_empty() {
        std::thread::yield_now();
    }
    ok(&session, "FLUSH");
    assert_eq!(jobs(&session, "state"), ["FAILED"]);
    assert!(jobs(&session, "error")[0].contains("division by zero"));
    let heard = heard.all();
    assert!(heard.len() == 1 && heard[0].starts_with("job 1 (v) has failed: "), "{heard:?}");
}

#[test]
fn a_stopped_view_is_not_shown_as_if_it_were_alive() {
    let session = session();
    ok(&session, "CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t");
    ok(&session, "STOP JOB v");
    while jobs(&session, "state") != ["STOPPED"] {
        std::thread::yield_now();
    }
    let error = run(&session, "SELECT * FROM v").unwrap_err().to_string();
    assert!(error.contains("the materialized view \"v\" was stopped"), "{error}");
    ok(&session, "DROP MATERIALIZED VIEW v");
    assert!(jobs(&session, "name").is_empty());
}

/// A table without an end, of so many rows that are there at once.
fn watched(session: &Session, folder: &std::path::Path, rows: i64) {
    let lines: String = (0..rows).map(|n| format!("{n}\n")).collect();
    std::fs::write(folder.join("rows.csv"), lines).expect("a file");
    ok(
        session,
        &format!(
            "CREATE TABLE w (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', \
             'csv.header' = 'false', 'scan.watch' = 'true')",
            folder.display()
        ),
    );
}

/// Rows that came to the sinks of a job.
fn rows_at_sinks(session: &Session, job: &str) -> i64 {
    let operators = ok(session, &format!("DESCRIBE JOB {job}"));
    let rows = operators.iter().flat_map(|batch| {
        let column = |name: &str| batch.column_by_name(name).expect("a column").clone();
        let (names, rows) = (column("operator"), column("rows_in"));
        let rows = rows.as_primitive::<Int64Type>().clone();
        let names = names.as_string_view().clone();
        (0..rows.len())
            .filter(move |&row| names.value(row) == "Sink")
            .map(move |row| rows.value(row))
    });
    rows.sum()
}

#[test]
fn rows_that_came_before_a_job_is_stopped_stay() {
    const ROWS: i64 = 3_000;
    let source = tempfile::tempdir().unwrap();
    let target = tempfile::tempdir().unwrap();
    let at = |name: &str| target.path().join(name).display().to_string();
    let files = |format: &str| {
        let path = at(format);
        format!("WITH ('connector' = 'filesystem', 'path' = '{path}/', 'format' = '{format}')")
    };
    let single = format!(
        "WITH (connector = 'single_file', path = '{}', format = 'json', type = 'sink')",
        at("one.json")
    );
    let folders = ["csv", "json", "parquet", "arrow"];
    let sinks = folders.iter().map(|format| files(format)).chain([single, String::new()]);
    for sink in sinks {
        let session = session();
        session.run_inserts_in_background(true);
        watched(&session, source.path(), ROWS);
        ok(&session, &format!("CREATE TABLE t (n BIGINT) {sink}; INSERT INTO t SELECT n FROM w"));
        while rows_at_sinks(&session, "insert_into_t") < ROWS {
            std::thread::yield_now();
        }
        ok(&session, "STOP JOB insert_into_t");
        assert_eq!(jobs(&session, "state"), ["STOPPED"], "{sink}");
        let count = match sink.contains("single_file") {
            true => format!("SELECT count(*) FROM '{}'", at("one.json")),
            false => "SELECT count(*) FROM t".to_string(),
        };
        assert_eq!(number(&session, &count), ROWS, "{sink}");
    }
}

#[test]
fn files_of_an_endless_insert_appear_one_after_the_other() {
    let source = tempfile::tempdir().unwrap();
    let target = tempfile::tempdir().unwrap();
    for (background, partitioned) in [(true, ""), (true, "PARTITIONED BY (p)"), (false, "")] {
        let folder = target.path().join(format!("{background}{}", partitioned.len()));
        let session = session();
        session.run_inserts_in_background(background);
        watched(&session, source.path(), 100);
        let create = format!(
            "CREATE TABLE t (n BIGINT, p BIGINT) {partitioned} WITH ('connector' = 'filesystem', 'path' = '{}/', \
             'format' = 'csv', 'sink.rolling-policy.rollover-interval' = '1 ms')",
            folder.display()
        );
        ok(&session, &create);
        let insert = "INSERT INTO t SELECT n, n % 3 FROM w";
        let read = format!("SELECT count(*) FROM '{}/**/*.csv'", folder.display());
        let all_there = || {
            run(&session, &read)
                .is_ok_and(|rows| rows[0].column(0).as_primitive::<Int64Type>().value(0) == 100)
        };
        std::thread::scope(|scope| {
            let inserting = scope.spawn(|| run(&session, insert));
            while !all_there() {
                std::thread::yield_now();
            }
            if background {
                inserting.join().expect("no panic").expect("it has begun");
                while number(&session, "SELECT count(*) FROM t") < 100 {
                    std::thread::yield_now();
                }
                ok(&session, "STOP JOB 1");
            } else {
                session.cancel_all();
                assert!(inserting.join().expect("no panic").is_err());
            }
        });
        assert_eq!(number(&session, &read), 100, "none came twice");
        assert_eq!(number(&session, "SELECT count(*) FROM t"), 100);
    }
    let refused = "CREATE TABLE f (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'f.csv', \
                   'sink.rolling-policy.rollover-interval' = '1 ms')";
    assert!(run(&session(), refused).unwrap_err().to_string().contains("rollover-interval"));
}
