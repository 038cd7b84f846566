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
