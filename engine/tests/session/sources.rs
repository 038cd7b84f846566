//! What sources tell beside their rows: metadata, the order of files, and waiting for each other.

use std::path::Path;

use arrow::util::pretty::pretty_format_batches;
use futures::executor::block_on;
use thalweg::{Error, Session};

fn session() -> Session {
    Session::builder().threads(2).build().expect("a session with two threads")
}

fn run(session: &Session, sql: &str) -> Result<String, Error> {
    let batches = block_on(async { session.sql(sql).await?.collect().await })?;
    let shown = pretty_format_batches(&batches)?.to_string();
    let lines = shown.lines().filter(|line| line.starts_with('|')).skip(1);
    let cells = |line: &str| line.replace(' ', "").trim_matches('|').to_string();
    Ok(lines.map(cells).collect::<Vec<_>>().join(" "))
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the folder can be written");
}

#[test]
fn rows_tell_where_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.csv", "k,v\n1,x\n\n2,\"y\nz\"\n3,x\n");
    write(folder.path(), "b.csv", "k,v\n4,x\n");
    let session = session();
    let path = folder.path().display();
    let sql = format!(
        "CREATE TABLE t (n BIGINT METADATA FROM 'line-number', k INT, \"file.name\" VARCHAR METADATA VIRTUAL, v VARCHAR, \
         size BIGINT METADATA FROM 'file.size', at TIMESTAMP METADATA FROM 'ingestion-time', \
         twice AS n * 2) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
    );
    run(&session, &sql).unwrap();
    let ok = |sql: &str| run(&session, sql).unwrap();
    let sql = "SELECT k, n, \"file.name\", size, twice FROM t WHERE v = 'x' ORDER BY k";
    assert_eq!(ok(sql), "1|2|a.csv|21|4 3|6|a.csv|21|12 4|2|b.csv|8|4");
    assert_eq!(ok("SELECT k FROM t WHERE n = 2 AND \"file.name\" = 'b.csv'"), "4");
    assert_eq!(ok("SELECT sum(n) FROM t"), "14");
    assert_eq!(ok("SELECT count(*) FROM t WHERE at < TIMESTAMP '2020-01-01'"), "0");
    assert_eq!(ok("SELECT count(*) FROM t WHERE at IS NULL OR n IS NULL"), "0");
    ok("INSERT INTO t VALUES (5, 'w')");
    assert_eq!(ok("SELECT k, n FROM t WHERE v = 'w'"), "5|2");
}

#[test]
fn metadata_that_nobody_knows_is_refused_with_what_is_known() {
    let session = session();
    let refusal = |columns: &str, connector: &str| {
        let sql = format!("CREATE TABLE t ({columns}) WITH ('connector' = '{connector}'");
        let sql = match connector {
            "datagen" => format!("{sql})"),
            _ => format!("{sql}, 'format' = 'csv')"),
        };
        format!("{:?}", run(&session, &sql).expect_err("it is refused"))
    };
    let said = refusal("a INT, b VARCHAR METADATA FROM 'file.path'", "stdin");
    assert!(said.contains("line-number, ingestion-time"), "{said}");
    let said = refusal("a INT, b TIMESTAMP METADATA FROM 'ingestion-tim'", "datagen");
    assert!(said.contains("did you mean \\\"ingestion-time\\\"?"), "{said}");
    let said = refusal("a INT, b INT METADATA FROM 'ingestion-time'", "datagen");
    assert!(said.contains("is a TIMESTAMP"), "{said}");
    let said = refusal("a INT, b BIGINT METADATA FROM 'line-number' PRIMARY KEY", "stdin");
    assert!(said.contains("METADATA"), "{said}");
}

/// A table over a folder with an event time.
fn timed(session: &Session, name: &str, path: &Path, options: &str) {
    let sql = format!(
        "CREATE TABLE {name} (ts TIMESTAMP, v INT, WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', \
         'path' = '{}', 'format' = 'csv', 'csv.header' = 'false'{options})",
        path.display()
    );
    run(session, &sql).unwrap();
}

const WINDOWS: &str = "SELECT window_start, sum(v) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR) \
                       GROUP BY window_start, window_end ORDER BY 1";

#[test]
fn files_in_order_are_one_stream() {
    let session = session();
    run(&session, "SET execution.runtime_mode = streaming").unwrap();
    for (option, late) in [
        ("", "2026-01-01T00:00:00|3 2026-01-01T05:00:00|4"),
        (", 'scan.splits.ordered' = 'true'", "2026-01-01T00:00:00|1 2026-01-01T05:00:00|4"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "1.csv", "2026-01-01 00:10:00,1\n2026-01-01 05:00:00,4\n");
        write(folder.path(), "2.csv", "2026-01-01 00:20:00,2\n");
        timed(&session, "t", folder.path(), option);
        assert_eq!(run(&session, WINDOWS).unwrap(), late, "{option}");
        run(&session, "DROP TABLE t").unwrap();
    }
}

#[test]
fn a_file_is_one_stream_however_many_threads_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("2026-01-01 00:10:00,1\n");
    // Several megabytes, so that it is not read at once.
    (0..120_000).for_each(|_| text.push_str("2026-01-01 05:00:00.000000,0000000\n"));
    text.push_str("2026-01-01 00:20:00,2\n");
    write(folder.path(), "t.csv", &text);
    for threads in [1, 2, 5] {
        let session = Session::builder().threads(threads).build().unwrap();
        run(&session, "SET execution.runtime_mode = streaming").unwrap();
        timed(&session, "t", &folder.path().join("t.csv"), "");
        let closed = "2026-01-01T00:00:00|1 2026-01-01T05:00:00|0";
        assert_eq!(run(&session, WINDOWS).unwrap(), closed, "{threads} threads");
    }
}

#[test]
fn values_of_rows_that_a_filter_drops_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "t.csv", "1,10,x\n2,ten,y\n3,30,z\nfour,40,z\n");
    let session = session();
    for (options, all) in [("", None), (", 'csv.ignore-errors' = 'true'", Some("1 3"))] {
        let path = folder.path().join("t.csv");
        let sql = format!(
            "CREATE TABLE t (k INT, v INT, w VARCHAR) WITH ('connector' = 'filesystem', 'path' = '{}', \
             'format' = 'csv', 'csv.header' = 'false'{options})",
            path.display()
        );
        run(&session, &sql).unwrap();
        assert_eq!(run(&session, "SELECT v FROM t WHERE w = 'x'").unwrap(), "10");
        assert_eq!(run(&session, "SELECT count(*) FROM t WHERE w = 'y'").unwrap(), "1");
        assert_eq!(run(&session, "SELECT sum(v) FROM t WHERE w = 'z'").unwrap(), "70");
        let sum = run(&session, "SELECT v FROM t WHERE w = 'y'");
        let keys = run(&session, "SELECT k FROM t WHERE v IS NOT NULL ORDER BY k");
        match all {
            None => {
                assert!(format!("{:?}", sum.unwrap_err()).contains("ten"));
                assert!(keys.is_err());
            }
            Some(all) => {
                assert_eq!(sum.unwrap(), "");
                assert_eq!(keys.unwrap(), all);
            }
        }
        run(&session, "DROP TABLE t").unwrap();
    }
}

#[test]
fn sources_that_wait_for_each_other_end() {
    let folder = tempfile::tempdir().unwrap();
    let lines =
        |from: usize| (0..2_000).map(|i| format!("{},1\n", minute(from + i))).collect::<String>();
    write(folder.path(), "early.csv", &lines(0));
    write(folder.path(), "late.csv", &lines(50_000));
    let session = session();
    run(&session, "SET execution.runtime_mode = streaming").unwrap();
    run(&session, "SET batch_size = 64").unwrap();
    let options = ", 'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 minute', \
                   'scan.watermark.alignment.update-interval' = '2 ms'";
    timed(&session, "early", &folder.path().join("early.csv"), options);
    timed(&session, "late", &folder.path().join("late.csv"), options);
    let both = "SELECT count(*) FROM (SELECT v FROM early UNION ALL SELECT v FROM late)";
    assert_eq!(run(&session, both).unwrap(), "4000");
    let joined = "SELECT count(*) FROM early JOIN late ON early.v = late.v AND early.ts > late.ts";
    assert_eq!(run(&session, joined).unwrap(), "0");
    let path = folder.path().display();
    for (option, part) in [
        ("'scan.watermark.alignment.group' = 'g'", "max-drift"),
        ("'scan.watermark.alignment.max-drift' = 'soon'", "a time such as"),
        ("'scan.watermark.alignment.max-drif' = '1 s'", "max-drif"),
    ] {
        let sql = format!(
            "CREATE TABLE x (ts TIMESTAMP, v INT, WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', \
             'path' = '{path}', 'format' = 'csv', {option})"
        );
        let said = format!("{:?}", run(&session, &sql).expect_err("it is refused"));
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn watermarks_leave_at_once_or_from_time_to_time() {
    let session = session();
    run(&session, "SET execution.runtime_mode = streaming").unwrap();
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "1.csv",
        "2026-01-01 00:10:00,1\n2026-01-01 05:00:00,4\n2026-01-01 00:20:00,2\n",
    );
    for emit in ["on-event", "ON-PERIODIC", "50 ms"] {
        let option = format!(", 'scan.watermark.emit' = '{emit}'");
        timed(&session, "t", folder.path(), &option);
        let late = "2026-01-01T00:00:00|1 2026-01-01T05:00:00|4";
        assert_eq!(
            run(&session, WINDOWS).unwrap(),
            late,
            "whether a row is late is no matter of clocks"
        );
        run(&session, "DROP TABLE t").unwrap();
    }
    let sql = "CREATE TABLE x (ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'stdin', 'format' = 'csv', \
               'scan.watermark.emit' = 'now')";
    let said = format!("{:?}", run(&session, sql).expect_err("it is refused"));
    assert!(said.contains("on-event, on-periodic or a time"), "{said}");
}

/// A minute of the year 2026, as text.
fn minute(number: usize) -> String {
    let (day, rest) = (number / 1440, number % 1440);
    format!("2026-{:02}-{:02} {:02}:{:02}:00", day / 28 + 1, day % 28 + 1, rest / 60, rest % 60)
}
