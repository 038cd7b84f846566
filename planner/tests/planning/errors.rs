//! Errors: message, place and suggestion.

use super::stub::error;
use thalweg_planner::{ErrorKind, HintScope, Planner};

/// Message, the text over the carets, and the hint.
#[track_caller]
pub fn parts(sql: &str) -> (String, Option<String>, Option<String>) {
    let text = error(sql);
    let mut lines = text.lines();
    let message = lines.next().expect("it works").to_string();
    let all: Vec<&str> = lines.collect();
    let place = all.first().filter(|line| line.starts_with("LINE ")).map(|line| {
        let carets = all[1];
        let from = carets.chars().take_while(|c| *c == ' ').count();
        let width = carets.trim().chars().count();
        line.chars().skip(from).take(width).collect()
    });
    let hint = all.iter().find_map(|line| line.strip_prefix("HINT: ")).map(str::to_string);
    (message, place, hint)
}

#[track_caller]
pub fn assert_error(sql: &str, message: &str, place: &str, hint: Option<&str>) {
    let (m, p, h) = parts(sql);
    assert_eq!((m.as_str(), p.as_deref(), h.as_deref()), (message, Some(place), hint), "{sql}");
}

#[test]
fn syntax_errors_have_a_place() {
    assert_error(
        "SELEC 1",
        "expected an SQL statement, found SELEC",
        "SELEC",
        Some("did you mean \"SELECT\"?"),
    );
    assert_error("SELECT 1; SELECT 2 2 2", "expected end of statement, found 2", "2", None);
    assert_eq!(parts("SELECT (1").0, "expected ), but the text ends here");
    assert_eq!(parts("SELECT 'abc").0, "unterminated string literal");
    assert_error("EXPLAIN (FORMAT XML) SELECT 1", "expected TEXT or JSON, found XML", "XML", None);
}

#[test]
fn misspelt_keywords_get_suggestions() {
    for (sql, keyword) in [
        ("SELECT id fro t", "FROM"),
        ("SELECT * fro t", "FROM"),
        ("SELECT id FROM t oder BY id", "ORDER"),
        ("SELECT id FROM t gruop BY id", "GROUP"),
        ("SELECT id FROM t wehre id = 1", "WHERE"),
        ("creat TABLE x (a INT)", "CREATE"),
    ] {
        let hint = parts(sql).2.unwrap_or_default();
        assert!(hint.starts_with(&format!("did you mean \"{keyword}\"")), "{sql}: {hint}");
    }
    assert_eq!(parts("SELECT id FROM t b c").2, None);
}

#[test]
fn what_is_not_supported_is_called_so() {
    assert_eq!(
        parts("SELECT * FROM t ASOF JOIN t AS u ON t.id = u.id").0,
        "an ASOF join has one comparison of times by >=, >, <= or <, and this one has 0"
    );
    let sql = "SELECT sum(v) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t";
    assert_eq!(parts(sql).0, "EXCLUDE in a window frame is not supported");
}

#[test]
fn an_alias_may_be_called_like_a_column() {
    assert_error(
        "SELECT v.idd FROM t AS v JOIN t AS w ON v.id = w.id",
        "column v.idd does not exist",
        "v.idd",
        Some("did you mean \"id\"?"),
    );
}

#[test]
fn limits_have_a_place() {
    let (message, place, _) = parts("SELECT id FROM t LIMIT -1");
    assert!(message.starts_with("LIMIT "), "{message}");
    assert_eq!(place.as_deref(), Some("LIMIT"));
}

#[test]
fn misspelt_names_get_suggestions() {
    let did = |name: &str| format!("did you mean \"{name}\"?");
    assert_error(
        "SELECT * FROM ordes",
        "table ordes does not exist",
        "ordes",
        Some(&did("orders")),
    );
    assert_error(
        "SELECT * FROM s1.ordes",
        "table s1.ordes does not exist",
        "s1.ordes",
        Some(&did("s1.orders")),
    );
    assert_error("SELECT idd FROM t", "column idd does not exist", "idd", Some(&did("id")));
    assert_error("SELECT t.idd FROM t", "column t.idd does not exist", "t.idd", Some(&did("id")));
    assert_error(
        "SELECT summ(v) FROM t",
        "function summ does not exist",
        "summ",
        Some(&did("sum")),
    );
    assert_error(
        "SELECT * FROM t JOIN u USING (idd)",
        "column idd does not exist",
        "idd",
        Some(&did("id")),
    );
    assert_error("SELECT id FROM t ORDER BY zz", "column zz does not exist", "zz", None);
    assert_error(
        "SELECT * FROM generate_serie(1, 2)",
        "table function generate_serie does not exist",
        "generate_serie",
        Some(&did("generate_series")),
    );
    assert_error(
        "SELECT /*+ BROADCST(t) */ * FROM t",
        "unknown hint BROADCST",
        "/*+ BROADCST(t) */",
        Some(&did("BROADCAST")),
    );
    assert_error(
        "SELECT x.id FROM t",
        "there is no table or alias x in this part of the query",
        "x.id",
        None,
    );
}

#[test]
fn ambiguity_and_types() {
    assert_error(
        "SELECT id FROM t, u",
        "column id is ambiguous",
        "id",
        Some("write the table or alias before it"),
    );
    assert_error(
        "SELECT sum(s) FROM t",
        "no function matches sum(VARCHAR)",
        "sum",
        Some("a CAST of an argument may help"),
    );
    assert_error(
        "SELECT * FROM t WHERE id = 'abc'",
        "cannot cast string 'abc' to value of BIGINT type",
        "'abc'",
        None,
    );
    assert!(error("SELECT 9223372036854775807 + 1").starts_with("integer out of range"));
    assert!(
        error("SELECT id FROM t WHERE k > 1 + 9223372036854775807")
            .starts_with("integer out of range")
    );
}

#[test]
fn what_would_be_dropped_is_refused() {
    let refused = |sql: &str, what: &str, place: &str| {
        let (message, found, _) = parts(sql);
        assert_eq!(
            (message, found.as_deref()),
            (format!("{what} is not supported"), Some(place)),
            "{sql}"
        );
    };
    refused("SELECT * FROM t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE", "t");
    refused("SELECT * FROM t FOR SYSTEM_TIME AS OF '2020-01-01'", "FOR SYSTEM_TIME AS OF", "t");
    refused("SELECT TOP 3 * FROM t", "TOP (write LIMIT)", "SELECT");
    refused(
        "SELECT * FROM t WHERE id /*+ OPTIONS('x'='y') */ = 1",
        "a hint at this place",
        "/*+ OPTIONS('x'='y') */",
    );
    refused("SELECT * FROM t /*+ BROADCAST(t) */", "a hint at this place", "/*+ BROADCAST(t) */");
    refused(
        "SELECT /*+ OPTIONS('buffer_timeout'='0') */ id FROM t UNION ALL SELECT id FROM u",
        "OPTIONS for a query without a name",
        "/*+ OPTIONS('buffer_timeout'='0') */",
    );
    for sql in [
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM (SELECT * FROM t FOR UPDATE) x",
        "SELECT * FROM t PIVOT (sum(v) FOR k IN (1, 2))",
        "SELECT * FROM t WITH (NOLOCK)",
        "SELECT * FROM t CROSS APPLY u",
        "SELECT id INTO x FROM t",
        "INSERT INTO t SELECT * FROM u TABLESAMPLE BERNOULLI (1)",
        "CREATE VIEW w AS SELECT * FROM t TABLESAMPLE BERNOULLI (1)",
        "CREATE TABLE x AS SELECT * FROM t TABLESAMPLE BERNOULLI (1)",
        "CREATE TABLE x (a INT) PARTITION BY (a)",
        "ALTER TABLE t ADD COLUMN z INT",
        "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE",
        "BEGIN",
    ] {
        assert!(error(sql).contains("not supported"), "{sql}: {}", error(sql));
    }
}

#[test]
fn hints_that_would_do_nothing_are_refused() {
    assert_error(
        "SELECT /*+ BROADCAST(tt) */ t.id FROM t",
        "the hint BROADCAST names tt, which the query does not read",
        "/*+ BROADCAST(tt) */",
        Some("did you mean \"t\"?"),
    );
    assert_error(
        "SELECT /*+ LEADING(t u) */ t.id FROM t",
        "the hint LEADING is not supported",
        "/*+ LEADING(t u) */",
        Some("the hints that work are BROADCAST, SHUFFLE_HASH, SHUFFLE_MERGE, NEST_LOOP, OPTIONS"),
    );
    assert_error(
        "SELECT /*+ BROADCAST */ id FROM t",
        "the hint BROADCAST names no relation",
        "/*+ BROADCAST */",
        Some("write BROADCAST(relation)"),
    );
    assert_error(
        "CREATE VIEW w AS SELECT /*+ BROADCAST(t) */ id FROM t",
        "the hint BROADCAST in a statement of this kind is not supported",
        "/*+ BROADCAST(t) */",
        Some("hints work where the statement itself runs a query"),
    );
}

#[test]
fn hints_are_collected_with_their_block() {
    let planner = Planner::new();
    let sql = "SELECT /*+ BROADCAST(a), LEADING((a b) c) */ * FROM (SELECT /*+ rows(a #10) */ id FROM t) a";
    let statements = planner.parse(sql).expect("it works");
    let hints: Vec<(&str, &str, &HintScope)> = statements[0]
        .hints()
        .iter()
        .map(|h| (h.name.as_str(), h.arguments.as_str(), &h.scope))
        .collect();
    let (outer, inner) = (HintScope::Query, HintScope::Block("a".to_string()));
    let wanted =
        [("BROADCAST", "a", &outer), ("LEADING", "(a b) c", &outer), ("ROWS", "a #10", &inner)];
    assert_eq!(hints, wanted);
}

#[test]
fn options_are_read_or_refused_with_their_place() {
    let query = super::stub::query(
        "SELECT * FROM t /*+ OPTIONS('BUFFER_TIMEOUT' = '100 ms', 'buffer_timeout'='0') */ x",
    );
    let options: Vec<(&str, &str)> =
        query.options.iter().map(|o| (o.key.as_str(), o.value.as_str())).collect();
    assert_eq!(options, [("buffer_timeout", "100 ms"), ("buffer_timeout", "0")]);
    assert!(query.options.iter().all(|o| o.scope == HintScope::Table("x".to_string())));
    assert_error(
        "SELECT * FROM t /*+ OPTIONS('bufer_timeout'='0') */",
        "unknown option \"bufer_timeout\" of the hint OPTIONS",
        "/*+ OPTIONS('bufer_timeout'='0') */",
        Some("did you mean \"buffer_timeout\"?"),
    );
    for arguments in
        ["", "()", "('buffer_timeout')", "('buffer_timeout'='0' 'x')", "(buffer_timeout=0)"]
    {
        let comment = format!("/*+ OPTIONS{arguments} */");
        assert_error(
            &format!("SELECT {comment} * FROM t"),
            "cannot read the options of the hint OPTIONS",
            &comment,
            Some("write OPTIONS('buffer_timeout' = '0')"),
        );
    }
}

#[test]
fn missing_files_are_found_in_the_text() {
    assert_error(
        "SELECT * FROM 'missing.csv'",
        "no file matches missing.csv",
        "'missing.csv'",
        None,
    );
}

#[test]
fn kinds_tell_what_went_wrong() {
    let kind = |sql: &str| super::stub::plan(sql).expect_err("it fails").kind;
    assert_eq!(kind("SELEC"), ErrorKind::Syntax);
    assert_eq!(kind("SELECT nope FROM t"), ErrorKind::Name);
    assert_eq!(kind("SELECT s + v FROM t"), ErrorKind::Type);
    assert_eq!(
        kind("MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE"),
        ErrorKind::NotSupported
    );
}
