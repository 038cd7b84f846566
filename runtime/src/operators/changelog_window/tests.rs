//! Windows over changelogs against the functions over the rows that are left, after every batch.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use arrow_schema::DataType;

use super::*;
use crate::element::RowKind;
use crate::expr::Expr;
use crate::operators::OperatorSpec;
use crate::operators::harness::{Driver, Interruptions, context, rows, run};
use crate::operators::join_model::{Form, Random, side, side_types};
use crate::operators::sort_key_spec::SortKeySpec;
use crate::operators::window::{FrameBound, FrameUnits, WindowFrameSpec};

const FORMS: [Form; 2] = [Form::Dense, Form::Dense];
/// The pools' columns: partition, order, a number, a text.
const PARTITION: usize = 0;
const ORDER: usize = 1;
const NUMBER: usize = 2;

fn function(name: &str, aggregate: bool, args: &[usize], result: DataType) -> WindowFunctionSpec {
    WindowFunctionSpec {
        function: name.into(),
        aggregate,
        args: args.iter().map(|&i| Expr::Column(i)).collect(),
        arg_types: args.iter().map(|_| DataType::Int64).collect(),
        frame: WindowFrameSpec {
            units: FrameUnits::Range,
            start: FrameBound::UnboundedPreceding,
            end: FrameBound::CurrentRow,
        },
        filter: None,
        distinct: false,
        ignore_nulls: false,
        result,
    }
}

fn functions(which: u64) -> Vec<WindowFunctionSpec> {
    let ranking = |name: &str| function(name, false, &[], DataType::UInt64);
    match which {
        0 => vec![],
        1 => vec![ranking("row_number")],
        2 => vec![ranking("rank"), ranking("dense_rank"), ranking("row_number")],
        3 => vec![function("sum", true, &[NUMBER], DataType::Int64)],
        _ => vec![
            function("lead", false, &[NUMBER], DataType::Int64),
            function("count", true, &[NUMBER], DataType::Int64),
        ],
    }
}

/// A random window.
#[derive(Debug, Clone)]
struct Case {
    functions: u64,
    partitioned: bool,
    /// Whether the order descends; none: there is no order.
    descending: Option<bool>,
    withdrawn: bool,
    keep: Option<usize>,
    batch_rows: usize,
}

/// A row of the pool that is there: its position, and when it came.
type Present = Vec<(u32, u64)>;

impl Case {
    fn window(&self) -> WindowSpec {
        let order = |descending: bool| SortKeySpec {
            expr: Expr::Column(ORDER),
            descending,
            nulls_first: descending,
        };
        WindowSpec {
            input: side_types(&FORMS),
            partition_by: if self.partitioned { vec![Expr::Column(PARTITION)] } else { vec![] },
            order_by: self.descending.map(order).into_iter().collect(),
            functions: functions(self.functions),
        }
    }

    fn spec(&self) -> OperatorSpec {
        OperatorSpec::ChangelogWindow(ChangelogWindowSpec {
            window: self.window(),
            withdrawn: self.withdrawn,
            keep: self.keep.map(|rows| KeepSpec { rows }),
            closing: None,
        })
    }

    fn driver(&self, interruptions: Interruptions) -> Driver {
        Driver::new(&self.spec(), &context(self.batch_rows), interruptions).unwrap()
    }

    /// What comes out of the rows that are there, sorted.
    fn model(&self, pool: &Batch, present: &Present) -> Vec<String> {
        let column = |i: usize| pool.column(i).as_primitive::<Int64Type>().clone();
        let (partitions, orders) = (column(PARTITION), column(ORDER));
        let value = |column: &Int64Array, row: u32| {
            column.is_valid(row as usize).then(|| column.value(row as usize))
        };
        let place = |&(row, came): &(u32, u64)| {
            let partition = if self.partitioned { value(&partitions, row) } else { None };
            // NULLs are last, and first where the order descends.
            let order = value(&orders, row).map_or(i64::MAX, |order| order);
            let order = match self.descending {
                None => 0,
                Some(false) => order,
                Some(true) => -order,
            };
            (partition, order, came)
        };
        let mut sorted = present.clone();
        sorted.sort_by_key(place);
        let mut positions = Vec::new();
        let mut numbers: BTreeMap<Option<i64>, usize> = BTreeMap::new();
        for row in &sorted {
            let number = numbers.entry(place(row).0).or_default();
            positions.push(*number);
            *number += 1;
        }
        let rows_in_order: Vec<u32> = sorted.iter().map(|row| row.0).collect();
        let input = changes_of(pool, &rows_in_order, None);
        let out = match self.functions {
            0 => vec![input],
            _ => run(&OperatorSpec::Window(self.window()), vec![vec![input]]).unwrap(),
        };
        let wanted = self.keep.unwrap_or(usize::MAX);
        let mut lines: Vec<String> = rows(&out)
            .into_iter()
            .zip(positions)
            .filter(|&(_, position)| position < wanted)
            .map(|(line, _)| line)
            .collect();
        lines.sort();
        lines
    }
}

fn changes_of(pool: &Batch, rows: &[u32], kinds: Option<&[RowKind]>) -> Batch {
    let selected = pool.clone().with_selection(rows.into());
    let batch = selected.compact().unwrap();
    match kinds {
        Some(kinds) => batch.with_kinds(kinds.into()),
        None => batch,
    }
}

/// When rows came, by their text, as the operator sees it: equal rows stand together where rows may be withdrawn, and
/// what comes and goes inside of one batch is not seen.
struct Arrivals(BTreeMap<String, u64>);

impl Arrivals {
    /// What is there before a batch.
    fn before(texts: &[String], present: &Present) -> Self {
        Arrivals(present.iter().map(|&(row, came)| (texts[row as usize].clone(), came)).collect())
    }

    fn insert(&mut self, texts: &[String], present: &mut Present, row: u32, came: u64) {
        let came = self.0.entry(texts[row as usize].clone()).or_insert(came);
        present.push((row, *came));
    }
}

#[derive(Default)]
struct Folded(BTreeMap<String, i64>);

impl Folded {
    fn apply(&mut self, elements: Vec<StreamElement>) {
        for element in elements {
            let StreamElement::Batch(batch) = element else { panic!("emitted {element:?}") };
            assert!(batch.num_rows() > 0, "empty batches are not sent");
            let kinds = batch.kinds().map(<[RowKind]>::to_vec);
            for (row, text) in rows(&[batch]).into_iter().enumerate() {
                let count = self.0.entry(text).or_default();
                *count += match kinds.as_ref().map_or(RowKind::Insert, |kinds| kinds[row]) {
                    RowKind::Insert => 1,
                    RowKind::Delete => -1,
                    RowKind::Upsert => panic!("an upsert"),
                };
                assert!(*count >= 0, "a row is withdrawn that is not there");
            }
        }
    }

    fn rows(&self) -> Vec<String> {
        let repeat = |(text, &count): (&String, &i64)| vec![text.clone(); count as usize];
        self.0.iter().flat_map(repeat).collect()
    }
}

/// Feeds random changes and compares with the model after each batch.
fn follow(case: &Case, random: &mut Random, pool: &Batch, (batches, rows_max): (usize, u64)) {
    let texts = rows(std::slice::from_ref(pool));
    for interruptions in [Interruptions::EveryBatch, Interruptions::None] {
        let mut driver = case.driver(interruptions);
        let mut present = Present::new();
        let mut folded = Folded::default();
        let mut came = 0;
        for batch in 0..batches {
            let (mut changed, mut kinds) = (Vec::new(), Vec::new());
            let mut arrivals = Arrivals::before(&texts, &present);
            for _ in 0..random.below(rows_max + 1) {
                came += 1;
                if case.withdrawn && !present.is_empty() && random.below(2) == 0 {
                    let at = random.below(present.len() as u64) as usize;
                    changed.push(present.swap_remove(at).0);
                    kinds.push(RowKind::Delete);
                    continue;
                }
                let row = random.below(texts.len() as u64) as u32;
                changed.push(row);
                kinds.push(RowKind::Insert);
                match case.withdrawn {
                    true => arrivals.insert(&texts, &mut present, row, came),
                    false => present.push((row, came)),
                }
            }
            let kinds = case.withdrawn.then_some(kinds.as_slice());
            let input = StreamElement::Batch(changes_of(pool, &changed, kinds));
            folded.apply(driver.feed(PortId(0), input).unwrap());
            assert_eq!(folded.rows(), case.model(pool, &present), "{case:?} in batch {batch}");
        }
        assert!(driver.feed(PortId(0), StreamElement::End).unwrap().is_empty());
    }
}

#[test]
fn every_window_follows_the_model() {
    let seed = 161_803;
    println!("seed {seed}");
    let mut random = Random(seed);
    for round in 0..160 {
        let case = Case {
            functions: round % 5,
            partitioned: random.below(3) > 0,
            descending: [None, Some(false), Some(true)][random.below(3) as usize],
            withdrawn: random.below(2) == 0,
            keep: [None, Some(1), Some(2), Some(3)][random.below(4) as usize],
            batch_rows: [1, 2, 5, 1024][random.below(4) as usize],
        };
        let pool = side(&mut random, &FORMS, 20, 4);
        follow(&case, &mut random, &pool, (12, 6));
    }
}

#[test]
fn first_rows_of_large_partitions_follow_the_model() {
    let seed = 577;
    println!("seed {seed}");
    let mut random = Random(seed);
    for round in 0..4 {
        let case = Case {
            functions: [0, 1, 2][round % 3],
            partitioned: round % 2 == 1,
            descending: Some(round > 1),
            withdrawn: true,
            keep: Some([3, 10, 200][round % 3]),
            batch_rows: 1024,
        };
        let pool = side(&mut random, &FORMS, 9_000, [3_000, 2, 50, 2][round]);
        let texts = rows(std::slice::from_ref(&pool));
        let mut driver = case.driver(Interruptions::None);
        let (mut present, mut folded) = (Present::new(), Folded::default());
        let all: Vec<u32> = (0..6_000).collect();
        let mut arrivals = Arrivals::before(&texts, &present);
        all.iter().for_each(|&row| arrivals.insert(&texts, &mut present, row, u64::from(row)));
        let input = StreamElement::Batch(changes_of(&pool, &all, None));
        folded.apply(driver.feed(PortId(0), input).unwrap());
        let mut came = 10_000;
        for batch in 0..40 {
            let (mut changed, mut kinds) = (Vec::new(), Vec::new());
            let mut arrivals = Arrivals::before(&texts, &present);
            // Mostly rows at the front go, so that what stands behind comes forward; then rows come back.
            for i in 0..60_u64 {
                came += 1;
                if batch % 10 < 7 && i % 3 > 0 {
                    let value = |row: u32| {
                        pool.column(ORDER).as_primitive::<Int64Type>().value(row as usize)
                    };
                    let picks = (0..20).map(|_| random.below(present.len() as u64) as usize);
                    let at = picks
                        .min_by_key(|&at| {
                            let order = value(present[at].0);
                            if case.descending == Some(true) { -order } else { order }
                        })
                        .unwrap();
                    changed.push(present.swap_remove(at).0);
                    kinds.push(RowKind::Delete);
                } else {
                    let row = random.below(9_000) as u32;
                    changed.push(row);
                    kinds.push(RowKind::Insert);
                    arrivals.insert(&texts, &mut present, row, came);
                }
            }
            let input = StreamElement::Batch(changes_of(&pool, &changed, Some(&kinds)));
            folded.apply(driver.feed(PortId(0), input).unwrap());
            assert_eq!(folded.rows(), case.model(&pool, &present), "{case:?} in batch {batch}");
        }
    }
}

#[test]
fn rows_behind_the_first_ones_are_forgotten() {
    let seed = 99;
    println!("seed {seed}");
    let mut random = Random(seed);
    for (functions, keep) in [(0, 1), (1, 1), (1, 10), (0, 3)] {
        let case = Case {
            functions,
            partitioned: true,
            descending: Some(true),
            withdrawn: false,
            keep: Some(keep),
            batch_rows: 512,
        };
        let pool = side(&mut random, &FORMS, 3_000, 700);
        let job = context(512);
        let mut driver = Driver::new(&case.spec(), &job, Interruptions::None).unwrap();
        let (mut present, mut folded) = (Present::new(), Folded::default());
        for batch in 0..30_u64 {
            let changed: Vec<u32> = (0..1_000).map(|_| random.below(3_000) as u32).collect();
            present.extend(
                changed.iter().enumerate().map(|(i, &row)| (row, batch * 1_000 + i as u64)),
            );
            let input = StreamElement::Batch(changes_of(&pool, &changed, None));
            folded.apply(driver.feed(PortId(0), input).unwrap());
        }
        assert_eq!(folded.rows(), case.model(&pool, &present), "{case:?}");
        assert!(job.memory.used() < 8 << 20, "{} bytes", job.memory.used());
    }
}

#[test]
fn rows_that_cannot_be_withdrawn_are_refused() {
    let mut random = Random(5);
    let pool = side(&mut random, &FORMS, 4, 2);
    for (withdrawn, keep) in [(true, Some(1)), (false, Some(1)), (false, None)] {
        let case = Case {
            functions: 1,
            partitioned: true,
            descending: Some(false),
            withdrawn,
            keep,
            batch_rows: 8,
        };
        let input = StreamElement::Batch(changes_of(&pool, &[1], Some(&[RowKind::Delete])));
        let error = case.driver(Interruptions::None).feed(PortId(0), input).unwrap_err();
        assert!(matches!(error, Error::Internal(_)), "{error}");
        assert!(error.to_string().contains("ChangelogWindow"), "{error}");
    }
}
