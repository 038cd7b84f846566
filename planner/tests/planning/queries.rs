//! Queries: relations, filters and syntax that needs help from this crate.

use super::stub::{error, query, text};

/// Whether a plan's text has this line, indentation aside.
fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|l| l.trim() == line)
}

#[track_caller]
fn assert_lines(sql: &str, lines: &[&str]) {
    let text = text(sql);
    for line in lines {
        assert!(has_line(&text, line), "{sql}\nlacks {line}\n{text}");
    }
}

#[test]
fn filters_and_columns_reach_the_scan() {
    assert_lines(
        "SELECT k, sum(v) FROM t WHERE s = 'x' GROUP BY k ORDER BY 2 DESC LIMIT 3",
        &[
            "Sort: sum(t.v) DESC NULLS FIRST, fetch=3",
            r#"TableScan: t projection=[k, v], full_filters=[t.s = Utf8View("x")]"#,
        ],
    );
}

#[test]
fn dates_are_compared_with_dates_though_intervals_make_timestamps() {
    for (condition, filter) in [
        ("placed <= date '1998-12-01' - interval '90' day", "placed <= Date32(\"1998-09-02\")"),
        ("date '1998-12-01' + interval '1' hour > placed", "placed <= Date32(\"1998-12-01\")"),
        ("placed IN (date '2000-01-01' + interval '1' day)", "placed = Date32(\"2000-01-02\")"),
    ] {
        let text = text(&format!("SELECT o_id FROM orders WHERE {condition}"));
        assert!(text.contains(filter), "{condition}\n{text}");
        assert!(!text.contains("CAST("), "{condition}\n{text}");
    }
}

#[test]
fn paths_are_relations() {
    let scan = "TableScan: data projection=[b], full_filters=[data.a > Int64(2)]";
    assert_lines("SELECT b FROM 'dir/data.parquet' WHERE a > 2", &[scan]);
    assert_lines("SELECT data.b FROM 'dir/data.parquet' WHERE data.a > 2", &[scan]);
    assert_lines(
        "SELECT x.b FROM 'dir/data.parquet' AS x WHERE x.a > 2",
        &[scan, "SubqueryAlias: x"],
    );
    assert_lines(
        "SELECT x.b FROM 'a.csv' x JOIN 'b.csv' y ON x.a = y.a",
        &["Inner Join: x.a = y.a"],
    );
    assert_lines("SELECT * FROM \"dir/some.csv\"", &["TableScan: dir/some.csv projection=[a, b]"]);
    assert_lines(
        "SELECT * FROM read_csv('some.csv')",
        &["TableScan: read_csv() projection=[a, b]"],
    );
}

#[test]
fn table_functions_get_constants() {
    assert_lines(
        "SELECT * FROM generate_series(1, 2 + 3)",
        &["TableScan: generate_series() projection=[generate_series]"],
    );
    assert!(
        error("SELECT * FROM t, LATERAL generate_series(1, t.k)")
            .contains("the arguments must be constants")
    );
}

#[test]
fn views_are_planned_in_place() {
    assert_lines(
        "SELECT id FROM big WHERE id < 5",
        &["TableScan: t projection=[id], full_filters=[t.v > Float64(100), t.id < Int64(5)]"],
    );
    assert_lines(
        "SELECT w.id FROM whole AS w WHERE w.k = 1 AND w.v > 2",
        &["TableScan: t projection=[id], full_filters=[t.k = Int32(1), t.v > Float64(2)]"],
    );
    assert!(error("SELECT * FROM circle").starts_with("view circle refers to itself"));
}

#[test]
fn qualified_names_reach_the_catalog() {
    assert_lines(
        "SELECT s1.orders.o_id FROM s1.orders",
        &["TableScan: s1.orders projection=[o_id]"],
    );
}

#[test]
fn standard_syntax_is_read() {
    assert_lines(
        "SELECT id FROM t OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY",
        &["Limit: skip=2, fetch=3"],
    );
    assert_lines(
        "SELECT id FROM t FETCH FIRST ROW ONLY",
        &["TableScan: t projection=[id], fetch=1"],
    );
    assert_lines("SELECT * FROM t ANTI JOIN u ON t.id = u.id", &["LeftAnti Join: t.id = u.id"]);
    assert_lines("SELECT * FROM t SEMI JOIN u USING (id)", &["LeftSemi Join: Using t.id = u.id"]);
    assert_lines(
        "SELECT k, id FROM t ORDER BY ALL DESC",
        &["Sort: t.k DESC NULLS FIRST, t.id DESC NULLS FIRST"],
    );
    assert_lines(
        "SELECT k + 1, id FROM t UNION ALL SELECT 1, 2 ORDER BY ALL",
        &["Sort: t.k + Int64(1) ASC NULLS LAST, id ASC NULLS LAST"],
    );
    assert_lines(
        "SELECT DISTINCT k + 1 FROM t ORDER BY k + 1",
        &["Sort: t.k + Int64(1) ASC NULLS LAST"],
    );
    assert_lines("FROM t", &["TableScan: t projection=[id, k, v, s]"]);
    assert_lines("TABLE u", &["TableScan: u projection=[id, k, v, s]"]);
    assert_lines("SELECT 1_000 AS n", &["Projection: Int64(1000) AS n"]);
    assert_lines(
        "SELECT array_transform([k], x -> x + 1) FROM t",
        &["TableScan: t projection=[k]"],
    );
}

#[test]
fn distinct_on_has_its_functions() {
    let text = text("SELECT DISTINCT ON (k) k, v FROM t ORDER BY k, v");
    assert!(text.contains("first_value(t.v) ORDER BY"), "{text}");
}

#[test]
fn types_are_those_of_postgresql() {
    let query = query(
        "SELECT TIMESTAMP '2020-01-01 00:00:00' a, CAST(1 AS FLOAT) b, CAST(1 AS REAL) c, CAST('x' AS VARCHAR(3)) d",
    );
    let types: Vec<String> =
        query.plan.schema().fields().iter().map(|f| f.data_type().to_string()).collect();
    assert_eq!(types, ["Timestamp(µs)", "Float64", "Float32", "Utf8View"]);
}

#[test]
fn clock_functions_are_constants_of_the_statement() {
    let text = text("SELECT now() = now() AS same FROM t");
    assert!(has_line(&text, "Projection: Boolean(true) AS same"), "{text}");
}

#[test]
fn outer_joins_with_using_keep_the_rows_own_keys() {
    assert_lines(
        "SELECT * FROM u LEFT JOIN t USING (id)",
        &["Projection: u.id, u.k, u.v, u.s, t.k, t.v, t.s"],
    );
    assert_lines("SELECT id FROM t RIGHT JOIN u USING (id) ORDER BY id", &["Projection: u.id"]);
    let merged = "Projection: CASE WHEN t.id IS NOT NULL THEN t.id ELSE u.id END AS id, t.k, t.v, t.s, u.k, u.v, u.s";
    assert_lines("SELECT * FROM t FULL JOIN u USING (id)", &[merged]);
    assert!(error("SELECT * FROM t NATURAL FULL JOIN u").contains("not supported"));
    // Inside subqueries the merged name is not replaced: it must not be taken from one side in silence.
    assert!(
        error("SELECT 1 FROM t FULL JOIN u USING (id) WHERE EXISTS (SELECT 1 WHERE id = 2)")
            .contains("id")
    );
}
