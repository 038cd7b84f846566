//! The connector "single_file" and changes in Debezium's JSON, in batch and as streams.

use std::fs;
use std::path::Path;

use futures::executor::block_on;
use thalweg::Session;

const MODES: [&str; 2] = ["automatic", "streaming"];

fn session(mode: &str) -> Session {
    let builder = Session::builder().threads(2).set("execution.runtime_mode", mode);
    builder.build().expect("a session with two threads")
}

fn try_run(session: &Session, sql: &str) -> Result<(), String> {
    block_on(async {
        let mut script = session.execute(sql);
        while let Some(frame) = script.next_frame().await.map_err(|error| error.to_string())? {
            frame.collect().await.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}

#[track_caller]
fn run(session: &Session, sql: &str) {
    try_run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn file(folder: &Path, name: &str, format: &str, role: &str) -> String {
    let path = folder.join(name);
    format!(
        "WITH (connector = 'single_file', path = '{}', format = '{format}', type = '{role}')",
        path.display()
    )
}

/// The lines of a file in order.
fn lines(folder: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(name)).expect("a test runs what works");
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

#[test]
fn rows_keep_their_values_in_the_format_s_own_spelling() {
    let folder = tempfile::tempdir().unwrap();
    let input = "{\"t\":\"2024-01-01T00:00:01.5Z\",\"d\":2,\"s\":\"a\"}\n{\"t\":1000000000,\"d\":null,\"u\":1}\n";
    fs::write(folder.path().join("in.json"), input).unwrap();
    for mode in MODES {
        let session = session(mode);
        let source = file(folder.path(), "in.json", "json", "source");
        run(&session, &format!("CREATE TABLE i (t TIMESTAMP, d DOUBLE, s VARCHAR) {source}"));
        run(
            &session,
            &format!("CREATE TABLE o {}", file(folder.path(), "out.json", "json", "sink")),
        );
        run(&session, "INSERT INTO o SELECT t, d, s AS text FROM i");
        assert_eq!(
            lines(folder.path(), "out.json"),
            [
                "{\"t\":\"1970-01-01T00:00:01\",\"d\":null,\"text\":null}",
                "{\"t\":\"2024-01-01T00:00:01.500\",\"d\":2.0,\"text\":\"a\"}",
            ]
        );
        let refused = try_run(&session, "SELECT * FROM o").unwrap_err();
        assert!(refused.contains("nothing can be read from the sink"), "{refused}");
        let refused = try_run(&session, "INSERT INTO i SELECT * FROM i").unwrap_err();
        assert!(refused.contains("not supported"), "{refused}");
    }
}

const CHANGES: &str = r#"{"before":null,"after":{"k":1,"v":10},"op":"c"}
{"before":null,"after":{"k":2,"v":20},"op":"r"}
{"payload":{"before":{"k":1,"v":10},"after":{"k":1,"v":11},"op":"u"}}
{"before":{"k":2,"v":20},"after":null,"op":"d"}
{"before":null,"after":{"k":3,"v":5},"op":"c"}
"#;

#[test]
fn changes_are_read_and_what_follows_from_them_is_written() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("changes.json"), CHANGES).unwrap();
    for mode in MODES {
        let session = session(mode);
        let source = file(folder.path(), "changes.json", "debezium_json", "source");
        run(&session, &format!("CREATE TABLE c (k INT PRIMARY KEY, v BIGINT) {source}"));
        let rows = file(folder.path(), "rows.json", "json", "sink");
        run(
            &session,
            &format!("CREATE TABLE r (k INT, v BIGINT) {rows}; INSERT INTO r SELECT * FROM c"),
        );
        assert_eq!(
            lines(folder.path(), "rows.json"),
            ["{\"k\":1,\"v\":11}", "{\"k\":3,\"v\":5}"],
            "{mode}"
        );
        let sums = file(folder.path(), "sums.json", "json", "sink");
        run(
            &session,
            &format!(
                "CREATE TABLE s {sums}; INSERT INTO s SELECT count(*) AS n, sum(v) AS v FROM c"
            ),
        );
        assert_eq!(lines(folder.path(), "sums.json"), ["{\"n\":2,\"v\":16}"], "{mode}");
    }
}

#[test]
fn changes_pass_through_as_changes() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("changes.json"), CHANGES).unwrap();
    for mode in MODES {
        let session = session(mode);
        let source = file(folder.path(), "changes.json", "debezium-json", "source");
        run(&session, &format!("CREATE TABLE c (k INT PRIMARY KEY, v BIGINT) {source}"));
        let sink = file(folder.path(), "out.json", "debezium-json", "sink");
        run(&session, &format!("CREATE TABLE o (k INT PRIMARY KEY, v BIGINT) {sink}"));
        run(&session, "INSERT INTO o SELECT * FROM c WHERE v < 20");
        let text = fs::read_to_string(folder.path().join("out.json")).unwrap();
        let written: Vec<&str> = text.lines().collect();
        assert_eq!(
            written,
            [
                r#"{"before":null,"after":{"k":1,"v":10},"op":"c"}"#,
                r#"{"before":{"k":1,"v":10},"after":{"k":1,"v":11},"op":"u"}"#,
                r#"{"before":null,"after":{"k":3,"v":5},"op":"c"}"#,
            ],
            "{mode}"
        );
    }
}

#[test]
fn definitions_that_make_no_table_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let session = session("automatic");
    let refused = |columns: &str, with: &str, part: &str| {
        let with = with.replace("DIR", &folder.path().display().to_string());
        let sql = format!("CREATE TABLE x {columns} WITH (connector = 'single_file', {with})");
        let error = try_run(&session, &sql).unwrap_err();
        assert!(error.contains(part), "{sql}: {error}");
    };
    refused("(a INT)", "path = 'DIR/none.json', type = 'source'", "there is no file");
    refused("(a INT)", "path = 'DIR/x.json', type = 'both'", "type must be source or sink");
    refused("(a INT)", "type = 'sink'", "needs the option \"path\"");
    refused("(a INT)", "path = 'DIR/x.json', typ = 'sink'", "did you mean \"type\"");
    refused("(a INT)", "path = 'DIR/x', event_time_field = 'b'", "the column b of the watermark");
    refused("(a INT)", "path = 'DIR/x', watermark_field = 'a'", "needs event_time_field");
}

#[test]
fn windows_group_by_the_event_time_that_options_declare() {
    let folder = tempfile::tempdir().unwrap();
    let row =
        |second: u32, k: i64| format!("{{\"at\":\"2024-01-01T00:00:{second:02}Z\",\"k\":{k}}}\n");
    let input: String =
        [(1, 1), (4, 1), (5, 2), (11, 1), (12, 2)].iter().map(|(s, k)| row(*s, *k)).collect();
    fs::write(folder.path().join("in.json"), input).unwrap();
    for mode in MODES {
        let session = session(mode);
        let source = file(folder.path(), "in.json", "json", "source");
        let source = source.replace(")", ", event_time_field = 'at')");
        run(&session, &format!("CREATE TABLE i (at TIMESTAMP, k INT) {source}"));
        let answers = |query: &str| {
            let sink = file(folder.path(), "out.json", "json", "sink");
            run(&session, &format!("CREATE OR REPLACE TABLE o {sink}; INSERT INTO o {query}"));
            lines(folder.path(), "out.json")
                .join(" ")
                .replace("2024-01-01T00:00:", "")
                .replace('"', "")
        };
        let tumble = "SELECT w.start, w.end, n FROM \
                      (SELECT TUMBLE(INTERVAL '5' SECOND) AS w, count(*) AS n FROM i GROUP BY w)";
        assert_eq!(
            answers(tumble),
            "{start:00,end:05,n:2} {start:05,end:10,n:1} {start:10,end:15,n:2}",
            "{mode}"
        );
        let session = "SELECT w.start, k, n FROM \
                       (SELECT SESSION(INTERVAL '5 seconds') AS w, k, count(*) AS n FROM i GROUP BY w, k)";
        assert_eq!(
            answers(session),
            "{start:01,k:1,n:2} {start:05,k:2,n:1} {start:11,k:1,n:1} {start:12,k:2,n:1}",
            "{mode}"
        );
        let hop = "SELECT hop(INTERVAL '4' SECOND, INTERVAL '6' SECOND) AS w, sum(k) AS k FROM i GROUP BY 1";
        assert_eq!(
            answers(hop),
            "{w:{start:2023-12-31T23:59:56,end:02},k:1} {w:{start:00,end:06},k:4} \
             {w:{start:04,end:10},k:3} {w:{start:08,end:14},k:3} {w:{start:12,end:18},k:2}"
                .to_string(),
            "{mode}"
        );
    }
}
