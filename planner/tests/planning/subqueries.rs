//! Subqueries as conditions and as values.

use super::stub::{error, text};

#[test]
fn conditions_become_joins() {
    assert!(
        text("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id)")
            .contains("LeftSemi Join: t.id =")
    );
    assert!(
        text("SELECT id FROM t WHERE id NOT IN (SELECT id FROM u)")
            .contains("LeftAnti Join: t.id = __correlated_sq_1.id null_aware")
    );
    assert!(
        text("SELECT id FROM t WHERE k > 3 OR id IN (SELECT id FROM u)").contains("LeftMark Join")
    );
}

#[test]
fn uncorrelated_scalars_stay_expressions() {
    let text = text("SELECT id FROM t WHERE v > (SELECT avg(v) FROM u)");
    assert!(text.contains("Filter: t.v > (<subquery>)"), "{text}");
}

#[test]
fn exists_as_a_value_is_a_mark() {
    let text = text("SELECT id, EXISTS (SELECT 1 FROM u WHERE u.id = t.id) AS e FROM t");
    assert!(text.contains("Projection: t.id, __correlated_sq_1.mark AS e"), "{text}");
    let text = super::stub::text(
        "SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.id = t.id) THEN 1 ELSE 0 END) FROM t",
    );
    assert!(text.contains("LeftMark Join"), "{text}");
}

#[test]
fn in_as_a_value_has_three_values() {
    for sql in [
        "SELECT id IN (SELECT id FROM u) AS e FROM t",
        "SELECT id FROM t WHERE k > 3 OR id NOT IN (SELECT id FROM u)",
        "SELECT id FROM t WHERE (id IN (SELECT id FROM u)) IS NULL",
    ] {
        let text = text(sql);
        assert!(text.contains("count(u.id)") && text.contains("LeftMark Join"), "{sql}\n{text}");
    }
    let correlated = text("SELECT id IN (SELECT id FROM u WHERE u.k = t.k) AS e FROM t");
    assert_eq!(correlated.matches("LeftMark Join").count(), 2, "{correlated}");
}

#[test]
fn comparisons_with_all_rows_are_anti_joins() {
    let all = text("SELECT id FROM t WHERE v > ALL (SELECT v FROM u)");
    assert_eq!(all.matches("LeftAnti Join").count(), 2, "{all}");
    let any = text("SELECT id FROM t WHERE v > ANY (SELECT v FROM u)");
    assert!(any.contains("LeftSemi Join:  Filter: t.v > "), "{any}");
    let equal = text("SELECT id FROM t WHERE id = ANY (SELECT id FROM u)");
    assert!(equal.contains("LeftSemi Join: t.id ="), "{equal}");
    let value = text("SELECT v > ALL (SELECT v FROM u) FROM t");
    assert_eq!(value.matches("LeftMark Join").count(), 2, "{value}");
}

#[test]
fn equalities_inside_stand_for_the_outer_columns() {
    let first =
        text("SELECT id, (SELECT v FROM u WHERE u.id = t.id ORDER BY k LIMIT 1) AS v FROM t");
    assert_eq!(first.matches("TableScan: t").count(), 1, "{first}");
    assert!(first.contains("PARTITION BY [__outer_"), "{first}");
    assert!(first.contains("Left Join: t.id = __outer_"), "{first}");
}

#[test]
fn other_conditions_read_the_distinct_outer_values() {
    let sum = text("SELECT id, (SELECT sum(v) FROM u WHERE u.id < t.id) AS v FROM t");
    assert_eq!(sum.matches("TableScan: t").count(), 2, "the values are shared: {sum}");
    assert!(
        sum.contains("Left Join: t.id IS NOT DISTINCT FROM") || sum.contains("Left Join: t.id = ")
    );
}

#[test]
fn the_outer_query_is_shared_where_it_costs() {
    let sql = "SELECT g.n, (SELECT max(v) FROM u WHERE u.id < g.n) FROM
        (SELECT k, count(*) AS n FROM t GROUP BY k) AS g";
    let planned = super::stub::query(sql);
    let shared: Vec<&str> = planned.shared.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(shared, ["outer_rows", "common 1"], "{}", planned.plan.display_indent());
    assert!(!planned.plan.display_indent().to_string().contains("TableScan: t "));
}

#[test]
fn rows_are_compared_by_semi_and_anti_joins() {
    let one = text("SELECT id FROM t WHERE (id, k) IN (SELECT id, k FROM u)");
    assert_eq!(one.matches("LeftSemi Join: t.id = ").count(), 1, "{one}");
    assert!(!one.contains("CASE") && !one.contains("LeftMark"), "{one}");
    let none = text("SELECT id FROM t WHERE (id, k) NOT IN (SELECT id, k FROM u)");
    assert_eq!(none.matches("LeftAnti Join").count(), 2, "{none}");
}

#[test]
fn null_safe_keys_take_no_others() {
    let sql = "SELECT t.id FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.k WHERE t.id = u.id";
    let joined = text(sql);
    assert!(joined.contains("Join: t.id = u.id Filter: t.k IS NOT DISTINCT FROM u.k"), "{joined}");
}

#[test]
fn what_only_computes_is_no_join() {
    let lateral = text("SELECT id, d FROM t, LATERAL (SELECT v + 1 AS d) s WHERE d > 3");
    assert!(!lateral.contains("Join"), "{lateral}");
    let value = text("SELECT id, (SELECT t.v + 1) FROM t");
    assert!(!value.contains("Join"), "{value}");
}

#[test]
fn an_aggregate_of_all_rows_always_has_a_row() {
    let always = text("SELECT id FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.id = t.id)");
    assert!(!always.contains("Join") && !always.contains("Filter"), "{always}");
}

#[test]
fn what_cannot_be_joined_is_refused_with_its_place() {
    for sql in [
        "SELECT * FROM t LEFT JOIN u ON EXISTS (SELECT 1 FROM u w WHERE w.id = t.id AND w.k = u.k)",
        "SELECT id, (SELECT max(s) FROM (SELECT sum(v) AS s FROM u WHERE u.id < t.id GROUP BY ROLLUP (k)) g) FROM t",
    ] {
        let error = error(sql);
        assert!(error.contains("not supported"), "{sql}: {error}");
        assert!(error.contains("LINE 1"), "{sql}: {error}");
    }
}
