//! Aggregates over every type, against Arrow's own kernels on one group at a time.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, NullArray, StringArray, UInt32Array};
use arrow::compute::{cast, sort, take};
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};

use super::model::spec_of;
use super::*;
use crate::expr::Expr;
use crate::operators::OperatorSpec;
use crate::operators::harness;
use crate::rows::RowId;

const GROUPS: i64 = 5;
const ROWS: i64 = 400;

fn aggregate(function: &str, argument: &DataType, result: &DataType) -> AggregateSpec {
    AggregateSpec {
        args: vec![Expr::Column(1)],
        arg_types: vec![argument.clone()],
        ..spec_of(function, &[], result.clone())
    }
}

/// The results of aggregates over column 1, grouped by the integers of column 0.
fn run(values: &ArrayRef, aggregates: Vec<AggregateSpec>) -> Vec<String> {
    let keys: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..values.len() as i64).map(|i| i % GROUPS)));
    let spec = HashAggregateSpec {
        phase: AggregatePhase::Single,
        input: vec![DataType::Int64, values.data_type().clone()],
        keys: vec![Expr::Column(0)],
        key_types: vec![DataType::Int64],
        grouping_sets: None,
        aggregates,
        late_keys: Vec::new(),
        emission: Emission::AtEnd,
        withdrawn: false,
    };
    let whole = harness::batch(vec![keys, values.clone()]);
    let parts =
        vec![whole.slice(0, 150), whole.slice(150, 1), whole.slice(151, values.len() - 151)];
    let job = harness::context(64);
    let phase = |phase| OperatorSpec::HashAggregate(HashAggregateSpec { phase, ..spec.clone() });
    let mut rows = harness::check(&phase(AggregatePhase::Single), vec![parts.clone()]);
    let drive = |phase: OperatorSpec, input: Vec<StreamElement>| {
        harness::Driver::new(&phase, &job, harness::Interruptions::EveryBatch)
            .unwrap()
            .run(vec![input])
            .unwrap()
    };
    let batches = parts.into_iter().map(StreamElement::Batch).collect();
    let pages = drive(phase(AggregatePhase::Partial), batches);
    let merged =
        drive(phase(AggregatePhase::Final), pages).into_iter().map(|element| match element {
            StreamElement::Batch(batch) => batch,
            other => panic!("{other:?}"),
        });
    let mut merged = harness::rows(&merged.collect::<Vec<_>>());
    rows.sort();
    merged.sort();
    assert_eq!(rows, merged, "two phases give what one gives");
    rows
}

/// The non-NULL values of a group in order.
fn sorted_group(values: &ArrayRef, group: i64) -> ArrayRef {
    let rows = (group..values.len() as i64).step_by(GROUPS as usize);
    let valid = rows.filter(|&row| values.is_valid(row as usize)).map(|row| row as u32);
    let group = take(values, &UInt32Array::from_iter_values(valid), None).unwrap();
    sort(&group, None).unwrap()
}

fn check_extremes(values: &ArrayRef) {
    let data_type = values.data_type().clone();
    let functions = ["min", "max", "first_value", "count"];
    let result = |f: &str| if f == "count" { DataType::Int64 } else { data_type.clone() };
    let aggregates =
        functions.iter().map(|f| aggregate(f, &data_type, &result(f))).collect::<Vec<_>>();
    let found = run(values, aggregates);
    for group in 0..GROUPS {
        let sorted = sorted_group(values, group);
        let cell = |array: &ArrayRef, row: usize| {
            harness::rows(&[harness::batch(vec![array.slice(row, 1)])]).remove(0)
        };
        let (min, max) = match sorted.len() {
            0 => ("∅".into(), "∅".into()),
            n => (cell(&sorted, 0), cell(&sorted, n - 1)),
        };
        let first = cell(values, group as usize);
        let expected = format!("{group}|{min}|{max}|{first}|{}", sorted.len());
        assert_eq!(found[group as usize], expected, "{data_type}");
    }
}

/// Integers from a fixed sequence with NULLs; the last group has no values.
fn integers(bound: i64) -> Int64Array {
    (0..ROWS)
        .map(|i| {
            let value = (i * 7919 + 13) % (2 * bound) - bound;
            (i % 7 != 3 && i % GROUPS != GROUPS - 1).then_some(value)
        })
        .collect()
}

#[test]
fn extremes_of_every_fixed_width_type() {
    use DataType as T;
    let types = [
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::Float32,
        T::Float64,
        T::Decimal32(9, 2),
        T::Decimal64(18, 3),
        T::Decimal128(38, 4),
        T::Decimal256(60, 5),
        T::Date32,
        T::Date64,
        T::Timestamp(TimeUnit::Second, None),
        T::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        T::Timestamp(TimeUnit::Nanosecond, None),
        T::Duration(TimeUnit::Millisecond),
        T::Utf8,
        T::LargeUtf8,
        T::Utf8View,
        T::Boolean,
    ];
    for data_type in types {
        check_extremes(&cast(&integers(100), &data_type).unwrap());
    }
    let positive = Int64Array::from_iter(integers(50).iter().map(|v| v.map(|v| v + 50)));
    for data_type in [T::UInt8, T::UInt16, T::UInt32, T::UInt64, T::Time64(TimeUnit::Nanosecond)] {
        check_extremes(&cast(&positive, &data_type).unwrap());
    }
    for data_type in [T::Binary, T::LargeBinary, T::BinaryView] {
        check_extremes(&cast(&cast(&positive, &T::Utf8).unwrap(), &data_type).unwrap());
    }
    let year_month = T::Interval(IntervalUnit::YearMonth);
    check_extremes(&cast(&cast(&positive, &T::Int32).unwrap(), &year_month).unwrap());
}

#[test]
fn sums_and_means_of_every_number() {
    use DataType as T;
    let cases = [
        (T::Int8, T::Int64),
        (T::Int32, T::Int64),
        (T::Int64, T::Int64),
        (T::Float32, T::Float64),
        (T::Decimal32(9, 2), T::Decimal32(9, 2)),
        (T::Decimal64(18, 2), T::Decimal64(18, 2)),
        (T::Decimal128(38, 2), T::Decimal128(38, 2)),
        (T::Decimal256(50, 2), T::Decimal256(60, 2)),
        (T::Duration(TimeUnit::Second), T::Duration(TimeUnit::Second)),
    ];
    for (argument, result) in cases {
        let source = integers(60);
        let values = cast(&source, &argument).unwrap();
        let mean = match &result {
            T::Duration(_) => result.clone(),
            _ if argument.is_decimal() => T::Decimal128(38, 6),
            _ => T::Float64,
        };
        let sums = vec![aggregate("sum", &argument, &result), aggregate("avg", &argument, &mean)];
        let found = run(&values, sums);
        for group in 0..GROUPS {
            let rows: Vec<i64> = (group..ROWS)
                .step_by(GROUPS as usize)
                .filter(|&i| source.is_valid(i as usize))
                .map(|i| source.value(i as usize))
                .collect();
            let cells: Vec<&str> = found[group as usize].split('|').collect();
            if rows.is_empty() {
                assert_eq!(cells[1..], ["∅", "∅"], "{argument}");
                continue;
            }
            let sum: i64 = rows.iter().sum();
            let expected = cast(&Int64Array::from(vec![sum]), &result).unwrap();
            let expected = harness::rows(&[harness::batch(vec![expected])]).remove(0);
            assert_eq!(cells[1], expected, "{argument}");
            if !matches!(result, T::Duration(_)) {
                let mean = sum as f64 / rows.len() as f64;
                let found: f64 = cells[2].parse().unwrap();
                assert!((found - mean).abs() < 1e-5, "{argument}: {found} for {mean}");
            }
        }
    }
}

#[test]
fn arguments_without_values_and_dictionaries() {
    let nothing: ArrayRef = Arc::new(NullArray::new(200));
    let result = DataType::Int64;
    let found = run(
        &nothing,
        ["count", "sum", "min", "bool_or"]
            .iter()
            .map(|f| aggregate(f, &DataType::Null, &result))
            .collect(),
    );
    assert_eq!(found[0], "0|0|∅|∅|∅");
    let strings =
        StringArray::from_iter((0..ROWS).map(|i| (i % 9 > 0).then(|| format!("s{}", i % 9))));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let values = cast(&strings, &dictionary).unwrap();
    let found = run(&values, vec![aggregate("max", &dictionary, &DataType::Utf8)]);
    assert!(found.iter().all(|row| row.ends_with("|s8")), "{found:?}");
}

#[test]
fn nested_values_have_extremes_and_are_kept() {
    let numbers = cast(&integers(30), &DataType::Int32).unwrap();
    let field = Arc::new(Field::new("a", DataType::Int32, true));
    let structs: ArrayRef = Arc::new(arrow::array::StructArray::from(vec![(field, numbers)]));
    let data_type = structs.data_type().clone();
    let found = run(&structs, vec![aggregate("max", &data_type, &data_type)]);
    assert_eq!(found.len(), GROUPS as usize);
    assert!(found[0].contains("{a: "), "{found:?}");
}

#[test]
fn rows_can_be_taken_out_again() {
    use crate::aggregates::{AggregateStates, Arguments, Groups, StateUse};
    use crate::expr::{FunctionRegistry, positional_schema};
    use crate::memory::MemoryManager;
    use crate::rows::{RowLayout, RowStore};

    let input = [DataType::Int64, DataType::Float64];
    let of = |function: &str, column, result| AggregateSpec {
        args: vec![Expr::Column(column)],
        arg_types: vec![input[column].clone()],
        ..spec_of(function, &[], result)
    };
    let specs = [
        of("sum", 0, DataType::Int64),
        of("count", 0, DataType::Int64),
        of("avg", 1, DataType::Float64),
        of("var_pop", 1, DataType::Float64),
    ];
    let schema = positional_schema(&input);
    let arguments = Arguments::new(&specs, &schema, &FunctionRegistry::built_in()).unwrap();
    let reservation = MemoryManager::unlimited().reserve("states");
    let mut states =
        AggregateStates::new(&specs, &arguments, StateUse::Once, &reservation).unwrap();
    assert_eq!(states.slots().len(), 2 + 2 + 3, "sum and count of one column share a state");
    let layout = RowLayout::new(&[], states.slots()).unwrap();
    states.bind(layout.states(), layout.states());
    let mut store = RowStore::new(layout, reservation.share());
    store.append(&[], Selected::All(2)).unwrap();
    let columns = |rows: std::ops::Range<i64>| -> Vec<ArrayRef> {
        let ints = Int64Array::from_iter(rows.map(|i| (i % 4 > 0).then_some(i)));
        vec![Arc::new(ints.clone()), cast(&ints, &DataType::Float64).unwrap()]
    };
    let ids: Vec<RowId> = (0..20).map(|i| i % 2).collect();
    states.update(&mut store.states_mut(), &columns(0..20), Groups::Many(&ids)).unwrap();
    states.retract(&mut store.states_mut(), &columns(6..20), Groups::Many(&ids[6..])).unwrap();
    let kept = states.finalize(&mut store.states_mut(), &[0, 1]).unwrap();
    assert_eq!(
        harness::rows(&[harness::batch(kept)]),
        ["2|1|2.0|0.0", "9|3|3.0|2.6666666666666665"]
    );
    states.retract(&mut store.states_mut(), &columns(0..6), Groups::Many(&ids[..6])).unwrap();
    let none = states.finalize(&mut store.states_mut(), &[0, 1]).unwrap();
    assert_eq!(harness::rows(&[harness::batch(none)]), ["∅|0|∅|∅"; 2]);
}
