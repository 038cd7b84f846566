//! Windows as keys of GROUP BY: what they become, and what is refused.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_expr::{Expr, TableSource};
use thalweg_planner::{Catalog, Result, Statement, TableName, ViewDefinition};

use super::stub::{Stub, plan_in, stub, table};

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The stub with a table `cars` whose column `at` tells when its rows happened, a view of it and a plain table of times.
struct Timed(Stub);

fn timed() -> Timed {
    let mut stub = stub();
    let columns = [("driver", DataType::Int64), ("at", TIMESTAMP), ("seen", TIMESTAMP)];
    stub.tables.insert("cars".to_string(), table(&columns));
    stub.tables.insert("times".to_string(), table(&[("id", DataType::Int64), ("ts", TIMESTAMP)]));
    let sql = "SELECT driver AS who, at AS moment FROM cars WHERE driver > 1".to_string();
    stub.views.insert("moments".to_string(), ViewDefinition { sql, columns: Vec::new() });
    Timed(stub)
}

impl Catalog for Timed {
    fn table(&self, name: &TableName) -> Result<Option<Arc<dyn TableSource>>> {
        self.0.table(name)
    }

    fn view(&self, name: &TableName) -> Option<ViewDefinition> {
        self.0.view(name)
    }

    fn path(&self, path: &str) -> Result<Arc<dyn TableSource>> {
        self.0.path(path)
    }

    fn table_names(&self) -> Vec<String> {
        self.0.table_names()
    }

    fn table_function(&self, name: &str, args: &[Expr]) -> Result<Option<Arc<dyn TableSource>>> {
        self.0.table_function(name, args)
    }

    fn event_time(&self, source: &dyn TableSource) -> Option<usize> {
        (source.schema().field(0).name() == "driver").then_some(1)
    }
}

#[track_caller]
fn text(sql: &str) -> String {
    match plan_in(sql, &timed()) {
        Ok(Statement::Query(query)) => {
            let shared = query.shared.iter().map(|s| format!("{}\n", s.plan.display_indent()));
            format!("{}{}", shared.collect::<String>(), query.plan.display_indent())
        }
        Ok(other) => panic!("not a query: {other:?}"),
        Err(error) => panic!("{}", error.render(sql)),
    }
}

#[track_caller]
fn holds(sql: &str, parts: &[&str]) {
    let plan = text(sql);
    parts.iter().for_each(|part| assert!(plan.contains(part), "{sql}: {part}\n{plan}"));
}

#[track_caller]
fn refused(sql: &str, message: &str) {
    match plan_in(sql, &timed()) {
        Ok(statement) => panic!("{sql} was planned: {statement:?}"),
        Err(error) => {
            let rendered = error.render(sql);
            assert!(rendered.starts_with(message), "{sql}\n{rendered}");
            assert!(rendered.contains("\nLINE 1: "), "{rendered}");
        }
    }
}

#[test]
fn the_window_is_two_keys() {
    let parts = [
        "groupBy=[[",
        "window_start",
        "window_end",
        "window_floor(cars.at, Int64(3600000000), Int64(0))",
    ];
    for sql in [
        "SELECT TUMBLE(INTERVAL '1' HOUR) AS w, count(*) FROM cars GROUP BY 1",
        "SELECT TUMBLE(INTERVAL '1' HOUR) AS w, count(*) FROM cars GROUP BY w",
        "SELECT TUMBLE(INTERVAL '1' HOUR), count(*) FROM cars GROUP BY TUMBLE(INTERVAL '1' HOUR)",
        "SELECT count(*), TUMBLE_START(at, INTERVAL '1' HOUR) FROM cars GROUP BY TUMBLE(at, INTERVAL '1 hour')",
        "SELECT count(*) FROM cars c WHERE c.driver > 3 GROUP BY c.driver, tumble(INTERVAL '1' HOUR)",
    ] {
        let plan = text(sql).replace("c.at", "cars.at");
        parts.iter().for_each(|part| assert!(plan.contains(part), "{sql}: {part}\n{plan}"));
    }
}

#[test]
fn fields_of_windows_are_reached_by_name() {
    holds(
        "SELECT w.start, q.w.end, n FROM (SELECT HOP(INTERVAL '2' SECOND, INTERVAL '10' SECOND) AS w, count(*) AS n \
         FROM cars GROUP BY w) q",
        &["hop_starts(cars.at, Int64(2000000), Int64(10000000), Int64(0))"],
    );
    holds(
        "SELECT window.start FROM (SELECT TUMBLE(INTERVAL '1' SECOND), driver FROM cars GROUP BY 1, 2) a \
         JOIN (SELECT TUMBLE(INTERVAL '1' SECOND) AS window, driver FROM cars GROUP BY 1, 2) b ON a.driver = b.driver",
        &["window_start"],
    );
}

#[test]
fn times_are_found_below_views_joins_and_shared_plans() {
    holds(
        "SELECT count(*) FROM moments GROUP BY tumble(INTERVAL '1' DAY)",
        &["window_floor(", "86400000000"],
    );
    holds(
        "SELECT count(*) FROM moments m JOIN t ON m.who = t.id GROUP BY tumble(INTERVAL '1' DAY), t.k",
        &["window_floor(m.moment"],
    );
    holds(
        "WITH c AS (SELECT driver, at, count(*) FROM cars GROUP BY 1, 2) \
         SELECT count(*) FROM c GROUP BY tumble(INTERVAL '1' DAY) UNION ALL SELECT count(*) FROM c",
        &["window_floor(c.at"],
    );
    holds("SELECT count(*) FROM times GROUP BY tumble(ts, INTERVAL '1' DAY)", &["window_floor("]);
}

#[test]
fn sessions_have_the_other_keys() {
    holds(
        "SELECT SESSION(INTERVAL '20 seconds') AS window, CASE WHEN driver > 5 THEN 0 ELSE driver END AS who, count(*) \
         FROM cars GROUP BY window, who",
        &["PARTITION BY [CASE WHEN", "session_first("],
    );
    holds(
        "SELECT count(*) FROM cars GROUP BY driver, SESSION(seen, INTERVAL '20 seconds')",
        &["PARTITION BY [cars.driver]", "session_first(cars.seen"],
    );
}

#[test]
fn what_has_no_window_is_refused() {
    refused(
        "SELECT count(*) FROM times GROUP BY tumble(INTERVAL '1' DAY)",
        "TUMBLE has no time: the rows have no event time",
    );
    refused(
        "SELECT count(*) FROM cars a JOIN cars b ON a.driver = b.driver GROUP BY hop(INTERVAL '1' DAY, INTERVAL '1' DAY)",
        "HOP has no time: the rows have several event times: a.at, b.at",
    );
    refused(
        "SELECT tumble(INTERVAL '1' DAY), tumble(INTERVAL '2' DAY) FROM cars GROUP BY 1",
        "TUMBLE groups rows, and this is no key of GROUP BY",
    );
    refused("SELECT tumble(INTERVAL '1' DAY) FROM cars", "TUMBLE groups rows");
    refused(
        "SELECT count(*) FROM cars GROUP BY hop(at, INTERVAL '1' DAY)",
        "HOP has too few arguments",
    );
    refused(
        "SELECT count(*) FROM cars GROUP BY session(at, INTERVAL '1' DAY, INTERVAL '1' DAY)",
        "SESSION has more arguments than it takes",
    );
}

#[test]
fn windows_are_taken_apart_where_they_are_keys() {
    let windows =
        "SELECT TUMBLE(INTERVAL '1' HOUR) AS w, driver, count(*) AS n FROM cars GROUP BY 1, 2";
    for sql in [
        format!("SELECT max(n) FROM ({windows}) GROUP BY w"),
        format!("SELECT a.n FROM ({windows}) a JOIN ({windows}) b ON a.w = b.w"),
        format!("SELECT n FROM ({windows}) WHERE w.start > '2024-01-01'"),
        format!("SELECT rank() OVER (PARTITION BY w ORDER BY n) FROM ({windows})"),
    ] {
        let plan = text(&sql);
        assert!(!plan.contains("named_struct"), "{sql}\n{plan}");
    }
    // The struct of the side that may have no row may be NULL, unlike its parts.
    let outer = format!("SELECT b.w FROM ({windows}) a LEFT JOIN ({windows}) b ON a.w = b.w");
    holds(&outer, &["named_struct", "Left Join"]);
}
