use super::stub::*;
#[test]
fn smoke() {
    for q in [
        "SELECT * FROM t WHERE id = 'abc'", "SELECT * FROM circle", "SELECT * FROM 'missing.csv'", "SELECT v > ALL (SELECT v FROM u) FROM t", "SELECT cast(300 as tinyint)",
        "EXPLAIN SELECT 1", "EXPLAIN (FORMAT JSON) SELECT 1", "EXPLAIN (ANALYZE, FORMAT JSON) SELECT 1", "EXPLAIN ANALYZE FORMAT JSON SELECT 1", "EXPLAIN (SELECT 1)", "EXPLAIN VERBOSE SELECT 1", "EXPLAIN INSERT INTO t SELECT * FROM u",
        "SET threads = 4", "SET execution.runtime_mode = 'batch'", "SET buffer_timeout = '100 ms'", "SET buffer_timeout TO 100 ms", "SET memory_limit=512MB", "SET \"a.b\" = on", "SET 'optimizer.hash_join' = off", "SET x = -1.5", "SET x = DEFAULT", "SET TIME ZONE 'Europe/Berlin'", "SET csv.ignore-errors = true",
        "RESET threads", "RESET ALL", "RESET", "RESET optimizer.hash_join", "SHOW ALL", "SHOW TABLES", "SHOW threads", "SHOW optimizer.hash_join", "SHOW COLUMNS FROM t", "SHOW CREATE TABLE t", "SHOW FUNCTIONS",
        "DESCRIBE t", "DESC 'x.csv'", "DESCRIBE SELECT id, v+1 AS w FROM t", "DESCRIBE big",
        "CREATE VIEW w AS SELECT id FROM t", "CREATE OR REPLACE TEMP VIEW w (a, b) AS SELECT id, (SELECT 1 AS x) FROM t -- c\n", "CREATE TABLE x AS SELECT id, v FROM t", "CREATE TABLE x (a INT NOT NULL, b VARCHAR DEFAULT 'q', c TIMESTAMP, d DECIMAL(10,2), PRIMARY KEY (a))", "CREATE TEMPORARY TABLE IF NOT EXISTS x (a INT PRIMARY KEY)",
        "CREATE TABLE x (a BIGINT, b FLOAT) AS SELECT k, v FROM t",
        "CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION 'a/*.parquet'", "CREATE OR REPLACE EXTERNAL TABLE IF NOT EXISTS x (a INT, b TEXT) STORED AS CSV PARTITIONED BY (y, m) LOCATION ('a', 'b') OPTIONS ('csv.header' 'true', csv.delimiter ';')",
        "CREATE TABLE x (a INT, b TIMESTAMP(3), PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '/tmp/x', 'format' = 'csv', 'csv.header' = 'true')", "CREATE TABLE x (a INT, b INT) PARTITIONED BY (b) WITH ('connector' = 'filesystem', 'path' = '/tmp/x')",
        "CREATE TABLE x WITH ('connector' = 'filesystem', 'path' = 'p', 'format' = 'parquet')",
        "INSERT INTO t (id, s) SELECT k, 'x' FROM u", "INSERT INTO t VALUES (1, 2, 3, 'a'), (2, 3, 4.5, NULL)", "INSERT OVERWRITE t SELECT * FROM u", "INSERT INTO t WITH c AS (SELECT k, count(*) n FROM u GROUP BY k) SELECT a.n, a.k, 1, 'a' FROM c a JOIN c b ON a.k = b.k", "INSERT OVERWRITE INTO t SELECT * FROM u",
        "COPY t TO 'x.parquet'", "COPY (SELECT 1 AS a) TO 'x' (FORMAT parquet, PARTITION_BY (a), compression zstd, row_group_size 100, header)", "COPY t TO 'x' STORED AS CSV PARTITIONED BY (k) OPTIONS ('csv.header' 'true')", "COPY t TO 'x' WITH (FORMAT csv)", "COPY t TO 'x' (FORMAT csv, PARTITION_BY kk)",
        "DROP TABLE IF EXISTS a, s.b", "DROP VIEW big", "DROP SCHEMA s", "CREATE SCHEMA IF NOT EXISTS s", "PREPARE p AS SELECT $1 + id FROM t", "EXECUTE p(1, 'a')", "DEALLOCATE p", "DEALLOCATE ALL",
        "SELECT x -> x + 1", "SELECT array_transform([1,2], x -> x + 1)", "SELECT [1,2][1], {'a': 1}, MAP {'k': 1}", "VALUES (1, 'a'), (2, 'b')", "TABLE t", "FROM t", "FROM t SELECT id", "SELECT * EXCLUDE (k) FROM t", "SELECT k, count(*) FROM t GROUP BY ALL", "SELECT k, rank() OVER (PARTITION BY k ORDER BY v) r FROM t QUALIFY r = 1",
        "SELECT 1_000, 1e3, 1.5", "SELECT id FROM t LIMIT 5 OFFSET 2", "SELECT id FROM t OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY", "SELECT * FROM t NATURAL JOIN u", "SELECT * FROM t FULL JOIN u USING (id)", "SELECT k, GROUPING(k), sum(v) FROM t GROUP BY ROLLUP (k, s)",
        "SELECT interval '1 day' + date '2020-01-01', '2020-01-01'::date, extract(year from placed) FROM orders", "SELECT s LIKE 'a%', s ILIKE 'b', s SIMILAR TO 'c', s ~ 'x', position('a' in s), substring(s from 1 for 2), trim(both 'x' from s), s || 'x' FROM t",
        "SELECT * FROM (VALUES (1, 'a')) AS v(x, y)", "SELECT * FROM unnest([1,2,3]) AS x(n)", "SELECT x, y.x FROM (SELECT 1 AS x) y", "SELECT * FROM t WHERE (id, k) = (1, 2)", "SELECT * FROM a.b.c.d", "SELECT information_schema.tables.x FROM information_schema.tables",
        "BEGIN", "COMMIT", "USE x", "TRUNCATE t", "CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1", "CREATE INDEX i ON t (id)", "SELECT * FROM t WINDOW w AS (PARTITION BY k)", "SELECT sum(v) OVER w FROM t WINDOW w AS (ORDER BY k)", "SELECT id FROM t UNION ALL SELECT k FROM u INTERSECT SELECT id FROM t", "SELECT DISTINCT k FROM t ORDER BY v",
        "SELECT count(*) FILTER (WHERE v > 1), array_agg(id ORDER BY v), string_agg(s, ','), percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM t", "SELECT now(), current_date, current_timestamp", "SELECT DATE_TRUNC('month', placed) FROM orders", "SELECT CASE k WHEN 1 THEN 'a' ELSE s END, coalesce(s, 'x'), nullif(k, 1), greatest(k, 2) FROM t",
    ] {
        println!("---- {q}");
        match plan(q) {
            Ok(thalweg_planner::Statement::Query(_)) => println!("{}", text(q)),
            Ok(s) => println!("{}", format!("{s:?}").chars().take(600).collect::<String>()), Err(e) => println!("{:?}: {}", e.kind, e.render(q)) }
    }
}
