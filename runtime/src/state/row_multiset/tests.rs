//! The multiset against a list of rows, through random changes and compactions.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, StringViewArray};
use arrow::datatypes::Int64Type;

use super::*;
use crate::memory::MemoryManager;
use crate::rows::NO_ROW;

fn options(withdrawn: bool) -> RowMultisetOptions<'static> {
    RowMultisetOptions {
        types: &[DataType::Int64, DataType::Utf8View],
        keys: &[0],
        withdrawn,
        forgetful: false,
        slots: 1,
        operator: "Test",
    }
}

fn columns(rows: &[(Option<i64>, &str)]) -> Vec<ArrayRef> {
    vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.1)).collect::<StringViewArray>()),
    ]
}

fn multiset(withdrawn: bool) -> RowMultiset {
    let reservation = MemoryManager::unlimited().reserve("test");
    RowMultiset::new(&options(withdrawn), &reservation).unwrap()
}

/// The rows of a key in the order of the chain, each as often as it is there.
fn rows_of(set: &mut RowMultiset, key: Option<i64>) -> Vec<String> {
    let keys: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![key]))];
    let mut found = Vec::new();
    set.find_keys(&keys, 1, &mut found).unwrap();
    let (mut cursor, mut positions, mut ids) = (PairCursor::default(), Vec::new(), Vec::new());
    let mut max = 0;
    while !cursor.is_done(1) {
        max += 1;
        set.pairs(&found, &mut cursor, max, &mut positions, &mut ids);
    }
    let texts = set.store().gather(1, &ids).unwrap();
    let texts = texts.as_string_view();
    let mut out = Vec::new();
    for (i, &id) in ids.iter().enumerate() {
        out.extend((0..set.count(id)).map(|_| texts.value(i).to_string()));
    }
    let total = if found[0] == NO_ROW { 0 } else { set.total(found[0]) };
    assert_eq!(total, out.len() as i64);
    out
}

#[test]
fn rows_of_a_key_come_in_the_order_of_arrival() {
    for withdrawn in [false, true] {
        let mut set = multiset(withdrawn);
        let mut changes = RowChanges::default();
        let rows = [(Some(1), "c"), (None, "n"), (Some(1), "a")];
        set.apply(&columns(&rows), 3, None, &mut changes).unwrap();
        assert_eq!(changes.deltas, [1, 1, 1]);
        set.apply(&columns(&[(Some(1), "b")]), 1, None, &mut changes).unwrap();
        assert_eq!((set.previous(changes.keys[0]), set.total(changes.keys[0])), (0, 3));
        assert_eq!(rows_of(&mut set, Some(1)), ["c", "a", "b"]);
        assert_eq!(rows_of(&mut set, None), ["n"]);
        assert!(rows_of(&mut set, Some(2)).is_empty());
    }
}

#[test]
fn changes_of_a_batch_are_summed_up() {
    use RowKind::{Delete, Insert};
    let mut set = multiset(true);
    let mut changes = RowChanges::default();
    let rows = columns(&[(Some(1), "a"), (Some(1), "b"), (Some(1), "a"), (Some(1), "b")]);
    set.apply(&rows, 4, Some(&[Insert, Insert, Insert, Delete]), &mut changes).unwrap();
    assert_eq!((changes.deltas.as_slice(), changes.positions.as_slice()), (&[2][..], &[0][..]));
    assert_eq!(rows_of(&mut set, Some(1)), ["a", "a"]);
    let error = set.apply(&columns(&[(Some(1), "b")]), 1, Some(&[Delete]), &mut changes);
    assert!(error.unwrap_err().to_string().contains("Test: a withdrawn row was never there"));
    let error = multiset(false).apply(&rows, 4, Some(&[Delete; 4]), &mut changes);
    assert!(error.unwrap_err().to_string().contains("never there"));
}

/// A generator with a fixed seed.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

#[test]
fn rows_outlive_compactions_and_snapshots() {
    let mut seed = 7;
    let mut set = multiset(true);
    let mut present: Vec<(i64, String)> = Vec::new();
    let mut compactions = 0;
    for round in 0..24 {
        let (mut rows, mut kinds) = (Vec::new(), Vec::new());
        // Rows come for a while and go for a while.
        for _ in 0..1200 {
            if present.is_empty() || random(&mut seed, 10) >= if round % 12 > 5 { 9 } else { 1 } {
                let row = (random(&mut seed, 40) as i64, format!("{:020}", random(&mut seed, 300)));
                kinds.push(RowKind::Insert);
                present.push(row.clone());
                rows.push(row);
            } else {
                let at = random(&mut seed, present.len() as u64) as usize;
                kinds.push(RowKind::Delete);
                rows.push(present.swap_remove(at));
            }
        }
        let given: Vec<(Option<i64>, &str)> =
            rows.iter().map(|(key, text)| (Some(*key), text.as_str())).collect();
        let mut changes = RowChanges::default();
        set.apply(&columns(&given), given.len(), Some(&kinds), &mut changes).unwrap();
        set.settle(&changes.keys);
        for (&id, &delta) in changes.ids.iter().zip(&changes.deltas) {
            if delta > 0 {
                set.set_number(id, 0, i64::from(id));
            }
        }
        if let Some(moved) = set.compact().unwrap().rows {
            compactions += 1;
            assert!((0..set.store().len() as RowId).all(|id| set.count(id) > 0));
            assert!(moved.new_id(NO_ROW).is_none());
        }
        let mut bytes = Vec::new();
        set.snapshot(&mut bytes);
        let mut restored = multiset(true);
        restored.restore(&mut bytes.as_slice()).unwrap();
        set = restored;
        for key in 0..40 {
            let mut expected: Vec<String> =
                present.iter().filter(|row| row.0 == key).map(|row| row.1.clone()).collect();
            expected.sort();
            let mut found = rows_of(&mut set, Some(key));
            found.sort();
            assert_eq!(found, expected, "key {key} in round {round}");
        }
        let mut all = Vec::new();
        set.scan(0, usize::MAX, &mut all);
        assert_eq!(all.len(), set.len());
    }
    assert!(compactions > 0);
}

#[test]
fn appended_rows_that_are_removed_give_their_memory_back() {
    let mut set = multiset(false);
    let mut changes = RowChanges::default();
    for batch in 0..40_i64 {
        let texts: Vec<String> = (0..1000).map(|i| format!("{:030}", batch * 1000 + i)).collect();
        let rows: Vec<(Option<i64>, &str)> = texts
            .iter()
            .enumerate()
            .map(|(i, t)| (Some(i as i64 % 7 + batch), t.as_str()))
            .collect();
        set.apply(&columns(&rows), 1000, None, &mut changes).unwrap();
        set.settle(&changes.keys);
        let mut ids = Vec::new();
        set.scan(0, usize::MAX, &mut ids);
        let old = ids.len().saturating_sub(1500);
        set.remove(&ids[..old]);
        set.compact().unwrap();
        assert!(set.len() <= 1500 && set.store().len() < 5 * 1500);
    }
    let mut bytes = Vec::new();
    set.snapshot(&mut bytes);
    let mut restored = multiset(false);
    restored.restore(&mut bytes.as_slice()).unwrap();
    let rows = rows_of(&mut restored, Some(39));
    assert!(!rows.is_empty() && rows.is_sorted());
    let numbers: ArrayRef = restored.store().gather(0, &[0]).unwrap();
    assert_eq!(numbers.as_primitive::<Int64Type>().len(), 1);
}
