//! Joins that look one side up: what came before counts, what comes later does not, and what was given goes again.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use arrow_schema::DataType;

use super::*;
use crate::element::RowKind;
use crate::expr::Expr;
use crate::operators::OperatorSpec;
use crate::operators::harness::{Driver, Interruptions, context};
use crate::operators::join_model::Random;

/// A row: key and number.
type Row = (Option<i64>, i64);
type Given = (Option<i64>, i64, Option<i64>, Option<i64>);

fn spec(kind: StreamJoinKind, lookup: u16, withdrawn: bool) -> OperatorSpec {
    let side = |withdrawn| StreamJoinSide {
        types: vec![DataType::Int64; 2],
        keys: vec![Expr::Column(0)],
        withdrawn,
        expiry: None,
    };
    let looked_up = side(true);
    let own = side(withdrawn);
    let (left, right) = if lookup == 0 { (looked_up, own) } else { (own, looked_up) };
    let columns = |own: bool| {
        let left = own == (lookup == 1);
        (0..2).map(move |at| match left {
            true => StreamJoinColumn::Left(at),
            false => StreamJoinColumn::Right(at),
        })
    };
    OperatorSpec::StreamJoin(StreamJoinSpec {
        kind,
        left,
        right,
        null_equal: false,
        null_aware: false,
        lookup: Some(lookup),
        patient: true,
        filter: None,
        output: columns(true).chain(columns(false)).collect(),
    })
}

fn batch(rows: &[(Row, RowKind)]) -> StreamElement {
    let keys: Int64Array = rows.iter().map(|row| row.0.0).collect();
    let numbers: Int64Array = rows.iter().map(|row| Some(row.0.1)).collect();
    let batch = Batch::new(vec![Arc::new(keys), Arc::new(numbers)], rows.len());
    StreamElement::Batch(batch.with_kinds(rows.iter().map(|row| row.1).collect()))
}

/// Rows that are there after all that was given, by how often.
fn fold(elements: Vec<StreamElement>, rows: &mut BTreeMap<Given, i64>) {
    for element in elements {
        let StreamElement::Batch(batch) = element else { continue };
        let batch = batch.compact().unwrap();
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().clone();
        let columns: Vec<_> = (0..4).map(column).collect();
        let cell =
            |at: usize, row: usize| columns[at].is_valid(row).then(|| columns[at].value(row));
        for row in 0..batch.num_rows() {
            let kind = batch.kinds().map_or(RowKind::Insert, |kinds| kinds[row]);
            let given = (cell(0, row), cell(1, row).expect("a number"), cell(2, row), cell(3, row));
            *rows.entry(given).or_default() += if kind == RowKind::Insert { 1 } else { -1 };
        }
    }
    rows.retain(|given, count| {
        assert!(*count >= 0, "{given:?} was never there");
        *count != 0
    });
}

/// Random changes of both sides, one batch at a time, against a list of what each row was given when it came.
fn check(outer: bool, lookup: u16, withdrawn: bool, seed: u64) {
    let kind = match (outer, lookup) {
        (false, _) => StreamJoinKind::Inner,
        (true, 0) => StreamJoinKind::Right,
        (true, _) => StreamJoinKind::Left,
    };
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let mut random = Random(seed);
        let spec = spec(kind, lookup, withdrawn);
        let mut driver = Driver::new(&spec, &context(4), interruptions).unwrap();
        let (mut dimension, mut given): (Vec<Row>, Vec<(Row, Vec<Given>)>) = Default::default();
        let mut got = BTreeMap::new();
        for _ in 0..60 {
            let mut changes = Vec::new();
            let looked_up = random.below(2) == 0;
            for _ in 0..=random.below(4) {
                let key = Some(random.below(4) as i64).filter(|&key| key > 0);
                let row: Row = (key, random.below(3) as i64);
                let removes = random.below(3) == 0;
                if looked_up {
                    let there = dimension.iter().position(|other| *other == row);
                    match there.filter(|_| removes) {
                        Some(at) => drop(dimension.remove(at)),
                        None => dimension.push(row),
                    }
                    changes.push((
                        row,
                        if removes && there.is_some() { RowKind::Delete } else { RowKind::Insert },
                    ));
                    continue;
                }
                // Only rows of earlier batches go, so that which of equal ones goes does not matter here.
                let there = given.iter().position(|(other, _)| *other == row);
                if let Some(at) = there.filter(|_| removes && withdrawn && changes.is_empty()) {
                    given.remove(at);
                    changes.push((row, RowKind::Delete));
                    break;
                }
                let matches = dimension.iter().filter(|other| key.is_some() && other.0 == key);
                let mut rows: Vec<Given> =
                    matches.map(|other| (row.0, row.1, other.0, Some(other.1))).collect();
                if rows.is_empty() && outer {
                    rows.push((row.0, row.1, None, None));
                }
                given.push((row, rows));
                changes.push((row, RowKind::Insert));
            }
            let port = PortId(if looked_up { lookup } else { 1 - lookup });
            fold(driver.feed(port, batch(&changes)).unwrap(), &mut got);
            let mut expected: BTreeMap<Given, i64> = BTreeMap::new();
            for row in given.iter().flat_map(|(_, rows)| rows) {
                *expected.entry(*row).or_default() += 1;
            }
            assert_eq!(
                got, expected,
                "{kind:?} {lookup} {withdrawn} seed {seed} {interruptions:?}"
            );
        }
    }
}

#[test]
fn rows_are_looked_up_as_they_are_when_a_row_comes() {
    for outer in [false, true] {
        for lookup in [0, 1] {
            for withdrawn in [false, true] {
                (1..12).for_each(|seed| check(outer, lookup, withdrawn, seed));
            }
        }
    }
}

#[test]
fn rows_that_look_others_up_are_not_kept() {
    let job = context(1024);
    let spec = spec(StreamJoinKind::Left, 1, false);
    let mut driver = Driver::new(&spec, &job, Interruptions::None).unwrap();
    let rows: Vec<_> = (0..1000).map(|i| ((Some(i), i), RowKind::Insert)).collect();
    driver.feed(PortId(0), batch(&rows)).unwrap();
    let before = job.memory.used();
    for _ in 0..200 {
        driver.feed(PortId(0), batch(&rows)).unwrap();
    }
    assert!(job.memory.used() < before + (1 << 20), "{} after {before}", job.memory.used());
}

#[test]
fn a_withdrawn_row_that_never_came_is_an_error() {
    let spec = spec(StreamJoinKind::Inner, 1, true);
    let mut driver = Driver::new(&spec, &context(8), Interruptions::None).unwrap();
    let error = driver.feed(PortId(0), batch(&[((Some(1), 1), RowKind::Delete)])).unwrap_err();
    assert!(error.to_string().contains("was never there"), "{error}");
}
