//! Tables of connectors in SQL: generators, sinks, and what is refused.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use futures::executor::block_on;
use thalweg::{Error, Session};

fn session() -> Session {
    Session::builder().threads(2).build().expect("a session with two threads")
}

fn run(session: &Session, sql: &str) -> Result<(), Error> {
    block_on(async {
        session.sql(sql).await?.collect().await?;
        Ok(())
    })
}

fn numbers(session: &Session, sql: &str) -> Vec<i64> {
    let batches =
        block_on(async { session.sql(sql).await?.collect().await }).expect("the query runs");
    let row = batches.iter().find(|batch| batch.num_rows() > 0).expect("a row");
    row.columns().iter().map(|column| column.as_primitive::<Int64Type>().value(0)).collect()
}

fn refusal(session: &Session, sql: &str) -> String {
    run(session, sql).expect_err("it is refused").to_string()
}

#[test]
fn a_bounded_generator_is_queried_like_any_table() {
    let session = session();
    let create = "CREATE TABLE g (a BIGINT, s VARCHAR) WITH ('connector'='datagen', \
                  'number-of-rows'='100000', 'rows-per-second'='0', 'seed'='1')";
    run(&session, create).unwrap();
    assert_eq!(numbers(&session, "SELECT count(*), count(DISTINCT a) FROM g"), [100_000, 100_000]);
    // The table is the same each time that it is read.
    let join = "SELECT count(*) FROM g JOIN g AS h ON g.a = h.a AND g.s = h.s WHERE h.a > 0";
    let positive = numbers(&session, "SELECT count(*) FROM g WHERE a > 0");
    assert_eq!(numbers(&session, join), positive);
    assert_eq!(numbers(&session, "SELECT count(*) FROM (SELECT s FROM g LIMIT 10)"), [10]);
}

#[test]
fn events_of_an_auction_are_rows_of_rows() {
    let session = session();
    let create = "CREATE TABLE n (event_type INT, bid STRUCT<auction BIGINT, price BIGINT>) \
                  WITH ('connector'='nexmark', 'events.num'='10000')";
    run(&session, create).unwrap();
    let sql = "SELECT count(*), count(bid.price), count(DISTINCT bid.auction) FROM n \
               WHERE event_type = 2";
    let found = numbers(&session, sql);
    assert_eq!(found[..2], [9200, 9200]);
    assert!(found[2] > 100, "{found:?}");
    assert_eq!(numbers(&session, "SELECT count(bid.price) FROM n"), [9200]);
}

#[test]
fn rows_go_into_a_sink() {
    let session = session();
    run(&session, "CREATE TABLE void (a BIGINT, b VARCHAR) WITH ('connector'='blackhole')")
        .unwrap();
    let insert = "INSERT INTO void SELECT value, 'x' FROM range(12345)";
    let frame = block_on(session.sql(insert)).unwrap();
    assert_eq!(frame.rows_written(), Some(12_345));
    let said = refusal(&session, "SELECT * FROM void");
    assert!(said.contains("nothing can be read from"), "{said}");
    let said = refusal(&session, "INSERT OVERWRITE void SELECT 1, 'x'");
    assert!(said.contains("INSERT OVERWRITE"), "{said}");
}

#[test]
fn what_no_connector_knows_is_refused() {
    let session = session();
    let said = refusal(&session, "CREATE TABLE t (a BIGINT) WITH ('connector'='datagne')");
    assert!(said.contains("there is no connector \"datagne\""), "{said}");
    assert!(said.contains("blackhole, datagen, filesystem"), "{said}");
    assert!(said.contains("did you mean \"datagen\"?"), "{said}");
    let sql = "CREATE TABLE t (a BIGINT) WITH ('connector'='datagen', 'row-per-second'='1')";
    let said = refusal(&session, sql);
    assert!(said.contains("did you mean \"rows-per-second\"?"), "{said}");
    let said =
        refusal(&session, "CREATE TABLE t (a BIGINT) WITH ('connector'='print', 'path'='x')");
    assert!(said.contains("no option \"path\""), "{said}");
}

#[test]
fn rows_are_added_to_a_folder() {
    let session = session();
    let folder = tempfile::tempdir().unwrap();
    for format in ["csv", "json", "parquet", "arrow"] {
        let path = folder.path().join(format);
        let create = format!(
            "CREATE TABLE {format} (a BIGINT, b VARCHAR) \
             WITH ('connector'='filesystem', 'path'='{}/', 'format'='{format}')",
            path.display()
        );
        run(&session, &create).unwrap();
        let count = format!("SELECT count(*), count(DISTINCT a) FROM {format}");
        assert_eq!(numbers(&session, &count), [0, 0], "{format}");
        for from in [0, 1000] {
            let to = from + 1000;
            let insert = format!("INSERT INTO {format} SELECT value, 'x' FROM range({from}, {to})");
            let frame = block_on(session.sql(&insert)).unwrap();
            assert_eq!(frame.rows_written(), Some(1000));
        }
        assert_eq!(numbers(&session, &count), [2000, 2000], "{format}");
    }
}

#[test]
fn columns_of_folders_come_back_from_their_names() {
    for format in ["csv", "json", "parquet", "arrow"] {
        let folder = tempfile::tempdir().unwrap();
        let session = session();
        // A folder for each of two columns, one of which has NULLs and texts that need care.
        let create = format!(
            "CREATE TABLE t (n BIGINT, p BIGINT, q VARCHAR) PARTITIONED BY (p, q) \
             WITH ('connector' = 'filesystem', 'path' = '{}/', 'format' = '{format}')",
            folder.path().join("t").display()
        );
        run(&session, &create).unwrap();
        let rows = "SELECT value AS n, value % 3 AS p, CASE value % 2 WHEN 0 THEN 'a/b=c' END AS q FROM generate_series(1, 10)";
        for times in [1, 2] {
            run(&session, &format!("INSERT INTO t {rows}")).unwrap();
            let sums = "SELECT count(*), sum(n), sum(p), count(q), count(*) FILTER (WHERE q = 'a/b=c') FROM t";
            let wanted = [10, 55, 10, 5, 5].map(|sum| sum * times);
            assert_eq!(numbers(&session, sums), wanted, "{format}");
            let one = "SELECT count(*), sum(n) FROM t WHERE p = 2 AND q IS NULL";
            assert_eq!(numbers(&session, one), [1, 5].map(|n| n * times), "{format}");
        }
    }
}

#[test]
fn watched_files_are_read_as_they_appear_and_grow() {
    use std::io::Write;
    let session = session();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("a.csv"), "1,x\n2,").unwrap();
    let create = format!(
        "CREATE TABLE w (a BIGINT, b VARCHAR) WITH ('connector'='filesystem', 'path'='{}', \
         'format'='csv', 'scan.watch'='true', 'scan.watch.interval'='10 ms')",
        folder.path().display()
    );
    run(&session, &create).unwrap();
    // The rest comes when the query is under way, or before: it gives the same.
    let writer = std::thread::spawn({
        let (a, b) = (file("a.csv"), file("b.csv"));
        move || {
            let mut a = std::fs::OpenOptions::new().append(true).open(a).unwrap();
            a.write_all(b"y\n3,z\n").unwrap();
            std::fs::write(b, "4,u\n5,v\n").unwrap();
        }
    });
    let sum = numbers(&session, "SELECT sum(a), count(b) FROM (SELECT * FROM w LIMIT 5)");
    writer.join().unwrap();
    assert_eq!(sum, [15, 5]);
}

#[test]
fn a_watched_file_must_only_grow() {
    let session = session();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "1\n2\n3\n").unwrap();
    let create = format!(
        "CREATE TABLE w (a BIGINT) WITH ('connector'='filesystem', 'path'='{}', \
         'format'='csv', 'scan.watch'='true', 'scan.watch.interval'='10 ms')",
        path.display()
    );
    run(&session, &create).unwrap();
    let frame = block_on(session.sql("SELECT a FROM w")).unwrap();
    let mut stream = Box::pin(frame.stream().unwrap());
    let mut rows = 0;
    while rows < 3 {
        let batch = block_on(futures::StreamExt::next(&mut stream)).unwrap().unwrap();
        rows += batch.num_rows();
    }
    std::fs::write(&path, "1\n").unwrap();
    let error = block_on(futures::StreamExt::next(&mut stream)).unwrap().unwrap_err().to_string();
    assert!(error.contains("a.csv") && error.contains("became shorter"), "{error}");
}
