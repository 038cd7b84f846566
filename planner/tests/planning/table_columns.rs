//! CREATE TABLE with computed columns, columns of the connector, and watermarks.

use thalweg_planner::{CreateExternalTable, CreateTable, Planner, Statement, Watermark};

use super::errors::{assert_error, parts};
use super::stub::{plan, stub};

#[track_caller]
fn memory(columns: &str) -> CreateTable {
    match plan(&format!("CREATE TABLE x ({columns})")) {
        Ok(Statement::CreateTable(table)) => *table,
        Ok(other) => panic!("{other:?}"),
        Err(error) => panic!("{error} {error:?}"),
    }
}

#[track_caller]
fn external(sql: &str) -> CreateExternalTable {
    match plan(sql) {
        Ok(Statement::CreateExternalTable(table)) => table,
        other => panic!("{other:?}"),
    }
}

fn shown(watermark: &Option<Watermark>) -> (usize, String) {
    let watermark = watermark.as_ref().expect("there is one");
    (watermark.column, watermark.expr.to_string())
}

#[test]
fn columns_stand_in_the_order_declared() {
    let table = memory(
        "twice AS a * 2, a BIGINT, ms BIGINT, ts AS to_timestamp_millis(ms) COMMENT 'when',
         k VARCHAR NOT NULL, PRIMARY KEY (k, a), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
    );
    let names: Vec<&str> = table.schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["twice", "a", "ms", "ts", "k"]);
    let computed: Vec<(usize, String)> =
        table.computed.iter().map(|c| (c.column, c.expr.to_string())).collect();
    assert_eq!(computed[0], (0, "a * Int64(2)".to_string()));
    assert_eq!(computed[1], (3, "to_timestamp_millis(ms)".to_string()));
    let keys: Vec<String> = table.constraints.iter().map(|key| format!("{key:?}")).collect();
    assert_eq!(keys, ["PrimaryKey([4, 1])"]);
    assert!(table.keys_enforced);
    assert!(!table.schema.field(1).is_nullable() && table.schema.field(3).is_nullable());
    let (column, expr) = shown(&table.watermark);
    assert_eq!(column, 3);
    assert!(expr.starts_with("to_timestamp_millis(ms) - "), "{expr}");
}

#[test]
fn every_head_of_create_table_takes_them() {
    let columns = "(`t s` TIMESTAMP(3), `up per` AS upper('x'), WATERMARK FOR `t s` AS `t s`)";
    for head in [
        "CREATE TABLE x",
        "CREATE OR REPLACE TEMPORARY TABLE s.x",
        "CREATE TABLE IF NOT EXISTS x",
        "create temp table if not exists \"x\"",
    ] {
        let with = "WITH ('connector' = 'filesystem', 'path' = 'p')";
        let table = external(&format!("{head} {columns} {with}"));
        assert_eq!(table.computed.len(), 1, "{head}");
        assert_eq!(shown(&table.watermark), (0, "t s".to_string()), "{head}");
    }
    let sql = format!("CREATE EXTERNAL TABLE x {columns} STORED AS CSV LOCATION 'p'");
    let table = external(&sql);
    assert_eq!((table.computed.len(), table.watermark.is_some()), (1, true));
    let Ok(Statement::Explain { statement, .. }) =
        plan(&format!("EXPLAIN CREATE TABLE x {columns}"))
    else {
        panic!()
    };
    assert!(matches!(*statement, Statement::CreateTable(t) if t.computed.len() == 1));
}

#[test]
fn metadata_columns_are_stored_columns_with_a_key() {
    let table = memory(
        "a INT, at TIMESTAMP(3) METADATA FROM 'timestamp', partition BIGINT METADATA VIRTUAL,
         key VARCHAR(10) METADATA FROM 'key' VIRTUAL NOT NULL COMMENT 'the key',
         metadata INT, WATERMARK FOR at AS at",
    );
    let columns: Vec<(usize, &str, bool)> =
        table.metadata.iter().map(|c| (c.column, c.key.as_str(), c.is_virtual)).collect();
    assert_eq!(columns, [(1, "timestamp", false), (2, "partition", true), (3, "key", true)]);
    assert!(!table.schema.field(3).is_nullable());
    assert_eq!(table.schema.field(4).name(), "metadata");
    assert_error(
        "CREATE TABLE x (a INT METADATA FROM b)",
        "expected the quoted name of a value of the connector, found b",
        "b",
        None,
    );
}

#[test]
fn plain_tables_are_read_as_before() {
    let table =
        memory("watermark INT, computed BIGINT DEFAULT 3, virtual INT UNIQUE, KEY INT, index int");
    let names: Vec<&str> = table.schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["watermark", "computed", "virtual", "key", "index"]);
    assert!(table.computed.is_empty() && table.watermark.is_none() && table.keys_enforced);
    assert!(!memory("a INT PRIMARY KEY NOT ENFORCED").keys_enforced);
    assert_eq!(
        parts("CREATE TABLE x (a INT PRIMARY KEY NOT ENFORCED, b INT UNIQUE)").0,
        "a table some of whose keys are NOT ENFORCED is not supported"
    );
}

#[test]
fn statements_before_a_wrong_table_are_read() {
    let planner = Planner::new();
    let (statements, error) =
        planner.parse_script("SELECT 1; CREATE TABLE x (a INT, b AS a +); SELECT 2");
    assert_eq!(statements.len(), 1);
    assert_eq!(error.expect("it is wrong").to_string(), "expected an expression, found )");
    let all = planner.parse("CREATE TABLE x (a INT, b AS a); CREATE TABLE y (b AS c, c INT)");
    for statement in all.expect("they are right") {
        let Ok(Statement::CreateTable(table)) = planner.plan(&statement, &stub()) else { panic!() };
        assert_eq!(table.computed.len(), 1);
    }
}

#[test]
fn watermarks_are_checked() {
    assert_error(
        "CREATE TABLE x (a TIMESTAMP, WATERMARK FOR a AS a, WATERMARK FOR a AS a)",
        "a table has one watermark at most",
        "WATERMARK",
        None,
    );
    assert_error(
        "CREATE TABLE x (time TIMESTAMP, WATERMARK FOR tim AS time)",
        "the column tim of the watermark does not exist",
        "tim",
        Some("did you mean \"time\"?"),
    );
    assert_error(
        "CREATE TABLE x (a BIGINT, WATERMARK FOR a AS a - 5)",
        "the watermark for a needs a timestamp, but the column a is BIGINT",
        "a",
        Some("a computed column can make a timestamp of it"),
    );
    assert_error(
        "CREATE TABLE x (a TIMESTAMP, b BIGINT, WATERMARK FOR a AS b - 5)",
        "the watermark for a is BIGINT, but the column a is TIMESTAMP",
        "b - 5",
        None,
    );
    assert_eq!(
        parts(
            "CREATE TABLE x (a TIMESTAMP WITH TIME ZONE, WATERMARK FOR a AS CAST(a AS TIMESTAMP))"
        )
        .0,
        "the watermark for a is TIMESTAMP, but the column a is TIMESTAMP WITH TIME ZONE"
    );
    let volatile =
        "CREATE TABLE x (a TIMESTAMP, WATERMARK FOR a AS a - random() * INTERVAL '1' SECOND)";
    assert_eq!(parts(volatile).0, "the watermark for a is volatile");
    assert_error(
        "CREATE TABLE x (a TIMESTAMP, WATERMARK FOR a a)",
        "expected AS, found a",
        "a",
        None,
    );
    assert_eq!(
        parts("CREATE TABLE x (WATERMARK FOR a AS a) WITH ('connector' = 'filesystem')").0,
        "computed columns and watermarks need declared columns"
    );
}

#[test]
fn computed_columns_are_checked() {
    assert_error(
        "CREATE TABLE x (a INT, b AS a + 1, c AS b + 1)",
        "the computed column c names the computed column b",
        "b",
        Some("write the other's expression out"),
    );
    assert_eq!(
        parts("CREATE TABLE x (a INT, b AS b + 1)").0,
        "the computed column b names the computed column b"
    );
    for (expr, message) in [
        ("sum(a)", "an aggregate function in the computed column b is not supported"),
        ("row_number() over ()", "a window function in the computed column b is not supported"),
        ("(SELECT 1)", "a subquery in the computed column b is not supported"),
        ("a IN (SELECT 1)", "a subquery in the computed column b is not supported"),
        ("$1", "the parameter $1 has no value"),
        (
            "now()",
            "now(), which has one value for all rows of a statement, in the computed column b is not supported",
        ),
    ] {
        assert_eq!(parts(&format!("CREATE TABLE x (a INT, b AS {expr})")).0, message);
    }
    assert_error("CREATE TABLE x (a INT, b AS c)", "column c does not exist", "c", None);
    assert_error("CREATE TABLE x (a INT, a AS 1)", "column a appears twice", "a", None);
    assert_error(
        "CREATE TABLE x (a INT, b AS a BIGINT)",
        "expected , or ) after a column, found BIGINT",
        "BIGINT",
        None,
    );
    assert_error(
        "CREATE TABLE x (a INT, b AS a, PRIMARY KEY (b))",
        "the computed column b is no key",
        "b",
        Some("a key names columns that are stored"),
    );
    assert_eq!(
        parts("PREPARE p AS CREATE TABLE x (a INT, b AS a)").0,
        "expected a column with a type, found b"
    );
    assert!(memory("a INT, b AS random()").computed[0].expr.is_volatile());
}

#[test]
fn generated_columns_are_computed_and_cast() {
    let table = memory(
        "a INT, b BIGINT GENERATED ALWAYS AS (a + 1) STORED, c VARCHAR AS (a) VIRTUAL COMMENT 'x'",
    );
    let types: Vec<String> =
        table.schema.fields().iter().map(|f| f.data_type().to_string()).collect();
    assert_eq!(types, ["Int32", "Int64", "Utf8View"]);
    let computed: Vec<usize> = table.computed.iter().map(|column| column.column).collect();
    assert_eq!(computed, [1, 2]);
    assert_eq!(
        parts("CREATE TABLE x (a INT, b DOUBLE GENERATED ALWAYS AS (random()) STORED)").0,
        "the generated column b is volatile"
    );
    assert_eq!(
        parts("CREATE TABLE x (a INT, b INT GENERATED ALWAYS AS (a) STORED NOT NULL)").0,
        "NOT NULL on a generated column is not supported"
    );
    assert!(
        parts("CREATE TABLE x (a INT GENERATED ALWAYS AS IDENTITY)").0.contains("not supported")
    );
}

#[test]
fn types_have_their_names_in_stream_processors() {
    let table = memory(
        "a TIMESTAMP_LTZ(3), b TIMESTAMP(3) WITH LOCAL TIME ZONE, c BYTES,
         d ROW<n INT, key STRING, inner ROW<t TIMESTAMP(3)>> METADATA, row INT,
         less AS row < 5, ts AS d.inner.t, WATERMARK FOR ts AS ts - INTERVAL '4' SECOND",
    );
    let plain = memory(
        "a TIMESTAMP(3) WITH TIME ZONE, b TIMESTAMP WITH TIME ZONE, c BYTEA,
         d STRUCT<n INT, \"key\" VARCHAR, inner STRUCT<t TIMESTAMP(3)>>, row INT",
    );
    assert_eq!(table.schema.fields()[..5], plain.schema.fields()[..]);
    assert_eq!(shown(&table.watermark).0, 6);
}
