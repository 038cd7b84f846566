//! Files as users write and read them by name.

use std::process::Command;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().expect("there is room for files"))
    }

    /// Runs statements in which `@` stands for the folder; the results as CSV, or the first line of the error.
    fn run(&self, sql: &str) -> String {
        let sql = sql.replace('@', &self.0.path().display().to_string());
        let out = Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(["--no-rc", "--format", "csv", "-c", &sql])
            .output()
            .expect("the program starts");
        let text = if out.status.success() { out.stdout } else { out.stderr };
        let text = String::from_utf8(text).expect("results and messages are text");
        match out.status.success() {
            true => text,
            false => text
                .lines()
                .next()
                .unwrap_or_default()
                .replace(&self.0.path().display().to_string(), "@"),
        }
    }
}

#[test]
fn names_that_look_like_numbers_are_a_header() {
    let folder = Folder::new();
    let sql = "COPY (SELECT 10 AS \"2024\", 11 AS \"2025\") TO '@/a.csv'; SELECT * FROM '@/a.csv'";
    assert_eq!(folder.run(sql), "2024,2025\n10,11\n");
    let sql = "COPY (SELECT 1) TO '@/b.csv'; SELECT count(*) AS n FROM '@/b.csv'";
    assert_eq!(folder.run(sql), "n\n1\n");
}

#[test]
fn a_format_makes_one_file_of_a_name() {
    let folder = Folder::new();
    folder.run("COPY (SELECT 1 AS a) TO '@/name' (FORMAT csv)");
    assert_eq!(std::fs::read_to_string(folder.0.path().join("name")).unwrap(), "a\n1\n");
    assert_eq!(folder.run("SELECT * FROM '@/name'"), "a\n1\n");
}

#[test]
fn the_content_tells_the_format_when_the_name_is_wrong() {
    let folder = Folder::new();
    for (format, name) in [("parquet", "a.csv"), ("arrow", "b.json"), ("parquet", "c.txt")] {
        let sql = format!(
            "COPY (SELECT 1 AS a) TO '@/{name}' (FORMAT {format}); SELECT * FROM '@/{name}'; \
             CREATE TABLE t (a BIGINT); COPY t FROM '@/{name}'; SELECT * FROM t"
        );
        assert_eq!(folder.run(&sql), "a\n1\na\n1\n", "{name}");
    }
}

#[test]
fn partitions_are_replaced_or_added_to_only_when_asked() {
    let folder = Folder::new();
    let copy = |options: &str| {
        folder.run(&format!(
            "COPY (SELECT 1 AS x, 2 AS k) TO '@/p' (FORMAT parquet, PARTITION_BY k{options}); \
             SELECT count(*) AS n FROM '@/p'"
        ))
    };
    assert_eq!(copy(""), "n\n1\n");
    assert_eq!(copy(""), "Error: the folder \"@/p\" is not empty");
    assert_eq!(copy(", APPEND true"), "n\n2\n");
    assert_eq!(copy(", OVERWRITE true"), "n\n1\n");
    let sql = "COPY (SELECT 1 AS x) TO '@/f/' (FORMAT parquet); COPY (SELECT 2 AS x) TO '@/f/' \
               (FORMAT parquet, OVERWRITE true); SELECT * FROM '@/f'";
    assert_eq!(folder.run(sql), "x\n2\n");
}

#[test]
fn a_statement_that_fails_replaces_nothing() {
    let folder = Folder::new();
    folder.run("COPY (SELECT 1 AS x) TO '@/f/'");
    let sql = "COPY (SELECT 1 / (value - 5) AS x FROM range(10)) TO '@/f/' (OVERWRITE true)";
    assert!(folder.run(sql).starts_with("Error: "));
    assert_eq!(folder.run("SELECT * FROM '@/f'"), "x\n1\n");
}

#[test]
fn options_of_other_formats_are_refused() {
    let folder = Folder::new();
    folder.run("COPY (SELECT 1 AS a) TO '@/a.csv'; COPY (SELECT 1 AS a) TO '@/a.json'");
    for (sql, error) in [
        (
            "COPY (SELECT 1 AS a) TO '@/b.json' (HEADER true)",
            "JSON files have no option \"header\"",
        ),
        (
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '@/a.csv' OPTIONS ('json.ignore-errors' 'true')",
            "CSV files have no option \"json.ignore-errors\"",
        ),
        (
            "CREATE TABLE t (a BIGINT); COPY t FROM '@/a.json' (HEADER true)",
            "JSON files have no option \"csv.header\"",
        ),
    ] {
        assert_eq!(folder.run(sql), format!("Error: {error}"));
    }
}

#[test]
fn the_values_of_maps_by_their_keys() {
    let folder = Folder::new();
    let sql = "COPY (SELECT map{'a': 1, 'b': 2} AS m, 'b' AS k) TO '@/m.parquet'; \
               SELECT m['a'] AS a, m[k] AS b, m['c'] AS c, map{'x': 3}['x'] AS x, map{1: 'one'}[1] AS y \
               FROM '@/m.parquet'";
    assert_eq!(folder.run(sql), "a,b,c,x,y\n1,2,,3,one\n");
    assert_eq!(folder.run("SELECT k FROM '@/m.parquet' WHERE m['b'] = 2"), "k\nb\n");
}

#[test]
fn messages_are_sentences() {
    let folder = Folder::new();
    let parquet = folder.run("COPY (SELECT interval '1 day' AS i) TO '@/i.parquet'");
    assert_eq!(parquet, "Error: Parquet files cannot hold intervals");
    folder.run("COPY (SELECT 1 AS a, 2 AS b, 3 AS c) TO '@/a.csv'");
    assert_eq!(
        folder.run("CREATE TABLE t (a BIGINT); COPY t FROM '@/a.csv'"),
        "Error: the file has 3 columns, but 1 is to be filled"
    );
    assert_eq!(
        folder.run("SELECT 1 AS \"abc"),
        "Error: expected close delimiter '\"', but the text ends here"
    );
    assert!(!folder.run("EXPLAIN VERBOSE SELECT 1").contains("-0B"));
}

#[test]
fn strings_of_json_that_are_dates_are_read_as_such() {
    let folder = Folder::new();
    let lines = "{\"d\":\"2024-01-31\",\"t\":\"2024-01-31 10:00:00\",\"z\":\"2024-01-31T10:00:00+02:00\",\
                 \"c\":\"10:00:00\",\"s\":\"2024-01-31\",\"n\":{\"d\":[\"2024-01-31\"]},\"w\":\" 2024-01-31\"}\n\
                 {\"d\":null,\"t\":\"2024-01-31\",\"z\":null,\"c\":\"23:59:59.5\",\"s\":\"x\",\"n\":null,\"w\":null}\n";
    std::fs::write(folder.0.path().join("a.json"), lines).unwrap();
    let types = "column_name,data_type,is_nullable\nd,DATE,YES\nt,TIMESTAMP,YES\n\
                 z,TIMESTAMP WITH TIME ZONE,YES\nc,TIME,YES\ns,VARCHAR,YES\n\
                 n,STRUCT(d DATE[]),YES\nw,VARCHAR,YES\n";
    assert_eq!(folder.run("DESCRIBE '@/a.json'"), types);
    let rows = "d,t,z,c,s,d0\n2024-01-31,2024-01-31 10:00:00,2024-01-31 08:00:00+00,10:00:00,2024-01-31,2024-01-31\n\
                ,2024-01-31 00:00:00,,23:59:59.5,x,\n";
    assert_eq!(folder.run("SELECT d, t, z, c, s, n['d'][1] AS d0 FROM '@/a.json'"), rows);
}
