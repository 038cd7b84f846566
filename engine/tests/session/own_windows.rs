//! Windows of a program's own through the Table API: the examples of the paper on Flink, and parts written here.

use std::ops::Range;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use futures::executor::block_on;
use thalweg::Session;
use thalweg::api::aggregates::{count, sum};
use thalweg::api::windows::{
    After, CountTrigger, EventTimeTrigger, Evictor, Firing, GlobalWindows, KeepLastRows, NewRows,
    SlidingWindows, TimeWindow, Trigger, WindowAssigner, Windowing,
};
use thalweg::api::{Relation, col};

/// A table of 4,500 rows, one a second, of the values from 1 on and two keys.
fn session(streaming: bool) -> Session {
    let session = Session::new();
    for sql in [
        "CREATE TABLE t (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)",
        "INSERT INTO t SELECT TIMESTAMP '2026-01-01' + value * INTERVAL '1' SECOND, value % 2, value FROM generate_series(1, 4500)",
    ] {
        block_on(async { session.sql(sql).await?.collect().await }).expect("it runs");
    }
    if streaming {
        session.set("execution.runtime_mode", "streaming").expect("a setting");
    }
    session
}

/// Rows of three numbers in their order.
fn rows(relation: Relation) -> Vec<[i64; 3]> {
    let batches = block_on(relation.collect()).expect("it runs");
    let of = |batch: &RecordBatch| {
        let columns = [0, 1, 2].map(|at| batch.column(at).as_primitive::<Int64Type>().clone());
        (0..batch.num_rows()).map(|row| columns.clone().map(|column| column.value(row))).collect()
    };
    let mut rows: Vec<[i64; 3]> = batches.iter().flat_map::<Vec<_>, _>(of).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn each_thousand_rows_the_last_hundred() {
    for streaming in [false, true] {
        let windows =
            Windowing::new(GlobalWindows, CountTrigger::new(1_000)).evictor(KeepLastRows::new(100));
        let relation = session(streaming)
            .table("t")
            .window([col("k")], col("ts"), windows)
            .group_by([col("k"), col("window_number"), col("window_end")])
            .agg([sum(col("v")).alias("total")])
            .select([col("k"), col("window_number"), col("total")]);
        // Of key 1 the values 1801, 1803 … 1999, and 3801 … 3999.
        let wanted = [[0, 1, 190_100], [0, 2, 390_100], [1, 1, 190_000], [1, 2, 390_000]];
        assert_eq!(rows(relation), wanted, "streaming: {streaming}");
    }
}

#[test]
fn six_seconds_each_two_by_event_time() {
    let second = 1_000_000;
    for streaming in [false, true] {
        let windows =
            || Windowing::new(SlidingWindows::new(6 * second, 2 * second), EventTimeTrigger);
        let grouped = |relation: Relation| {
            let keys = [col("window_start"), col("window_end")];
            let grouped = relation.group_by(keys).agg([
                count(col("v")).alias("c"),
                sum(col("v")).alias("s"),
                sum(col("k")).alias("odd"),
            ]);
            rows(grouped.select([col("s"), col("c"), col("odd")]))
        };
        let session = session(streaming);
        let own = grouped(session.table("t").window([], col("ts"), windows()));
        let arriving = grouped(session.table("t").window_by_arrival([], col("ts"), windows()));
        let sql = "SELECT sum(v), count(v), sum(k) FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND) GROUP BY window_start, window_end";
        let batches = block_on(async { session.sql(sql).await?.collect().await }).expect("it runs");
        let slices: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!((own.len(), arriving.len()), (slices, slices));
        assert_eq!(own, arriving);
        // The first windows hold the seconds 1; 1 to 3; 1 to 5; then six each.
        assert_eq!(own[..4], [[1, 1, 1], [6, 3, 2], [15, 5, 3], [27, 6, 3]]);
    }
}

/// Windows of ten values each that hold even values alone, by the times' seconds.
#[derive(Debug)]
struct EvenSeconds;

impl WindowAssigner for EvenSeconds {
    fn assign(&self, times: &[i64], out: &mut Vec<(usize, TimeWindow)>) {
        for (row, time) in times.iter().enumerate() {
            let second = time.div_euclid(1_000_000);
            if second % 2 == 0 {
                let start = second.div_euclid(10) * 10_000_000;
                out.push((row, TimeWindow { start, end: start + 10_000_000 }));
            }
        }
    }
}

/// Fires with the second row of a window, and when it is complete.
#[derive(Debug)]
struct TwoAndAll;

impl Trigger for TwoAndAll {
    fn on_rows(&self, _: TimeWindow, rows: NewRows<'_>, told: &mut Vec<i64>) -> Option<Firing> {
        if !told.is_empty() || rows.held + rows.times.len() < 2 {
            return None;
        }
        told.push(1);
        let end = rows.times[1 - rows.held] + 1;
        Some(Firing { rows: 2, after: After::Keep, end })
    }

    fn wakes_at(&self, window: TimeWindow, _: &[i64]) -> Option<i64> {
        Some(window.end)
    }

    fn on_time(&self, window: TimeWindow, time: i64, _: &mut Vec<i64>) -> Option<After> {
        (window.end <= time).then_some(After::Purge)
    }

    fn on_end(&self, _: TimeWindow, _: &[i64]) -> bool {
        true
    }

    fn is_timely(&self) -> bool {
        true
    }
}

/// All but the first row.
#[derive(Debug)]
struct AllButFirst;

impl Evictor for AllButFirst {
    fn kept(&self, times: &[i64]) -> Range<usize> {
        times.len().min(1)..times.len()
    }

    fn is_final(&self) -> bool {
        false
    }
}

#[test]
fn parts_of_ones_own_run_as_those_that_are_there() {
    for streaming in [false, true] {
        let windows = Windowing::new(EvenSeconds, TwoAndAll).evictor(AllButFirst);
        let relation = session(streaming)
            .table("t")
            .filter(col("v").lt(thalweg::api::lit(30_i64)))
            .window([], col("ts"), windows)
            .group_by([col("window_start"), col("window_end"), col("window_number")])
            .agg([count(col("v")).alias("c"), sum(col("v")).alias("s")])
            .select([col("window_number"), col("c"), col("s")]);
        // Of 2 4 6 8: the 4 early, which stays; then 6 and 8. Of 10 … 18: 12, then 14 16 18.
        let wanted = [[1, 1, 4], [1, 1, 12], [1, 1, 22], [2, 2, 14], [2, 3, 48], [2, 3, 78]];
        assert_eq!(rows(relation), wanted, "streaming: {streaming}");
    }
}

/// Says that it is timely, and fires five seconds after windows are complete.
#[derive(Debug)]
struct Late;

impl Trigger for Late {
    fn on_rows(&self, _: TimeWindow, _: NewRows<'_>, _: &mut Vec<i64>) -> Option<Firing> {
        None
    }

    fn wakes_at(&self, window: TimeWindow, _: &[i64]) -> Option<i64> {
        Some(window.end + 5_000_000)
    }

    fn on_time(&self, _: TimeWindow, _: i64, _: &mut Vec<i64>) -> Option<After> {
        Some(After::Purge)
    }

    fn on_end(&self, _: TimeWindow, _: &[i64]) -> bool {
        true
    }

    fn is_timely(&self) -> bool {
        true
    }
}

#[test]
fn a_trigger_that_fires_later_than_it_says_is_an_error() {
    let session = session(true);
    session.set("batch_size", "2").expect("a setting");
    let windows = Windowing::new(SlidingWindows::new(10_000_000, 10_000_000), Late);
    let relation = session.table("t").window([], col("ts"), windows);
    let error = block_on(relation.collect()).expect_err("its rows would be late").to_string();
    assert!(error.contains("Late fires for a window whose end has passed"), "{error}");
}
