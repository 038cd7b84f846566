use super::stub::*;
#[test]
fn smoke() {
    for q in [
        "SELECT 1, 1", "SELECT id, id, sum(v) OVER (), count(*) over () FROM t", "SELECT *, id, v + 1 FROM t", "SELECT x, y.x FROM (SELECT 1 AS x) y", "SELECT 1 AS a, 2 AS a", "SELECT t.id, u.id FROM t, u", "SELECT * FROM t, u",
        "SELECT k, SUM(v), count(*) FROM t GROUP BY k ORDER BY SUM(v)", "SELECT DISTINCT k + 1 FROM t ORDER BY k + 1", "CREATE TABLE x AS SELECT 1, 1, sum(v) FROM t", "CREATE VIEW x AS SELECT 1, 1", "CREATE VIEW x AS SELECT k, sum(v) FROM t GROUP BY k",
        "FROM t", "TABLE t", "SELECT x -> x + 1", "INSERT INTO t SELECT 1, 1, 1, 'a'",
        "SELECT * FROM u LEFT JOIN t USING (id)", "SELECT id, u.k FROM u LEFT JOIN t USING (id) WHERE t.id IS NULL", "SELECT * FROM t RIGHT JOIN u USING (id) WHERE id > 1 ORDER BY id", "SELECT id, count(*) FROM t FULL JOIN u USING (id) GROUP BY id ORDER BY id", "SELECT * FROM t FULL JOIN u USING (id)", "SELECT * FROM t NATURAL LEFT JOIN u", "SELECT id FROM t NATURAL FULL JOIN u", "SELECT * FROM t a LEFT JOIN u b USING (id) LEFT JOIN t c USING (id)",
        "SELECT * FROM (SELECT id FROM t) LEFT JOIN u USING (id)",
        "WITH c AS (SELECT k, sum(v) s FROM t GROUP BY k) SELECT 1, 1, a.s FROM c a JOIN c b ON a.k = b.k",
        "COPY t TO 'x' (FORMAT csv, PARTITION_BY kk)",
    ] {
        println!("---- {q}");
        match plan(q) {
            Ok(thalweg_planner::Statement::Query(p)) => println!("{:?}\n{}", p.names, text(q)),
            Ok(s) => println!("{}", format!("{s:?}").chars().take(600).collect::<String>()), Err(e) => println!("{:?}: {}", e.kind, e.render(q)) }
    }
}
