//! Windows by event time against the same windows over all rows, for random arrivals; what leaves when; what is late.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use arrow_schema::{DataType, TimeUnit};
use datafusion_common::ScalarValue;

use super::*;
use crate::expr::{BinaryOperator, Expr, Literal};
use crate::operators::OperatorSpec;
use crate::operators::harness::{Driver, Interruptions, context, rows, run};
use crate::operators::join_model::Random;
use crate::operators::sort_key_spec::SortKeySpec;
use crate::operators::window::{FrameBound, FrameUnits, WindowFrameSpec, WindowFunctionSpec};

const KEY: usize = 0;
const TIME: usize = 1;
const NUMBER: usize = 2;
const BUCKET: usize = 3;
/// Times of a bucket.
const BUCKET_TIMES: i64 = 10;
const GAP: i64 = 3;

/// A row: key, time and number.
type Row = (i64, Option<i64>, i64);

fn int(number: i64) -> Expr {
    Expr::literal(ScalarValue::Int64(Some(number)))
}

fn frame(units: FrameUnits, before: Option<i64>, after: i64) -> WindowFrameSpec {
    let offset = |number| Literal(ScalarValue::Int64(Some(number)));
    WindowFrameSpec {
        units,
        start: before.map_or(FrameBound::UnboundedPreceding, |n| FrameBound::Preceding(offset(n))),
        end: match after {
            0 => FrameBound::CurrentRow,
            after => FrameBound::Following(offset(after)),
        },
    }
}

/// A frame of all rows that are so far behind, or further.
fn up_to(units: FrameUnits, behind: i64) -> WindowFrameSpec {
    let end = FrameBound::Preceding(Literal(ScalarValue::Int64(Some(behind))));
    WindowFrameSpec { units, start: FrameBound::UnboundedPreceding, end }
}

fn function(name: &str, args: Vec<Expr>, frame: WindowFrameSpec) -> WindowFunctionSpec {
    let aggregates = ["sum", "count", "min", "max", "bit_and", "bit_or", "bit_xor"];
    let aggregate = aggregates.contains(&name);
    let numbers = matches!(name, "row_number" | "rank" | "dense_rank");
    WindowFunctionSpec {
        function: name.into(),
        aggregate,
        arg_types: args.iter().map(|_| DataType::Int64).collect(),
        args,
        frame,
        filter: None,
        distinct: false,
        ignore_nulls: false,
        result: if numbers { DataType::UInt64 } else { DataType::Int64 },
    }
}

/// Functions, and how far they look.
fn functions(which: u64) -> (Vec<WindowFunctionSpec>, Reach) {
    let running = || frame(FrameUnits::Range, None, 0);
    let number = || vec![Expr::Column(NUMBER)];
    let ranking = |name| function(name, vec![], running());
    let nothing = Reach::NOTHING;
    match which {
        0 => (vec![], nothing),
        1 => (vec![ranking("row_number"), ranking("rank"), ranking("dense_rank")], nothing),
        2 => {
            let sum = function("sum", number(), frame(FrameUnits::Rows, Some(2), 0));
            (vec![sum], Reach { rows_before: Some(2), ..nothing })
        }
        3 => {
            let count = function("count", number(), frame(FrameUnits::Range, Some(5), 0));
            (vec![count], Reach { time_before: 5, ..nothing })
        }
        4 => {
            let sum = function("sum", number(), frame(FrameUnits::Range, Some(0), 3));
            let lead = function("lead", number(), running());
            (vec![sum, lead], Reach { rows_after: 1, time_after: 3, ..nothing })
        }
        5 => {
            let lag = function("lag", number(), running());
            let reach = Reach { rows_before: Some(1), ..nothing };
            (vec![lag, ranking("dense_rank"), ranking("rank")], reach)
        }
        6 => {
            let sum = function("sum", number(), running());
            (vec![sum, ranking("rank")], Reach { rows_before: None, ..nothing })
        }
        8 => {
            let names = ["sum", "count", "max", "first_value"];
            let growing = names.map(|name| function(name, number(), running()));
            (growing.into_iter().chain([ranking("dense_rank")]).collect(), nothing)
        }
        9 => {
            let mut distinct = function("sum", number(), running());
            distinct.distinct = true;
            let behind = |name| function(name, number(), up_to(FrameUnits::Rows, 2));
            let lag = function("lag", number(), running());
            let functions = vec![distinct, behind("min"), behind("last_value"), behind("sum"), lag];
            (functions, Reach { rows_before: Some(2), ..nothing })
        }
        10 => {
            let behind = |name, args| function(name, args, up_to(FrameUnits::Range, 3));
            let mut bits = behind("bit_xor", number());
            bits.distinct = true;
            let third = behind("nth_value", vec![Expr::Column(NUMBER), int(3)]);
            let functions = vec![behind("last_value", number()), third, bits, ranking("rank")];
            (functions, Reach { time_before: 3, ..nothing })
        }
        11 => {
            let growing = function("sum", number(), running());
            let ahead = function("count", number(), frame(FrameUnits::Range, Some(4), 2));
            let bits = function("bit_or", number(), frame(FrameUnits::Range, None, 2));
            let reach = Reach { time_before: 4, time_after: 2, ..nothing };
            (vec![growing, ahead, bits], reach)
        }
        12 => {
            let growing = function("min", number(), frame(FrameUnits::Rows, None, 1));
            let bits = function("bit_and", number(), frame(FrameUnits::Rows, None, 1));
            (vec![growing, bits], Reach { rows_after: 1, ..nothing })
        }
        _ => {
            let sum = function("sum", number(), frame(FrameUnits::Range, Some(4), 2));
            let reach = Reach { time_before: 4, time_after: 2, ..nothing };
            (vec![sum, ranking("row_number")], reach)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    Partition,
    Row,
    Session,
}

#[derive(Debug, Clone)]
struct Case {
    unit: Unit,
    functions: u64,
    partitioned: bool,
    /// Whether numbers follow the time in the order.
    by_number: bool,
}

impl Case {
    fn window(&self) -> WindowSpec {
        let key = Expr::Column(KEY);
        let partition_by = match (self.unit, self.partitioned) {
            (Unit::Partition, true) => vec![Expr::Column(BUCKET), key],
            (Unit::Partition, false) => vec![Expr::Column(BUCKET)],
            (_, true) => vec![key],
            (_, false) => vec![],
        };
        let mut order_by = vec![SortKeySpec::ascending(Expr::Column(TIME))];
        let functions = match self.unit {
            Unit::Session => ["session_first", "session_last"]
                .map(|name| {
                    let args = vec![Expr::Column(TIME), int(GAP)];
                    function(name, args, frame(FrameUnits::Range, None, 0))
                })
                .to_vec(),
            Unit::Partition | Unit::Row => functions(self.functions).0,
        };
        let offset =
            |b: &FrameBound| matches!(b, FrameBound::Preceding(_) | FrameBound::Following(_));
        let ranges = functions.iter().any(|f| offset(&f.frame.start) || offset(&f.frame.end));
        if self.by_number && !ranges && self.unit != Unit::Session {
            order_by.push(SortKeySpec::ascending(Expr::Column(NUMBER)));
        }
        WindowSpec { input: vec![DataType::Int64; 4], partition_by, order_by, functions }
    }

    fn spec(&self) -> OperatorSpec {
        let watermark =
            Expr::Cast { expr: Box::new(Expr::Column(0)), to: DataType::Int64, fallible: false };
        let (unit, time, bound) = match self.unit {
            Unit::Row => (CompletionUnit::Row(functions(self.functions).1), TIME, watermark),
            Unit::Session => (CompletionUnit::Session { gap: GAP }, TIME, watermark),
            Unit::Partition => {
                let bound = Expr::Binary {
                    op: BinaryOperator::Divide,
                    left: Box::new(watermark),
                    right: Box::new(int(BUCKET_TIMES)),
                };
                (CompletionUnit::Partition, BUCKET, bound)
            }
        };
        OperatorSpec::EventTimeWindow(EventTimeWindowSpec {
            window: self.window(),
            completion: CompletionSpec {
                unit,
                time: Expr::Column(time),
                bound,
                watermark_type: DataType::Timestamp(TimeUnit::Microsecond, None),
            },
            withdrawn: false,
            keep: None,
        })
    }

    /// The time that completes a row that has left, with what it leaves by.
    fn leaves_at(&self, batch: &Batch, row: usize) -> i64 {
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().value(row);
        match self.unit {
            Unit::Row => column(TIME),
            Unit::Partition => (column(BUCKET) + 1) * BUCKET_TIMES - 1,
            Unit::Session => column(5) + GAP,
        }
    }
}

fn batch(rows: &[Row]) -> Batch {
    let column = |of: fn(&Row) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Int64Array>())
    };
    let bucket = |row: &Row| row.1.map(|time| time / BUCKET_TIMES);
    let columns = vec![
        column(|row| Some(row.0)),
        column(|row| row.1),
        column(|row| Some(row.2)),
        column(bucket),
    ];
    Batch::new(columns, rows.len())
}

/// What the functions say over all rows at once.
fn expected(case: &Case, all: &[Row]) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let window = case.window();
    let mut sorted = all.to_vec();
    let key = |row: &Row| {
        let time = row.1.unwrap_or(i64::MAX);
        let bucket = if case.unit == Unit::Partition { time / BUCKET_TIMES } else { 0 };
        let partition = if case.partitioned { row.0 } else { 0 };
        (bucket, partition, time, if window.order_by.len() > 1 { row.2 } else { 0 })
    };
    sorted.sort_by_key(key);
    let out = match window.functions.is_empty() {
        true => vec![batch(&sorted)],
        false => run(&OperatorSpec::Window(window), vec![vec![batch(&sorted)]]).unwrap(),
    };
    let mut lines = rows(&out);
    lines.sort();
    lines
}

fn check(case: &Case, seed: u64) {
    let mut random = Random(seed);
    let keys = 1 + random.below(4) as i64;
    let disorder = 1 + random.below(12) as i64;
    let batch_rows = [1, 3, 1024][random.below(3) as usize];
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let mut driver = Driver::new(&case.spec(), &context(batch_rows), interruptions).unwrap();
        let (mut all, mut out, mut now, mut passed) = (Vec::new(), Vec::new(), 20, 0);
        for _ in 0..25 {
            let mut came = Vec::new();
            for _ in 0..random.below(8) {
                now += random.below(3) as i64;
                let time = now - random.below(disorder as u64) as i64;
                let timeless = case.unit != Unit::Session && random.below(20) == 0;
                let time = (!timeless).then_some(time);
                came.push((random.below(keys as u64) as i64, time, random.below(5) as i64));
            }
            all.extend_from_slice(&came);
            let mut elements = vec![StreamElement::Batch(batch(&came))];
            let watermark = now - disorder + 1;
            if random.below(3) > 0 && watermark > passed {
                elements.push(StreamElement::Watermark(Watermark(watermark)));
            }
            for element in elements {
                let passes = match element {
                    StreamElement::Watermark(Watermark(at)) => Some(at),
                    _ => None,
                };
                for element in driver.feed(PortId(0), element).unwrap() {
                    let StreamElement::Batch(batch) = element else { continue };
                    let batch = batch.compact().unwrap();
                    assert!(batch.num_rows() <= batch_rows, "{case:?} seed {seed}");
                    for row in 0..batch.num_rows() {
                        let at = case.leaves_at(&batch, row);
                        let looks_ahead =
                            case.unit == Unit::Row && matches!(case.functions, 4 | 7 | 11 | 12);
                        assert!(
                            at >= passed || looks_ahead,
                            "{case:?} seed {seed}: {at} < {passed}"
                        );
                    }
                    out.push(batch);
                }
                passed = passes.unwrap_or(passed);
            }
        }
        for element in driver.feed(PortId(0), StreamElement::End).unwrap() {
            let StreamElement::Batch(batch) = element else { continue };
            out.push(batch.compact().unwrap());
        }
        let mut lines = rows(&out);
        lines.sort();
        assert_eq!(lines, expected(case, &all), "{case:?} seed {seed} {interruptions:?}");
        assert_eq!(driver.metrics.late_rows.load(Ordering::Relaxed), 0, "{case:?} seed {seed}");
    }
}

#[test]
fn results_are_those_of_all_rows() {
    for unit in [Unit::Partition, Unit::Row, Unit::Session] {
        for functions in 0..13 {
            for seed in 0..12 {
                let partitioned = seed % 3 > 0;
                check(&Case { unit, functions, partitioned, by_number: seed % 2 == 0 }, seed + 1);
            }
        }
    }
}

/// What comes out at each element, as text.
fn steps(case: &Case, elements: Vec<StreamElement>) -> (Vec<Vec<String>>, u64) {
    let mut driver = Driver::new(&case.spec(), &context(1024), Interruptions::EveryBatch).unwrap();
    let mut steps = Vec::new();
    for element in elements.into_iter().chain([StreamElement::End]) {
        let batches =
            driver.feed(PortId(0), element).unwrap().into_iter().filter_map(
                |element| match element {
                    StreamElement::Batch(batch) => Some(batch.compact().unwrap()),
                    _ => None,
                },
            );
        steps.push(rows(&batches.collect::<Vec<_>>()));
    }
    (steps, driver.metrics.late_rows.load(Ordering::Relaxed))
}

fn came(rows: &[(i64, i64, i64)]) -> StreamElement {
    let rows: Vec<Row> =
        rows.iter().map(|&(key, time, number)| (key, Some(time), number)).collect();
    StreamElement::Batch(batch(&rows))
}

fn passes(at: i64) -> StreamElement {
    StreamElement::Watermark(Watermark(at))
}

#[test]
fn rows_leave_when_the_watermark_has_passed_them_and_are_late_afterwards() {
    let case = Case { unit: Unit::Row, functions: 1, partitioned: true, by_number: false };
    let elements = vec![
        came(&[(1, 5, 0), (1, 3, 0), (2, 5, 0)]),
        passes(5),
        came(&[(1, 4, 9), (1, 5, 1)]),
        passes(6),
    ];
    let (got, late) = steps(&case, elements);
    assert_eq!(got[1], ["1|3|0|0|1|1|1"]);
    assert_eq!(got[3], ["1|5|0|0|2|2|2", "1|5|1|0|3|2|2", "2|5|0|0|1|1|1"]);
    assert_eq!(late, 1);
}

#[test]
fn a_session_leaves_when_no_row_can_join_it() {
    let case = Case { unit: Unit::Session, functions: 0, partitioned: true, by_number: false };
    let elements = vec![
        came(&[(1, 5, 0), (1, 11, 0), (1, 8, 0), (1, 15, 0)]),
        passes(14),
        passes(15),
        // It would have joined the session that has ended, but is in time on its own.
        came(&[(1, 12, 7), (1, 10, 8)]),
        passes(19),
    ];
    let (got, late) = steps(&case, elements);
    assert_eq!(got[1], Vec::<String>::new());
    assert_eq!(got[2], ["1|5|0|0|5|11", "1|8|0|0|5|11", "1|11|0|1|5|11"]);
    assert_eq!(got[4], ["1|12|7|1|12|15", "1|15|0|1|12|15"]);
    assert_eq!(late, 1);
}

#[test]
fn a_row_without_a_time_is_in_no_session() {
    let case = Case { unit: Unit::Session, functions: 0, partitioned: false, by_number: false };
    let mut driver = Driver::new(&case.spec(), &context(8), Interruptions::None).unwrap();
    let element = StreamElement::Batch(batch(&[(1, None, 0)]));
    let error = driver.feed(PortId(0), element).unwrap_err().to_string();
    assert!(error.contains("whose time is NULL is in no session"), "{error}");
}

#[test]
fn what_no_row_can_see_is_forgotten() {
    let job = context(1024);
    let case = Case { unit: Unit::Row, functions: 3, partitioned: true, by_number: false };
    let mut driver = Driver::new(&case.spec(), &job, Interruptions::None).unwrap();
    let mut peak = 0;
    for step in 0..400_i64 {
        // Each key comes once, so that only time lets its rows go.
        let rows: Vec<_> = (0..200).map(|i| (step * 200 + i, step * 10, i)).collect();
        driver.feed(PortId(0), came(&rows)).unwrap();
        driver.feed(PortId(0), passes(step * 10 + 1)).unwrap();
        peak = peak.max(job.memory.used());
    }
    let all = 400 * 200 * 50;
    assert!(peak < all / 2, "{peak} bytes for what would be {all} and more");
}

#[test]
fn of_partitions_that_wait_only_the_first_rows_are_kept() {
    let job = context(1024);
    let case = Case { unit: Unit::Partition, functions: 1, partitioned: true, by_number: true };
    let OperatorSpec::EventTimeWindow(spec) = case.spec() else { panic!("another operator") };
    let mut window = spec.window.clone();
    window.functions.truncate(1);
    window.order_by = vec![SortKeySpec::ascending(Expr::Column(NUMBER))];
    let spec = EventTimeWindowSpec { keep: Some(2), window, ..spec };
    let mut driver =
        Driver::new(&OperatorSpec::EventTimeWindow(spec), &job, Interruptions::None).unwrap();
    let mut peak = 0;
    for step in 0..200_i64 {
        let rows: Vec<_> = (0..1000).map(|i| (i % 3, i % 10, (i * 7 + step * 13) % 1009)).collect();
        driver.feed(PortId(0), came(&rows)).unwrap();
        peak = peak.max(job.memory.used());
    }
    assert!(peak < 1 << 20, "{peak} bytes for three partitions of two rows");
    let out = driver.feed(PortId(0), StreamElement::End).unwrap();
    let batches = out.into_iter().filter_map(|element| match element {
        StreamElement::Batch(batch) => Some(batch.compact().unwrap()),
        _ => None,
    });
    let lines = rows(&batches.collect::<Vec<_>>());
    let firsts: Vec<&String> =
        lines.iter().filter(|line| line.ends_with("|1") || line.ends_with("|2")).collect();
    assert_eq!(firsts.len(), 6, "{lines:?}");
    assert!(firsts.iter().all(|line| line.split('|').nth(2) == Some("0")), "{firsts:?}");
}

#[test]
fn frames_that_grow_keep_a_state_and_no_rows() {
    for functions in [8, 9] {
        let job = context(1024);
        let case = Case { unit: Unit::Row, functions, partitioned: true, by_number: false };
        let mut driver = Driver::new(&case.spec(), &job, Interruptions::None).unwrap();
        let mut peak = 0;
        for step in 0..400_i64 {
            let rows: Vec<_> = (0..500).map(|i| (i % 4, step * 10, i % 50)).collect();
            driver.feed(PortId(0), came(&rows)).unwrap();
            driver.feed(PortId(0), passes(step * 10 + 1)).unwrap();
            peak = peak.max(job.memory.used());
        }
        assert!(peak < 1 << 20, "{peak} bytes for four partitions");
    }
}
