//! Window functions against a row-by-row evaluation, through the operator harness.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::{Date32Type, IntervalMonthDayNanoType};
use arrow_schema::DataType;
use datafusion_common::ScalarValue;

use super::*;
use crate::batch::Batch;
use crate::expr::Literal;
use crate::operators::OperatorSpec;
use crate::operators::harness::{batch, check};

const WHOLE: (FrameBound, FrameBound) =
    (FrameBound::UnboundedPreceding, FrameBound::UnboundedFollowing);
const RUNNING: (FrameBound, FrameBound) = (FrameBound::UnboundedPreceding, FrameBound::CurrentRow);

fn frame(units: FrameUnits, (start, end): (FrameBound, FrameBound)) -> WindowFrameSpec {
    WindowFrameSpec { units, start, end }
}

fn preceding(n: u64) -> FrameBound {
    FrameBound::Preceding(Literal(ScalarValue::UInt64(Some(n))))
}

fn following(n: u64) -> FrameBound {
    FrameBound::Following(Literal(ScalarValue::UInt64(Some(n))))
}

fn function(name: &str, args: Vec<Expr>, arg: DataType, result: DataType) -> WindowFunctionSpec {
    WindowFunctionSpec {
        function: name.into(),
        aggregate: ["count", "sum", "avg", "min", "max", "stddev", "array_agg"].contains(&name),
        arg_types: args.iter().map(|_| arg.clone()).collect(),
        args,
        frame: frame(FrameUnits::Range, RUNNING),
        filter: None,
        distinct: false,
        ignore_nulls: false,
        result,
    }
}

/// Runs functions over columns partition, order, value and numbers the rows' results alone.
fn run_over(
    input: &[Batch],
    order_by: Vec<SortKeySpec>,
    functions: Vec<WindowFunctionSpec>,
) -> Vec<String> {
    let types: Vec<DataType> = input[0].columns().iter().map(|c| c.data_type().clone()).collect();
    let skip = types.len();
    let spec =
        WindowSpec { input: types, partition_by: vec![Expr::Column(0)], order_by, functions };
    check(&OperatorSpec::Window(spec), vec![input.to_vec()])
        .into_iter()
        .map(|row| row.split('|').skip(skip).collect::<Vec<_>>().join("|"))
        .collect()
}

fn sample() -> Vec<Batch> {
    let partitions = [1, 1, 1, 1, 2, 3, 3];
    let order = [1, 1, 2, 4, 1, 5, 6];
    let values = [Some(10), None, Some(5), Some(7), Some(1), None, Some(3)];
    let all = batch(vec![
        Arc::new(Int64Array::from(partitions.to_vec())),
        Arc::new(Int64Array::from(order.to_vec())),
        Arc::new(Int64Array::from(values.to_vec())),
    ]);
    vec![all.slice(0, 3), all.slice(3, 3), all.slice(6, 1)]
}

fn by_order() -> Vec<SortKeySpec> {
    vec![SortKeySpec::ascending(Expr::Column(1))]
}

#[test]
fn ranks() {
    let int = DataType::UInt64;
    let buckets = Expr::literal(ScalarValue::Int64(Some(2)));
    let rows = run_over(
        &sample(),
        by_order(),
        vec![
            function("row_number", vec![], int.clone(), int.clone()),
            function("rank", vec![], int.clone(), int.clone()),
            function("dense_rank", vec![], int.clone(), int.clone()),
            function("percent_rank", vec![], int.clone(), DataType::Float64),
            function("cume_dist", vec![], int.clone(), DataType::Float64),
            function("ntile", vec![buckets], DataType::Int64, int),
        ],
    );
    assert_eq!(
        rows,
        [
            "1|1|1|0.0|0.5|1",
            "2|1|1|0.0|0.5|1",
            "3|3|2|0.6666666666666666|0.75|2",
            "4|4|3|1.0|1.0|2",
            "1|1|1|0.0|1.0|1",
            "1|1|1|0.0|0.5|1",
            "2|2|2|1.0|1.0|2",
        ]
    );
}

#[test]
fn looks_at_other_rows() {
    let int = DataType::Int64;
    let literal = |n| Expr::literal(ScalarValue::Int64(Some(n)));
    let value = || Expr::Column(2);
    let mut ignoring = function("lag", vec![value()], int.clone(), int.clone());
    ignoring.ignore_nulls = true;
    let mut last = function("last_value", vec![value()], int.clone(), int.clone());
    last.frame = frame(FrameUnits::Rows, WHOLE);
    let mut last_valued = last.clone();
    last_valued.ignore_nulls = true;
    let mut second = function("nth_value", vec![value(), literal(2)], int.clone(), int.clone());
    second.frame = frame(FrameUnits::Rows, WHOLE);
    let rows = run_over(
        &sample(),
        by_order(),
        vec![
            function("lag", vec![value()], int.clone(), int.clone()),
            ignoring,
            function("lead", vec![value(), literal(2), literal(-1)], int.clone(), int.clone()),
            function("first_value", vec![value()], int.clone(), int.clone()),
            last,
            last_valued,
            second,
        ],
    );
    assert_eq!(
        rows,
        [
            "∅|∅|5|10|7|7|∅",
            "10|10|7|10|7|7|∅",
            "∅|10|-1|10|7|7|∅",
            "5|5|-1|10|7|7|∅",
            "∅|∅|-1|1|1|1|∅",
            "∅|∅|-1|∅|3|3|3",
            "∅|∅|-1|∅|3|3|3",
        ]
    );
}

#[test]
fn peers_share_the_default_frame() {
    let int = DataType::Int64;
    let value = || vec![Expr::Column(2)];
    let mut filtered = function("count", value(), int.clone(), int.clone());
    filtered.filter = Some(Expr::Binary {
        op: crate::expr::BinaryOperator::Gt,
        left: Box::new(Expr::Column(2)),
        right: Box::new(Expr::literal(ScalarValue::Int64(Some(5)))),
    });
    let mut distinct = function("count", vec![Expr::Column(1)], int.clone(), int.clone());
    distinct.distinct = true;
    let rows = run_over(
        &sample(),
        by_order(),
        vec![
            function("count", vec![], int.clone(), int.clone()),
            function("count", value(), int.clone(), int.clone()),
            function("sum", value(), int.clone(), int.clone()),
            function("avg", value(), int.clone(), DataType::Float64),
            function("min", value(), int.clone(), int.clone()),
            filtered,
            distinct,
        ],
    );
    assert_eq!(
        rows,
        [
            "2|1|10|10.0|10|1|1",
            "2|1|10|10.0|10|1|1",
            "3|2|15|7.5|5|1|2",
            "4|3|22|7.333333333333333|5|2|3",
            "1|1|1|1.0|1|0|1",
            "1|0|∅|∅|∅|0|1",
            "2|1|3|3.0|3|0|2",
        ]
    );
}

#[test]
fn means_of_decimals_are_doubles_whatever_computes_them() {
    let scaled = |values: [Option<i128>; 4]| {
        let array = Decimal128Array::from(values.to_vec());
        Arc::new(array.with_precision_and_scale(10, 2).unwrap())
    };
    let input = batch(vec![
        Arc::new(Int64Array::from(vec![1, 1, 1, 2])),
        Arc::new(Int64Array::from(vec![1, 2, 3, 1])),
        scaled([Some(100), Some(100), Some(250), None]),
    ]);
    let mean =
        function("avg", vec![Expr::Column(2)], DataType::Decimal128(10, 2), DataType::Float64);
    let distinct = WindowFunctionSpec { distinct: true, ..mean.clone() };
    let wide_type = DataType::Decimal256(50, 2);
    let wide_value =
        Expr::Cast { expr: Box::new(Expr::Column(2)), to: wide_type.clone(), fallible: false };
    let wide = function("avg", vec![wide_value], wide_type, DataType::Float64);
    let rows = run_over(&[input], by_order(), vec![mean, distinct, wide]);
    assert_eq!(rows, ["1.0|1.0|1.0", "1.0|1.0|1.0", "1.5|1.75|1.5", "∅|∅|∅"]);
}

/// A generator of numbers for the random test.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

type Row = (i64, Option<i64>, Option<i64>);

fn random_rows(random: &mut Random) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..200)
        .map(|_| {
            let order = (random.below(8) > 0).then(|| random.below(12) as i64);
            let value = (random.below(5) > 0).then(|| random.below(40) as i64 - 20);
            (random.below(6) as i64, order, value)
        })
        .collect();
    // NULLs last in both directions keeps the oracle short.
    rows.sort_by_key(|r| (r.0, r.1.is_none(), r.1));
    rows
}

/// Whether row `j` is in the frame of row `i`, said as the standard says it.
fn in_frame(rows: &[Row], spec: &WindowFrameSpec, i: usize, j: usize) -> bool {
    if rows[i].0 != rows[j].0 {
        return false;
    }
    let number = |b: &FrameBound| match b {
        FrameBound::Preceding(Literal(v)) => -v.to_string().parse::<i64>().unwrap(),
        FrameBound::Following(Literal(v)) => v.to_string().parse::<i64>().unwrap(),
        _ => 0,
    };
    let start = (spec.start != FrameBound::UnboundedPreceding).then(|| number(&spec.start));
    let end = (spec.end != FrameBound::UnboundedFollowing).then(|| number(&spec.end));
    let distance = match spec.units {
        FrameUnits::Rows => j as i64 - i as i64,
        FrameUnits::Groups => {
            let group = |k: usize| {
                let mut keys: Vec<_> = rows
                    .iter()
                    .filter(|r| r.0 == rows[k].0)
                    .map(|r| (r.1.is_none(), r.1))
                    .collect();
                keys.dedup();
                keys.iter().position(|key| key.1 == rows[k].1).unwrap() as i64
            };
            group(j) - group(i)
        }
        FrameUnits::Range => match (rows[i].1, rows[j].1) {
            (Some(a), Some(b)) => b - a,
            (None, None) => {
                return true;
            }
            // A NULL lies after every value, at no distance: only unbounded ends reach it.
            (Some(_), None) => return end.is_none(),
            (None, Some(_)) => return start.is_none(),
        },
    };
    start.is_none_or(|s| distance >= s) && end.is_none_or(|e| distance <= e)
}

fn random_bound(random: &mut Random, start: bool) -> FrameBound {
    match random.below(4) {
        0 if start => FrameBound::UnboundedPreceding,
        0 => FrameBound::UnboundedFollowing,
        1 => FrameBound::CurrentRow,
        2 => preceding(random.below(4)),
        _ => following(random.below(4)),
    }
}

fn text<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or("∅".to_string(), |v| v.to_string())
}

#[test]
fn frames_agree_with_the_definition() {
    for seed in 1..80 {
        let mut random = Random(seed * 0x9e37_79b9);
        let rows = random_rows(&mut random);
        let units =
            [FrameUnits::Rows, FrameUnits::Range, FrameUnits::Groups][random.below(3) as usize];
        let spec =
            frame(units, (random_bound(&mut random, true), random_bound(&mut random, false)));
        let all = batch(vec![
            Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|r| r.2).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|r| r.2.map(|v| v as f64)).collect::<Float64Array>()),
            Arc::new(rows.iter().map(|r| r.2.map(|v| v.to_string())).collect::<StringArray>()),
        ]);
        let input: Vec<Batch> =
            (0..200).step_by(30).map(|at| all.slice(at, 30.min(200 - at))).collect();
        let int = DataType::Int64;
        let column = |i| vec![Expr::Column(i)];
        let mut functions = vec![
            function("count", column(2), int.clone(), int.clone()),
            function("sum", column(2), int.clone(), int.clone()),
            function("sum", column(3), DataType::Float64, DataType::Float64),
            function("min", column(2), int.clone(), int.clone()),
            function("max", column(4), DataType::Utf8, DataType::Utf8),
            function("first_value", column(2), int.clone(), int.clone()),
            function("last_value", column(2), int.clone(), int.clone()),
            function("count", column(2), int.clone(), int.clone()),
        ];
        functions[7].distinct = true;
        functions.iter_mut().for_each(|f| f.frame = spec.clone());
        functions[6].ignore_nulls = true;
        let expected: Vec<String> = (0..rows.len())
            .map(|i| {
                let seen: Vec<Option<i64>> = (0..rows.len())
                    .filter(|&j| in_frame(&rows, &spec, i, j))
                    .map(|j| rows[j].2)
                    .collect();
                let mut values: Vec<i64> = seen.iter().flatten().copied().collect();
                let last = values.last().copied();
                let sum = (!values.is_empty()).then(|| values.iter().sum::<i64>());
                let count = values.len();
                let max = values.iter().map(|v| v.to_string()).max();
                let first = seen.first().copied().flatten();
                values.sort_unstable();
                let min = values.first().copied();
                values.dedup();
                [
                    count.to_string(),
                    text(sum),
                    text(sum.map(|s| format!("{s}.0"))),
                    text(min),
                    text(max),
                    text(first),
                    text(last),
                    values.len().to_string(),
                ]
                .join("|")
            })
            .collect();
        let order = vec![SortKeySpec::ascending(Expr::Column(1))];
        let found = run_over(&input, order, functions);
        assert_eq!(found, expected, "seed {seed}, {spec:?}");
    }
}

#[test]
fn months_reach_as_far_as_the_calendar_says() {
    let days = ["2024-01-31", "2024-02-29", "2024-03-01", "2024-03-31"];
    let days = days.map(|d| d.parse::<chrono_date::Day>().unwrap().0);
    let input = batch(vec![
        Arc::new(Int64Array::from(vec![1; 4])),
        Arc::new(arrow::array::PrimitiveArray::<Date32Type>::from(days.to_vec())),
    ]);
    let month = IntervalMonthDayNanoType::make_value(1, 0, 0);
    let offset = FrameBound::Preceding(Literal(ScalarValue::IntervalMonthDayNano(Some(month))));
    let mut count = function("count", vec![], DataType::Int64, DataType::Int64);
    count.frame = frame(FrameUnits::Range, (offset, FrameBound::CurrentRow));
    assert_eq!(run_over(&[input], by_order(), vec![count]), ["1", "2", "2", "3"]);
}

/// Days since 1970 of a date's text.
mod chrono_date {
    pub struct Day(pub i32);
    impl std::str::FromStr for Day {
        type Err = arrow::error::ArrowError;
        fn from_str(text: &str) -> Result<Self, Self::Err> {
            use arrow::compute::kernels::cast_utils::Parser;
            arrow::datatypes::Date32Type::parse(text)
                .map(Day)
                .ok_or_else(|| arrow::error::ArrowError::ParseError(text.into()))
        }
    }
}

#[test]
fn other_aggregates_go_through_accumulators() {
    let mut spread =
        function("stddev", vec![Expr::Column(1)], DataType::Float64, DataType::Float64);
    spread.frame = frame(FrameUnits::Rows, (preceding(1), FrameBound::CurrentRow));
    let input = batch(vec![
        Arc::new(Int64Array::from(vec![1, 1, 1, 2])),
        Arc::new(Float64Array::from(vec![1.0, 3.0, 3.0, 9.0])),
    ]);
    let rows = run_over(&[input], by_order(), vec![spread]);
    assert_eq!(rows, ["∅", "1.4142135623730951", "0.0", "∅"]);
}

#[test]
fn many_small_and_one_large_partition() {
    let rows = 5000_u64;
    let keys = UInt64Array::from_iter_values((0..rows).map(|i| if i < 2500 { i } else { 2500 }));
    let all = batch(vec![Arc::new(keys) as ArrayRef]);
    let input: Vec<Batch> = (0..5).map(|i| all.slice(i * 1000, 1000)).collect();
    let number = function("row_number", vec![], DataType::UInt64, DataType::UInt64);
    let spec = WindowSpec {
        input: vec![DataType::UInt64],
        partition_by: vec![Expr::Column(0)],
        order_by: vec![],
        functions: vec![number],
    };
    let out = check(&OperatorSpec::Window(spec), vec![input]);
    assert_eq!(out.len(), 5000);
    assert_eq!(out[100], "100|1");
    assert_eq!(out[4999], "2500|2500");
}
