//! The names of result columns.

use super::stub::{error, plan, query};
use thalweg_planner::Statement;

#[track_caller]
fn assert_names(sql: &str, names: &[&str]) {
    let query = query(sql);
    assert_eq!(query.names, names, "{sql}");
    assert_eq!(query.names.len(), query.plan.schema().fields().len(), "{sql}");
}

#[test]
fn names_are_aliases_columns_or_texts() {
    assert_names(
        "SELECT id, t.k, v AS \"V\", v AS W, sum(v) OVER (), 1 FROM t",
        &["id", "k", "V", "w", "sum(v) OVER ()", "1"],
    );
    assert_names("SELECT * FROM t, u", &["id", "k", "v", "s", "id", "k", "v", "s"]);
    assert_names(
        "SELECT 1 + 1, t.*, t.k + 1, u.s FROM t, u",
        &["1 + 1", "id", "k", "v", "s", "t.k + 1", "s"],
    );
    assert_names("SELECT k AS a FROM t UNION SELECT id FROM t ORDER BY 1", &["a"]);
    assert_names("VALUES (1, 2)", &["column1", "column2"]);
    assert_names("WITH c(x) AS (SELECT 1) SELECT * FROM c", &["x"]);
}

#[test]
fn equal_names_are_allowed() {
    assert_names("SELECT 1, 1", &["1", "1"]);
    assert_names("SELECT id, id FROM t", &["id", "id"]);
    assert_names("SELECT *, id FROM t", &["id", "k", "v", "s", "id"]);
    assert_names("SELECT 1 AS a, 2 AS a", &["a", "a"]);
    assert_names("SELECT x, y.x FROM (SELECT 1 AS x) y", &["x", "x"]);
    assert_names("SELECT a.id FROM (SELECT id, k, k FROM t) a", &["id"]);
}

#[test]
fn tables_and_views_take_the_names() {
    let Statement::CreateTable(table) =
        plan("CREATE TABLE x AS SELECT 1, 1, sum(v) FROM t").expect("it works")
    else {
        panic!()
    };
    let names: Vec<&str> = table.schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["1", "1_1", "sum(v)"]);
    let Statement::CreateView(view) =
        plan("CREATE VIEW x AS SELECT k, sum(v) FROM t GROUP BY k").expect("it works")
    else {
        panic!()
    };
    assert_eq!(view.schema.field(1).name(), "sum(v)");
    assert!(error("CREATE VIEW x AS SELECT 1, 1").contains("column 1 appears twice"));
}
