//! Statements other than queries.

use super::stub::{error, plan};
use arrow::datatypes::DataType;
use thalweg_planner::{
    DescribeTarget, DropKind, ExplainFormat, JobName, Planner, ShowKind, Statement, TableName,
};

#[test]
fn explain_has_all_its_spellings() {
    let cases = [
        ("EXPLAIN SELECT 1", (false, false, ExplainFormat::Text)),
        ("EXPLAIN ANALYZE SELECT 1", (true, false, ExplainFormat::Text)),
        ("EXPLAIN VERBOSE SELECT 1", (false, true, ExplainFormat::Text)),
        ("EXPLAIN ANALYZE FORMAT JSON SELECT 1", (true, false, ExplainFormat::Json)),
        ("EXPLAIN (FORMAT JSON) SELECT 1", (false, false, ExplainFormat::Json)),
        ("EXPLAIN (ANALYZE, FORMAT json) SELECT 1", (true, false, ExplainFormat::Json)),
        ("EXPLAIN (ANALYZE off, VERBOSE) SELECT 1", (false, true, ExplainFormat::Text)),
        ("EXPLAIN (SELECT 1)", (false, false, ExplainFormat::Text)),
    ];
    for (sql, wanted) in cases {
        let Ok(Statement::Explain { options, statement }) = plan(sql) else { panic!("{sql}") };
        assert_eq!((options.analyze, options.verbose, options.format), wanted, "{sql}");
        assert!(matches!(*statement, Statement::Query(_)));
    }
    assert!(matches!(plan("EXPLAIN INSERT INTO t SELECT * FROM u"), Ok(Statement::Explain { .. })));
}

#[test]
fn settings_take_any_key_and_value() {
    let cases = [
        ("SET threads = 4", "threads", "4"),
        ("SET execution.runtime_mode = 'batch'", "execution.runtime_mode", "batch"),
        ("SET buffer_timeout TO 100 ms", "buffer_timeout", "100 ms"),
        ("SET buffer_timeout = '100 ms'", "buffer_timeout", "100 ms"),
        ("set Memory_Limit=512MB", "memory_limit", "512MB"),
        ("SET \"a.b\" = on", "a.b", "on"),
        ("SET 'optimizer.hash_join' = off", "optimizer.hash_join", "off"),
        ("SET csv.ignore-errors = true", "csv.ignore-errors", "true"),
        ("SET x = -1.5", "x", "-1.5"),
        ("SET TIME ZONE 'Europe/Berlin'", "time_zone", "Europe/Berlin"),
    ];
    for (sql, wanted_key, wanted_value) in cases {
        let Ok(Statement::Set { key, value }) = plan(sql) else { panic!("{sql}") };
        assert_eq!((key.as_str(), value.as_str()), (wanted_key, wanted_value), "{sql}");
    }
    assert!(matches!(plan("SET x = DEFAULT"), Ok(Statement::Reset { key: Some(k) }) if k == "x"));
    assert!(matches!(plan("RESET a.b"), Ok(Statement::Reset { key: Some(k) }) if k == "a.b"));
    assert!(matches!(plan("RESET ALL"), Ok(Statement::Reset { key: None })));
    assert!(error("SET x").contains("expected = or TO"));
    assert!(error("SET x =").contains("expected a value"));
}

#[test]
fn show_and_describe() {
    let show = |sql: &str| match plan(sql) {
        Ok(Statement::Show(kind)) => kind,
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(show("SHOW ALL"), ShowKind::All);
    assert_eq!(show("SHOW TABLES"), ShowKind::Tables);
    assert_eq!(
        show("SHOW optimizer.hash_join"),
        ShowKind::Setting("optimizer.hash_join".to_string())
    );
    assert_eq!(show("SHOW COLUMNS FROM t"), ShowKind::Columns(TableName::bare("t")));
    for sql in ["DESCRIBE t", "DESC t", "DESCRIBE TABLE t"] {
        let Ok(Statement::Describe(DescribeTarget::Table { schema, .. })) = plan(sql) else {
            panic!("{sql}")
        };
        assert_eq!(schema.fields().len(), 4);
    }
    let Ok(Statement::Describe(DescribeTarget::Query { schema })) =
        plan("DESCRIBE SELECT v + 1 AS w FROM t")
    else {
        panic!()
    };
    assert_eq!(
        (schema.field(0).name().as_str(), schema.field(0).data_type()),
        ("w", &DataType::Float64)
    );
    assert!(matches!(
        plan("DESCRIBE 'some.csv'"),
        Ok(Statement::Describe(DescribeTarget::Table { .. }))
    ));
    assert!(error("DESCRIBE tt").contains("table tt does not exist"));
}

#[test]
fn memory_tables() {
    let sql = "CREATE TABLE IF NOT EXISTS x (a INT, b VARCHAR NOT NULL DEFAULT 'q', c DECIMAL(10,2), PRIMARY KEY (a))";
    let Ok(Statement::CreateTable(table)) = plan(sql) else { panic!() };
    assert!(table.if_not_exists && table.query.is_none());
    assert_eq!(table.constraints.iter().count(), 1);
    assert!(!table.schema.field(0).is_nullable() && !table.schema.field(1).is_nullable());
    assert_eq!(table.defaults[0].0, "b");
    let Ok(Statement::CreateTable(table)) = plan("CREATE TABLE x (a BIGINT) AS SELECT k FROM t")
    else {
        panic!()
    };
    let query = table.query.expect("it works");
    assert_eq!(query.plan.schema().field(0).data_type(), &DataType::Int64);
    assert!(error("CREATE TABLE x (a INT, b INT) AS SELECT k FROM t").contains("2 columns"));
    assert!(error("CREATE TABLE x (a foo)").contains("foo"));
    assert!(error("CREATE TABLE x (a INT REFERENCES t (id))").contains("not supported"));
}

#[test]
fn external_tables() {
    let sql = "CREATE OR REPLACE EXTERNAL TABLE x (a INT) STORED AS CSV PARTITIONED BY (y, m)
               LOCATION ('p', 'q') OPTIONS ('csv.header' 'true', csv.delimiter ';')";
    let Ok(Statement::CreateExternalTable(table)) = plan(sql) else { panic!() };
    assert!(table.or_replace);
    assert_eq!((table.connector.as_str(), table.format.as_deref()), ("filesystem", Some("csv")));
    assert_eq!((table.locations.len(), table.partition_columns.len()), (2, 2));
    assert_eq!(table.options[1], ("csv.delimiter".to_string(), ";".to_string()));
    let sql = "CREATE TABLE x (a INT, b TIMESTAMP(3), PRIMARY KEY (a) NOT ENFORCED)
               WITH ('connector' = 'filesystem', 'path' = 'p', 'format' = 'csv', 'csv.header' = 'true')";
    let Ok(Statement::CreateExternalTable(table)) = plan(sql) else { panic!() };
    assert_eq!(table.locations, ["p"]);
    assert_eq!(table.options, [("csv.header".to_string(), "true".to_string())]);
    assert_eq!(table.schema.expect("it works").fields().len(), 2);
    assert!(error("CREATE EXTERNAL TABLE x").contains("needs STORED AS"));
}

#[test]
fn views_keep_their_text() {
    let Ok(Statement::CreateView(view)) =
        plan("CREATE OR REPLACE TEMP VIEW w (a, b) AS SELECT id, (SELECT 1 AS x) FROM t -- end\n")
    else {
        panic!()
    };
    assert_eq!(view.sql, "SELECT id, (SELECT 1 AS x) FROM t");
    assert!(view.or_replace && view.temporary);
    assert_eq!(view.schema.field(1).name(), "b");
    assert!(error("CREATE VIEW w (a) AS SELECT id, k FROM t").contains("1 column names"));
}

#[test]
fn inserts_are_cast_and_padded() {
    let Ok(Statement::Insert(insert)) = plan("INSERT INTO t (s, id) SELECT 'x', k FROM u") else {
        panic!()
    };
    let schema = insert.input.plan.schema();
    let types: Vec<&DataType> = schema.fields().iter().map(|f| f.data_type()).collect();
    assert_eq!(
        types,
        [&DataType::Int64, &DataType::Int32, &DataType::Float64, &DataType::Utf8View]
    );
    assert!(!insert.overwrite);
    assert!(
        matches!(plan("INSERT OVERWRITE t SELECT * FROM u"), Ok(Statement::Insert(i)) if i.overwrite)
    );
    assert!(matches!(
        plan("INSERT INTO t VALUES (1, 2, 3, 'a'), (2, 3, 4.5, NULL)"),
        Ok(Statement::Insert(_))
    ));
    assert!(error("INSERT INTO big VALUES (1, 2)").contains("cannot insert into the view big"));
    assert!(error("INSERT INTO whole VALUES (1, 2, 3, 'a')").contains("the view whole"));
    assert!(error("INSERT INTO t (id, kk) VALUES (1, 2)").contains("column kk does not exist"));
}

#[test]
fn copies_take_both_forms() {
    let Ok(Statement::Copy(copy)) = plan(
        "COPY (SELECT 1 AS a) TO 'x' (FORMAT Parquet, PARTITION_BY (a), compression zstd, level -3, header)",
    ) else {
        panic!()
    };
    assert_eq!((copy.path.as_str(), copy.format.as_deref()), ("x", Some("parquet")));
    assert_eq!(copy.partition_by, ["a"]);
    let options: Vec<(&str, &str)> =
        copy.options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(options, [("compression", "zstd"), ("level", "-3"), ("header", "true")]);
    let Ok(Statement::Copy(copy)) =
        plan("COPY t TO 'x' STORED AS CSV PARTITIONED BY (k) OPTIONS ('csv.header' 'true')")
    else {
        panic!()
    };
    assert_eq!(
        (copy.format.as_deref(), copy.partition_by.as_slice()),
        (Some("csv"), ["k".to_string()].as_slice())
    );
    assert!(error("COPY t TO 'x' (FORMAT csv, PARTITION_BY kk)").contains("column kk"));
}

#[test]
fn drops_and_schemas() {
    let Ok(Statement::Drop { kind, names, if_exists, .. }) = plan("DROP TABLE IF EXISTS a, s.b")
    else {
        panic!()
    };
    assert_eq!((kind, if_exists), (DropKind::Table, true));
    assert_eq!(names, [TableName::bare("a"), TableName::partial("s", "b")]);
    assert!(
        matches!(plan("CREATE SCHEMA IF NOT EXISTS s"), Ok(Statement::CreateSchema { name, if_not_exists: true }) if name == "s")
    );
}

#[test]
fn materialized_views_carry_their_query() {
    let sql = "CREATE OR REPLACE MATERIALIZED VIEW v (a, b) AS SELECT id, v + 1 FROM t ORDER BY id";
    let Ok(Statement::CreateMaterializedView(create)) = plan(sql) else { panic!() };
    assert_eq!((create.or_replace, create.if_not_exists), (true, false));
    assert_eq!(create.sql, "SELECT id, v + 1 FROM t ORDER BY id");
    assert_eq!(create.query.names, ["a", "b"]);
    let text = create.query.plan.display_indent().to_string();
    assert!(!text.contains("Sort"), "a view has no order: {text}");
    let first = "CREATE MATERIALIZED VIEW v AS SELECT id FROM t ORDER BY id LIMIT 1";
    let Ok(Statement::CreateMaterializedView(create)) = plan(first) else { panic!() };
    assert!(create.query.plan.display_indent().to_string().contains("Sort"));
    assert!(error("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a, 2 AS a").contains("appears twice"));
    let now =
        "CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE current_date > DATE '2020-01-01'";
    assert!(error(now).contains("in a materialized view is not supported"), "{}", error(now));
    let Ok(Statement::Drop { kind, cascade, .. }) = plan("DROP MATERIALIZED VIEW v CASCADE") else {
        panic!()
    };
    assert_eq!((kind, cascade), (DropKind::MaterializedView, true));
    let Ok(Statement::CreateTable(create)) = plan("CREATE TABLE n (a INT) APPEND ONLY") else {
        panic!()
    };
    assert!(create.append_only);
}

#[test]
fn jobs_are_listed_described_and_stopped() {
    assert!(matches!(plan("FLUSH"), Ok(Statement::Flush)));
    assert!(matches!(plan("SHOW JOBS"), Ok(Statement::Show(ShowKind::Jobs))));
    for (sql, wanted) in [
        ("DESCRIBE JOB 3", JobName::Number(3)),
        ("DESCRIBE JOB my_view", JobName::Name("my_view".to_string())),
    ] {
        let job = plan(sql);
        assert!(
            matches!(&job, Ok(Statement::Describe(DescribeTarget::Job(job))) if *job == wanted),
            "{job:?}"
        );
    }
    for (sql, wanted) in [
        ("STOP JOB 3", JobName::Number(3)),
        ("stop job Insert_Into_T", JobName::Name("insert_into_t".to_string())),
        ("STOP JOB \"My View\"", JobName::Name("My View".to_string())),
    ] {
        assert!(matches!(plan(sql), Ok(Statement::StopJob(job)) if job == wanted), "{sql}");
    }
    assert!(error("STOP JOB").contains("the number or name of a job"));
}

#[test]
fn statement_sets_hold_inserts() {
    let set = "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT * FROM t; \
               INSERT INTO t SELECT * FROM t; END";
    let Ok(Statement::StatementSet(inserts)) = plan(set) else { panic!() };
    assert_eq!(inserts.len(), 2);
    for (wrong, wanted) in [
        ("EXECUTE STATEMENT SET BEGIN END", "at least one INSERT"),
        ("EXECUTE STATEMENT SET BEGIN SELECT 1; END", "anything but INSERT"),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT * FROM t;", "expected END"),
        ("EXECUTE STATEMENT SET INSERT INTO t SELECT * FROM t; END", "expected BEGIN"),
    ] {
        assert!(error(wrong).contains(wanted), "{wrong}: {}", error(wrong));
    }
}

#[test]
fn prepared_statements_take_values() {
    let planner = Planner::new();
    let statements = planner
        .parse("PREPARE p AS SELECT id FROM t WHERE k = $1 AND s = $2; EXECUTE p(1 + 1, 'a')")
        .expect("it works");
    let catalog = super::stub::stub();
    let Ok(Statement::Prepare { statement, .. }) = planner.plan(&statements[0], &catalog) else {
        panic!()
    };
    let Ok(Statement::Execute { name, parameters }) = planner.plan(&statements[1], &catalog) else {
        panic!()
    };
    assert_eq!(name, "p");
    let Ok(Statement::Query(query)) =
        planner.plan_with_parameters(&statement, &catalog, &parameters)
    else {
        panic!()
    };
    let text = query.plan.display_indent().to_string();
    assert!(text.contains(r#"full_filters=[t.k = Int32(2), t.s = Utf8View("a")]"#), "{text}");
    let error =
        planner.plan_with_parameters(&statement, &catalog, &parameters[..1]).expect_err("it fails");
    assert_eq!(error.message, "the parameter $2 has no value");
}

#[test]
fn texts_of_several_statements_know_their_places() {
    let planner = Planner::new();
    let text = "SELECT 1;; -- first\n  SELECT 'é;'  ;\nSET a = b";
    let statements = planner.parse(text).expect("it works");
    let parts: Vec<&str> = statements.iter().map(|s| s.sql()).collect();
    assert_eq!(parts, ["SELECT 1", "SELECT 'é;'", "SET a = b"]);
    assert_eq!(statements[1].span().start, (2, 3));
    assert!(statements[1].is_query() && !statements[2].is_query());
    let (statements, error) = planner.parse_script("SELECT 1; SELEC 2; SELECT 3");
    assert_eq!(statements.len(), 1);
    assert_eq!(error.expect("it works").span.expect("it works").start, (1, 11));
}
