//! The types of quotients and means of decimals, and of decimals that meet doubles.

use arrow::datatypes::DataType;
use thalweg_planner::{QueryPlan, Statement};

use super::stub::{plan_in, stub, table};

fn query(sql: &str) -> QueryPlan {
    let mut catalog = stub();
    let columns = [
        ("n", DataType::Int64),
        ("price", DataType::Decimal128(15, 2)),
        ("small", DataType::Decimal128(4, 3)),
        ("ratio", DataType::Float64),
        ("wide", DataType::Decimal256(50, 2)),
    ];
    catalog.tables.insert("m".to_string(), table(&columns));
    match plan_in(sql, &catalog) {
        Ok(Statement::Query(query)) => query,
        Ok(other) => panic!("not a query: {other:?}"),
        Err(error) => panic!("{}", error.render(sql)),
    }
}

#[track_caller]
fn assert_type(expr: &str, wanted: &DataType) {
    let sql = format!("SELECT {expr} FROM m");
    let query = query(&sql);
    assert_eq!(query.plan.schema().field(0).data_type(), wanted, "{sql}");
}

#[track_caller]
fn assert_filter(condition: &str, wanted: &str) {
    let text =
        query(&format!("SELECT n FROM m WHERE {condition}")).plan.display_indent().to_string();
    assert!(text.contains(wanted), "{condition}\nlacks {wanted}\n{text}");
}

#[test]
fn quotients_with_a_decimal_are_doubles() {
    for expr in ["price / small", "price / n", "n / price", "price / NULL", "wide / 2"] {
        assert_type(expr, &DataType::Float64);
    }
    assert_type("n / 2", &DataType::Int64);
    assert_type("price / ratio", &DataType::Float64);
    assert_type("price * n", &DataType::Decimal128(36, 2));
}

#[test]
fn quotients_keep_their_names_and_group() {
    let grouped = query("SELECT price / n, count(*) FROM m GROUP BY price / n ORDER BY price / n");
    assert_eq!(grouped.names[0], "price / n");
    let sql = "SELECT x.q, (SELECT max(t.v) FROM t WHERE t.v = x.q) FROM (SELECT price / n AS q FROM m) x";
    assert_eq!(query(sql).plan.schema().field(0).data_type(), &DataType::Float64);
}

#[test]
fn means_of_decimals_are_doubles() {
    for expr in [
        "avg(price)",
        "mean(price)",
        "avg(wide)",
        "avg(DISTINCT price)",
        "avg(price) FILTER (WHERE n > 1)",
        "avg(price) OVER (PARTITION BY n)",
        "avg(sum(price)) OVER ()",
        "avg(n)",
    ] {
        assert_type(expr, &DataType::Float64);
    }
    assert_type("sum(price)", &DataType::Decimal128(25, 2));
}

#[test]
fn decimals_meet_doubles_as_doubles() {
    assert_filter("price < ratio", "CAST(m.price AS Float64) < m.ratio");
    assert_filter(
        "ratio IS DISTINCT FROM small",
        "m.ratio IS DISTINCT FROM CAST(m.small AS Float64)",
    );
    assert_filter("price = 1e300", "CAST(m.price AS Float64) = Float64(1000");
    assert_filter("price IN (ratio, small)", "CAST(m.price AS Float64)");
    for expr in ["coalesce(price, ratio)", "CASE WHEN n > 1 THEN price ELSE ratio END"] {
        assert_type(expr, &DataType::Float64);
    }
    let union = query("SELECT price FROM m UNION ALL SELECT ratio FROM m");
    assert_eq!(union.plan.schema().field(0).data_type(), &DataType::Float64);
    assert_eq!(union.plan.schema().field(0).name(), "price");
    for sql in [
        "SELECT n FROM m WHERE price IN (SELECT v FROM t)",
        "SELECT id FROM t WHERE v IN (SELECT price FROM m)",
        "SELECT id FROM t JOIN m ON v = price",
        "SELECT price FROM m INTERSECT SELECT ratio FROM m",
        "SELECT n FROM m WHERE price > (SELECT avg(small) FROM m)",
    ] {
        let text = query(sql).plan.display_indent().to_string();
        assert!(text.contains("AS Float64"), "{sql}\n{text}");
        assert!(!text.contains("Decimal128(30, 15)"), "{sql}\n{text}");
    }
}

#[test]
fn constants_beside_decimals_are_what_was_written() {
    assert_filter("price = 0.06", r#"m.price = Decimal128(0.06,15,2)"#);
    assert_filter("price < 0.1 + 0.2", r#"m.price < Decimal128(0.30,15,2)"#);
    assert_filter("price BETWEEN 0.06 - 0.01 AND 0.06 + 0.01", r#"Decimal128(0.05,15,2)"#);
    assert_filter("price IN (1.5, 2.5, ratio * 0)", "CAST(m.price AS Float64)");
    assert_type("CASE WHEN n > 1 THEN price ELSE 0.0 END", &DataType::Decimal128(15, 2));
    assert_type("coalesce(price, 0.0)", &DataType::Decimal128(15, 2));
    assert_filter("price < 0.5::double", "CAST(m.price AS Float64) < Float64(0.5)");
}
