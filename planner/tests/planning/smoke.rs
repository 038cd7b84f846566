use super::stub::*;
#[test]
fn smoke() {
    for q in [
        "SELECT k, sum(v) FROM t WHERE s = 'x' GROUP BY k ORDER BY 2 DESC LIMIT 3",
        "SELECT x.a, count(*) FROM 'dir/data.parquet' x GROUP BY 1",
        "SELECT data.b FROM 'dir/data.parquet' WHERE a > 2",
        "SELECT * FROM \"a/b.csv\"",
        "SELECT * FROM big",
        "SELECT * FROM generate_series(1, 2+3)",
        "SELECT * FROM read_csv('x.csv') WHERE a = 1",
        "SELECT * FROM t ANTI JOIN u ON t.id = u.id ORDER BY ALL FETCH FIRST 2 ROWS ONLY",
        "WITH c AS (SELECT k, sum(v) AS total FROM t GROUP BY k) SELECT * FROM c a JOIN c b ON a.k = b.k + 1 WHERE a.k > 3 AND b.k < 9",
        "WITH c AS (SELECT k, sum(v) AS total, count(*) AS n FROM t GROUP BY k) SELECT a.total FROM c a WHERE k = 1 UNION ALL SELECT total FROM c WHERE k = 2",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT * FROM r a, r b WHERE a.n = b.n",
        "WITH c AS (SELECT * FROM t), d AS (WITH c AS (SELECT id FROM u) SELECT * FROM c) SELECT c.k, d.id FROM c, d",
        "SELECT id, EXISTS (SELECT 1 FROM u WHERE u.id = t.id) FROM t",
        "SELECT id FROM t WHERE v > (SELECT avg(v) FROM u)",
        "SELECT id, id IN (SELECT id FROM u) FROM t",
        "SELECT DISTINCT ON (k) k, v FROM t ORDER BY k, v",
        "SELECT id FROM t WHERE k > 3 OR id NOT IN (SELECT id FROM u)",
        "SELECT count(DISTINCT k), now() FROM t",
        "SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.id < t.id ORDER BY v LIMIT 1)",
        "SELECT (SELECT max(v) FROM u WHERE u.id < t.id) FROM t",
        "SELECT random() r FROM t",
        "WITH c AS (SELECT random() r FROM t) SELECT * FROM c a, c b",
        "SELECT id FROM t WHERE (id, k) IN (SELECT id, k FROM u)",
    ] {
        println!("---- {q}");
        match plan(q) {
            Ok(_) => println!("{}", text(q)),
            Err(e) => println!("ERR {}\n{e:?}", e.render(q)),
        }
    }
}
