//! Windows of the operator: the examples of the paper on Flink, windows by rows, evictors, and how rows are cut into
//! batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, TimestampMicrosecondArray};
use arrow_schema::{DataType, TimeUnit};

use super::*;
use crate::expr::Expr;
use crate::memory::MemoryManager;
use crate::operators::OperatorSpec;
use crate::operators::harness::{self, Driver, Interruptions};
use crate::operators::hash_aggregate::ClosingSpec;
use crate::windowing::{
    CountTrigger, EventTimeTrigger, GlobalWindows, KeepLastRows, SlidingWindows, Windowing,
    WindowingRegistry,
};

const SECOND: i64 = 1_000_000;

fn micros() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// Windows over rows of a key, a time, a value and a condition.
fn spec(windowing: WindowingSpec, order: RowOrder) -> AssignedWindowsSpec {
    let closing =
        ClosingSpec { key: 0, bound: Expr::Column(0), watermark_type: micros(), slices: None };
    AssignedWindowsSpec {
        input: vec![DataType::Int64, micros(), DataType::Float64, DataType::Boolean],
        keys: vec![Expr::Column(0)],
        time: Some(Expr::Column(1)),
        time_type: micros(),
        row_time: Expr::Column(1),
        closing: Some(closing),
        arguments: vec![Expr::Column(2)],
        windowing,
        order,
        ties: vec![0, 1, 2, 3],
        columns: true,
    }
}

/// Rows of a key, a time in seconds, and a value, for which the condition is that it is negative.
fn rows(rows: &[(i64, i64, f64)]) -> StreamElement {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let times = rows.iter().map(|row| row.1 * SECOND);
    let values: Float64Array = rows.iter().map(|row| Some(row.2)).collect();
    let ends: BooleanArray = rows.iter().map(|row| Some(row.2 < 0.0)).collect();
    StreamElement::Batch(harness::batch(vec![
        keys,
        Arc::new(TimestampMicrosecondArray::from_iter_values(times)),
        Arc::new(values),
        Arc::new(ends),
    ]))
}

fn watermark(seconds: i64) -> StreamElement {
    StreamElement::Watermark(Watermark(seconds * SECOND))
}

/// What comes out: `key@time[start,end)#number` in seconds, and watermarks; and how many rows were late.
fn told(
    spec: &AssignedWindowsSpec,
    windowings: &WindowingRegistry,
    input: &[StreamElement],
    interruptions: Interruptions,
) -> (Vec<String>, u64) {
    let job = harness::context_with(100, MemoryManager::unlimited(), windowings.clone());
    let spec = OperatorSpec::AssignedWindows(spec.clone());
    let mut driver = Driver::new(&spec, &job, interruptions).unwrap();
    let out = driver.run(vec![input.to_vec()]).unwrap();
    let text = out.into_iter().flat_map(|element| match element {
        StreamElement::Batch(batch) => lines(&batch),
        StreamElement::Watermark(Watermark(at)) => vec![format!("W{}", at / SECOND)],
        other => panic!("emitted {other:?}"),
    });
    (text.collect(), driver.metrics.late_rows.load(Ordering::Relaxed))
}

fn lines(batch: &Batch) -> Vec<String> {
    let column = |at: usize| time_bound::times(&batch.columns()[at]).unwrap();
    let (key, time, start, end) = (column(0), column(1), column(4), column(5));
    let number = column(6);
    let row = |row: usize| {
        let end = match end.is_null(row) {
            true => "…".to_string(),
            false => (end.value(row) as f64 / SECOND as f64).to_string(),
        };
        let (time, start) = (time.value(row) / SECOND, start.value(row) / SECOND);
        format!("{}@{time}[{start},{end})#{}", key.value(row), number.value(row))
    };
    (0..batch.num_rows()).map(row).collect()
}

/// The same with and without interruptions, and with each row in a batch of its own.
fn both(
    spec: &AssignedWindowsSpec,
    windowings: &WindowingRegistry,
    input: &[StreamElement],
) -> (Vec<String>, u64) {
    let plain = told(spec, windowings, input, Interruptions::None);
    let interrupted = told(spec, windowings, input, Interruptions::EveryBatch);
    assert_eq!(plain, interrupted, "interruptions must not change the rows");
    let mut single = Vec::new();
    for element in input {
        match element {
            StreamElement::Batch(batch) => single
                .extend((0..batch.num_rows()).map(|row| StreamElement::Batch(batch.slice(row, 1)))),
            other => single.push(other.clone()),
        }
    }
    assert_eq!(plain, told(spec, windowings, &single, Interruptions::None), "nor must batches");
    plain
}

fn registered(windowing: Windowing) -> (WindowingSpec, WindowingRegistry) {
    let registry = [("own".to_string(), windowing)].into_iter().collect();
    (WindowingSpec::Registered("own".to_string()), registry)
}

#[test]
fn windows_of_six_seconds_each_two_with_an_event_time_trigger() {
    let assigner = SlidingWindows::new(6 * SECOND, 2 * SECOND);
    let (windowing, registry) = registered(Windowing::new(assigner, EventTimeTrigger));
    let spec = spec(windowing, RowOrder::Arrival { sorted: false });
    let input = [
        rows(&[(1, 1, 0.0), (1, 3, 0.0)]),
        watermark(2),
        // It is behind the watermark, and in windows that are open still; one has left.
        rows(&[(1, 0, 0.0)]),
        watermark(6),
        rows(&[(1, 1, 0.0), (1, 7, 0.0)]),
    ];
    let (lines, late) = both(&spec, &registry, &input);
    let wanted = [
        "1@1[-4,2)#1",
        "W2",
        "1@1[-2,4)#1",
        "1@3[-2,4)#1",
        "1@0[-2,4)#1",
        "1@1[0,6)#1",
        "1@3[0,6)#1",
        "1@0[0,6)#1",
        "W6",
        "1@3[2,8)#1",
        "1@7[2,8)#1",
        "1@7[4,10)#1",
        "1@7[6,12)#1",
    ];
    assert_eq!((lines, late), (wanted.map(String::from).to_vec(), 1));
}

#[test]
fn a_global_window_that_a_count_of_a_thousand_triggers_and_keeps_the_last_hundred() {
    let windowing =
        Windowing::new(GlobalWindows, CountTrigger::new(1_000)).evictor(KeepLastRows::new(100));
    let (windowing, registry) = registered(windowing);
    let spec = spec(windowing, RowOrder::Arrival { sorted: false });
    let of = |from: i64| rows(&(from..from + 250).map(|n| (n % 2, n, 0.0)).collect::<Vec<_>>());
    let input: Vec<StreamElement> = (0..18).map(|batch| of(batch * 250)).collect();
    let (lines, late) = both(&spec, &registry, &input);
    // 4,500 rows of two keys: each fires at its 1,000th and 2,000th row, and 250 are left that do not leave.
    assert_eq!((lines.len(), late), (400, 0));
    let of_key = |key: &str| lines.iter().filter(|line| line.starts_with(key)).collect::<Vec<_>>();
    let odd = of_key("1@");
    assert_eq!(odd[0], "1@1801[1801,1999.000001)#1");
    assert_eq!(odd[99], "1@1999[1801,1999.000001)#1");
    assert_eq!((odd[100].as_str(), odd.len()), ("1@3801[3801,3999.000001)#2", 200));
    assert_eq!(of_key("0@").len(), 200);
}

#[test]
fn windows_of_rows_are_in_the_order_of_their_times() {
    let spec = spec(WindowingSpec::Count { size: 2, slide: 2 }, RowOrder::Time);
    let input = [
        rows(&[(1, 5, 0.0), (1, 1, 0.0), (2, 2, 0.0)]),
        rows(&[(1, 3, 0.0), (1, 9, 0.0)]),
        watermark(4),
        rows(&[(1, 2, 0.0), (1, 4, 0.0), (2, 8, 0.0)]),
        watermark(8),
    ];
    let (lines, late) = both(&spec, &WindowingRegistry::new(), &input);
    let mut wanted = vec![
        "1@1[1,3.000001)#1",
        "1@3[1,3.000001)#1",
        "W4",
        "1@4[4,5.000001)#2",
        "1@5[4,5.000001)#2",
        "W8",
        "2@2[2,8.000001)#1",
        "2@8[2,8.000001)#1",
        "1@9[9,…)#3",
    ];
    wanted.iter().for_each(|line| assert!(lines.iter().any(|l| l == line), "{line}: {lines:?}"));
    wanted.truncate(wanted.len());
    assert_eq!((lines.len(), late), (wanted.len(), 1));
}

#[test]
fn windows_of_rows_that_overlap_keep_the_last_ones() {
    let spec = spec(WindowingSpec::Count { size: 3, slide: 2 }, RowOrder::Time);
    let all: Vec<_> = (1..=5).map(|n| (1, n, 0.0)).collect();
    let (lines, _) = both(&spec, &WindowingRegistry::new(), &[rows(&all)]);
    let wanted = [
        "1@1[1,2.000001)#1",
        "1@2[1,2.000001)#1",
        "1@2[2,4.000001)#2",
        "1@3[2,4.000001)#2",
        "1@4[2,4.000001)#2",
        "1@3[3,…)#3",
        "1@4[3,…)#3",
        "1@5[3,…)#3",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn a_value_that_moves_and_a_row_that_ends_begin_windows() {
    let registry = WindowingRegistry::new();
    let input = [
        rows(&[(1, 1, 1.0), (1, 2, 2.5), (1, 3, -1.0), (1, 4, 0.0)]),
        watermark(4),
        rows(&[(1, 5, 7.0)]),
    ];
    let delta = spec(WindowingSpec::Delta { threshold: 1.5 }, RowOrder::Time);
    let (lines, _) = both(&delta, &registry, &input);
    let wanted = ["1@1[1,3)#1", "1@2[1,3)#1", "W4", "1@3[3,5)#2", "1@4[3,5)#2", "1@5[5,…)#3"];
    assert_eq!(lines, wanted);
    let mut ends = spec(WindowingSpec::Punctuation { begins: false }, RowOrder::Time);
    ends.arguments = vec![Expr::Column(3)];
    let (lines, _) = both(&ends, &registry, &input);
    let wanted = [
        "1@1[1,3.000001)#1",
        "1@2[1,3.000001)#1",
        "1@3[1,3.000001)#1",
        "W4",
        "1@4[4,…)#2",
        "1@5[4,…)#2",
    ];
    assert_eq!(lines, wanted);
    ends.windowing = WindowingSpec::Punctuation { begins: true };
    let (lines, _) = both(&ends, &registry, &input);
    let wanted = ["1@1[1,3)#1", "1@2[1,3)#1", "W4", "1@3[3,…)#2", "1@4[3,…)#2", "1@5[3,…)#2"];
    assert_eq!(lines, wanted);
}

#[test]
fn the_last_rows_of_a_window_are_kept_however_many_come() {
    let mut spec = spec(WindowingSpec::LastRows { rows: 2 }, RowOrder::Arrival { sorted: true });
    // Windows of an hour by the column before.
    spec.time = Some(Expr::Column(0));
    spec.time_type = DataType::Int64;
    spec.columns = false;
    spec.keys = Vec::new();
    if let Some(closing) = &mut spec.closing {
        closing.watermark_type = micros();
    }
    let input: Vec<StreamElement> = (0..50)
        .map(|n| rows(&(0..20).map(|k| (7, n * 20 + (k * 7) % 20, 0.0)).collect::<Vec<_>>()))
        .collect();
    let job = harness::context(100);
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let spec = OperatorSpec::AssignedWindows(spec.clone());
        let mut driver = Driver::new(&spec, &job, interruptions).unwrap();
        let mut all = input.clone();
        all.push(StreamElement::Watermark(Watermark(8)));
        all.push(rows(&[(7, 5000, 0.0)]));
        let out = driver.run(vec![all]).unwrap();
        let StreamElement::Batch(batch) = &out[0] else { panic!("emitted {:?}", out[0]) };
        let times = time_bound::times(&batch.columns()[1]).unwrap();
        assert_eq!(times.values().as_ref(), [998 * SECOND, 999 * SECOND]);
        assert_eq!((out.len(), driver.metrics.late_rows.load(Ordering::Relaxed) > 0), (2, true));
    }
}
