//! Buffer timeouts of continuous queries: rows of a slow stream are there although no buffer is ever full.

use arrow::record_batch::RecordBatch;
use futures::StreamExt;
use futures::executor::block_on;
use thalweg::Session;

fn run(session: &Session, sql: &str) -> thalweg::Result<Vec<RecordBatch>> {
    block_on(async { session.sql(sql).await?.collect().await })
}

/// A session with an endless table of two dozen rows a second, in which only full buffers leave.
fn session() -> Session {
    let session = Session::new();
    for sql in [
        "SET threads = 2",
        "SET buffer_timeout = -1",
        "CREATE TABLE slow (v BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '24')",
    ] {
        run(&session, sql).expect("a test runs what works");
    }
    session
}

/// Rows of an endless query until there are three. One whose rows never leave would not return; a LIMIT would make them
/// leave, as it ends the scans.
fn count(session: &Session, sql: &str) -> usize {
    block_on(async {
        let mut stream = session
            .sql(sql)
            .await
            .expect("a test runs what works")
            .stream()
            .expect("a test runs what works");
        let mut rows = 0;
        while rows < 3 {
            rows += stream
                .next()
                .await
                .expect("a test runs what works")
                .expect("a test runs what works")
                .num_rows();
        }
        rows.min(3)
    })
}

#[test]
fn rows_of_a_slow_stream_leave_as_the_hint_or_the_setting_says() {
    let session = session();
    for sql in [
        "SELECT /*+ OPTIONS('buffer_timeout' = '0') */ * FROM slow",
        "SELECT /*+ OPTIONS('buffer_timeout' = '5 ms') */ v FROM slow WHERE v IS NOT NULL",
        "SELECT v FROM slow /*+ OPTIONS('buffer_timeout' = '0') */ s WHERE v IS NOT NULL",
        "SELECT v FROM (SELECT /*+ OPTIONS('buffer_timeout' = '0') */ v FROM slow) d",
    ] {
        assert_eq!(count(&session, sql), 3, "{sql}");
    }
    run(&session, "SET latency_target = '20 ms'").unwrap();
    assert_eq!(count(&session, "SELECT v + 1 FROM slow"), 3);
    run(&session, "RESET latency_target").unwrap();
    run(&session, "SET buffer_timeout = '1 ms'").unwrap();
    assert_eq!(count(&session, "SELECT v FROM slow WHERE v IS NOT NULL"), 3);
}

#[test]
fn timeouts_below_minus_one_are_refused() {
    let session = session();
    let hinted = "SELECT * FROM slow /*+ OPTIONS('buffer_timeout' = '-2') */ LIMIT 1";
    for sql in ["SET buffer_timeout = -2", hinted] {
        let error = run(&session, sql).unwrap_err().to_string();
        let wanted = "invalid value for the setting buffer_timeout: \"-2\"\n\
                      HINT: It takes a time of at least 0 such as 100 ms, or -1";
        assert!(error.starts_with(wanted), "{sql}: {error}");
    }
}
