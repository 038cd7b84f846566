//! What becomes of results that change, by the sink that takes them: keys, conflicts, and what is refused at planning.

use std::io::Read;
use std::net::TcpListener;

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

fn refusal(session: &Session, sql: &str) -> String {
    match run(session, sql).expect_err("it is refused") {
        Error::Unsupported(report)
        | Error::Statement(report)
        | Error::Catalog(report)
        | Error::Execution(report) => {
            format!("{report:?}")
        }
        other => other.to_string(),
    }
}

#[test]
fn rows_take_the_place_of_others_by_their_key() {
    let session = session();
    let ok = |sql: &str| run(&session, sql).unwrap();
    ok("CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR)");
    ok("INSERT INTO t VALUES (1, 'a'), (2, 'b')");
    ok("INSERT INTO t VALUES (1, 'x'), (3, 'c') ON CONFLICT DO NOTHING");
    ok("INSERT INTO t VALUES (2, 'y'), (4, 'd') ON CONFLICT (k) DO UPDATE SET v = excluded.v");
    ok("INSERT INTO t VALUES (3, 'z'), (3, 'zz') ON CONFLICT DO DEDUPLICATE");
    assert_eq!(ok("SELECT * FROM t ORDER BY k"), "1|a 2|y 3|zz 4|d");
    for (sql, part) in [
        ("INSERT INTO t VALUES (4, 'q') ON CONFLICT DO ERROR", "same primary key"),
        ("INSERT INTO t VALUES (4, 'q')", "same primary key"),
        ("INSERT INTO t VALUES (4, 'q') ON CONFLICT (v) DO NOTHING", "PRIMARY KEY"),
        ("INSERT INTO t VALUES (4, 'q') ON CONFLICT DO UPDATE SET v = 'x'", "whole row"),
    ] {
        let said = refusal(&session, sql);
        assert!(said.contains(part), "{sql}: {said}");
    }
    ok("CREATE TABLE loose (k INT)");
    let said = refusal(&session, "INSERT INTO loose VALUES (1) ON CONFLICT DO NOTHING");
    assert!(said.contains("PRIMARY KEY"), "{said}");
}

#[test]
fn a_key_that_the_query_does_not_have_is_refused_at_planning() {
    let session = session();
    let ok = |sql: &str| run(&session, sql).unwrap();
    ok(
        "CREATE TABLE g (k INT, v INT) WITH ('connector' = 'datagen', 'fields.k.min' = '0', 'fields.k.max' = '3')",
    );
    let sink = |name: &str, key: &str| {
        ok(&format!(
            "CREATE TABLE {name} (k BIGINT, n BIGINT, PRIMARY KEY ({key}) NOT ENFORCED) WITH ('connector' = 'print')"
        ));
    };
    sink("by_k", "k");
    sink("by_both", "n, k");
    sink("by_n", "n");
    let query = "SELECT k, count(*) FROM g GROUP BY k";
    // A wider key than the query's is one, too; a cast to a wider type keeps keys apart.
    for name in ["by_k", "by_both"] {
        ok(&format!("EXPLAIN INSERT INTO {name} {query}"));
    }
    for statement in ["EXPLAIN INSERT", "INSERT"] {
        let said = refusal(&session, &format!("{statement} INTO by_n {query}"));
        assert!(said.contains("another key"), "{said}");
        assert!(said.contains("told apart by (k)") && said.contains("is (n)"), "{said}");
        assert!(said.contains("ON CONFLICT DO UPDATE"), "{said}");
    }
    for action in ["NOTHING", "UPDATE", "ERROR", "DEDUPLICATE"] {
        ok(&format!("EXPLAIN INSERT INTO by_n {query} ON CONFLICT DO {action}"));
    }
    ok("CREATE TABLE kept (k BIGINT, n BIGINT)");
    let said = refusal(&session, &format!("INSERT INTO kept {query} LIMIT 1000000"));
    assert!(said.contains("PRIMARY KEY"), "{said}");
}

#[test]
fn explain_tells_what_state_ttl_bounds() {
    let session = session();
    let ok = |sql: &str| run(&session, sql).unwrap();
    ok("CREATE TABLE g (k INT, v INT) WITH ('connector' = 'datagen')");
    let groups = "EXPLAIN CHANGELOG_MODE SELECT k, count(*) FROM g GROUP BY k";
    let join = "EXPLAIN CHANGELOG_MODE SELECT * FROM g JOIN g AS h ON g.k = h.v";
    for sql in [groups, join] {
        assert!(ok(sql).contains("stateUNBOUNDED"), "{}", ok(sql));
    }
    ok("SET state_ttl = '1 hour'");
    for sql in [groups, join] {
        assert!(ok(sql).contains("stateboundedbystate_ttl:3600s"), "{}", ok(sql));
    }
    let twice = "EXPLAIN CHANGELOG_MODE SELECT n, count(*) FROM (SELECT count(*) AS n FROM g GROUP BY k) GROUP BY n";
    let shown = ok(twice);
    assert!(shown.contains("stateboundedbystate_ttl"), "{shown}");
    assert!(!shown.contains("stateUNBOUNDED"), "{shown}");
    let first = "EXPLAIN CHANGELOG_MODE SELECT * FROM \
                 (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM g) WHERE r <= 2";
    for over in
        [first, "EXPLAIN CHANGELOG_MODE SELECT sum(v) OVER (PARTITION BY k ORDER BY v) FROM g"]
    {
        let shown = ok(over);
        assert!(shown.contains("stateboundedbystate_ttl:3600s"), "{shown}");
    }
}

/// What a server gets that a statement sends rows to; `{}` in the text is the server's port.
fn sent(session: &Session, create: &str, insert: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("somebody connects");
        let mut text = String::new();
        client.read_to_string(&mut text).expect("it is text");
        text
    });
    run(session, &create.replace("{}", &port.to_string())).expect("the table is made");
    run(session, insert).expect("rows are sent");
    run(session, "DROP TABLE s").expect("it is there");
    server.join().expect("the server does not fail")
}

#[test]
fn rows_are_sent_to_a_socket_in_the_format_of_the_table() {
    let session = session();
    let create = |format: &str| {
        format!(
            "CREATE TABLE s (a INT, b VARCHAR) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', \
             'port' = '{{}}', 'format' = '{format}')"
        )
    };
    let insert = "INSERT INTO s SELECT * FROM (VALUES (1, 'x'), (2, NULL)) v(a, b) ORDER BY 1";
    assert_eq!(sent(&session, &create("csv"), insert), "1,x\n2,\n");
    assert_eq!(
        sent(&session, &create("json"), insert),
        "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":null}\n"
    );
    let changes = sent(&session, &create("debezium_json"), "INSERT INTO s VALUES (1, 'x')");
    assert!(changes.contains("\"op\":\"c\"") && changes.contains("\"before\":null"), "{changes}");
    let nobody = create("csv").replace("{}", "1");
    run(&session, &nobody).expect("nobody connects before rows are sent");
    let said = run(&session, insert).expect_err("nobody listens").to_string();
    assert!(said.contains("cannot send rows to the socket 127.0.0.1:1"), "{said}");
}

#[test]
fn memory_is_a_connector_too() {
    let session = session();
    let ok = |sql: &str| run(&session, sql).unwrap();
    ok("CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR) WITH ('connector' = 'memory')");
    ok("INSERT INTO t VALUES (1, 'a')");
    ok("UPDATE t SET v = 'b'");
    assert_eq!(ok("SELECT * FROM t"), "1|b");
    let said =
        refusal(&session, "CREATE TABLE u (k INT) WITH ('connector' = 'memory', 'pth' = 'x')");
    assert!(said.contains("unknown option") && said.contains("pth"), "{said}");
    let said = refusal(&session, "CREATE TABLE u (k INT) WITH ('connector' = 'memroy')");
    assert!(said.contains("did you mean \\\"memory\\\"?"), "{said}");
}
