//! Hash aggregation against a naive model: rows as plain values, groups by the text of their keys.

use std::collections::BTreeMap;

use arrow_schema::DataType;

use super::model::{
    self, Expected, Row, aggregates, assert_results, batches, expected, input_types, rows, spec_of,
};
use super::*;
use crate::element::RowKind;
use crate::expr::Expr;
use crate::operators::harness::{self, Driver, Interruptions};
use crate::operators::{OperatorSpec, harness as h};

fn hash(
    phase: AggregatePhase,
    keys: &[usize],
    aggregates: Vec<AggregateSpec>,
) -> HashAggregateSpec {
    let input = input_types();
    HashAggregateSpec {
        phase,
        keys: keys.iter().map(|&key| Expr::Column(key)).collect(),
        key_types: keys.iter().map(|&key| input[key].clone()).collect(),
        input,
        grouping_sets: None,
        aggregates,
        late_keys: Vec::new(),
        emission: Emission::AtEnd,
        withdrawn: false,
    }
}

/// Runs one phase, with or without interruptions.
fn single(spec: &HashAggregateSpec, input: &[Batch], interruptions: Interruptions) -> Vec<Batch> {
    let spec = OperatorSpec::HashAggregate(spec.clone());
    let mut driver = Driver::new(&spec, &harness::context(100), interruptions).unwrap();
    driver.run_batches(vec![input.to_vec()]).unwrap()
}

/// Deals the batches to `partials` partial aggregates and merges what they hand over.
fn two_phase(
    spec: &HashAggregateSpec,
    input: &[Batch],
    partials: usize,
    interruptions: Interruptions,
) -> Vec<Batch> {
    let job = harness::context(100);
    let phase = |phase| OperatorSpec::HashAggregate(HashAggregateSpec { phase, ..spec.clone() });
    let mut pages = Vec::new();
    for n in 0..partials {
        let share: Vec<StreamElement> =
            input.iter().skip(n).step_by(partials).cloned().map(StreamElement::Batch).collect();
        let mut driver = Driver::new(&phase(AggregatePhase::Partial), &job, interruptions).unwrap();
        pages.extend(driver.run(vec![share]).unwrap());
    }
    let mut driver = Driver::new(&phase(AggregatePhase::Final), &job, interruptions).unwrap();
    let out = driver.run(vec![pages]).unwrap();
    out.into_iter()
        .map(|element| match element {
            StreamElement::Batch(batch) => batch,
            other => panic!("a final aggregate emitted {other:?}"),
        })
        .collect()
}

fn check_everything(keys: &[usize], rows: &[Row], batch_rows: usize) {
    let (specs, wanted): (Vec<_>, Vec<_>) = aggregates().into_iter().unzip();
    let spec = hash(AggregatePhase::Single, keys, specs);
    let input = batches(rows, batch_rows);
    let expected = expected(rows, keys, &wanted);
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let found = single(&spec, &input, interruptions);
        assert_results(&found, keys.len(), &expected, &format!("single {interruptions:?}"));
        for partials in 1..=4 {
            let found = two_phase(&spec, &input, partials, interruptions);
            let what = format!("{partials} partials {interruptions:?}");
            assert_results(&found, keys.len(), &expected, &what);
        }
    }
}

#[test]
fn all_functions_by_string_and_integer() {
    check_everything(&[0, 1], &rows(7, 900), 130);
}

#[test]
fn all_functions_by_a_float_that_has_two_zeros_and_many_nans() {
    check_everything(&[3], &rows(8, 400), 90);
}

#[test]
fn all_functions_without_keys() {
    check_everything(&[], &rows(9, 500), 100);
}

#[test]
fn no_rows_give_one_row_without_keys_and_none_with_keys() {
    check_everything(&[], &[], 100);
    check_everything(&[0], &[], 100);
}

#[test]
fn many_groups_overflow_the_partial_table() {
    let rows: Vec<Row> = rows(10, 60_000);
    let specs =
        vec![spec_of("count", &[], DataType::Int64), spec_of("max", &[5], DataType::Utf8View)];
    let wanted: Vec<Expected> = vec![|rows| rows.len().to_string(), |rows| {
        model::text(rows.iter().filter_map(|r| r.text.clone()).max())
    }];
    // The row number makes every row a group of its own: the partial table gives up; two thirds repeat.
    for key in [9, 10] {
        let spec = hash(AggregatePhase::Single, &[key], specs.clone());
        let input = batches(&rows, 8192);
        let expected = expected(&rows, &[key], &wanted);
        let found = single(&spec, &input, Interruptions::None);
        assert_results(&found, 1, &expected, "single");
        for partials in [1, 3] {
            let found = two_phase(&spec, &input, partials, Interruptions::None);
            assert_results(&found, 1, &expected, &format!("{partials} partials"));
        }
    }
}

#[test]
fn grouping_sets_go_through_one_table() {
    let rows = rows(11, 500);
    let (specs, wanted): (Vec<_>, Vec<_>) = aggregates().into_iter().unzip();
    let sets = vec![vec![0, 1], vec![1], vec![]];
    let mut spec = hash(AggregatePhase::Single, &[0, 7], specs);
    spec.grouping_sets =
        Some(GroupingSetsSpec { sets: sets.clone(), ids: vec![0, 2, 3], id_type: DataType::UInt8 });
    for rows in [&rows[..], &[]] {
        let mut all = BTreeMap::new();
        for (set, id) in sets.iter().zip([0, 2, 3]) {
            let columns: Vec<usize> = set.iter().map(|&key| [0, 7][key]).collect();
            for (key, values) in expected(rows, &columns, &wanted) {
                let mut cells = key.split_terminator('|');
                let mut full = String::new();
                for key in 0..2 {
                    let cell = if set.contains(&key) { cells.next().unwrap_or("") } else { "∅" };
                    full += &format!("{cell}|");
                }
                all.insert(format!("{full}{id}|"), values);
            }
        }
        let input = batches(rows, 120);
        for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
            assert_results(&single(&spec, &input, interruptions), 3, &all, "single");
            assert_results(&two_phase(&spec, &input, 2, interruptions), 3, &all, "two phases");
        }
    }
}

#[test]
fn sums_beyond_bigint_are_errors_and_large_ones_within_are_not() {
    use arrow::array::{ArrayRef, Int64Array};
    let column = |values: Vec<i64>| -> Batch {
        let column: ArrayRef = std::sync::Arc::new(Int64Array::from(values));
        harness::batch(vec![column])
    };
    let mut spec = hash(AggregatePhase::Single, &[], vec![spec_of("sum", &[0], DataType::Int64)]);
    spec.input = vec![DataType::Int64];
    spec.aggregates[0].arg_types = vec![DataType::Int64];
    let run = |values| {
        let spec = OperatorSpec::HashAggregate(spec.clone());
        harness::run(&spec, vec![vec![column(values)]])
    };
    let fits = run(vec![i64::MAX, i64::MAX, -i64::MAX]).unwrap();
    assert_eq!(h::rows(&fits), [i64::MAX.to_string()]);
    let error = run(vec![i64::MAX, 1]).unwrap_err();
    assert!(error.to_string().contains("out of range"), "{error}");
}

#[test]
fn a_superstep_emits_and_begins_anew() {
    let spec = hash(AggregatePhase::Single, &[], vec![spec_of("count", &[], DataType::Int64)]);
    let job = harness::context(100);
    let mut operator = HashAggregate::new(&spec, &job).unwrap();
    let (waker, metrics) = (std::task::Waker::noop(), Default::default());
    let mut cx = OperatorContext {
        vertex: crate::graph::VertexId(0),
        subtask: 0,
        position: 0,
        parallelism: 1,
        watermark: None,
        job: &job,
        waker,
        metrics: &metrics,
        cancelled: &job.cancelled,
    };
    operator.open(&mut cx).unwrap();
    let mut counts = Vec::new();
    let mut drain = |operator: &mut HashAggregate, cx: &mut OperatorContext<'_>| loop {
        match operator.step(cx).unwrap() {
            Output::Element(_, StreamElement::Batch(batch)) => counts.extend(h::rows(&[batch])),
            Output::NeedInput(_) | Output::Finished => break,
            other => panic!("{other:?}"),
        }
    };
    for number in 0..2 {
        for batch in batches(&rows(12, 30), 20) {
            operator.push(PortId(0), StreamElement::Batch(batch), &mut cx).unwrap();
            drain(&mut operator, &mut cx);
        }
        operator.on_superstep(Superstep { number, last: number == 1 }, &mut cx).unwrap();
        drain(&mut operator, &mut cx);
    }
    operator.push(PortId(0), StreamElement::End, &mut cx).unwrap();
    drain(&mut operator, &mut cx);
    assert_eq!(counts, ["30", "30"]);
}

#[test]
fn too_little_memory_is_an_error_that_names_the_operator() {
    let specs = vec![spec_of("max", &[5], DataType::Utf8View)];
    let spec = OperatorSpec::HashAggregate(hash(AggregatePhase::Single, &[9, 5], specs));
    let memory = crate::memory::MemoryManager::new(2 << 20);
    let job = harness::context_with_memory(1024, memory.clone());
    let mut driver = Driver::new(&spec, &job, Interruptions::None).unwrap();
    let error = driver.run_batches(vec![batches(&rows(13, 60_000), 8192)]).unwrap_err();
    assert!(matches!(&error, Error::ResourcesExhausted { .. }), "{error}");
    assert!(error.to_string().contains("HashAggregate"), "{error}");
    drop(driver);
    assert_eq!(memory.used(), 0);
}

/// Rows of (slot, value), counted by slot, where no later slot is below the watermark.
fn closing_spec() -> OperatorSpec {
    let micros = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
    let bound =
        Expr::Cast { expr: Box::new(Expr::Column(0)), to: DataType::Int64, fallible: false };
    OperatorSpec::HashAggregate(HashAggregateSpec {
        phase: AggregatePhase::Single,
        input: vec![DataType::Int64, DataType::Int64],
        keys: vec![Expr::Column(0)],
        key_types: vec![DataType::Int64],
        grouping_sets: None,
        aggregates: vec![AggregateSpec {
            function: "count".into(),
            arg_types: vec![DataType::Int64],
            args: vec![Expr::Column(1)],
            distinct: false,
            filter: None,
            order_by: Vec::new(),
            ignore_nulls: false,
            result: DataType::Int64,
        }],
        late_keys: Vec::new(),
        emission: Emission::Closed(ClosingSpec {
            key: 0,
            bound,
            watermark_type: micros,
            slices: None,
        }),
        withdrawn: false,
    })
}

fn slots(slots: &[Option<i64>]) -> StreamElement {
    let keys: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(slots.to_vec()));
    let ones = arrow::array::Int64Array::from(vec![1; slots.len()]);
    StreamElement::Batch(harness::batch(vec![keys, Arc::new(ones)]))
}

#[test]
fn groups_leave_when_the_watermark_has_passed_them() {
    let watermark = |at| StreamElement::Watermark(Watermark(at));
    let input = vec![
        slots(&[Some(1), Some(1), Some(2), None, Some(3)]),
        watermark(1),
        watermark(3),
        // Late: 1 and 2 have left, and nobody hears of them again.
        slots(&[Some(1), Some(3), Some(2), Some(4)]),
        watermark(4),
        slots(&[Some(4), None]),
    ];
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let job = harness::context(100);
        let mut driver = Driver::new(&closing_spec(), &job, interruptions).unwrap();
        let out = driver.run(vec![input.clone()]).unwrap();
        let text = out.into_iter().map(|element| match element {
            StreamElement::Batch(batch) => h::rows(&[batch]).join(" "),
            StreamElement::Watermark(Watermark(at)) => format!("W{at}"),
            other => panic!("emitted {other:?}"),
        });
        let text: Vec<String> = text.collect();
        assert_eq!(text, ["W1", "1|2", "2|1", "W3", "3|2", "W4", "∅|2", "4|2"]);
    }
}

#[test]
fn open_groups_leave_at_the_end_when_a_watermark_came_last() {
    let input = vec![slots(&[Some(1), Some(2)]), StreamElement::Watermark(Watermark(2))];
    let job = harness::context(100);
    let mut driver = Driver::new(&closing_spec(), &job, Interruptions::None).unwrap();
    let out = driver.run(vec![input]).unwrap();
    let batches = out.into_iter().filter_map(|element| match element {
        StreamElement::Batch(batch) => Some(batch),
        _ => None,
    });
    assert_eq!(h::rows(&batches.collect::<Vec<_>>()), ["1|1", "2|1"]);
}

/// [`closing_spec`] with results that are told before groups close, or corrected after.
fn fired_spec(early: Early, lateness_us: i64) -> OperatorSpec {
    let OperatorSpec::HashAggregate(mut spec) = closing_spec() else { panic!("an aggregate") };
    let Emission::Closed(closing) = spec.emission else { panic!("groups that close") };
    spec.emission = Emission::Fired(FiringSpec { closing, early, lateness_us });
    OperatorSpec::HashAggregate(spec)
}

/// What comes out of an aggregate: rows with their kinds, and watermarks.
fn told(
    spec: &OperatorSpec,
    input: &[StreamElement],
    interruptions: Interruptions,
) -> (Vec<String>, u64) {
    let job = harness::context(100);
    let mut driver = Driver::new(spec, &job, interruptions).unwrap();
    let out = driver.run(vec![input.to_vec()]).unwrap();
    let text = out.into_iter().flat_map(|element| match element {
        StreamElement::Batch(batch) => {
            let kinds = batch.kinds().map(<[RowKind]>::to_vec);
            let signs = (0..batch.num_rows()).map(|row| match &kinds {
                Some(kinds) if kinds[row] == RowKind::Delete => "-",
                _ => "+",
            });
            let rows = h::rows(std::slice::from_ref(&batch));
            signs.zip(rows).map(|(sign, row)| format!("{sign}{row}")).collect::<Vec<_>>()
        }
        StreamElement::Watermark(Watermark(at)) => vec![format!("W{at}")],
        other => panic!("emitted {other:?}"),
    });
    let text = text.collect();
    (text, driver.metrics.late_rows.load(std::sync::atomic::Ordering::Relaxed))
}

#[test]
fn results_are_told_before_groups_close_and_corrected_after() {
    let watermark = |at| StreamElement::Watermark(Watermark(at));
    let input = [
        slots(&[Some(1), Some(1), Some(2)]),
        slots(&[Some(1)]),
        watermark(2),
        slots(&[Some(1), Some(2)]),
        watermark(5),
        slots(&[Some(1), Some(5)]),
    ];
    let cases = [
        // Each change; what comes for a group that has closed is late.
        (Early::Update, 0, "+1|2 +2|1 -1|2 +1|3 W2 -2|1 +2|2 W5 +5|1", 2),
        // At the close, and what comes within the time that is allowed after it.
        (Early::Never, 2, "+1|3 W2 -1|3 +1|4 +2|2 W5 +5|1", 1),
        // Never before a tick, of which none comes in a test, but when a group closes.
        (Early::Periodic { every_us: 1 << 40 }, 0, "+1|3 +2|1 W2 -2|1 +2|2 W5 +5|1", 2),
    ];
    for (early, lateness, wanted, late) in cases {
        for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
            let found = told(&fired_spec(early, lateness), &input, interruptions);
            // What waited before a snapshot is told after it, at the first step.
            if interruptions == Interruptions::None || !matches!(early, Early::Periodic { .. }) {
                assert_eq!((found.0.join(" ").as_str(), found.1), (wanted, late), "{early:?}");
            }
        }
    }
}
