//! Nested loop joins against a nested loop over rows.

use super::*;
use crate::operators::OperatorSpec;
use crate::operators::harness::{Driver, Interruptions, context, rows};
use crate::operators::join_model::{
    KINDS, Model, Random, all_columns, numbers_ascend, pieces, side, side_types,
};

fn check(kind: JoinKind, ascending: bool, (probe, build): (&Batch, &Batch), batch_rows: usize) {
    let types = side_types(&[]);
    let build_spec = OperatorSpec::NestedLoopBuild(NestedLoopBuildSpec {
        shared: 1,
        input: types.clone(),
        tracks_matches: kind.tracks_matches(),
        probes: 1,
    });
    let probe_spec = OperatorSpec::NestedLoopProbe(NestedLoopProbeSpec {
        shared: 1,
        kind,
        input: types.clone(),
        build: types.clone(),
        filter: ascending.then(|| numbers_ascend(0)),
        output: all_columns(kind, 2, 2),
    });
    let expected = Model { kind, keys: 0, null_equal: true, ascending, probe, build }.rows();
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let job = context(batch_rows);
        let mut driver = Driver::new(&build_spec, &job, interruptions).unwrap();
        assert!(driver.run_batches(vec![pieces(build, 3)]).unwrap().is_empty());
        let mut driver = Driver::new(&probe_spec, &job, interruptions).unwrap();
        let out = driver.run_batches(vec![pieces(probe, batch_rows)]).unwrap();
        assert!(out.iter().all(|b| (1..=batch_rows).contains(&b.num_rows())));
        let mut found = rows(&out);
        found.sort();
        assert_eq!(found, expected, "{kind:?}, condition {ascending}, {batch_rows} rows a batch");
    }
}

#[test]
fn every_kind_with_and_without_a_condition() {
    let mut random = Random(42);
    for (probe_rows, build_rows) in [(20, 30), (30, 1), (1, 30), (0, 5), (5, 0), (9, 100)] {
        let probe = side(&mut random, &[], probe_rows, 10);
        let build = side(&mut random, &[], build_rows, 10);
        for kind in KINDS {
            for ascending in [false, true] {
                for batch_rows in [1, 7, 1024] {
                    check(kind, ascending, (&probe, &build), batch_rows);
                }
            }
        }
    }
}

#[test]
fn one_build_row_leaves_the_probe_columns_as_they_are() {
    let mut random = Random(1);
    let (probe, build) = (side(&mut random, &[], 50, 10), side(&mut random, &[], 1, 10));
    let types = side_types(&[]);
    let job = context(64);
    let spec = OperatorSpec::NestedLoopBuild(NestedLoopBuildSpec {
        shared: 1,
        input: types.clone(),
        tracks_matches: false,
        probes: 1,
    });
    Driver::new(&spec, &job, Interruptions::None).unwrap().run_batches(vec![vec![build]]).unwrap();
    let spec = OperatorSpec::NestedLoopProbe(NestedLoopProbeSpec {
        shared: 1,
        kind: JoinKind::Inner,
        input: types.clone(),
        build: types,
        filter: None,
        output: vec![JoinColumn::Probe(0), JoinColumn::Build(0)],
    });
    let mut driver = Driver::new(&spec, &job, Interruptions::None).unwrap();
    let out = driver.run_batches(vec![vec![probe.clone()]]).unwrap();
    assert!(std::sync::Arc::ptr_eq(out[0].column(0), probe.column(0)));
}
