//! Joins of streams against a naive join of what is left of both inputs, after every batch.

use std::collections::BTreeMap;

use arrow_schema::DataType;

use super::*;
use crate::element::RowKind;
use crate::expr::Expr;
use crate::operators::OperatorSpec;
use crate::operators::harness::{Driver, Interruptions, context, rows};
use crate::operators::join_kind::{JoinColumn, JoinKind};
use crate::operators::join_model::{
    Form, KINDS, Model, Random, all_columns, numbers_ascend, side, side_types,
};
use crate::operators::stream_join::states::rows_of;

/// The kind with the left side as the probe side of the model.
fn stream_kind(kind: JoinKind) -> StreamJoinKind {
    match kind {
        JoinKind::Inner => StreamJoinKind::Inner,
        JoinKind::ProbeOuter => StreamJoinKind::Left,
        JoinKind::BuildOuter => StreamJoinKind::Right,
        JoinKind::FullOuter => StreamJoinKind::Full,
        JoinKind::ProbeSemi => StreamJoinKind::LeftSemi,
        JoinKind::ProbeAnti => StreamJoinKind::LeftAnti,
        JoinKind::ProbeMark => StreamJoinKind::LeftMark,
        JoinKind::BuildSemi => StreamJoinKind::RightSemi,
        JoinKind::BuildAnti => StreamJoinKind::RightAnti,
        JoinKind::BuildMark => StreamJoinKind::RightMark,
    }
}

/// What a changelog comes to, by the text of its rows.
#[derive(Debug, Default)]
pub(super) struct Folded {
    counts: BTreeMap<String, i64>,
    pub(super) deletes: usize,
}

impl Folded {
    /// Applies batches in order; a row that is withdrawn must be there.
    pub(super) fn apply(&mut self, elements: Vec<StreamElement>) {
        for element in elements {
            let StreamElement::Batch(batch) = element else { panic!("emitted {element:?}") };
            let batch = batch.compact().unwrap();
            assert!(batch.num_rows() > 0, "empty batches are not sent");
            let kinds = batch.kinds().map(<[RowKind]>::to_vec);
            for (row, text) in rows(&[batch]).into_iter().enumerate() {
                let count = self.counts.entry(text.replace("-0.0", "0.0")).or_default();
                match kinds.as_ref().map_or(RowKind::Insert, |kinds| kinds[row]) {
                    RowKind::Insert => *count += 1,
                    RowKind::Delete => {
                        self.deletes += 1;
                        *count -= 1;
                        assert!(*count >= 0, "a row is withdrawn that is not there: {text}");
                    }
                    RowKind::Upsert => panic!("an upsert"),
                }
            }
        }
    }

    /// The rows, sorted.
    pub(super) fn rows(&self) -> Vec<String> {
        let repeat = |(text, &count): (&String, &i64)| vec![text.clone(); count as usize];
        self.counts.iter().flat_map(repeat).collect()
    }
}

/// A random join.
struct Case {
    kind: JoinKind,
    forms: Vec<Form>,
    null_equal: bool,
    ascending: bool,
    withdrawn: [bool; 2],
    batch_rows: usize,
}

impl Case {
    fn spec(&self) -> StreamJoinSpec {
        let types = side_types(&self.forms);
        let of_side = |side: usize| StreamJoinSide {
            types: types.clone(),
            keys: (0..self.forms.len()).map(Expr::Column).collect(),
            withdrawn: self.withdrawn[side],
            expiry: None,
        };
        let output = all_columns(self.kind, types.len(), types.len());
        StreamJoinSpec {
            kind: stream_kind(self.kind),
            left: of_side(0),
            right: of_side(1),
            null_equal: self.null_equal,
            null_aware: false,
            lookup: None,
            patient: true,
            filter: self.ascending.then(|| numbers_ascend(self.forms.len())),
            output: output
                .into_iter()
                .map(|column| match column {
                    JoinColumn::Probe(i) => StreamJoinColumn::Left(i),
                    JoinColumn::Build(i) => StreamJoinColumn::Right(i),
                    JoinColumn::Mark | JoinColumn::BuildReference => StreamJoinColumn::Mark,
                })
                .collect(),
        }
    }

    fn model(&self, present: [&Batch; 2]) -> Vec<String> {
        let model = Model {
            kind: self.kind,
            keys: self.forms.len(),
            null_equal: self.null_equal,
            ascending: self.ascending,
            probe: present[0],
            build: present[1],
        };
        let mut rows: Vec<String> =
            model.rows().into_iter().map(|row| row.replace("-0.0", "0.0")).collect();
        rows.sort();
        rows
    }

    /// Feeds random changes and compares with the model after each batch.
    fn run(&self, random: &mut Random, batches: usize) {
        let spec = OperatorSpec::StreamJoin(self.spec());
        let interruptions = Interruptions::EveryBatch;
        let mut driver = Driver::new(&spec, &context(self.batch_rows), interruptions).unwrap();
        let pools = [(); 2].map(|()| side(random, &self.forms, 24, 5));
        let mut present: [Vec<u32>; 2] = Default::default();
        let mut folded = Folded::default();
        for _ in 0..batches {
            let side = random.below(2) as usize;
            let changes = random_changes(random, &mut present[side], self.withdrawn[side]);
            let batch = changes_of(&pools[side], &changes);
            let port = PortId(side as u16);
            folded.apply(driver.feed(port, StreamElement::Batch(batch)).unwrap());
            let [left, right] = [0, 1].map(|side| rows_of(&pools[side], &present[side]).unwrap());
            assert_eq!(folded.rows(), self.model([&left, &right]), "{self:?}");
        }
        for port in 0..2 {
            folded.apply(driver.feed(PortId(port), StreamElement::End).unwrap());
        }
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} by {:?}, null_equal {}, ascending {}, withdrawn {:?}, batch_rows {}",
            self.kind, self.forms, self.null_equal, self.ascending, self.withdrawn, self.batch_rows
        )
    }
}

/// Some rows of a pool that come or go; `present` follows.
pub(super) fn random_changes(
    random: &mut Random,
    present: &mut Vec<u32>,
    withdrawn: bool,
) -> Vec<(u32, bool)> {
    (0..random.below(6))
        .map(|_| {
            if withdrawn && !present.is_empty() && random.below(2) == 0 {
                let at = random.below(present.len() as u64) as usize;
                return (present.swap_remove(at), false);
            }
            let row = random.below(24) as u32;
            present.push(row);
            (row, true)
        })
        .collect()
}

/// Rows of a pool as a batch of changes.
pub(super) fn changes_of(pool: &Batch, changes: &[(u32, bool)]) -> Batch {
    let positions: Vec<u32> = changes.iter().map(|change| change.0).collect();
    let batch = rows_of(pool, &positions).unwrap();
    if changes.iter().all(|change| change.1) {
        return batch;
    }
    let kind = |change: &(u32, bool)| if change.1 { RowKind::Insert } else { RowKind::Delete };
    batch.with_kinds(changes.iter().map(kind).collect())
}

#[test]
fn every_kind_follows_the_model() {
    let seed = 20_261_130;
    println!("seed {seed}");
    let mut random = Random(seed);
    let key_forms: [&[Form]; 5] =
        [&[Form::Dense], &[Form::Text], &[Form::Sparse, Form::Text], &[Form::Float], &[]];
    for kind in KINDS {
        for forms in key_forms {
            for ascending in [false, true] {
                for withdrawn in [[true, true], [false, true], [true, false], [false, false]] {
                    let case = Case {
                        kind,
                        forms: forms.to_vec(),
                        null_equal: random.below(3) == 0,
                        ascending,
                        withdrawn,
                        batch_rows: [1, 2, 3, 7, 1024][random.below(5) as usize],
                    };
                    case.run(&mut random, 24);
                }
            }
        }
    }
}

#[test]
fn rows_that_come_and_go_in_one_batch_change_nothing() {
    let case = Case {
        kind: JoinKind::FullOuter,
        forms: vec![Form::Dense],
        null_equal: false,
        ascending: false,
        withdrawn: [true, true],
        batch_rows: 16,
    };
    let mut random = Random(3);
    let pool = side(&mut random, &case.forms, 24, 3);
    let spec = OperatorSpec::StreamJoin(case.spec());
    let mut driver = Driver::new(&spec, &context(16), Interruptions::None).unwrap();
    let all: Vec<(u32, bool)> = (0..24).map(|row| (row, true)).collect();
    driver.feed(PortId(0), StreamElement::Batch(changes_of(&pool, &all))).unwrap();
    let changes: Vec<(u32, bool)> = (0..48).map(|i| (i / 2, i % 2 == 0)).collect();
    // NULL keys leave as they come; all others are in the state.
    let keyed: Vec<(u32, bool)> = changes
        .into_iter()
        .filter(|&(row, _)| arrow::array::Array::is_valid(pool.column(0), row as usize))
        .collect();
    let out = driver.feed(PortId(1), StreamElement::Batch(changes_of(&pool, &keyed))).unwrap();
    assert!(out.is_empty(), "{out:?}");
}

#[test]
fn a_hot_key_leaves_in_batches() {
    let case = Case {
        kind: JoinKind::Inner,
        forms: vec![],
        null_equal: false,
        ascending: false,
        withdrawn: [true, false],
        batch_rows: 100,
    };
    let mut random = Random(4);
    let pool = side(&mut random, &[], 24, 3);
    let spec = OperatorSpec::StreamJoin(case.spec());
    let mut driver = Driver::new(&spec, &context(100), Interruptions::EveryBatch).unwrap();
    // Each row is there fifty times: a count on the left side, rows of their own on the right one.
    let all: Vec<(u32, bool)> = (0..1200).map(|i| (i % 24, true)).collect();
    driver.feed(PortId(0), StreamElement::Batch(changes_of(&pool, &all))).unwrap();
    let out = driver.feed(PortId(1), StreamElement::Batch(changes_of(&pool, &all))).unwrap();
    let sizes: Vec<usize> = out
        .iter()
        .map(|element| match element {
            StreamElement::Batch(batch) => batch.num_rows(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), 1200 * 1200);
    assert!(sizes.iter().all(|&rows| rows <= 100));
}

#[test]
fn a_withdrawn_row_that_was_never_there_is_an_error() {
    let case = Case {
        kind: JoinKind::Inner,
        forms: vec![Form::Dense],
        null_equal: true,
        ascending: false,
        withdrawn: [true, true],
        batch_rows: 16,
    };
    let pool = side(&mut Random(1), &case.forms, 24, 3);
    let spec = OperatorSpec::StreamJoin(case.spec());
    let mut driver = Driver::new(&spec, &context(16), Interruptions::None).unwrap();
    let batch = changes_of(&pool, &[(0, false)]);
    let error = driver.feed(PortId(0), StreamElement::Batch(batch)).unwrap_err();
    assert!(error.to_string().contains("StreamJoin: a withdrawn row was never there"), "{error}");
}

#[test]
fn not_in_minds_nulls() {
    let seed = 77;
    println!("seed {seed}");
    let mut random = Random(seed);
    for round in 0..40 {
        let withdrawn = [random.below(2) == 0, round % 4 != 0];
        let types = side_types(&[Form::Dense]);
        let of_side = |side: usize| StreamJoinSide {
            types: types.clone(),
            keys: vec![Expr::Column(0)],
            withdrawn: withdrawn[side],
            expiry: None,
        };
        let left = round % 2;
        let (kind, column): (_, fn(usize) -> StreamJoinColumn) = match left {
            0 => (StreamJoinKind::LeftAnti, StreamJoinColumn::Left),
            _ => (StreamJoinKind::RightAnti, StreamJoinColumn::Right),
        };
        let spec = OperatorSpec::StreamJoin(StreamJoinSpec {
            kind,
            left: of_side(0),
            right: of_side(1),
            null_equal: false,
            null_aware: true,
            lookup: None,
            patient: true,
            filter: None,
            output: (0..3).map(column).collect(),
        });
        let job = context([1, 3, 1024][random.below(3) as usize]);
        let mut driver = Driver::new(&spec, &job, Interruptions::EveryBatch).unwrap();
        let pools = [(); 2].map(|()| side(&mut random, &[Form::Dense], 24, 8));
        let mut present: [Vec<u32>; 2] = Default::default();
        let mut folded = Folded::default();
        for _ in 0..30 {
            let side = random.below(2) as usize;
            let changes = random_changes(&mut random, &mut present[side], withdrawn[side]);
            let batch = changes_of(&pools[side], &changes);
            let out = driver.feed(PortId(side as u16), StreamElement::Batch(batch)).unwrap();
            folded.apply(out);
            let wanted = not_in(&pools, &present, left);
            assert_eq!(folded.rows(), wanted, "round {round}");
        }
    }
}

/// The rows of side `left` that are not in the other one.
fn not_in(pools: &[Batch; 2], present: &[Vec<u32>; 2], left: usize) -> Vec<String> {
    let key = |side: usize, row: u32| {
        let text = rows(&[rows_of(&pools[side], &[row]).unwrap()]).remove(0);
        text.split('|').next().map(str::to_string).filter(|key| key != "∅")
    };
    let list: Vec<Option<String>> =
        present[1 - left].iter().map(|&row| key(1 - left, row)).collect();
    let mut out: Vec<String> = present[left]
        .iter()
        .filter(|&&row| {
            let key = key(left, row);
            list.is_empty() || (key.is_some() && list.iter().all(|k| k.is_some() && *k != key))
        })
        .map(|&row| rows(&[rows_of(&pools[left], &[row]).unwrap()]).remove(0))
        .collect();
    out.sort();
    out
}

#[test]
fn what_contradicts_itself_is_refused() {
    let side = |keys: usize| StreamJoinSide {
        types: vec![DataType::Int64],
        keys: (0..keys).map(|_| Expr::Column(0)).collect(),
        withdrawn: true,
        expiry: None,
    };
    let spec = |kind, keys, null_aware, output| StreamJoinSpec {
        kind,
        left: side(keys),
        right: side(1),
        null_equal: false,
        null_aware,
        lookup: None,
        patient: true,
        filter: None,
        output: vec![output],
    };
    let job = context(8);
    for refused in [
        spec(StreamJoinKind::Inner, 2, false, StreamJoinColumn::Left(0)),
        spec(StreamJoinKind::LeftSemi, 1, true, StreamJoinColumn::Left(0)),
        spec(StreamJoinKind::Inner, 1, false, StreamJoinColumn::Mark),
    ] {
        assert!(matches!(StreamJoin::new(&refused, &job), Err(Error::Internal(_))), "{refused:?}");
    }
}

#[test]
fn rows_that_found_a_match_for_good_are_not_kept() {
    for kind in [JoinKind::ProbeSemi, JoinKind::ProbeAnti, JoinKind::BuildMark] {
        let case = Case {
            kind,
            forms: vec![Form::Dense],
            null_equal: true,
            ascending: false,
            withdrawn: [false, false],
            batch_rows: 256,
        };
        let job = context(256);
        let spec = OperatorSpec::StreamJoin(case.spec());
        let mut driver = Driver::new(&spec, &job, Interruptions::None).unwrap();
        let pool = side(&mut Random(2), &case.forms, 24, 3);
        let all: Vec<(u32, bool)> = (0..1200).map(|i| (i % 24, true)).collect();
        for batch in 0..60 {
            for port in 0..2 {
                // The lists of the semi and the anti join come first at times.
                let port = PortId((port + batch % 2) % 2);
                driver.feed(port, StreamElement::Batch(changes_of(&pool, &all))).unwrap();
            }
        }
        assert!(job.memory.used() < 3 << 20, "{kind:?}: {} bytes", job.memory.used());
    }
}
