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
