//! The program as users and scripts call it: arguments, streams, exit statuses.

use crate::command::{Thalweg, script};

#[test]
fn a_statement_of_the_command_line() {
    let out = Thalweg::new().args(["--format", "csv", "-c", "SELECT 1 AS a, 'x' AS b"]).run();
    assert_eq!(out.stdout, "a,b\n1,x\n");
    assert_eq!((out.stderr.as_str(), out.status), ("", 0));
}

#[test]
fn several_statements_and_several_texts() {
    let out = Thalweg::new()
        .args(["--format", "csv", "-c", "SELECT 1 AS a; SELECT 2 AS b;", "-c", "SELECT 3 AS c"])
        .run();
    assert_eq!(out.stdout, "a\n1\nb\n2\nc\n3\n");
}

#[test]
fn a_script_file() {
    let file = script("SELECT 1 AS a;\n-- a comment; with a semicolon\nSELECT ';' AS b;\n");
    let out = Thalweg::new().args(["--format", "csv", "-f", file.path().to_str().unwrap()]).run();
    assert_eq!((out.stdout.as_str(), out.status), ("a\n1\nb\n;\n", 0));
}

#[test]
fn a_script_on_standard_input() {
    let out = Thalweg::new().args(["--format", "csv"]).input("SELECT 1 AS a;\nSELECT 2 AS b").run();
    assert_eq!((out.stdout.as_str(), out.status), ("a\n1\nb\n2\n", 0));
}

#[test]
fn a_failure_ends_the_script() {
    let out = Thalweg::new()
        .args(["--format", "csv"])
        .input("SELECT 1 AS a; SELECT nope; SELECT 2 AS b;")
        .run();
    assert_eq!((out.stdout.as_str(), out.status), ("a\n1\n", 1));
    assert!(out.stderr.starts_with("Error: "), "{}", out.stderr);
}

#[test]
fn bail_off_goes_on_and_still_ends_with_1() {
    let out = Thalweg::new()
        .args(["--format", "csv"])
        .input(".bail off\nSELECT nope; SELECT 2 AS b;")
        .run();
    assert_eq!((out.stdout.as_str(), out.status), ("b\n2\n", 1));
}

#[test]
fn a_failed_text_keeps_the_next_from_running() {
    let out = Thalweg::new().args(["--format", "csv", "-c", "SELECT nope", "-c", "SELECT 1"]).run();
    assert_eq!((out.stdout.as_str(), out.status), ("", 1));
}

#[test]
fn errors_show_the_place_in_the_statement() {
    let out = Thalweg::new().args(["-c", "SELECT 1,\n  nope"]).run();
    assert!(out.stderr.contains("LINE 2:   nope\n          ^^^^"), "{}", out.stderr);
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in
        [&["--nope"][..], &["--format", "xml"], &["--set", "treads=1"], &["--threads", "0"]]
    {
        let out = Thalweg::new().args(arguments).run();
        assert_eq!((out.status, out.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(out.stderr.starts_with("Error: "), "{}", out.stderr);
    }
}

#[test]
fn errors_of_scripts_name_file_and_line() {
    let inner = script("SELECT 1 AS a;\n\n.tabels\n");
    let path = inner.path().to_str().unwrap().to_string();
    let out = Thalweg::new().args(["-f", &path]).run();
    assert!(out.stderr.ends_with(&format!("\nAT: line 3 of \"{path}\"\n")), "{}", out.stderr);
    let outer = script(&format!("SELECT 1 AS a;\n.read {path}\n"));
    let out = Thalweg::new().args(["-f", outer.path().to_str().unwrap()]).run();
    assert!(out.stderr.ends_with(&format!("\nAT: line 3 of \"{path}\"\n")), "{}", out.stderr);
    let out = Thalweg::new().input("SELECT 1 AS a;\n-- a note\n\nSELECT 1,\n  nope;\n").run();
    assert!(out.stderr.contains("\nLINE 5:   nope\n          ^^^^\n"), "{}", out.stderr);
    assert!(out.stderr.ends_with("\nAT: line 5 of standard input\n"), "{}", out.stderr);
    let out = Thalweg::new().args(["-c", "SELECT 1;\nSELECT nope"]).run();
    assert!(out.stderr.contains("\nLINE 2: SELECT nope\n"), "{}", out.stderr);
    assert!(!out.stderr.contains("AT: "), "{}", out.stderr);
}

#[test]
fn files_are_named_in_quotes_however_they_fail() {
    let bytes = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bytes.path(), b"SELECT '\xff';").unwrap();
    for path in ["/", bytes.path().to_str().unwrap()] {
        let out = Thalweg::new().args(["-f", path]).run();
        let expected = format!("Error: cannot read \"{path}\": ");
        assert!(out.stderr.starts_with(&expected), "{}", out.stderr);
    }
}

#[test]
fn printed_text_goes_to_stdout_whatever_results_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let script = format!(".mode csv\n.output {}\n.print x\nSELECT 1 AS a;\n", path.display());
    let out = Thalweg::new().input(&script).run();
    assert_eq!((out.stdout.as_str(), out.status), ("x\n", 0));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "a\n1\n");
}

#[test]
fn quit_in_the_start_up_file_ends_that_file_only() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".thalwegrc"), ".mode csv\n.quit\n.mode tsv\n").unwrap();
    let out = Thalweg::new().home(home.path()).args(["-c", "SELECT 1 AS a, 2 AS b"]).run();
    assert_eq!((out.stdout.as_str(), out.status), ("a,b\n1,2\n", 0));
}

#[test]
fn results_of_markdown_and_line_are_set_off_from_each_other() {
    let two = ["-c", "SELECT 1 AS a; SELECT 2 AS b"];
    let out = Thalweg::new().args(["--format", "markdown"]).args(two).run();
    assert_eq!(out.stdout, "| a |\n|---:|\n| 1 |\n\n| b |\n|---:|\n| 2 |\n");
    let out = Thalweg::new().args(["--format", "line"]).args(two).run();
    assert_eq!(out.stdout, "a = 1\n\nb = 2\n");
}

#[test]
fn the_time_zone_holds_for_reading_for_text_and_for_show() {
    let sql = "SET time_zone = 'europe/berlin'; \
               SELECT t, CAST(t AS VARCHAR) AS text, CAST(t AS TIMESTAMP) AS local, CAST(t AS DATE) AS day, \
               CAST(TIMESTAMP '2026-07-01 00:00:00' AS TIMESTAMPTZ) = t AS same \
               FROM (SELECT TIMESTAMPTZ '2026-07-01 00:00:00' AS t)";
    let shown = "2026-07-01 00:00:00+02";
    let rest = "2026-07-01 00:00:00 | 2026-07-01 | true |\n";
    let out = Thalweg::new().args(["--format", "markdown", "-c", sql]).run();
    let row = format!("| {shown} | {shown} | {rest}");
    assert!(out.stdout.ends_with(&row), "{}{}", out.stdout, out.stderr);
    let out = Thalweg::new().args(["--format", "jsonl", "-c", sql]).run();
    let row = format!("{{\"t\":\"2026-06-30 22:00:00+00\",\"text\":\"{shown}\",\"local\":");
    assert!(out.stdout.starts_with(&row), "{}{}", out.stdout, out.stderr);
}

#[test]
fn points_in_time_of_files_are_local_times_of_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let sql = format!(
        "COPY (SELECT TIMESTAMPTZ '2026-06-30 22:30:00+00' AS t) TO '{0}'; SET time_zone = 'Europe/Berlin'; \
         SELECT CAST(t AS VARCHAR) AS a, CAST(t AS TIMESTAMP) AS b, CAST(t AS DATE) AS c, CAST(t AS TIME) AS d FROM '{0}'",
        path.display()
    );
    let out = Thalweg::new().args(["--format", "jsonl", "-c", &sql]).run();
    let expected = "{\"a\":\"2026-07-01 00:30:00+02\",\"b\":\"2026-07-01 00:30:00\",\"c\":\"2026-07-01\",\"d\":\"00:30:00\"}\n";
    assert_eq!(out.stdout, expected, "{}", out.stderr);
}

#[test]
fn what_insert_writes_is_read_back() {
    let query = "SELECT [1, 2, NULL] AS l, [[1.5], []] AS ll, {'x': 1, 'y': 'it''s'} AS s, map {'k': [1]} AS m, \
                 [{'a': DATE '2026-01-01', 'b': NULL}] AS n, X'00ff' AS bin, TIME '01:02:03.5' AS t, \
                 TIMESTAMPTZ '2026-01-01 00:00:00' AS z, CAST('NaN' AS REAL) AS nan, CAST(NULL AS BIGINT[]) AS nothing";
    let create = format!("CREATE TABLE \"table\" AS {query}");
    let one = Thalweg::new().args(["--format", "insert", "-c", query]).run();
    let none = format!("{create}; DELETE FROM \"table\"");
    let again = format!("{}SELECT * FROM \"table\"", one.stdout);
    let out = Thalweg::new().args(["--format", "csv", "-c", &none, "-c", &again]).run();
    let expected = Thalweg::new().args(["--format", "csv", "-c", query]).run();
    assert_eq!(out.stdout, expected.stdout, "{}\n{}", out.stderr, one.stdout);
}

#[test]
fn settings_are_checked_when_they_are_set() {
    for wrong in ["spill_directory = '/no/such'", "spill_directory = ''", "spill_directory = 5"] {
        let out = Thalweg::new().args(["-c", &format!("SET {wrong}")]).run();
        assert!(out.stderr.contains("HINT: It takes a directory that exists"), "{}", out.stderr);
    }
}

#[test]
fn a_missing_script_is_an_error() {
    let out = Thalweg::new().args(["-f", "no/such/file.sql"]).run();
    assert_eq!(out.status, 1);
    assert!(out.stderr.starts_with("Error: cannot read \"no/such/file.sql\""), "{}", out.stderr);
}

#[test]
fn settings_of_the_command_line() {
    let arguments =
        ["--threads", "3", "--memory-limit", "512MB", "--set", "batch_size=77", "--format", "csv"];
    let out = Thalweg::new()
        .args(arguments)
        .args(["-c", "SHOW threads; SHOW memory_limit; SHOW batch_size"])
        .run();
    assert_eq!(out.stdout, "threads\n3\nmemory_limit\n512MB\nbatch_size\n77\n");
}

#[test]
fn settings_are_set_reset_and_suggested() {
    let sql = "SET buffer_timeout = '250 ms'; SHOW buffer_timeout; RESET buffer_timeout; SHOW buffer_timeout; SET bufer_timeout = 0";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run();
    assert_eq!(
        (out.stdout.as_str(), out.status),
        ("buffer_timeout\n250 ms\nbuffer_timeout\n100 ms\n", 1)
    );
    assert!(out.stderr.contains("did you mean \"buffer_timeout\"?"), "{}", out.stderr);
}

#[test]
fn the_timer_prints_to_stdout_but_not_after_failures() {
    let out = Thalweg::new()
        .args(["--format", "csv"])
        .input(".bail off\n.timer on\nSELECT 1 AS a;\nSELECT nope;\n")
        .run();
    let lines: Vec<&str> = out.stdout.lines().collect();
    assert_eq!(lines[..2], ["a", "1"]);
    assert!(lines[2].starts_with("Run Time (s): real "), "{}", out.stdout);
    assert_eq!(lines.len(), 3);
}

#[test]
fn print_mode_output_and_quit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let script = format!(
        ".print 'before'\n.mode csv\n.output {0}\nSELECT 1 AS a;\n.output\nSELECT 2 AS b;\n.mode jsonl\nSELECT 3 AS c;\n.quit\nSELECT 4;\n",
        path.display()
    );
    let out = Thalweg::new().input(&script).run();
    assert_eq!((out.stdout.as_str(), out.status), ("before\nb\n2\n{\"c\":3}\n", 0));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "a\n1\n");
}

#[test]
fn scripts_read_scripts_but_not_forever() {
    let inner = script("SELECT 1 AS a;\n");
    let outer = script(&format!(".read {}\nSELECT 2 AS b;\n", inner.path().display()));
    let out = Thalweg::new().args(["--format", "csv", "-f", outer.path().to_str().unwrap()]).run();
    assert_eq!(out.stdout, "a\n1\nb\n2\n");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("self.sql");
    std::fs::write(&path, format!(".read {}\n", path.display())).unwrap();
    let out = Thalweg::new().args(["-f", path.to_str().unwrap()]).run();
    assert_eq!(out.status, 1);
    assert!(out.stderr.contains("more than 16 deep"), "{}", out.stderr);
}

#[test]
fn unknown_dot_commands_fail() {
    let out = Thalweg::new().input(".tmer on\nSELECT 1;\n").run();
    assert_eq!((out.stdout.as_str(), out.status), ("", 1));
    assert!(out.stderr.contains("did you mean \".timer\"?"), "{}", out.stderr);
}

#[test]
fn the_start_up_file_runs_first_unless_it_is_not_wanted() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".thalwegrc"), ".mode csv\nSET batch_size = 7;\n").unwrap();
    let show = ["-c", "SHOW batch_size"];
    let out = Thalweg::new().home(home.path()).args(show).run();
    assert_eq!(out.stdout, "batch_size\n7\n");
    let out =
        Thalweg::new().home(home.path()).args(["--no-rc", "--format", "csv"]).args(show).run();
    assert_eq!(out.stdout, "batch_size\n8192\n");
    let out = Thalweg::new()
        .home(home.path())
        .args(["--set", "batch_size=9", "--format", "tsv"])
        .args(show)
        .run();
    assert_eq!(out.stdout, "batch_size\n9\n");
}

#[test]
fn a_closed_stdout_ends_quietly() {
    let out = Thalweg::new()
        .args(["--format", "csv", "-c", "SELECT 1 AS a; SELECT 2 AS b"])
        .run_with_closed_stdout();
    assert_eq!((out.stderr.as_str(), out.status), ("", 0));
}

#[test]
fn none_prints_nothing() {
    let out = Thalweg::new().args(["--format", "none", "-c", "SELECT 1; SELECT 2"]).run();
    assert_eq!((out.stdout.as_str(), out.stderr.as_str(), out.status), ("", "", 0));
}

#[test]
fn statements_without_a_result_print_nothing() {
    let sql = "CREATE TABLE t (a BIGINT, b VARCHAR); CREATE VIEW v AS SELECT a FROM t; CREATE SCHEMA s; DROP VIEW v; SET threads = 1";
    let out = Thalweg::new().args(["-c", sql]).run();
    assert_eq!((out.stdout.as_str(), out.stderr.as_str(), out.status), ("", "", 0));
}

#[test]
fn listings() {
    let sql = "CREATE TABLE t (a BIGINT, b DECIMAL(10,2)); CREATE TEMPORARY VIEW v AS SELECT a FROM t; SHOW TABLES; \
               DESCRIBE t; SHOW COLUMNS FROM v; SHOW VIEWS; SHOW CREATE TABLE v";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run();
    let expected = "table_schema,table_name,table_type\npublic,t,BASE TABLE\ntemp,v,VIEW\n\
                    column_name,data_type,is_nullable\na,BIGINT,YES\nb,\"DECIMAL(10,2)\",YES\n\
                    column_name,data_type,is_nullable\na,BIGINT,YES\n\
                    table_schema,table_name,table_type\ntemp,v,VIEW\n\
                    table_catalog,table_name,create_statement\nthalweg,v,CREATE TEMPORARY VIEW v AS SELECT a FROM t;\n";
    assert_eq!(out.stdout, expected, "{}", out.stderr);
}

#[test]
fn tables_and_schema_commands() {
    let out = Thalweg::new().input("CREATE TABLE t (a BIGINT);\nCREATE VIEW v AS SELECT 1 AS x;\n.tables\n.schema v\n.schema w\n").run();
    assert_eq!((out.stdout.as_str(), out.status), ("t\nv\nCREATE VIEW v AS SELECT 1 AS x;\n", 1));
}

#[test]
fn prepared_statements() {
    let sql = "PREPARE p AS SELECT $1 + 1 AS a; EXECUTE p(41); DEALLOCATE p; EXECUTE p(1)";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run();
    assert_eq!((out.stdout.as_str(), out.status), ("a\n42\n", 1));
    assert!(out.stderr.contains("prepared statement \"p\" does not exist"), "{}", out.stderr);
}

#[test]
fn tables_in_memory() {
    let sql = "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b; INSERT INTO t VALUES (2, 'y'), (3, NULL); \
               SELECT * FROM t ORDER BY a; INSERT OVERWRITE t SELECT 9, 'z'; SELECT * FROM t";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run();
    assert_eq!(out.stdout, "a,b\n1,x\n2,y\n3,\na,b\n9,z\n", "{}", out.stderr);
}

#[test]
fn files_by_their_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "a,b\n1,x\n2,y\n").unwrap();
    let sql =
        format!("SELECT count(*) AS n, sum(a) AS s FROM '{0}'; DESCRIBE '{0}'", path.display());
    let out = Thalweg::new().args(["--format", "csv", "-c", &sql]).run();
    assert_eq!(
        out.stdout, "n,s\n2,3\ncolumn_name,data_type,is_nullable\na,BIGINT,YES\nb,VARCHAR,YES\n",
        "{}",
        out.stderr
    );
}

#[test]
fn copies_to_files_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["t.csv", "t.parquet", "t.json"] {
        let path = folder.path().join(name);
        let sql = format!(
            "COPY (SELECT 1 AS a, 'x,y' AS b UNION ALL SELECT 2, NULL) TO '{0}'; SELECT * FROM '{0}' ORDER BY a",
            path.display()
        );
        let out = Thalweg::new().args(["--format", "csv", "-c", &sql]).run();
        assert_eq!(out.stdout, "a,b\n1,\"x,y\"\n2,\n", "{name}: {}", out.stderr);
    }
    let path = folder.path().join("u.csv");
    let sql = format!("COPY (SELECT 1) TO '{}' (delimitr ';')", path.display());
    let out = Thalweg::new().args(["-c", &sql]).run();
    assert!(out.stderr.contains("did you mean \"delimiter\"?"), "{}", out.stderr);
    assert!(!path.exists());
}

#[test]
fn external_tables_with_options() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, "1;x\n2;y\n").unwrap();
    let sql = format!(
        "CREATE EXTERNAL TABLE t (a BIGINT, b VARCHAR) STORED AS CSV LOCATION '{0}' \
         OPTIONS ('csv.header' 'false', 'csv.delimiter' ';'); SELECT * FROM t ORDER BY a; \
         CREATE EXTERNAL TABLE u STORED AS CSV LOCATION '{0}' OPTIONS ('csv.headr' 'false')",
        path.display()
    );
    let out = Thalweg::new().args(["--format", "csv", "-c", &sql]).run();
    assert_eq!((out.stdout.as_str(), out.status), ("a,b\n1,x\n2,y\n", 1), "{}", out.stderr);
    assert!(out.stderr.contains("did you mean \"csv.header\"?"), "{}", out.stderr);
}

#[test]
fn column_defaults_fill_what_an_insert_leaves_out() {
    let sql = "CREATE TABLE t (a BIGINT, b BIGINT DEFAULT 7); INSERT INTO t (a) VALUES (1); SELECT * FROM t";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run();
    assert_eq!(out.stdout, "a,b\n1,7\n", "{}", out.stderr);
}

#[test]
fn the_information_schema() {
    let sql = "CREATE TABLE t (a BIGINT); \
               SELECT table_schema, table_name FROM information_schema.tables WHERE table_name = 't'; \
               SELECT column_name, ordinal_position, data_type FROM information_schema.columns; \
               SELECT value FROM information_schema.settings WHERE name = 'batch_size'";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run();
    let expected = "table_schema,table_name\npublic,t\ncolumn_name,ordinal_position,data_type\na,1,BIGINT\nvalue\n8192\n";
    assert_eq!(out.stdout, expected, "{}", out.stderr);
}

#[test]
fn explain_as_text_and_json() {
    let out = Thalweg::new().args(["--format", "csv", "-c", "EXPLAIN SELECT 1 AS a"]).run();
    assert!(out.stdout.starts_with("plan\n"), "{}", out.stdout);
    let out = Thalweg::new().args(["-c", "EXPLAIN SELECT 1 AS a"]).run();
    assert!(out.stdout.starts_with("Project "), "without a box: {}", out.stdout);
    let sql = "CREATE TABLE t (a BIGINT); EXPLAIN INSERT INTO t SELECT 1; EXPLAIN DELETE FROM t WHERE a = 1; \
               EXPLAIN UPDATE t SET a = 2; EXPLAIN CREATE TABLE u AS SELECT 1; EXPLAIN COPY t TO 'x.csv'";
    let out = Thalweg::new().args(["-c", sql]).run();
    let top: Vec<&str> = out.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    let expected = [
        "Insert into t",
        "Delete from t: the rows that stay",
        "Update t: the rows that it has then",
        "Create table u",
        "Copy to 'x.csv'",
    ];
    assert_eq!(top, expected, "{}", out.stderr);
    let out = Thalweg::new()
        .args(["--format", "json", "-c", "EXPLAIN (FORMAT JSON, ANALYZE) SELECT 1 AS a"])
        .run();
    let rows: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    let plan: serde_json::Value = serde_json::from_str(rows[0]["plan"].as_str().unwrap()).unwrap();
    assert_eq!(plan["actual"]["rows"], 1, "{plan:#}");
}

#[test]
fn plans_show_literals_and_calls_as_they_are_written() {
    let sql = "CREATE TABLE t (a BIGINT, b VARCHAR); \
               EXPLAIN SELECT b, count(*), sum(a + 1) FROM t WHERE b <> 'it''s' GROUP BY b HAVING count(*) > 1; \
               EXPLAIN SELECT 'x' || b, DATE '2026-01-01', a * 1.50 FROM t; EXPLAIN VERBOSE SELECT 1 AS one";
    let out = Thalweg::new().args(["-c", sql]).run();
    for shown in
        ["count(*), sum(t.a + 1)", "b != 'it''s'", "'x' || b", "DATE '2026-01-01'", "a * 1.50"]
    {
        assert!(out.stdout.contains(shown), "{shown} in {}{}", out.stdout, out.stderr);
    }
    for hidden in ["Int64", "Utf8", "Decimal", "~-0"] {
        assert!(!out.stdout.contains(hidden), "{hidden} in {}", out.stdout);
    }
}

#[test]
fn errors_name_types_as_sql_does() {
    for (sql, message) in [
        ("SELECT CAST('abc' AS INTEGER)", "cannot cast string 'abc' to value of INTEGER type"),
        ("SELECT sum('x')", "no function matches sum(VARCHAR)"),
        ("SELECT DATE '2026-01-01' + TRUE", "DATE + BOOLEAN"),
        (
            "SELECT CAST(b AS INTEGER) FROM (VALUES ('1'), ('Int32')) AS t (b)",
            "string 'Int32' to value of INTEGER type",
        ),
    ] {
        let out = Thalweg::new().args(["-c", sql]).run();
        assert!(out.stderr.contains(message), "{}", out.stderr);
    }
}

#[test]
fn errors_point_at_what_they_name() {
    for (sql, place) in [
        ("DROP TABLE nope", "LINE 1: DROP TABLE nope\n                   ^^^^"),
        ("SELECT 1 LIMIT -1", "LINE 1: SELECT 1 LIMIT -1\n                 ^^^^^"),
        ("SET treads = 1", "LINE 1: SET treads = 1\n            ^^^^^^"),
        (
            "CREATE TABLE k (a BIGINT PRIMARY KEY); INSERT INTO k VALUES (1), (1)",
            "LINE 1: INSERT INTO k VALUES (1), (1)\n                    ^",
        ),
    ] {
        let out = Thalweg::new().args(["-c", sql]).run();
        assert!(out.stderr.contains(place), "{sql}: {}", out.stderr);
    }
}

#[test]
fn connectors_are_listed_where_one_is_missing() {
    for with in ["path = 'x.csv'", "connector = 'kafka'"] {
        let out =
            Thalweg::new().args(["-c", &format!("CREATE TABLE t (a BIGINT) WITH ({with})")]).run();
        assert!(out.stderr.contains("'connector' = 'filesystem'"), "{}", out.stderr);
    }
}

#[test]
fn functions_that_nobody_can_call_are_not_listed() {
    let sql = "SELECT routine_name FROM information_schema.routines";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run();
    let names: Vec<&str> = out.stdout.lines().collect();
    assert!(names.contains(&"upper") && names.contains(&"timezone"));
    assert!(!names.contains(&"as_whole") && !names.contains(&"input_file_name"));
}

#[test]
fn series_of_numbers() {
    let sql = "SELECT sum(value) AS s, count(*) AS n FROM generate_series(1, 200000); \
               SELECT value FROM range(5, 0, -2); SELECT count(*) AS n FROM generate_series(1, 10) WHERE value % 3 = 0";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run();
    assert_eq!(out.stdout, "s,n\n20000100000,200000\nvalue\n5\n3\n1\nn\n3\n", "{}", out.stderr);
}

#[test]
fn not_null_columns_refuse_nulls_and_keep_the_table_as_it_was() {
    let sql = "CREATE TABLE t (a BIGINT NOT NULL); INSERT INTO t VALUES (1); \
               INSERT INTO t SELECT nullif(value, 3) FROM generate_series(2, 4)";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql, "-c", "SELECT 1"]).run();
    assert_eq!((out.stdout.as_str(), out.status), ("", 1));
    assert!(
        out.stderr.starts_with("Error: a value for the column \"a\" is NULL"),
        "{}",
        out.stderr
    );
}

#[test]
fn a_reader_that_goes_away_ends_the_query_quietly() {
    let sql = "SELECT value FROM generate_series(1, 100000000)";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run_until_stdout_has(1000);
    assert_eq!((out.stderr.as_str(), out.status), ("", 0));
}

#[test]
fn ctrl_c_cancels_the_query_and_ends_the_script_with_130() {
    let sql = "SELECT 1 AS a; SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 7 = 8; SELECT 2";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run_and_interrupt_after("a\n1\n");
    assert_eq!((out.stdout.as_str(), out.status), ("a\n1\n", 130));
    // A signal that comes before the second statement has begun ends the program without a word.
    assert!(
        ["", "Error: the query was cancelled\n"].contains(&out.stderr.as_str()),
        "{}",
        out.stderr
    );
}

#[test]
fn scripts_may_begin_with_a_mark_or_the_name_of_a_program() {
    for start in ["\u{feff}", "#!/usr/bin/env thalweg\n", "\u{feff}#!x\n"] {
        let file = script(&format!("{start}SELECT 1 AS a;\n.quit;\nSELECT 2 AS b;\n"));
        let path = file.path().to_str().unwrap();
        let out = Thalweg::new().args(["--format", "csv", "-f", path]).run();
        assert_eq!((out.stdout.as_str(), out.status), ("a\n1\n", 0), "{start:?} {}", out.stderr);
    }
}

#[test]
fn a_comment_without_an_end_is_an_error() {
    let out = Thalweg::new().args(["-c", "SELECT 1; /* SELECT 2;"]).run();
    assert_eq!(out.status, 1);
    assert!(out.stderr.contains("comment"), "{}", out.stderr);
}

#[test]
fn copy_writes_to_standard_output() {
    let sql = "SELECT 1 AS a; COPY (SELECT 2 AS b, 'x' AS c) TO '/dev/stdout'; SELECT 3 AS d; \
               COPY (SELECT 4 AS e) TO '/dev/stdout' (FORMAT json)";
    let out = Thalweg::new().args(["--format", "csv", "-c", sql]).run();
    assert_eq!((out.stdout.as_str(), out.status), ("a\n1\nb,c\n2,x\nd\n3\n{\"e\":4}\n", 0));
}

#[test]
fn devices_without_an_end_are_no_files() {
    let out = Thalweg::new().args(["-c", "SELECT count(*) FROM '/dev/zero'"]).run();
    assert_eq!(out.status, 1);
    assert!(out.stderr.contains("device"), "{}", out.stderr);
}

#[test]
fn waiting_for_standard_input_can_be_interrupted() {
    let sql = "SELECT 1 AS a; SELECT * FROM '/dev/stdin'";
    let out =
        Thalweg::new().args(["--format", "csv", "-c", sql]).run_and_interrupt_reading("a\n1\n");
    assert_eq!((out.stdout.as_str(), out.status), ("a\n1\n", 130), "{}", out.stderr);
}

#[test]
fn what_is_read_from_standard_input_is_bounded_like_spill_files() {
    let out = Thalweg::new()
        .args(["--set", "max_spill_size=1MB", "-c", "SELECT count(*) FROM '/dev/stdin'"])
        .input(&"1,2,3\n".repeat(1 << 20))
        .run();
    assert_eq!(out.status, 1);
    assert!(out.stderr.contains("max_spill_size"), "{}", out.stderr);
}
