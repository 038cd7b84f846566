//! What users of other stream processors complain about, each as a test that it does not happen here.

mod changelogs;
mod lateness;
mod sessions;
mod state;
mod visibility;
mod windows;
mod zones;

use thalweg::Session;

use streams::{changes, run};

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
