//! Sort-merge joins against a nested loop over rows.

use arrow::array::UInt32Array;
use arrow::compute::take;

use super::*;
use crate::batch::Batch;
use crate::operators::OperatorSpec;
use crate::operators::harness::{Driver, Interruptions, context, rows};
use crate::operators::join_model::{
    Form, KINDS, Model, Random, all_columns, numbers_ascend, pieces, side, side_types,
};
use crate::rows::{SortColumn, SortKeyEncoder};

/// The batch in the order of its first `keys` columns.
fn ordered(batch: &Batch, directions: &[(bool, bool)]) -> Batch {
    let keys = &batch.columns()[..directions.len()];
    let columns: Vec<SortColumn> = keys
        .iter()
        .zip(directions)
        .map(|(key, &(descending, nulls_first))| SortColumn {
            data_type: key.data_type().clone(),
            descending,
            nulls_first,
        })
        .collect();
    let order = SortKeyEncoder::new(&columns).unwrap().encode(keys).unwrap().sorted();
    let order = UInt32Array::from(order);
    let columns = batch.columns().iter().map(|c| take(c, &order, None).unwrap()).collect();
    Batch::new(columns, batch.num_rows())
}

fn every_kind(
    forms: &[Form],
    directions: &[(bool, bool)],
    distinct: u64,
    sizes: (usize, usize),
    batch_rows: usize,
) {
    let mut random = Random(distinct ^ batch_rows as u64);
    let probe = ordered(&side(&mut random, forms, sizes.0, distinct), directions);
    let build = ordered(&side(&mut random, forms, sizes.1, distinct), directions);
    let types = side_types(forms);
    let keys = forms.len();
    for kind in KINDS {
        for (null_equal, ascending) in [(false, false), (false, true), (true, false), (true, true)]
        {
            let spec = OperatorSpec::SortMergeJoin(SortMergeJoinSpec {
                left: types.clone(),
                right: types.clone(),
                keys: (0..keys).map(|i| (Expr::Column(i), Expr::Column(i))).collect(),
                directions: directions.to_vec(),
                kind,
                filter: ascending.then(|| numbers_ascend(keys)),
                output: all_columns(kind, types.len(), types.len()),
                null_equal,
            });
            let expected =
                Model { kind, keys, null_equal, ascending, probe: &probe, build: &build }.rows();
            for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
                let job = context(batch_rows);
                let inputs = vec![pieces(&probe, batch_rows), pieces(&build, batch_rows.min(5))];
                let mut driver = Driver::new(&spec, &job, interruptions).unwrap();
                let out = driver.run_batches(inputs).unwrap();
                assert!(out.iter().all(|b| (1..=batch_rows).contains(&b.num_rows())));
                let mut found = rows(&out);
                found.sort();
                assert_eq!(
                    found, expected,
                    "{kind:?} on {forms:?}, null_equal {null_equal}, condition {ascending}, {interruptions:?}, {batch_rows} rows a batch"
                );
            }
        }
    }
}

#[test]
fn one_key() {
    let up = [(false, false)];
    every_kind(&[Form::Dense], &up, 30, (60, 40), 7);
    every_kind(&[Form::Dense], &[(true, true)], 30, (40, 60), 1024);
    every_kind(&[Form::Sparse], &up, 4, (20, 20), 1);
    every_kind(&[Form::Text], &[(false, true)], 20, (60, 40), 7);
    every_kind(&[Form::Float], &[(true, false)], 8, (60, 40), 16);
}

#[test]
fn several_keys() {
    every_kind(&[Form::Dense, Form::Text], &[(false, true), (true, false)], 5, (60, 60), 7);
    every_kind(&[Form::Float, Form::Small], &[(true, true), (false, false)], 3, (60, 60), 1024);
}

#[test]
fn groups_span_batches() {
    every_kind(&[Form::Dense], &[(false, false)], 1, (30, 40), 6);
    every_kind(&[Form::Dense], &[(false, false)], 2, (40, 30), 4);
}

#[test]
fn empty_sides() {
    every_kind(&[Form::Dense], &[(false, false)], 10, (0, 20), 7);
    every_kind(&[Form::Dense], &[(false, false)], 10, (20, 0), 7);
    every_kind(&[Form::Dense], &[(false, false)], 10, (0, 0), 7);
}
