//! Records that a table's options leave out: never in silence.

use crate::command::Thalweg;

#[test]
fn records_that_are_left_out_are_counted_aloud() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("a.csv"), "a,b\n1,2\nx,3\n4\n5,6\n").unwrap();
    std::fs::write(path("a.json"), "{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":3}\n").unwrap();
    let table = |name: &str, format: &str| {
        format!(
            "CREATE TABLE {name} (a INT) WITH ('connector' = 'filesystem', 'path' = '{}', '{format}.ignore-errors' = 'on');",
            path(&format!("a.{format}"))
        )
    };
    let sql = table("c", "csv").replace("(a INT)", "(a INT, b INT)")
        + &table("j", "json")
        + "SELECT sum(a) AS s FROM c; SELECT sum(a) AS s FROM j; CREATE TABLE t AS SELECT a FROM c;";
    let out = Thalweg::new().args(["--format", "csv", "-c", &sql]).run();
    assert_eq!((out.stdout.as_str(), out.status), ("s\n6\ns\n4\n", 0), "{}", out.stderr);
    let two =
        "Warning: 2 records that could not be read were left out, as the table's options say\n";
    let one = "Warning: 1 record that could not be read was left out, as the table's options say\n";
    assert_eq!(out.stderr, format!("{two}{one}{two}"));
}

#[test]
fn records_that_cannot_be_read_become_rows_of_a_dead_letter_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("a.csv"), "1,2\nx,3\n4\n5,\"6\n").unwrap();
    std::fs::write(path("a.json"), "{\"a\":1}\n{\"a\":\"x\"}\nno\n{\"a\":3}\n").unwrap();
    let changes = "{\"op\":\"c\",\"after\":{\"a\":1}}\n{\"op\":\"y\"}\n{\"op\":\"d\",\"before\":{\"a\":1}}\n{}\n{";
    std::fs::write(path("a.dbz"), changes).unwrap();
    for (connector, format, columns, rows, lines) in [
        ("filesystem", "csv", "a INT, b INT", "n\n1\n", "2,\"x,3\"\n3,4\n4,\"5,\"\"6\"\n"),
        ("filesystem", "json", "a INT", "n\n2\n", "2,\"{\"\"a\"\":\"\"x\"\"}\"\n3,no\n"),
        ("single_file", "dbz", "a INT", "n\n0\n", "2,\"{\"\"op\"\":\"\"y\"\"}\"\n4,{}\n5,{\n"),
    ] {
        let name = if format == "dbz" { "debezium_json" } else { format };
        let sql = format!(
            "CREATE TABLE t ({columns}) WITH ('connector' = '{connector}', 'path' = '{}', 'format' = '{name}', \
             'dead-letter.table' = 'bad'); SELECT count(a) AS n FROM t; \
             SELECT line, raw FROM bad WHERE error <> '' ORDER BY line;",
            path(&format!("a.{format}"))
        );
        let out = Thalweg::new().args(["--format", "csv", "-c", &sql]).run();
        let wanted = format!("{rows}line,raw\n{lines}");
        assert_eq!((out.stdout.as_str(), out.status), (wanted.as_str(), 0), "{}", out.stderr);
        assert!(out.stderr.contains("put into the dead-letter table"), "{}", out.stderr);
    }
}

#[test]
fn a_stream_keeps_bad_records_and_rows_without_a_time_as_its_options_say() {
    let run = |options: &str| {
        let sql = format!(
            "CREATE TABLE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'stdin', \
             'format' = 'csv', 'dead-letter.table' = 'bad'{options}); SELECT id FROM s; SELECT source, line FROM bad;"
        );
        let input = "1,2026-01-01\nx,\n2,\n3,2026-01-03\n";
        Thalweg::new().args(["--format", "csv", "-c", &sql]).input(input).run()
    };
    let handling = |how: &str| run(&format!(", 'scan.watermark.null-handling' = '{how}'"));
    let bad = "source,line\nstandard input,2\n";
    let out = handling("drop");
    assert_eq!(out.stdout, format!("id\n1\n3\n{bad}"), "{}", out.stderr);
    assert!(out.stderr.contains("1 row without an event time was left out"), "{}", out.stderr);
    assert_eq!(handling("skip-watermark").stdout, format!("id\n1\n2\n3\n{bad}"));
    for out in [run(""), handling("fail")] {
        assert_eq!(out.status, 1);
        assert!(out.stderr.contains("the event time \"ts\" of a row is NULL"), "{}", out.stderr);
        assert!(out.stderr.contains("scan.watermark.null-handling"), "{}", out.stderr);
    }
}
