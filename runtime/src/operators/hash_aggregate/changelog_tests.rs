//! Aggregates over rows that come and go, against the naive model: after each batch what was emitted so far must add up
//! to the results of the rows so far.

use std::collections::{BTreeMap, HashMap};

use arrow_schema::DataType;

use super::changelog_model::aggregates;
use super::model::{
    self, Expected, Random, Row, assert_lines, batches, expected, input_types, rows, spec_of,
};
use super::*;
use crate::element::RowKind;
use crate::expr::Expr;
use crate::operators::OperatorSpec;
use crate::operators::harness::{self, Driver, Interruptions};

fn spec(keys: &[usize], aggregates: Vec<AggregateSpec>, emission: Emission) -> HashAggregateSpec {
    let input = input_types();
    HashAggregateSpec {
        phase: AggregatePhase::Single,
        keys: keys.iter().map(|&key| Expr::Column(key)).collect(),
        key_types: keys.iter().map(|&key| input[key].clone()).collect(),
        input,
        grouping_sets: None,
        aggregates,
        late_keys: Vec::new(),
        emission,
        withdrawn: true,
    }
}

/// A batch of changes, and the rows that there are after it.
struct Step {
    batch: Batch,
    rows: Vec<Row>,
}

/// Inserts `all` in steps of about `batch_rows` changes, and deletes live rows between them: of ten changes about
/// `deletes`. In the end most rows are deleted.
fn steps(seed: u64, all: &[Row], batch_rows: usize, deletes: u64) -> Vec<Step> {
    println!("seed {seed}");
    let mut random = Random(seed);
    let (mut live, mut steps): (Vec<Row>, Vec<Step>) = (Vec::new(), Vec::new());
    let mut coming = all.iter().cloned();
    let mut rest = coming.next();
    while rest.is_some() || live.len() > all.len() / 20 {
        let mut changes: Vec<(Row, RowKind)> = Vec::new();
        while changes.len() < batch_rows {
            let ended = rest.is_none();
            if !live.is_empty() && (ended || random.below(10) < deletes) {
                let gone = live.remove(random.below(live.len() as u64) as usize);
                changes.push((gone, RowKind::Delete));
            } else if let Some(row) = rest.take() {
                live.push(row.clone());
                changes.push((row, RowKind::Insert));
                rest = coming.next();
            } else {
                break;
            }
        }
        let (changed, kinds): (Vec<Row>, Vec<RowKind>) = changes.into_iter().unzip();
        let [batch] = &batches(&changed, batch_rows)[..] else { panic!("one batch a step") };
        let batch = match kinds.contains(&RowKind::Delete) {
            true => batch.clone().with_kinds(kinds.into()),
            false => batch.clone(),
        };
        // The model sees rows in the order in which they came.
        let mut now = live.clone();
        now.sort_by_key(|row| row.number);
        steps.push(Step { batch, rows: now });
    }
    steps
}

/// What comes out after each step, and at the end.
fn run(spec: &HashAggregateSpec, steps: &[Step], interruptions: Interruptions) -> Vec<Vec<Batch>> {
    let spec = OperatorSpec::HashAggregate(spec.clone());
    let mut driver = Driver::new(&spec, &harness::context(100), interruptions).unwrap();
    let input = steps.iter().enumerate().flat_map(|(number, step)| {
        let end = StreamElement::Watermark(Watermark(number as i64));
        [StreamElement::Batch(step.batch.clone()), end]
    });
    let mut out = vec![Vec::new()];
    for element in driver.run(vec![input.collect()]).unwrap() {
        match element {
            StreamElement::Batch(batch) => out.last_mut().unwrap().push(batch.compact().unwrap()),
            StreamElement::Watermark(_) => out.push(Vec::new()),
            other => panic!("emitted {other:?}"),
        }
    }
    out
}

/// Applies changes; a deletion must be of a row that is there, and must not be followed by the insertion of its equal.
fn fold(state: &mut HashMap<String, i64>, batches: &[Batch], keys: usize, what: &str) {
    for batch in batches {
        // The two zeros are one value, and either may stand for it.
        let zero = |cell: &str| if cell == "-0.0" { "0.0" } else { cell }.to_string();
        let lines = harness::rows(std::slice::from_ref(batch))
            .into_iter()
            .map(|line| line.split('|').map(zero).collect::<Vec<_>>().join("|"));
        let lines: Vec<String> = lines.collect();
        let kind = |row: usize| batch.kinds().map_or(RowKind::Insert, |kinds| kinds[row]);
        let key = |row: usize| lines[row].split('|').take(keys).collect::<Vec<_>>();
        let mut seen = std::collections::HashSet::new();
        for (row, line) in lines.iter().enumerate() {
            let replaces = row > 0 && kind(row - 1) == RowKind::Delete && key(row - 1) == key(row);
            assert!(seen.insert(key(row)) || replaces, "{what}: a group twice in a batch: {line}");
            match kind(row) {
                RowKind::Insert => {
                    assert!(
                        !replaces || lines[row - 1] != *line,
                        "{what}: nothing changed: {line}"
                    );
                    *state.entry(line.clone()).or_default() += 1;
                }
                RowKind::Delete => {
                    let count = state.get_mut(line).filter(|count| **count > 0);
                    *count.unwrap_or_else(|| panic!("{what}: no such row: {line}")) -= 1;
                }
                RowKind::Upsert => panic!("{what}: an upsert"),
            }
        }
    }
    state.retain(|_, count| *count > 0);
    assert!(state.values().all(|count| *count == 1), "{what}: a row twice");
}

fn check(keys: &[usize], chosen: Vec<(AggregateSpec, Expected)>, steps: &[Step]) {
    let (specs, wanted): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
    let mut changes = spec(keys, specs.clone(), Emission::Changes);
    changes.withdrawn = steps.iter().any(|step| step.batch.kinds().is_some());
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let mut state = HashMap::new();
        for (number, batches) in run(&changes, steps, interruptions).iter().enumerate() {
            let what = format!("{interruptions:?} step {number}");
            fold(&mut state, batches, keys.len(), &what);
            let rows = steps[number.min(steps.len() - 1)].rows.as_slice();
            let lines = state.keys().cloned().collect();
            assert_lines(lines, keys.len(), &expected(rows, keys, &wanted), &what);
        }
        let at_end = spec(keys, specs.clone(), Emission::AtEnd);
        let out = run(&at_end, steps, interruptions).concat();
        let last = steps.last().map_or(&[][..], |step| &step.rows);
        let wanted = expected(last, keys, &wanted);
        assert_lines(harness::rows(&out), keys.len(), &wanted, "at the end");
    }
}

#[test]
fn all_functions_by_string_and_integer() {
    check(&[0, 1], aggregates(), &steps(101, &rows(1, 900), 60, 4));
}

#[test]
fn all_functions_by_a_float_that_has_two_zeros_and_many_nans() {
    check(&[3], aggregates(), &steps(102, &rows(2, 500), 40, 3));
}

#[test]
fn all_functions_without_keys() {
    check(&[], aggregates(), &steps(103, &rows(3, 400), 30, 4));
}

#[test]
fn all_functions_of_rows_that_stay() {
    let steps: Vec<Step> = steps(105, &rows(9, 300), 40, 0);
    let growing: Vec<Step> =
        steps.into_iter().take_while(|step| step.batch.kinds().is_none()).collect();
    assert!(growing.len() > 5);
    check(&[1], aggregates(), &growing);
    check(&[], aggregates(), &growing);
}

#[test]
fn a_row_that_comes_and_goes_in_one_batch_leaves_nothing() {
    let row = rows(4, 1);
    let [batch] = &batches(&[row[0].clone(), row[0].clone()], 2)[..] else { panic!("one batch") };
    let kinds = [RowKind::Delete, RowKind::Insert];
    let step = Step { batch: batch.clone().with_kinds(kinds.into()), rows: Vec::new() };
    check(&[9], aggregates(), std::slice::from_ref(&step));
    check(&[], aggregates(), &[step]);
}

#[test]
fn only_rows_that_changed_are_emitted() {
    let count = spec_of("max", &[9], DataType::Int64);
    let changes = spec(&[7], vec![count], Emission::Changes);
    let all = rows(5, 3);
    let flagged: Vec<Row> = all.iter().map(|row| Row { flag: Some(true), ..row.clone() }).collect();
    let step = |rows: &[Row]| Step { batch: batches(rows, 10).remove(0), rows: Vec::new() };
    let steps = [step(&flagged[1..2]), step(&flagged[..1]), step(&flagged[2..])];
    let out = run(&changes, &steps, Interruptions::None);
    let lines: Vec<Vec<String>> = out.iter().map(|batches| harness::rows(batches)).collect();
    assert_eq!(lines, [vec!["true|1"], vec![], vec!["true|1", "true|2"], vec![]]);
}

#[test]
fn a_withdrawn_row_that_never_came_is_an_error() {
    let [batch] = &batches(&rows(6, 2), 2)[..] else { panic!("one batch") };
    let batch = batch.clone().with_kinds([RowKind::Insert, RowKind::Delete].into());
    for aggregate in [spec_of("count", &[], DataType::Int64), spec_of("min", &[9], DataType::Int64)]
    {
        for emission in [Emission::AtEnd, Emission::Changes] {
            let spec = OperatorSpec::HashAggregate(spec(&[9], vec![aggregate.clone()], emission));
            let error = harness::run(&spec, vec![vec![batch.clone()]]).unwrap_err();
            assert!(matches!(error, Error::Internal(_)), "{error}");
        }
    }
}

#[test]
fn memory_follows_the_groups_and_rows_that_are_there() {
    let specs = vec![
        spec_of("count", &[], DataType::Int64),
        spec_of("max", &[5], DataType::Utf8View),
        AggregateSpec { distinct: true, ..spec_of("count", &[5], DataType::Int64) },
        spec_of("median", &[8], DataType::Float64),
    ];
    let wanted: Vec<Expected> = vec![
        |rows| rows.len().to_string(),
        |rows| model::text(rows.iter().filter_map(|row| row.text.clone()).max()),
        |rows| {
            let texts: std::collections::BTreeSet<_> =
                rows.iter().filter_map(|row| row.text.clone()).collect();
            texts.len().to_string()
        },
        |rows| {
            let mut values: Vec<f64> = rows.iter().filter_map(|row| row.tame).collect();
            values.sort_by(f64::total_cmp);
            let n = values.len();
            model::text((n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0))
        },
    ];
    let all = rows(7, 40_000);
    // A window of 2,000 rows slides over all of them; three rows share a key.
    let (window, batch_rows) = (2_000, 1_000);
    let mut sliding = Vec::new();
    for start in (0..all.len()).step_by(batch_rows) {
        let coming = &all[start..start + batch_rows];
        let going =
            if start >= window { &all[start - window..start - window + batch_rows] } else { &[] };
        let batch = batches(&[coming, going].concat(), 2 * batch_rows).remove(0);
        let kinds =
            [vec![RowKind::Insert; coming.len()], vec![RowKind::Delete; going.len()]].concat();
        let rows = all[(start + batch_rows).saturating_sub(window)..start + batch_rows].to_vec();
        sliding.push(Step { batch: batch.with_kinds(kinds.into()), rows });
    }
    for emission in [Emission::Changes, Emission::AtEnd] {
        let spec = OperatorSpec::HashAggregate(spec(&[9], specs.clone(), emission.clone()));
        // All rows at once would take more than 20 MB.
        let memory = crate::memory::MemoryManager::new(6 << 20);
        let job = harness::context_with_memory(1024, memory.clone());
        let mut driver = Driver::new(&spec, &job, Interruptions::None).unwrap();
        let input = sliding.iter().map(|step| step.batch.clone()).collect();
        let out = driver.run_batches(vec![input]).unwrap();
        let mut state = HashMap::new();
        fold(&mut state, &out, 1, "sliding");
        let last = &sliding.last().unwrap().rows;
        let lines = state.into_keys().collect();
        assert_lines(lines, 1, &expected(last, &[9], &wanted), "sliding");
        drop(driver);
        assert_eq!(memory.used(), 0);
    }
}

#[test]
fn strings_that_were_replaced_take_no_memory() {
    // Each batch brings the only row of the group and takes the last one away; texts grow and shrink.
    let text = |number: i64| "x".repeat((number * 7919 % 20_000) as usize);
    let row = |number: i64| Row { text: Some(text(number)), number, ..rows(10, 1).remove(0) };
    let aggregates = vec![
        spec_of("max", &[5], DataType::Utf8View),
        spec_of("last_value", &[5], DataType::Utf8View),
    ];
    let spec = OperatorSpec::HashAggregate(spec(&[0], aggregates, Emission::Changes));
    // All texts would take 15 MB, twice.
    let memory = crate::memory::MemoryManager::new(8 << 20);
    let job = harness::context_with_memory(1024, memory.clone());
    let mut driver = Driver::new(&spec, &job, Interruptions::None).unwrap();
    let input = (0..1_500).map(|number| {
        let last: Vec<i64> = (number > 0).then_some(number - 1).into_iter().collect();
        let changed: Vec<Row> = last.iter().chain([&number]).map(|&number| row(number)).collect();
        let mut kinds = vec![RowKind::Delete; changed.len()];
        kinds[changed.len() - 1] = RowKind::Insert;
        batches(&changed, 2).remove(0).with_kinds(kinds.into())
    });
    let out = driver.run_batches(vec![input.collect()]).unwrap();
    let lines = harness::rows(&out);
    let name = row(0).text(0);
    assert_eq!(lines.last().unwrap(), &format!("{name}|{0}|{0}", text(1_499)));
}

#[test]
fn grouping_sets_change_each_for_itself() {
    let sets = vec![vec![0, 1], vec![1], vec![]];
    let levels: Vec<(AggregateSpec, Expected)> = aggregates().into_iter().take(8).collect();
    for chosen in [aggregates(), levels] {
        let (specs, wanted): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
        let mut spec = spec(&[0, 7], specs, Emission::Changes);
        spec.grouping_sets = Some(GroupingSetsSpec {
            sets: sets.clone(),
            ids: vec![0, 2, 3],
            id_type: DataType::UInt8,
        });
        let steps = steps(104, &rows(8, 300), 50, 4);
        for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
            let mut state = HashMap::new();
            for (number, batches) in run(&spec, &steps, interruptions).iter().enumerate() {
                let what = format!("{interruptions:?} step {number}");
                fold(&mut state, batches, 3, &what);
                let rows = steps[number.min(steps.len() - 1)].rows.as_slice();
                let lines = state.keys().cloned().collect();
                assert_lines(lines, 3, &of_sets(rows, &sets, &wanted), &what);
            }
            let at_end = HashAggregateSpec { emission: Emission::AtEnd, ..spec.clone() };
            let out = run(&at_end, &steps, interruptions).concat();
            let last = of_sets(&steps.last().unwrap().rows, &sets, &wanted);
            assert_lines(harness::rows(&out), 3, &last, "at the end");
        }
    }
}

/// What the grouping sets of two keys should give, ids 0, 2 and 3.
fn of_sets(
    rows: &[Row],
    sets: &[Vec<usize>],
    wanted: &[Expected],
) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for (set, id) in sets.iter().zip([0, 2, 3]) {
        let columns: Vec<usize> = set.iter().map(|&key| [0, 7][key]).collect();
        for (key, values) in expected(rows, &columns, wanted) {
            let mut cells = key.split_terminator('|');
            let cell =
                |key: usize| if set.contains(&key) { cells.next().unwrap_or("") } else { "∅" };
            let full: String = (0..2).map(cell).map(|cell| format!("{cell}|")).collect();
            all.insert(format!("{full}{id}|"), values);
        }
    }
    all
}

#[test]
fn withdrawn_rows_leave_open_panes_and_are_late_for_closed_ones() {
    let micros = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
    let bound =
        Expr::Cast { expr: Box::new(Expr::Column(0)), to: DataType::Int64, fallible: false };
    let closing = ClosingSpec { key: 0, bound, watermark_type: micros, slices: None };
    let specs =
        vec![spec_of("count", &[], DataType::Int64), spec_of("max", &[10], DataType::Int64)];
    let spec = OperatorSpec::HashAggregate(spec(&[9], specs, Emission::Closed(closing)));
    let batch = |changes: &[(i64, i64, RowKind)]| {
        let template = rows(1, 1).remove(0);
        let rows: Vec<Row> = changes
            .iter()
            .map(|&(number, third, _)| Row { number, third, ..template.clone() })
            .collect();
        let kinds = changes.iter().map(|change| change.2).collect();
        StreamElement::Batch(batches(&rows, 100).remove(0).with_kinds(kinds))
    };
    use RowKind::{Delete, Insert};
    let watermark = |at| StreamElement::Watermark(Watermark(at));
    let input = vec![
        batch(&[(1, 5, Insert), (1, 7, Insert), (2, 3, Insert), (2, 3, Delete), (3, 1, Insert)]),
        batch(&[(1, 7, Delete), (4, 4, Insert)]),
        watermark(3),
        // Of closed panes: nobody hears of it again.
        batch(&[(1, 5, Delete), (4, 4, Delete), (4, 2, Insert), (3, 1, Delete)]),
        watermark(4),
    ];
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let mut driver = Driver::new(&spec, &harness::context(100), interruptions).unwrap();
        let out = driver.run(vec![input.clone()]).unwrap();
        let text = out.into_iter().map(|element| match element {
            StreamElement::Batch(batch) => harness::rows(&[batch]).join(" "),
            StreamElement::Watermark(Watermark(at)) => format!("W{at}"),
            other => panic!("emitted {other:?}"),
        });
        assert_eq!(text.collect::<Vec<_>>(), ["1|1|5", "W3", "W4", "4|1|2"]);
    }
}

#[test]
fn the_row_without_keys_is_there_before_any_other() {
    let specs = vec![spec_of("count", &[], DataType::Int64), spec_of("sum", &[2], DataType::Int64)];
    let out = run(&spec(&[], specs, Emission::Changes), &[], Interruptions::EveryBatch);
    assert_eq!(harness::rows(&out.concat()), ["0|∅"]);
}
