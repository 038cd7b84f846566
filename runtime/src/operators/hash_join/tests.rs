//! Hash joins against a nested loop over rows.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::{Array, ArrayRef, Int64Array};

use super::*;
use crate::batch::Batch;
use crate::element::StreamElement;
use crate::graph::VertexId;
use crate::job::JobContext;
use crate::operators::harness::{Driver, Interruptions, batch, context, rows};
use crate::operators::join_model::{
    Form, KINDS, Model, Random, all_columns, numbers_ascend, pieces, side, side_types,
};
use crate::operators::{Operator, OperatorContext, OperatorSpec, Output, PortId};

struct Case {
    kind: JoinKind,
    keys: Vec<Form>,
    null_equal: bool,
    ascending: bool,
}

fn specs(case: &Case) -> (HashJoinBuildSpec, HashJoinProbeSpec) {
    let types = side_types(&case.keys);
    let keys: Vec<Expr> = (0..case.keys.len()).map(Expr::Column).collect();
    let build = HashJoinBuildSpec {
        partitioned: false,
        shared: 7,
        input: types.clone(),
        keys: keys.clone(),
        null_equal: case.null_equal,
        null_aware: false,
        tracks_matches: case.kind.tracks_matches(),
        runtime_filters: vec![(3, 0)],
        late: Vec::new(),
        probes: 1,
    };
    let probe = HashJoinProbeSpec {
        partitioned: false,
        shared: 7,
        kind: case.kind,
        input: types.clone(),
        build: types.clone(),
        keys,
        filter: case.ascending.then(|| numbers_ascend(case.keys.len())),
        output: all_columns(case.kind, types.len(), types.len()),
        null_equal: case.null_equal,
        null_aware: false,
    };
    (build, probe)
}

fn join(
    (build_spec, probe_spec): &(HashJoinBuildSpec, HashJoinProbeSpec),
    (probe, build): (&Batch, &Batch),
    batch_rows: usize,
    interruptions: Interruptions,
) -> Vec<Batch> {
    let job = context(batch_rows);
    let spec = OperatorSpec::HashJoinBuild(build_spec.clone());
    let mut driver = Driver::new(&spec, &job, interruptions).unwrap();
    let nothing = driver.run_batches(vec![pieces(build, batch_rows)]).unwrap();
    assert!(nothing.is_empty());
    let spec = OperatorSpec::HashJoinProbe(probe_spec.clone());
    let mut driver = Driver::new(&spec, &job, interruptions).unwrap();
    driver.run_batches(vec![pieces(probe, batch_rows)]).unwrap()
}

fn sorted(batches: &[Batch]) -> Vec<String> {
    let mut rows = rows(batches);
    rows.sort();
    rows
}

fn check(case: &Case, probe: &Batch, build: &Batch, batch_rows: usize) {
    let model = Model {
        kind: case.kind,
        keys: case.keys.len(),
        null_equal: case.null_equal,
        ascending: case.ascending,
        probe,
        build,
    };
    let expected = model.rows();
    let specs = specs(case);
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let out = join(&specs, (probe, build), batch_rows, interruptions);
        assert!(out.iter().all(|b| (1..=batch_rows).contains(&b.num_rows())));
        assert_eq!(
            sorted(&out),
            expected,
            "{:?} on {:?}, null_equal {}, condition {}, {batch_rows} rows a batch",
            case.kind,
            case.keys,
            case.null_equal,
            case.ascending
        );
    }
}

fn every_kind(keys: &[Form], distinct: u64, sizes: (usize, usize), batch_rows: usize) {
    let mut random = Random(distinct ^ batch_rows as u64);
    let probe = side(&mut random, keys, sizes.0, distinct);
    let build = side(&mut random, keys, sizes.1, distinct);
    for kind in KINDS {
        for (null_equal, ascending) in [(false, false), (false, true), (true, false), (true, true)]
        {
            let case = Case { kind, keys: keys.to_vec(), null_equal, ascending };
            check(&case, &probe, &build, batch_rows);
        }
    }
}

#[test]
fn dense_integers() {
    every_kind(&[Form::Dense], 30, (60, 40), 7);
    every_kind(&[Form::Dense], 1000, (60, 400), 1024);
    every_kind(&[Form::Dense], 5, (20, 20), 1);
}

#[test]
fn sparse_integers() {
    every_kind(&[Form::Sparse], 30, (60, 40), 7);
    every_kind(&[Form::Sparse], 1000, (60, 400), 1024);
}

#[test]
fn strings_and_floats() {
    every_kind(&[Form::Text], 20, (60, 40), 7);
    every_kind(&[Form::Float], 10, (60, 40), 16);
}

#[test]
fn several_keys() {
    every_kind(&[Form::Dense, Form::Small], 5, (60, 60), 7);
    every_kind(&[Form::Sparse, Form::Sparse], 5, (60, 60), 1024);
    every_kind(&[Form::Text, Form::Dense], 5, (60, 60), 7);
    every_kind(&[Form::Float, Form::Text, Form::Sparse], 3, (60, 60), 1024);
}

#[test]
fn many_matches_come_in_bounded_batches() {
    every_kind(&[Form::Dense], 1, (40, 50), 16);
}

#[test]
fn empty_sides() {
    every_kind(&[Form::Dense], 10, (0, 20), 7);
    every_kind(&[Form::Dense], 10, (20, 0), 7);
    every_kind(&[Form::Text], 10, (20, 0), 7);
    every_kind(&[Form::Text], 10, (0, 0), 7);
}

#[test]
fn unique_keys_keep_the_order_and_the_columns_of_the_probe_side() {
    let numbers: ArrayRef = Arc::new((0..100).collect::<Int64Array>());
    let text = Form::Text.column(&mut Random(1), 100, 50);
    let side = batch(vec![numbers.clone(), numbers, text]);
    for kind in [JoinKind::Inner, JoinKind::ProbeOuter, JoinKind::ProbeSemi] {
        let case = Case { kind, keys: vec![Form::Dense], null_equal: false, ascending: false };
        let out = join(&specs(&case), (&side, &side), 128, Interruptions::None);
        assert_eq!(out.len(), 1);
        for column in 0..3 {
            assert!(
                Arc::ptr_eq(out[0].column(column), side.column(column)) || {
                    // Slicing the input into pieces made a new array of the same buffers.
                    out[0].column(column).to_data().buffers()[0].as_ptr()
                        == side.column(column).to_data().buffers()[0].as_ptr()
                }
            );
        }
    }
}

fn not_in(kind: JoinKind, probe: &[Option<i64>], build: &[Option<i64>]) -> Vec<String> {
    let case = Case { kind, keys: vec![Form::Dense], null_equal: false, ascending: false };
    let (mut build_spec, mut probe_spec) = specs(&case);
    (build_spec.null_aware, probe_spec.null_aware) = (true, true);
    probe_spec.output = match kind {
        JoinKind::BuildAnti => vec![JoinColumn::Build(0)],
        _ => vec![JoinColumn::Probe(0)],
    };
    let side = |keys: &[Option<i64>]| {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        let text = Form::Text.column(&mut Random(1), keys.len(), 5);
        batch(vec![keys.clone(), keys, text])
    };
    let (probe, build) = (side(probe), side(build));
    let plain =
        join(&(build_spec.clone(), probe_spec.clone()), (&probe, &build), 4, Interruptions::None);
    let again = join(&(build_spec, probe_spec), (&probe, &build), 4, Interruptions::EveryBatch);
    assert_eq!(sorted(&plain), sorted(&again));
    sorted(&plain)
}

#[test]
fn not_in_is_false_or_unknown_where_nulls_are() {
    let (one_null, no_null, none) = ([Some(1), None], [Some(1), Some(2)], []);
    let left = [Some(1), Some(3), None];
    assert_eq!(not_in(JoinKind::ProbeAnti, &left, &no_null), ["3"]);
    assert!(not_in(JoinKind::ProbeAnti, &left, &one_null).is_empty());
    assert_eq!(not_in(JoinKind::ProbeAnti, &left, &none), ["1", "3", "∅"]);
    assert_eq!(not_in(JoinKind::BuildAnti, &no_null, &left), ["3"]);
    assert!(not_in(JoinKind::BuildAnti, &one_null, &left).is_empty());
    assert_eq!(not_in(JoinKind::BuildAnti, &none, &left), ["1", "3", "∅"]);
}

#[test]
fn filters_are_published_with_the_build_side() {
    let case = Case {
        kind: JoinKind::Inner,
        keys: vec![Form::Dense],
        null_equal: false,
        ascending: false,
    };
    let job = context(16);
    let build = side(&mut Random(3), &[Form::Dense], 30, 10);
    let spec = OperatorSpec::HashJoinBuild(specs(&case).0);
    let mut driver = Driver::new(&spec, &job, Interruptions::None).unwrap();
    assert!(job.filters.get(3).is_none());
    driver.run_batches(vec![pieces(&build, 16)]).unwrap();
    let filter = job.filters.get(3).expect("published");
    let probe: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), Some(100), None]));
    let mask = filter.may_match(&probe).unwrap();
    assert!(!mask.value(1) && !mask.value(2));
    assert!(filter.bounds().is_some());
}

/// An operator as one of several subtasks, stepped by hand.
struct Subtask {
    operator: Box<dyn Operator>,
    place: (usize, usize),
    job: Arc<JobContext>,
}

impl Subtask {
    fn new(spec: &OperatorSpec, job: &Arc<JobContext>, place: (usize, usize)) -> Self {
        let mut subtask = Subtask { operator: spec.build(job).unwrap(), place, job: job.clone() };
        subtask.call(|operator, cx| operator.open(cx).unwrap());
        subtask
    }

    fn call<T>(&mut self, f: impl FnOnce(&mut dyn Operator, &mut OperatorContext<'_>) -> T) -> T {
        let mut cx = OperatorContext {
            vertex: VertexId(0),
            subtask: self.place.0,
            position: 0,
            parallelism: self.place.1,
            watermark: None,
            job: &self.job,
            waker: Waker::noop(),
            metrics: &Arc::default(),
            cancelled: &self.job.cancelled,
        };
        f(self.operator.as_mut(), &mut cx)
    }

    fn push(&mut self, element: StreamElement) {
        self.call(|operator, cx| operator.push(PortId(0), element, cx).unwrap());
    }

    /// Steps until nothing comes out, and says why.
    fn run(&mut self, out: &mut Vec<Batch>) -> Output {
        loop {
            match self.call(|operator, cx| operator.step(cx).unwrap()) {
                Output::Element(_, StreamElement::Batch(batch)) => out.push(batch),
                other => return other,
            }
        }
    }
}

#[test]
fn several_subtasks_build_probe_and_emit_what_is_left() {
    let keys = [Form::Text];
    let mut random = Random(11);
    let (probe, build) = (side(&mut random, &keys, 50, 30), side(&mut random, &keys, 50, 30));
    let case =
        Case { kind: JoinKind::FullOuter, keys: keys.to_vec(), null_equal: false, ascending: true };
    let (build_spec, probe_spec) = specs(&case);
    let job = context(8);
    let subtasks = |spec: OperatorSpec| [0, 1].map(|i| Subtask::new(&spec, &job, (i, 2)));
    let mut builds = subtasks(OperatorSpec::HashJoinBuild(build_spec));
    let mut probes = subtasks(OperatorSpec::HashJoinProbe(probe_spec));
    let mut out = Vec::new();
    assert!(matches!(probes[0].run(&mut out), Output::Wait(_)));
    for (i, piece) in pieces(&build, 8).into_iter().enumerate() {
        assert!(matches!(builds[i % 2].run(&mut out), Output::NeedInput(_)));
        builds[i % 2].push(StreamElement::Batch(piece));
    }
    for i in [1, 0] {
        builds[i].run(&mut out);
        builds[i].push(StreamElement::End);
        let waits = matches!(builds[i].run(&mut out), Output::Wait(_));
        assert_eq!(waits, i == 1, "the first waits for the second");
    }
    for (i, piece) in pieces(&probe, 8).into_iter().enumerate() {
        assert!(matches!(probes[i % 2].run(&mut out), Output::NeedInput(_)));
        probes[i % 2].push(StreamElement::Batch(piece));
    }
    for i in [0, 1] {
        probes[i].run(&mut out);
        probes[i].push(StreamElement::End);
        let waits = matches!(probes[i].run(&mut out), Output::Wait(_));
        assert_eq!(waits, i == 0, "the first waits for the second");
    }
    assert!(matches!(probes[0].run(&mut out), Output::Finished));
    assert!(matches!(builds[1].run(&mut out), Output::Finished));
    let model = Model {
        kind: case.kind,
        keys: 1,
        null_equal: false,
        ascending: true,
        probe: &probe,
        build: &build,
    };
    assert_eq!(sorted(&out), model.rows());
}

#[test]
fn an_abandoned_probe_leaves_unmatched_rows_unsaid() {
    let case = Case {
        kind: JoinKind::BuildAnti,
        keys: vec![Form::Dense],
        null_equal: false,
        ascending: false,
    };
    let (build_spec, probe_spec) = specs(&case);
    let job = context(8);
    let build = side(&mut Random(5), &[Form::Dense], 20, 30);
    let mut driver =
        Driver::new(&OperatorSpec::HashJoinBuild(build_spec), &job, Interruptions::None).unwrap();
    driver.run_batches(vec![vec![build]]).unwrap();
    let spec = OperatorSpec::HashJoinProbe(probe_spec);
    let mut probes = [0, 1].map(|i| Subtask::new(&spec, &job, (i, 2)));
    let mut out = Vec::new();
    probes[0].run(&mut out);
    probes[0].call(|operator, cx| operator.close(cx).unwrap());
    probes[1].run(&mut out);
    probes[1].push(StreamElement::End);
    assert!(matches!(probes[1].run(&mut out), Output::Finished));
    assert!(out.is_empty());
}
