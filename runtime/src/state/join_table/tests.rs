//! The join table against a nested loop over its rows.

use std::sync::Arc;

use arrow::array::{Array, Float64Array, Int32Array, Int64Array, StringViewArray};

use super::*;
use crate::memory::MemoryManager;
use crate::rows::{RowLayout, Selected};

/// A small generator with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn column(random: &mut Random, kind: usize, rows: usize, distinct: u64, stretch: i64) -> ArrayRef {
    let mut draw = || (random.below(10) > 0).then(|| random.below(distinct) as i64);
    match kind {
        0 => Arc::new((0..rows).map(|_| draw().map(|v| v * stretch)).collect::<Int64Array>()),
        1 => Arc::new((0..rows).map(|_| draw().map(|v| v as i32)).collect::<Int32Array>()),
        2 => Arc::new(
            (0..rows)
                .map(|_| draw().map(|v| format!("{v:0width$}", width = (v % 20) as usize)))
                .collect::<StringViewArray>(),
        ),
        _ => Arc::new(
            (0..rows)
                .map(|_| {
                    draw().map(|v| match v {
                        0 => -0.0,
                        1 => 0.0,
                        2 => f64::NAN,
                        3 => -f64::NAN,
                        v => v as f64,
                    })
                })
                .collect::<Float64Array>(),
        ),
    }
}

fn table(keys: &[ArrayRef], null_equal: bool, threads: usize) -> JoinTable {
    let reservation = MemoryManager::unlimited().reserve("join");
    let types: Vec<DataType> = keys.iter().map(|k| k.data_type().clone()).collect();
    let layout = RowLayout::new(&types, &[]).unwrap();
    let mut store = RowStore::new(layout, reservation.share());
    store.append(keys, Selected::All(keys[0].len())).unwrap();
    let mut spans = vec![KeySpan::default(); keys.len()];
    spans.iter_mut().zip(keys).for_each(|(span, key)| span.observe(key));
    let options = JoinTableOptions { keys: keys.len(), null_equal, tracks_matches: true, threads };
    let table = JoinTable::new(store, &spans, options, &reservation).unwrap();
    std::thread::scope(|scope| {
        for part in 0..table.num_parts() {
            let table = &table;
            scope.spawn(move || table.fill(part, || Ok(())).unwrap());
        }
    });
    table
}

/// The values of a row as text in which equal keys are equal.
fn text(keys: &[ArrayRef], row: usize) -> Vec<Option<String>> {
    keys.iter()
        .map(|key| {
            let key = crate::rows::canonical_key(key).unwrap();
            key.is_valid(row)
                .then(|| arrow::util::display::array_value_to_string(&key, row).unwrap())
        })
        .collect()
}

fn check(kinds: &[usize], distinct: u64, stretch: i64, null_equal: bool) {
    let mut random = Random(distinct ^ stretch as u64 ^ kinds.len() as u64);
    let mut draw = |rows| -> Vec<ArrayRef> {
        kinds.iter().map(|&kind| column(&mut random, kind, rows, distinct, stretch)).collect()
    };
    let (build, probe) = (draw(300), draw(200));
    let table = table(&build, null_equal, 2);
    let mut heads = Vec::new();
    table.lookup(&probe, &mut LookupScratch::default(), &mut heads).unwrap();
    for (row, &head) in heads.iter().enumerate() {
        let key = text(&probe, row);
        let comparable = null_equal || key.iter().all(Option::is_some);
        let expected: Vec<u32> =
            (0..300_u32).filter(|&id| comparable && text(&build, id as usize) == key).collect();
        let mut found = Vec::new();
        let mut id = head;
        while id != NO_ROW {
            found.push(id);
            id = table.next(id);
        }
        found.sort_unstable();
        assert_eq!(found, expected, "key {key:?} of kinds {kinds:?}");
    }
}

#[test]
fn every_row_is_found_by_its_key() {
    for null_equal in [false, true] {
        for distinct in [5, 100, 10_000] {
            check(&[0], distinct, 1, null_equal);
            check(&[0], distinct, 1 << 40, null_equal);
            check(&[2], distinct, 1, null_equal);
            check(&[3], distinct, 1, null_equal);
            check(&[0, 1], distinct, 1 << 20, null_equal);
            check(&[0, 0], distinct, 1 << 45, null_equal);
            check(&[1, 2], distinct, 1, null_equal);
            check(&[3, 0, 2], distinct, 1, null_equal);
        }
    }
}

#[test]
fn parts_are_filled_at_the_same_time() {
    let rows = 200_000_i64;
    for (stretch, name) in [(1, "direct"), (1 << 30, "coded")] {
        let key: ArrayRef =
            Arc::new((0..rows).map(|v| (v * 7 % rows) * stretch).collect::<Int64Array>());
        let table = table(std::slice::from_ref(&key), false, 4);
        assert_eq!(table.num_parts(), 4);
        assert!(table.is_unique(), "{name}");
        let mut heads = Vec::new();
        table.lookup(&[key], &mut LookupScratch::default(), &mut heads).unwrap();
        let ids: Vec<u32> = table.store().ids().collect();
        assert_eq!(heads, ids, "{name}");
    }
    let key: ArrayRef = Arc::new(
        (0..rows).map(|v| Some(format!("key {}", v % 150_000))).collect::<StringViewArray>(),
    );
    let table = table(std::slice::from_ref(&key), false, 4);
    assert!(!table.is_unique());
    let mut heads = Vec::new();
    table.lookup(&[key], &mut LookupScratch::default(), &mut heads).unwrap();
    assert!(heads.iter().all(|&head| head != NO_ROW));
    let chained = heads.iter().filter(|&&head| table.next(head) != NO_ROW).count();
    assert_eq!(chained, 100_000, "the first and the last 50,000 rows share their keys");
}

#[test]
fn flags_of_a_chain_are_set_together() {
    let key: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 1, 3]));
    let table = table(&[key], false, 1);
    let mut heads = Vec::new();
    let probe: ArrayRef = Arc::new(Int64Array::from(vec![1, 9]));
    table.lookup(&[probe], &mut LookupScratch::default(), &mut heads).unwrap();
    table.set_chains_matched(&heads);
    let flags: Vec<bool> = (0..4).map(|id| table.is_matched(id)).collect();
    assert_eq!(flags, [true, false, true, false]);
}
