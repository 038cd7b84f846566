//! Sort, top-n and merge against a naive order, through the operator harness.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int64Array,
    ListArray, StringArray, StringViewArray, UInt64Array,
};
use arrow::datatypes::Int32Type;
use arrow_schema::DataType;

use super::SortSpec;
use crate::batch::{Batch, concat};
use crate::expr::{BinaryOperator, Expr};
use crate::operators::OperatorSpec;
use crate::operators::harness::{batch, check, rows, run, run_interrupted};
use crate::operators::merge::MergeSpec;
use crate::operators::sort_key_spec::SortKeySpec;
use crate::operators::top_n::TopNSpec;
use crate::rows::{SortColumn, SortKeyEncoder};

/// A small generator of numbers; the seed is in every failure's message.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn option<T>(&mut self, value: T) -> Option<T> {
        if self.below(7) == 0 { None } else { Some(value) }
    }
}

const KINDS: u64 = 10;

fn column(kind: u64, rows: usize, random: &mut Random) -> ArrayRef {
    let r = random;
    match kind {
        0 => Arc::new((0..rows).map(|_| r.below(10) as i64 - 5).map(Some).collect::<Int64Array>()),
        1 => Arc::new(
            (0..rows)
                .map(|_| {
                    let value = [i64::MIN, i64::MAX, 0, -1, 7][r.below(5) as usize];
                    r.option(value)
                })
                .collect::<Int64Array>(),
        ),
        2 => Arc::new(
            (0..rows)
                .map(|_| {
                    let value = [f64::NAN, -f64::NAN, 0.0, -0.0, 1.5, -2.5, f64::INFINITY]
                        [r.below(7) as usize];
                    r.option(value)
                })
                .collect::<Float64Array>(),
        ),
        3 => Arc::new(
            (0..rows)
                .map(|_| {
                    let value = format!("prefix-{}", r.below(300));
                    r.option(value)
                })
                .collect::<StringViewArray>(),
        ),
        4 => Arc::new(
            (0..rows)
                .map(|_| {
                    let value = ["", "a", "a\0", "a\0b", "ab", "a long string, well over twelve"]
                        [r.below(6) as usize];
                    r.option(value)
                })
                .collect::<StringArray>(),
        ),
        5 => Arc::new(
            (0..rows)
                .map(|_| {
                    let v = r.below(2) == 0;
                    r.option(v)
                })
                .collect::<BooleanArray>(),
        ),
        6 => Arc::new(
            (0..rows)
                .map(|_| {
                    let value = [
                        i128::from(r.below(1000) as i64 - 500),
                        10_i128.pow(30),
                        -(10_i128.pow(30)),
                    ][r.below(20).min(2) as usize];
                    r.option(value)
                })
                .collect::<Decimal128Array>(),
        ),
        7 => Arc::new(
            (0..rows)
                .map(|_| {
                    let v = r.below(3000) as i32;
                    r.option(v)
                })
                .collect::<Date32Array>(),
        ),
        8 => Arc::new(
            (0..rows)
                .map(|_| {
                    let v = [0, u64::MAX, 3][r.below(3) as usize];
                    r.option(v)
                })
                .collect::<UInt64Array>(),
        ),
        _ => Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>((0..rows).map(|_| {
            let list: Vec<Option<i32>> = (0..r.below(3))
                .map(|_| {
                    let v = r.below(3) as i32;
                    r.option(v)
                })
                .collect();
            r.option(list)
        }))),
    }
}

/// Random batches with the given kinds of key and a last column that numbers the rows.
fn input(kinds: &[u64], batches: usize, random: &mut Random) -> Vec<Batch> {
    let mut next = 0;
    (0..batches)
        .map(|_| {
            let rows = random.below(120) as usize;
            let mut columns: Vec<ArrayRef> =
                kinds.iter().map(|&k| column(k, rows, random)).collect();
            columns.push(Arc::new((next..next + rows as i64).collect::<Int64Array>()));
            next += rows as i64;
            batch(columns)
        })
        .collect()
}

fn types(batch: &Batch) -> Vec<DataType> {
    batch.columns().iter().map(|c| c.data_type().clone()).collect()
}

fn random_keys(count: usize, random: &mut Random) -> Vec<SortKeySpec> {
    (0..count)
        .map(|i| SortKeySpec {
            expr: Expr::Column(i),
            descending: random.below(2) == 0,
            nulls_first: random.below(2) == 0,
        })
        .collect()
}

/// The rows in order, by one sort of the full keys.
fn naive(batches: &[Batch], keys: &[SortKeySpec]) -> Batch {
    let all = concat(batches).unwrap();
    let columns: Vec<SortColumn> = keys
        .iter()
        .enumerate()
        .map(|(i, key)| SortColumn {
            data_type: all.column(i).data_type().clone(),
            descending: key.descending,
            nulls_first: key.nulls_first,
        })
        .collect();
    let encoder = SortKeyEncoder::new(&columns).unwrap();
    let order = encoder.encode(&all.columns()[..keys.len()]).unwrap().sorted();
    all.with_selection(order.into()).compact().unwrap()
}

fn in_order(spec: &OperatorSpec, inputs: Vec<Vec<Batch>>) -> Vec<String> {
    let plain = rows(&run(spec, inputs.clone()).unwrap());
    let interrupted = rows(&run_interrupted(spec, inputs).unwrap());
    assert_eq!(plain, interrupted, "interruptions must not change the order");
    plain
}

#[test]
fn sorts_any_keys_and_keeps_the_order_of_equal_rows() {
    for seed in 1..40 {
        let mut random = Random(seed * 0x9e37_79b9);
        let kinds: Vec<u64> = (0..1 + random.below(3)).map(|_| random.below(KINDS)).collect();
        let batches = input(&kinds, 8, &mut random);
        let keys = random_keys(kinds.len(), &mut random);
        let spec = SortSpec { input: types(&batches[0]), keys: keys.clone(), fetch: None };
        let expected = rows(&[naive(&batches, &keys)]);
        let sorted = in_order(&OperatorSpec::Sort(spec), vec![batches]);
        assert_eq!(sorted, expected, "seed {seed}, kinds {kinds:?}, keys {keys:?}");
    }
}

#[test]
fn gives_the_first_rows() {
    for seed in 1..40 {
        let mut random = Random(seed * 0x51_7cc1_b727);
        let kinds: Vec<u64> = (0..random.below(3)).map(|_| random.below(KINDS)).collect();
        let batches = input(&kinds, 120, &mut random);
        let keys = random_keys(kinds.len(), &mut random);
        let (skip, fetch) = (random.below(20), [0, 1, 10, 3000, 100_000][random.below(5) as usize]);
        let spec = TopNSpec { input: types(&batches[0]), keys: keys.clone(), skip, fetch };
        let all = if keys.is_empty() { concat(&batches).unwrap() } else { naive(&batches, &keys) };
        let expected: Vec<String> =
            rows(&[all]).into_iter().skip(skip as usize).take(fetch as usize).collect();
        let first = in_order(&OperatorSpec::TopN(spec), vec![batches]);
        assert_eq!(first, expected, "seed {seed}, kinds {kinds:?}, keys {keys:?}, {skip}+{fetch}");
    }
}

#[test]
fn merges_ordered_inputs() {
    for seed in 1..40 {
        let mut random = Random(seed * 0x2545_f491);
        let kinds: Vec<u64> = (0..1 + random.below(2)).map(|_| random.below(KINDS)).collect();
        let keys = random_keys(kinds.len(), &mut random);
        let inputs: Vec<Vec<Batch>> = (0..1 + random.below(4))
            .map(|_| {
                let batches = random.below(5) as usize + 1;
                let sorted = naive(&input(&kinds, batches, &mut random), &keys);
                (0..sorted.num_rows())
                    .step_by(50)
                    .map(|at| sorted.slice(at, 50.min(sorted.num_rows() - at)))
                    .collect()
            })
            .collect();
        let fetch = (random.below(2) == 0).then(|| random.below(100));
        let any = input(&kinds, 1, &mut random);
        let spec =
            MergeSpec { input: types(&any[0]), keys: keys.clone(), inputs: inputs.len(), fetch };
        let batches: Vec<Batch> = inputs.iter().flatten().cloned().collect();
        let expected: Vec<String> = match batches.as_slice() {
            [] => Vec::new(),
            batches => rows(&[naive(batches, &keys)]),
        };
        let expected: Vec<String> =
            expected.into_iter().take(fetch.unwrap_or(u64::MAX) as usize).collect();
        let merged = in_order(&OperatorSpec::Merge(spec), inputs);
        assert_eq!(
            merged, expected,
            "seed {seed}, kinds {kinds:?}, keys {keys:?}, fetch {fetch:?}"
        );
    }
}

#[test]
fn sorts_by_expressions_and_within_a_budget() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![3, 1, 2]));
    let negated = Expr::Binary {
        op: BinaryOperator::Minus,
        left: Box::new(Expr::literal(datafusion_common::ScalarValue::Int64(Some(0)))),
        right: Box::new(Expr::Column(0)),
    };
    let spec = SortSpec {
        input: vec![DataType::Int64],
        keys: vec![SortKeySpec::ascending(negated)],
        fetch: Some(2),
    };
    let spec = OperatorSpec::Sort(spec);
    assert_eq!(check(&spec, vec![vec![batch(vec![values.clone()])]]), ["3", "2"]);

    let job = crate::operators::harness::context_with_memory(
        1024,
        crate::memory::MemoryManager::new(1 << 16),
    );
    let mut driver = crate::operators::harness::Driver::new(
        &OperatorSpec::Sort(SortSpec {
            input: vec![DataType::Int64],
            keys: vec![SortKeySpec::ascending(Expr::Column(0))],
            fetch: None,
        }),
        &job,
        crate::operators::harness::Interruptions::None,
    )
    .unwrap();
    let big: ArrayRef = Arc::new((0..100_000).collect::<Int64Array>());
    let error = driver.run_batches(vec![vec![batch(vec![big])]]).unwrap_err();
    assert!(matches!(error, crate::Error::ResourcesExhausted { .. }), "{error}");
}

#[test]
fn small_types_pack() {
    let values: ArrayRef = Arc::new(Int8Array::from(vec![Some(1), None, Some(-3), Some(1)]));
    let spec = SortSpec {
        input: vec![DataType::Int8],
        keys: vec![SortKeySpec { expr: Expr::Column(0), descending: true, nulls_first: false }],
        fetch: None,
    };
    assert_eq!(
        check(&OperatorSpec::Sort(spec), vec![vec![batch(vec![values])]]),
        ["1", "1", "-3", "∅"]
    );
}

#[test]
fn keys_behind_a_full_one_still_decide() {
    let full =
        || Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, i64::MIN, i64::MAX])) as ArrayRef;
    let second: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 5, i64::MIN, 3]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["b", "d", "a", "c"]));
    for other in [second, text] {
        let input = batch(vec![full(), other, Arc::new(Int64Array::from(vec![1, 3, 0, 2]))]);
        let keys =
            vec![SortKeySpec::ascending(Expr::Column(0)), SortKeySpec::ascending(Expr::Column(1))];
        let spec = SortSpec { input: types(&input), keys, fetch: None };
        let sorted = check(&OperatorSpec::Sort(spec), vec![vec![input]]);
        let numbers: Vec<&str> = sorted.iter().filter_map(|row| row.rsplit('|').next()).collect();
        assert_eq!(numbers, ["0", "1", "2", "3"]);
    }
}
