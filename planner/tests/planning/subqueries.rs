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
fn what_cannot_be_joined_is_refused() {
    for sql in [
        "SELECT v > ALL (SELECT v FROM u) FROM t",
        "SELECT (SELECT max(v) FROM u WHERE u.id < t.id) FROM t",
        "SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.id < t.id ORDER BY v LIMIT 1)",
        "SELECT id FROM t WHERE v = (SELECT v FROM u WHERE u.id = t.id LIMIT 1)",
    ] {
        assert!(error(sql).contains("not supported"), "{sql}");
    }
}
