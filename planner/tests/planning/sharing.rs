//! CTEs: scopes, sharing, and what readers push into a shared plan.

use super::stub::{error, query, text};

fn shared_names(sql: &str) -> Vec<String> {
    query(sql).shared.into_iter().map(|s| s.name).collect()
}

#[test]
fn a_cte_with_work_is_shared_when_read_twice() {
    let grouped = "WITH c AS (SELECT k, sum(v) AS total FROM t GROUP BY k)";
    assert_eq!(shared_names(&format!("{grouped} SELECT * FROM c a JOIN c b ON a.k = b.k")), ["c"]);
    assert!(shared_names(&format!("{grouped} SELECT * FROM c")).is_empty());
    assert_eq!(
        shared_names(&format!(
            "{grouped} SELECT * FROM t WHERE v > (SELECT max(total) FROM c) OR k IN (SELECT k FROM c)"
        )),
        ["c"]
    );
}

#[test]
fn cheap_ctes_are_inlined() {
    assert!(
        shared_names("WITH c AS (SELECT k FROM t WHERE v > 1) SELECT * FROM c a, c b").is_empty()
    );
    assert!(shared_names("WITH c AS (VALUES (1), (2)) SELECT * FROM c a, c b").is_empty());
}

#[test]
fn volatile_ctes_are_shared() {
    assert_eq!(
        shared_names("WITH c AS (SELECT random() AS r FROM t) SELECT * FROM c a, c b"),
        ["c"]
    );
}

#[test]
fn materialization_is_obeyed() {
    assert_eq!(shared_names("WITH c AS MATERIALIZED (SELECT k FROM t) SELECT * FROM c"), ["c"]);
    let sql = "WITH c AS NOT MATERIALIZED (SELECT k, count(*) n FROM t GROUP BY k) SELECT * FROM c a, c b";
    assert!(shared_names(sql).is_empty());
}

#[test]
fn equal_groupings_are_one_plan() {
    let grouped = |condition: &str| {
        format!("(SELECT k, sum(v) AS total FROM t WHERE {condition} GROUP BY k)")
    };
    let joined = |a: &str, b: &str| {
        format!("SELECT * FROM {} a JOIN {} b ON a.k = b.k", grouped(a), grouped(b))
    };
    assert_eq!(shared_names(&joined("v > 1", "v > 1")).len(), 1);
    assert!(shared_names(&joined("v > 1", "v > 2")).is_empty());
    assert!(shared_names(&joined("random() > 0.5", "random() > 0.5")).is_empty());
    // The inner grouping is part of the outer one that is read twice.
    let nested = format!("(SELECT max(total) AS m FROM {} x)", grouped("v > 1"));
    assert_eq!(shared_names(&format!("SELECT * FROM {nested} a, {nested} b")).len(), 1);
    let text = text(&joined("v > 1", "v > 1"));
    assert_eq!(text.matches("Aggregate:").count(), 1, "{text}");
}

#[test]
fn readers_narrow_columns_and_rows() {
    let text = text(
        "WITH c AS (SELECT k, sum(v) AS total, count(*) AS n FROM t GROUP BY k)
         SELECT total FROM c WHERE k = 1 UNION ALL SELECT total FROM c WHERE k = 2",
    );
    assert!(text.contains("full_filters=[t.k = Int32(1) OR t.k = Int32(2)]"), "{text}");
    assert!(!text.contains("count("), "{text}");
    assert!(
        text.contains("TableScan: c projection=[total], full_filters=[c.k = Int32(2)]"),
        "{text}"
    );
}

#[test]
fn what_all_readers_imply_for_a_key_goes_below_the_grouping() {
    let text = text(
        "WITH c AS (SELECT k, sum(v) AS total FROM t GROUP BY k)
         SELECT a.total FROM c a JOIN c b ON a.k + 1 = b.k WHERE a.k = 1 AND a.total > 0 AND b.k = 2",
    );
    assert!(text.contains("full_filters=[t.k = Int32(1) OR t.k = Int32(2)]"), "{text}");
}

#[test]
fn one_reader_of_all_rows_keeps_them() {
    let text = text(
        "WITH c AS (SELECT k, sum(v) AS total FROM t GROUP BY k)
         SELECT total FROM c WHERE k = 1 UNION ALL SELECT total FROM c",
    );
    assert!(text.contains("TableScan: t projection=[k, v]\n"), "{text}");
}

#[test]
fn shared_plans_read_earlier_ones() {
    let sql = "WITH a AS (SELECT k, sum(v) AS x FROM t GROUP BY k), b AS (SELECT k, max(x) AS y FROM a GROUP BY k)
               SELECT * FROM a JOIN b ON a.k = b.k JOIN b c ON b.y = c.y WHERE a.k > 5 AND b.k > 5 AND c.k > 5";
    assert_eq!(shared_names(sql), ["a", "b"]);
    assert!(
        text(sql).contains("TableScan: t projection=[k, v], full_filters=[t.k > Int32(5)]"),
        "{}",
        text(sql)
    );
}

#[test]
fn unread_shared_plans_are_dropped() {
    let sql =
        "WITH a AS (SELECT k, sum(v) AS x FROM t GROUP BY k), b AS (SELECT * FROM a, a c) SELECT 1";
    assert!(shared_names(sql).is_empty());
}

#[test]
fn inner_names_shadow_outer_ones() {
    let text = text(
        "WITH c AS (SELECT k FROM t), d AS (WITH c AS (SELECT id FROM u) SELECT * FROM c) SELECT c.k, d.id FROM c, d",
    );
    assert!(
        text.contains("TableScan: t projection=[k]")
            && text.contains("TableScan: u projection=[id]"),
        "{text}"
    );
    // In its own body the name means the table.
    assert!(
        query("WITH t AS (SELECT id FROM t) SELECT * FROM t").plan.schema().fields().len() == 1
    );
    assert!(
        error("WITH c AS (SELECT 1), c AS (SELECT 2) SELECT * FROM c")
            .starts_with("WITH defines c twice")
    );
    assert!(
        error("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a")
            .contains("table b does not exist")
    );
}

#[test]
fn column_names_of_ctes_survive_sharing() {
    let query = query(
        "WITH c(x, y) AS (SELECT k, count(*) FROM t GROUP BY k) SELECT a.x, b.y FROM c a, c b WHERE a.x = b.x",
    );
    assert_eq!(query.names, ["x", "y"]);
    assert_eq!(query.shared[0].plan.schema().field(0).name(), "x");
}

#[test]
fn recursion_is_planned_and_shared() {
    let text = text(
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT * FROM r a, r b WHERE a.n = b.n",
    );
    assert!(
        text.starts_with("shared 0 r:") && text.contains("RecursiveQuery: is_distinct=false"),
        "{text}"
    );
    // RECURSIVE changes nothing for a CTE that does not refer to itself.
    assert!(shared_names("WITH RECURSIVE c AS (SELECT 1 AS a) SELECT * FROM c").is_empty());
}

#[test]
fn correlated_ctes_stay_in_place() {
    // Not shared, for it depends on the outer row.
    let sql = "SELECT id FROM t WHERE EXISTS (
                 WITH c AS (SELECT u.k, count(*) n FROM u WHERE u.id = t.id GROUP BY u.k) SELECT 1 FROM c a, c b)";
    let query = query(sql);
    assert!(query.shared.is_empty(), "{}", query.plan.display_indent());
}

#[test]
fn shared_plans_of_views_and_inserts_count_too() {
    let sql = "INSERT INTO t WITH c AS (SELECT k, count(*) n FROM u GROUP BY k) SELECT a.n, a.k, 1, 'a' FROM c a JOIN c b ON a.k = b.k";
    match super::stub::plan(sql).expect("it works") {
        thalweg_planner::Statement::Insert(insert) => assert_eq!(insert.input.shared.len(), 1),
        other => panic!("{other:?}"),
    }
}
