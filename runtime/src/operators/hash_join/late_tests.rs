//! Late keys from the build to the final aggregate, against the same with all columns carried along.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, StringViewArray};
use arrow_schema::DataType;

use super::*;
use crate::batch::Batch;
use crate::element::StreamElement;
use crate::job::JobContext;
use crate::operators::OperatorSpec;
use crate::operators::harness::{self, Driver, Interruptions};
use crate::operators::hash_aggregate::{
    AggregatePhase, AggregateSpec, Emission, GroupingSetsSpec, HashAggregateSpec, LateKeysSpec,
};
use crate::operators::hash_join::{HashJoinBuildSpec, HashJoinProbeSpec};

const SHARED: u32 = 4;

/// Key, a name for every seventh, a region with NULLs, one NULL for all.
fn build_rows(rows: i32, repeated: bool) -> Batch {
    let name = |i: i32| format!("name {} with a tail", if repeated { i % 7 } else { i });
    let names = StringViewArray::from_iter_values((0..rows).map(name));
    let regions =
        StringViewArray::from_iter((0..rows).map(|i| (i % 3 > 0).then(|| format!("r{}", i % 3))));
    harness::batch(vec![
        Arc::new(Int32Array::from_iter_values(0..rows)),
        Arc::new(names),
        Arc::new(regions),
    ])
}

/// Keys of which some have no match, and a number.
fn probe_rows(rows: i64, keys: i64) -> Batch {
    let key = |i: i64| (i * 31 % (keys + keys / 4 + 1)) as i32;
    let key: ArrayRef = Arc::new(Int32Array::from_iter_values((0..rows).map(key)));
    harness::batch(vec![key, Arc::new(Int64Array::from_iter_values(0..rows))])
}

fn pieces(batch: &Batch) -> Vec<Batch> {
    (0..batch.num_rows())
        .step_by(100)
        .map(|at| batch.slice(at, 100.min(batch.num_rows() - at)))
        .collect()
}

/// The joined rows: `columns` of the probe and the build.
fn joined(
    job: &Arc<JobContext>,
    kind: JoinKind,
    (build, probe): (&Batch, &Batch),
    output: Vec<JoinColumn>,
) -> Vec<Batch> {
    let types = vec![DataType::Int32, DataType::Utf8View, DataType::Utf8View];
    let spec = OperatorSpec::HashJoinBuild(HashJoinBuildSpec {
        shared: SHARED,
        partitioned: false,
        input: types.clone(),
        keys: vec![Expr::Column(0)],
        null_equal: false,
        null_aware: false,
        tracks_matches: false,
        runtime_filters: Vec::new(),
        late: vec![1, 2],
        probes: 1,
    });
    let mut driver = Driver::new(&spec, job, Interruptions::None).unwrap();
    driver.run_batches(vec![pieces(build)]).unwrap();
    // A second probe that never ends: it holds the build as a chain's own probe does.
    let shared = job.shared.get_or_create(SHARED, SharedHashBuild::default).unwrap();
    shared.probe_started(1, 2);
    let spec = OperatorSpec::HashJoinProbe(HashJoinProbeSpec {
        shared: SHARED,
        partitioned: false,
        kind,
        input: vec![DataType::Int32, DataType::Int64],
        build: types,
        keys: vec![Expr::Column(0)],
        filter: None,
        output,
        null_equal: false,
        null_aware: false,
    });
    let mut driver = Driver::new(&spec, job, Interruptions::EveryBatch).unwrap();
    driver.run_batches(vec![pieces(probe)]).unwrap()
}

fn aggregates(input: usize, exact: bool) -> Vec<AggregateSpec> {
    let of = |function: &str, result: DataType| AggregateSpec {
        function: function.to_string(),
        args: vec![Expr::Column(input)],
        arg_types: vec![DataType::Int64],
        distinct: false,
        filter: None,
        order_by: Vec::new(),
        ignore_nulls: false,
        result,
    };
    let mut all = vec![of("count", DataType::Int64), of("max", DataType::Int64)];
    if !exact {
        // Keeps its values beside the rows.
        all.push(AggregateSpec { distinct: true, ..of("count", DataType::Int64) });
    }
    all
}

/// Partial and final phase over batches.
fn grouped(
    job: &Arc<JobContext>,
    spec: &HashAggregateSpec,
    input: Vec<Batch>,
    interruptions: Interruptions,
) -> Vec<String> {
    let input = input.into_iter().map(StreamElement::Batch).collect();
    let partial = OperatorSpec::HashAggregate(spec.clone());
    let pages = Driver::new(&partial, job, interruptions).unwrap().run(vec![input]).unwrap();
    let last = OperatorSpec::HashAggregate(HashAggregateSpec {
        phase: AggregatePhase::Final,
        late_keys: Vec::new(),
        emission: Emission::AtEnd,
        withdrawn: false,
        ..spec.clone()
    });
    let out = Driver::new(&last, job, interruptions).unwrap().run(vec![pages]).unwrap();
    let batches: Vec<Batch> = out
        .into_iter()
        .map(|element| match element {
            StreamElement::Batch(batch) => batch,
            other => panic!("a final aggregate emitted {other:?}"),
        })
        .collect();
    let mut rows = harness::rows(&batches);
    rows.sort();
    rows
}

fn check(kind: JoinKind, rows: i32, repeated: bool, sets: Option<GroupingSetsSpec>, exact: bool) {
    let (build, probe) = (build_rows(rows, repeated), probe_rows(2_000, i64::from(rows)));
    let early = HashAggregateSpec {
        phase: AggregatePhase::Partial,
        input: vec![DataType::Int64, DataType::Utf8View, DataType::Utf8View],
        keys: vec![Expr::Column(1), Expr::Column(2)],
        key_types: vec![DataType::Utf8View, DataType::Utf8View],
        grouping_sets: sets,
        aggregates: aggregates(0, exact),
        late_keys: Vec::new(),
        emission: Emission::AtEnd,
        withdrawn: false,
    };
    let late = HashAggregateSpec {
        input: vec![DataType::Int64, DataType::UInt32],
        keys: vec![Expr::Column(1), Expr::Column(1)],
        late_keys: vec![LateKeysSpec {
            shared: SHARED,
            partitioned: false,
            reference: 1,
            keys: vec![(0, 1), (1, 2)],
        }],
        ..early.clone()
    };
    let job = harness::context(100);
    let output = vec![JoinColumn::Probe(1), JoinColumn::Build(1), JoinColumn::Build(2)];
    let input = joined(&job, kind, (&build, &probe), output);
    let wanted = grouped(&job, &early, input, Interruptions::None);
    assert!(wanted.len() > 5, "{wanted:?}");
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let job = harness::context(100);
        let output = vec![JoinColumn::Probe(1), JoinColumn::BuildReference];
        let input = joined(&job, kind, (&build, &probe), output);
        let found = grouped(&job, &late, input, interruptions);
        assert_eq!(found, wanted, "{kind:?} {rows} rows, repeated {repeated}, {interruptions:?}");
    }
}

fn rollup() -> GroupingSetsSpec {
    GroupingSetsSpec {
        sets: vec![vec![0, 1], vec![0], vec![]],
        ids: vec![0, 1, 3],
        id_type: DataType::UInt8,
    }
}

#[test]
fn late_keys_give_the_groups_of_early_ones() {
    for kind in [JoinKind::Inner, JoinKind::ProbeOuter] {
        for (rows, repeated) in [(300, true), (300, false), (9_000, true), (9_000, false)] {
            for exact in [true, false] {
                check(kind, rows, repeated, None, exact);
            }
        }
    }
}

#[test]
fn late_keys_go_through_grouping_sets() {
    let apart = GroupingSetsSpec {
        sets: vec![vec![0], vec![1]],
        ids: vec![1, 2],
        id_type: DataType::UInt8,
    };
    for kind in [JoinKind::Inner, JoinKind::ProbeOuter] {
        for sets in [rollup(), apart.clone()] {
            for exact in [true, false] {
                check(kind, 500, true, Some(sets.clone()), exact);
            }
        }
    }
}

#[test]
fn rows_that_agree_share_a_reference() {
    let job = harness::context(100);
    let output = vec![JoinColumn::BuildReference];
    let (build, probe) = (build_rows(1_000, true), probe_rows(5_000, 1_000));
    let batches = joined(&job, JoinKind::Inner, (&build, &probe), output);
    let mut references = harness::rows(&batches);
    references.sort();
    references.dedup();
    assert_eq!(references.len(), 7 * 3, "names times regions");
}
