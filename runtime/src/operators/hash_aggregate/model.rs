//! The naive model: rows as plain values, aggregates as functions on the rows of a group.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    StringViewArray,
};
use arrow_schema::DataType;
use datafusion_common::ScalarValue;

use crate::aggregates::AggregateSpec;
use crate::batch::Batch;
use crate::expr::Expr;
use crate::operators::harness;
use crate::operators::sort_key_spec::SortKeySpec;

/// One row of the test input.
#[derive(Debug, Clone)]
pub(in crate::operators) struct Row {
    pub(in crate::operators) name: Option<String>,
    pub(in crate::operators) small: Option<i32>,
    pub(in crate::operators) big: Option<i64>,
    pub(in crate::operators) wild: Option<f64>,
    pub(in crate::operators) money: Option<i128>,
    pub(in crate::operators) text: Option<String>,
    pub(in crate::operators) day: Option<i32>,
    pub(in crate::operators) flag: Option<bool>,
    pub(in crate::operators) tame: Option<f64>,
    pub(in crate::operators) number: i64,
    pub(in crate::operators) third: i64,
}

/// What a group's rows should give, as text.
pub(in crate::operators) type Expected = fn(&[&Row]) -> String;

pub(in crate::operators) fn input_types() -> Vec<DataType> {
    vec![
        DataType::Utf8View,
        DataType::Int32,
        DataType::Int64,
        DataType::Float64,
        DataType::Decimal128(15, 2),
        DataType::Utf8View,
        DataType::Date32,
        DataType::Boolean,
        DataType::Float64,
        DataType::Int64,
        DataType::Int64,
    ]
}

pub(in crate::operators) fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "∅".into(), |value| value.to_string())
}

pub(in crate::operators) fn float(value: Option<f64>) -> String {
    text(value.map(|v| if v == 0.0 { 0.0 } else { v }))
}

fn decimal(value: Option<i128>, scale: u32) -> String {
    text(value.map(|v| {
        let unit = 10_u128.pow(scale);
        let sign = if v < 0 { "-" } else { "" };
        let (whole, rest) = (v.unsigned_abs() / unit, v.unsigned_abs() % unit);
        format!("{sign}{whole}.{rest:0width$}", width = scale as usize)
    }))
}

impl Row {
    /// A cell as the harness shows it.
    pub(in crate::operators) fn text(&self, column: usize) -> String {
        match column {
            0 => text(self.name.clone()),
            1 => text(self.small),
            3 => text(self.wild.map(|v| if v == 0.0 { "0.0".into() } else { format!("{v:?}") })),
            7 => text(self.flag),
            9 => self.number.to_string(),
            10 => self.third.to_string(),
            other => panic!("column {other} is no key"),
        }
    }
}

/// What a model says that does not know the answer.
pub(in crate::operators) const ANYTHING: &str = "?";

/// Whether two cells agree: as text, or as numbers up to rounding.
pub(in crate::operators) fn same(found: &str, wanted: &str) -> bool {
    if found == wanted || wanted == ANYTHING {
        return true;
    }
    match (found.parse::<f64>(), wanted.parse::<f64>()) {
        (Ok(a), Ok(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * b.abs().max(1.0)
        }
        _ => false,
    }
}

pub(in crate::operators) struct Random(pub(in crate::operators) u64);

impl Random {
    pub(in crate::operators) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(6) > 0).then(|| value(self))
    }
}

/// Rows from a seed.
pub(in crate::operators) fn rows(seed: u64, count: usize) -> Vec<Row> {
    let mut random = Random(seed);
    let names =
        ["a", "b", "a name that is longer than twelve bytes", "another name of that length", ""];
    let wild = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, -2.25, f64::INFINITY];
    (0..count)
        .map(|number| Row {
            name: random.maybe(|r| names[r.below(5) as usize].to_string()),
            small: random.maybe(|r| r.below(4) as i32 - 1),
            big: random.maybe(|r| r.below(1 << 40) as i64 - (1 << 39)),
            wild: random.maybe(|r| wild[r.below(7) as usize]),
            money: random.maybe(|r| i128::from(r.below(2_000_000)) - 1_000_000),
            text: random.maybe(|r| "xyz".repeat(r.below(8) as usize) + &r.below(5).to_string()),
            day: random.maybe(|r| r.below(20_000) as i32),
            flag: random.maybe(|r| r.below(2) == 0),
            tame: random.maybe(|r| r.below(50) as f64),
            number: number as i64,
            third: number as i64 % (count as i64 / 3).max(1),
        })
        .collect()
}

/// The rows as batches.
pub(in crate::operators) fn batches(rows: &[Row], batch_rows: usize) -> Vec<Batch> {
    rows.chunks(batch_rows)
        .map(|rows| {
            let money = Decimal128Array::from_iter(rows.iter().map(|r| r.money));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringViewArray::from_iter(rows.iter().map(|r| r.name.as_deref()))),
                Arc::new(Int32Array::from_iter(rows.iter().map(|r| r.small))),
                Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.big))),
                Arc::new(Float64Array::from_iter(rows.iter().map(|r| r.wild))),
                Arc::new(money.with_precision_and_scale(15, 2).unwrap()),
                Arc::new(StringViewArray::from_iter(rows.iter().map(|r| r.text.as_deref()))),
                Arc::new(Date32Array::from_iter(rows.iter().map(|r| r.day))),
                Arc::new(BooleanArray::from_iter(rows.iter().map(|r| r.flag))),
                Arc::new(Float64Array::from_iter(rows.iter().map(|r| r.tame))),
                Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.number))),
                Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.third))),
            ];
            Batch::new(columns, rows.len())
        })
        .collect()
}

/// An aggregate over columns.
pub(in crate::operators) fn spec_of(
    function: &str,
    args: &[usize],
    result: DataType,
) -> AggregateSpec {
    let input = input_types();
    AggregateSpec {
        function: function.into(),
        args: args.iter().map(|&arg| Expr::Column(arg)).collect(),
        arg_types: args.iter().map(|&arg| input[arg].clone()).collect(),
        distinct: false,
        filter: None,
        order_by: Vec::new(),
        ignore_nulls: false,
        result,
    }
}

pub(in crate::operators) fn distinct(
    function: &str,
    args: &[usize],
    result: DataType,
) -> AggregateSpec {
    AggregateSpec { distinct: true, ..spec_of(function, args, result) }
}

pub(in crate::operators) fn filtered(
    function: &str,
    args: &[usize],
    result: DataType,
) -> AggregateSpec {
    AggregateSpec { filter: Some(Expr::Column(7)), ..spec_of(function, args, result) }
}

pub(in crate::operators) fn ordered(
    spec: AggregateSpec,
    columns: &[(usize, bool)],
) -> AggregateSpec {
    let key = |&(column, descending): &(usize, bool)| SortKeySpec {
        expr: Expr::Column(column),
        descending,
        nulls_first: false,
    };
    AggregateSpec { order_by: columns.iter().map(key).collect(), ..spec }
}

pub(in crate::operators) fn with_literal(
    mut spec: AggregateSpec,
    value: ScalarValue,
) -> AggregateSpec {
    spec.arg_types.push(value.data_type());
    spec.args.push(Expr::literal(value));
    spec
}

pub(in crate::operators) fn values<T>(rows: &[&Row], get: impl Fn(&Row) -> Option<T>) -> Vec<T> {
    rows.iter().filter_map(|row| get(row)).collect()
}

pub(in crate::operators) fn sum_of(
    rows: &[&Row],
    get: impl Fn(&Row) -> Option<i128>,
) -> Option<i128> {
    let values = values(rows, get);
    (!values.is_empty()).then(|| values.iter().sum())
}

pub(in crate::operators) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sum of products of deviations, over rows where both are values.
fn deviations(rows: &[&Row]) -> Option<(f64, f64, f64, f64, f64, f64)> {
    let pairs = values(rows, |r| r.tame.zip(r.small.map(f64::from)));
    let n = pairs.len() as f64;
    let y = mean(&pairs.iter().map(|p| p.0).collect::<Vec<_>>())?;
    let x = mean(&pairs.iter().map(|p| p.1).collect::<Vec<_>>())?;
    let sum = |f: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| f(p.0 - y, p.1 - x)).sum::<f64>();
    Some((n, y, x, sum(&|dy, _| dy * dy), sum(&|_, dx| dx * dx), sum(&|dy, dx| dy * dx)))
}

fn variance(rows: &[&Row], less: f64) -> Option<f64> {
    let values = values(rows, |r| r.tame);
    let (mean, n) = (mean(&values)?, values.len() as f64);
    (n > less).then(|| values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - less))
}

/// The order of floats: NaN greatest.
pub(in crate::operators) fn by_float(a: &f64, b: &f64) -> std::cmp::Ordering {
    a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn median(rows: &[&Row]) -> Option<f64> {
    let mut values = values(rows, |r| r.tame);
    values.sort_by(by_float);
    let n = values.len();
    (n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0)
}

/// Rows by a key of theirs, NULLs last, ties as they came.
pub(in crate::operators) fn sorted<'a, K: Ord>(
    rows: &[&'a Row],
    key: impl Fn(&Row) -> Option<K>,
) -> Vec<&'a Row> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| (key(row).is_none(), key(row)));
    rows
}

pub(in crate::operators) fn list(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    if cells.is_empty() { "∅".into() } else { format!("[{}]", cells.join(", ")) }
}

/// Every kind of aggregate with what it should give.
pub(in crate::operators) fn aggregates() -> Vec<(AggregateSpec, Expected)> {
    let mut all = plain();
    all.extend(statistics());
    all.extend(of_sets_and_orders());
    all
}

fn plain() -> Vec<(AggregateSpec, Expected)> {
    use DataType as T;
    let one = ScalarValue::Int64(Some(1));
    vec![
        (with_literal(spec_of("count", &[], T::Int64), one), |rows| rows.len().to_string()),
        (spec_of("count", &[2], T::Int64), |rows| values(rows, |r| r.big).len().to_string()),
        (spec_of("count", &[0, 5], T::Int64), |rows| {
            values(rows, |r| r.name.clone().zip(r.text.clone())).len().to_string()
        }),
        (spec_of("sum", &[2], T::Int64), |rows| text(sum_of(rows, |r| r.big.map(i128::from)))),
        (spec_of("sum", &[4], T::Decimal128(25, 2)), |rows| decimal(sum_of(rows, |r| r.money), 2)),
        (spec_of("sum", &[8], T::Float64), |rows| {
            let values = values(rows, |r| r.tame);
            float((!values.is_empty()).then(|| values.iter().sum()))
        }),
        (spec_of("avg", &[8], T::Float64), |rows| float(mean(&values(rows, |r| r.tame)))),
        (spec_of("avg", &[4], T::Decimal128(19, 6)), |rows| {
            let n = values(rows, |r| r.money).len() as i128;
            let sum = sum_of(rows, |r| r.money).map(|sum| sum * 10_000);
            decimal(sum.map(|sum| (2 * sum + n * sum.signum()) / (2 * n)), 6)
        }),
        (spec_of("avg", &[4], T::Float64), |rows| {
            let n = values(rows, |r| r.money).len() as f64;
            float(sum_of(rows, |r| r.money).map(|sum| sum as f64 / (100.0 * n)))
        }),
        (spec_of("min", &[2], T::Int64), |rows| text(values(rows, |r| r.big).into_iter().min())),
        (spec_of("max", &[4], T::Decimal128(15, 2)), |rows| {
            decimal(values(rows, |r| r.money).into_iter().max(), 2)
        }),
        (spec_of("min", &[3], T::Float64), |rows| {
            float(values(rows, |r| r.wild).into_iter().min_by(by_float))
        }),
        (spec_of("max", &[3], T::Float64), |rows| {
            float(values(rows, |r| r.wild).into_iter().max_by(by_float))
        }),
        (spec_of("min", &[5], T::Utf8View), |rows| {
            text(values(rows, |r| r.text.clone()).into_iter().min())
        }),
        (spec_of("max", &[5], T::Utf8View), |rows| {
            text(values(rows, |r| r.text.clone()).into_iter().max())
        }),
        (spec_of("max", &[6], T::Date32), |rows| {
            let day = values(rows, |r| r.day).into_iter().max();
            text(
                day.and_then(arrow::temporal_conversions::date32_to_datetime).map(|day| day.date()),
            )
        }),
        (spec_of("min", &[7], T::Boolean), |rows| text(values(rows, |r| r.flag).into_iter().min())),
        (spec_of("bool_or", &[7], T::Boolean), |rows| {
            text(values(rows, |r| r.flag).into_iter().max())
        }),
        (spec_of("bit_and", &[2], T::Int64), |rows| {
            text(values(rows, |r| r.big).into_iter().reduce(|a, b| a & b))
        }),
        (spec_of("bit_xor", &[2], T::Int64), |rows| {
            text(values(rows, |r| r.big).into_iter().reduce(|a, b| a ^ b))
        }),
        (filtered("sum", &[2], T::Int64), |rows| {
            text(sum_of(rows, |r| r.big.filter(|_| r.flag == Some(true)).map(i128::from)))
        }),
        (filtered("count", &[], T::Int64), |rows| {
            values(rows, |r| r.flag.filter(|flag| *flag)).len().to_string()
        }),
        (filtered("median", &[8], T::Float64), |rows| {
            let rows: Vec<&Row> = rows.iter().copied().filter(|r| r.flag == Some(true)).collect();
            float(median(&rows))
        }),
    ]
}

fn statistics() -> Vec<(AggregateSpec, Expected)> {
    use DataType as T;
    let yx = |function: &str| spec_of(function, &[8, 1], T::Float64);
    vec![
        (spec_of("var_pop", &[8], T::Float64), |rows| float(variance(rows, 0.0))),
        (spec_of("var_samp", &[8], T::Float64), |rows| float(variance(rows, 1.0))),
        (spec_of("stddev", &[8], T::Float64), |rows| float(variance(rows, 1.0).map(f64::sqrt))),
        (yx("covar_pop"), |rows| float(deviations(rows).map(|d| d.5 / d.0))),
        (yx("covar_samp"), |rows| {
            float(deviations(rows).filter(|d| d.0 > 1.0).map(|d| d.5 / (d.0 - 1.0)))
        }),
        (yx("corr"), |rows| {
            let some = deviations(rows).filter(|d| d.3 > 0.0 && d.4 > 0.0);
            float(some.map(|d| d.5 / (d.3 * d.4).sqrt()))
        }),
        (yx("regr_slope"), |rows| float(deviations(rows).filter(|d| d.4 > 0.0).map(|d| d.5 / d.4))),
        (yx("regr_intercept"), |rows| {
            float(deviations(rows).filter(|d| d.4 > 0.0).map(|d| d.1 - d.2 * d.5 / d.4))
        }),
        (spec_of("regr_count", &[8, 1], T::UInt64), |rows| {
            text(Some(deviations(rows).map_or(0.0, |d| d.0)))
        }),
        (yx("regr_avgx"), |rows| float(deviations(rows).map(|d| d.2))),
        (yx("regr_syy"), |rows| float(deviations(rows).map(|d| d.3))),
        (spec_of("median", &[8], T::Float64), |rows| float(median(rows))),
        (
            with_literal(
                spec_of("percentile_cont", &[8], T::Float64),
                ScalarValue::Float64(Some(0.5)),
            ),
            |rows| float(median(rows)),
        ),
        (
            with_literal(
                spec_of("percentile_disc", &[8], T::Float64),
                ScalarValue::Float64(Some(0.3)),
            ),
            |rows| {
                let mut values = values(rows, |r| r.tame);
                values.sort_by(by_float);
                let place = (0.3 * values.len() as f64).ceil() as usize;
                float(values.get(place.max(1) - 1).copied())
            },
        ),
        (spec_of("mode", &[1], T::Int32), |rows| {
            let values = values(rows, |r| r.small);
            let times = |value: i32| values.iter().filter(|other| **other == value).count();
            text(values.iter().copied().max_by_key(|value| (times(*value), Reverse(*value))))
        }),
        (spec_of("approx_distinct", &[1], T::UInt64), |rows| {
            values(rows, |r| r.small).into_iter().collect::<BTreeSet<_>>().len().to_string()
        }),
    ]
}

fn of_sets_and_orders() -> Vec<(AggregateSpec, Expected)> {
    use DataType as T;
    let strings = || T::List(Arc::new(arrow_schema::Field::new_list_field(T::Utf8View, true)));
    let comma = ScalarValue::Utf8View(Some(",".into()));
    vec![
        (distinct("count", &[5], T::Int64), |rows| {
            values(rows, |r| r.text.clone()).into_iter().collect::<BTreeSet<_>>().len().to_string()
        }),
        (distinct("count", &[3], T::Int64), |rows| {
            let canonical =
                |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { (v + 0.0).to_bits() };
            values(rows, |r| r.wild.map(canonical))
                .into_iter()
                .collect::<BTreeSet<_>>()
                .len()
                .to_string()
        }),
        (distinct("sum", &[1], T::Int64), |rows| {
            let set = values(rows, |r| r.small).into_iter().collect::<BTreeSet<_>>();
            text((!set.is_empty()).then(|| set.iter().sum::<i32>()))
        }),
        (distinct("avg", &[8], T::Float64), |rows| {
            let set =
                values(rows, |r| r.tame.map(|v| v as i64)).into_iter().collect::<BTreeSet<_>>();
            float(mean(&set.into_iter().map(|v| v as f64).collect::<Vec<_>>()))
        }),
        (ordered(spec_of("first_value", &[5], T::Utf8View), &[(9, false)]), |rows| {
            text(sorted(rows, |r| Some(r.number)).first().and_then(|r| r.text.clone()))
        }),
        (ordered(spec_of("last_value", &[9], T::Int64), &[(6, false), (9, false)]), |rows| {
            let mut rows = sorted(rows, |r| Some(r.number));
            rows.sort_by_key(|r| (r.day.is_none(), r.day));
            text(rows.last().map(|r| r.number))
        }),
        (
            AggregateSpec {
                ignore_nulls: true,
                ..ordered(spec_of("first_value", &[8], T::Float64), &[(9, true)])
            },
            |rows| {
                let rows = sorted(rows, |r| Some(-r.number));
                float(rows.iter().find_map(|r| r.tame))
            },
        ),
        (ordered(spec_of("array_agg", &[5], strings()), &[(9, true)]), |rows| {
            list(sorted(rows, |r| Some(-r.number)).into_iter().map(|r| text(r.text.clone())))
        }),
        (
            ordered(
                with_literal(spec_of("string_agg", &[5], T::Utf8View), comma.clone()),
                &[(9, false)],
            ),
            |rows| {
                let parts: Vec<String> = sorted(rows, |r| Some(r.number))
                    .iter()
                    .filter_map(|r| r.text.clone())
                    .collect();
                text((!parts.is_empty()).then(|| parts.join(",")))
            },
        ),
        (
            AggregateSpec {
                distinct: true,
                ..ordered(
                    with_literal(spec_of("string_agg", &[5], T::Utf8View), comma),
                    &[(5, false)],
                )
            },
            |rows| {
                let set: BTreeSet<String> = values(rows, |r| r.text.clone()).into_iter().collect();
                text((!set.is_empty()).then(|| set.into_iter().collect::<Vec<_>>().join(",")))
            },
        ),
        (
            ordered(
                with_literal(spec_of("nth_value", &[9], T::Int64), ScalarValue::Int64(Some(2))),
                &[(9, false)],
            ),
            |rows| text(sorted(rows, |r| Some(r.number)).get(1).map(|r| r.number)),
        ),
    ]
}

/// What each group should give, by the text of its key.
pub(in crate::operators) fn expected(
    rows: &[Row],
    keys: &[usize],
    wanted: &[Expected],
) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    if keys.is_empty() {
        groups.insert(String::new(), Vec::new());
    }
    for row in rows {
        let key = keys.iter().map(|&key| row.text(key) + "|").collect::<String>();
        groups.entry(key).or_default().push(row);
    }
    groups
        .into_iter()
        .map(|(key, rows)| (key, wanted.iter().map(|expected| expected(&rows)).collect()))
        .collect()
}

/// Compares results with what they should be.
pub(in crate::operators) fn assert_results(
    found: &[Batch],
    keys: usize,
    expected: &BTreeMap<String, Vec<String>>,
    what: &str,
) {
    assert_lines(harness::rows(found), keys, expected, what);
}

/// The same for results as text.
pub(in crate::operators) fn assert_lines(
    lines: Vec<String>,
    keys: usize,
    expected: &BTreeMap<String, Vec<String>>,
    what: &str,
) {
    assert_eq!(lines.len(), expected.len(), "{what}: number of groups");
    for line in lines {
        let cells: Vec<&str> = line.split('|').collect();
        // A group shows the first of its equal keys, which may be −0.0.
        let shown = |cell: &&str| if *cell == "-0.0" { "0.0|".into() } else { format!("{cell}|") };
        let key = cells[..keys].iter().map(shown).collect::<String>();
        let wanted = expected.get(&key).unwrap_or_else(|| panic!("{what}: no group {key}"));
        for (i, (found, wanted)) in cells[keys..].iter().zip(wanted).enumerate() {
            assert!(
                same(found, wanted),
                "{what}: group {key}, aggregate {i}: {found} for {wanted}"
            );
        }
    }
}
