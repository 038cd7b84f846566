//! Keyed state against a naive map, over every key type and form of index.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, StringViewArray, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::index::Index;
use super::*;
use crate::memory::MemoryManager;
use crate::rows::test_data::{Random, all_types, model_keys, random_array};
use crate::rows::{NO_ROW, RowId, Selected, StateSlot};

fn state(types: &[DataType]) -> KeyedState {
    let reservation = MemoryManager::unlimited().reserve("state");
    KeyedState::new(types, &[StateSlot::new(8, 8)], reservation).unwrap()
}

/// A state and the model of what it has to hold: for each key its row, and the count of its occurrences.
struct Checked {
    state: KeyedState,
    model: HashMap<Vec<u8>, (RowId, i64)>,
}

impl Checked {
    fn new(types: &[DataType]) -> Self {
        Self { state: state(types), model: HashMap::new() }
    }

    fn feed(&mut self, keys: &[ArrayRef], rows: Selected<'_>) {
        let (mut out, mut new) = (Vec::new(), Vec::new());
        let made = self.state.lookup_or_insert(keys, None, rows, &mut out, &mut new).unwrap();
        let model_keys = model_keys(keys);
        assert_eq!(out.len(), rows.len());
        let mut next = self.model.len() as RowId;
        assert_eq!(made.start, next);
        let mut expected_new = Vec::new();
        for (i, &id) in out.iter().enumerate() {
            let key = &model_keys[rows.row(i) as usize];
            let entry = self.model.entry(key.clone()).or_insert_with(|| {
                expected_new.push(id);
                (id, 0)
            });
            entry.1 += 1;
            assert_eq!(entry.0, id, "row {i} of {:?}", self.state.key_types);
        }
        for (&row, id) in new.iter().zip(made) {
            assert_eq!(self.model[&model_keys[row as usize]].0, id);
            next += 1;
        }
        assert_eq!((next as usize, self.state.len()), (self.model.len(), self.model.len()));
        expected_new.sort_unstable();
        assert!(expected_new.windows(2).all(|pair| pair[0] != pair[1]));
        let offset = self.state.layout().states()[0].offset;
        self.state.states_mut().update_each(&out, offset, |_, count: i64| count + 1);
    }

    fn check(&mut self) {
        let offset = self.state.layout().states()[0].offset;
        let ids: Vec<RowId> = self.state.ids().collect();
        let keys = model_keys(&self.state.gather_keys(&ids).unwrap());
        let states = self.state.states_mut();
        assert_eq!(keys.len(), self.model.len());
        for (key, &id) in keys.iter().zip(&ids) {
            assert_eq!(self.model[key].1, states.read::<i64>(id, offset));
        }
    }

    fn check_lookup(&mut self, keys: &[ArrayRef]) {
        let mut out = Vec::new();
        let rows = keys[0].len();
        self.state.lookup(keys, None, Selected::All(rows), &mut out).unwrap();
        for (key, id) in model_keys(keys).iter().zip(out) {
            assert_eq!(self.model.get(key).map_or(NO_ROW, |entry| entry.0), id);
        }
    }
}

#[test]
fn every_key_type_agrees_with_the_model() {
    for (seed, data_type) in all_types().into_iter().enumerate() {
        for second in [None, Some(DataType::Int32), Some(DataType::Utf8View)] {
            let types: Vec<DataType> = std::iter::once(data_type.clone()).chain(second).collect();
            let mut random = Random::new(seed as u64 + 1000);
            let mut checked = Checked::new(&types);
            for round in 0..4 {
                let keys: Vec<ArrayRef> =
                    types.iter().map(|t| random_array(&mut random, t, 400, 10 * round)).collect();
                checked.check_lookup(&keys);
                if round % 2 == 0 {
                    checked.feed(&keys, Selected::All(400));
                } else {
                    let rows = random.indices(150, 400);
                    checked.feed(&keys, Selected::Rows(&rows));
                }
                checked.check_lookup(&keys);
            }
            checked.check();
        }
    }
}

fn ints(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

#[test]
fn a_dense_table_grows_both_ways_and_gives_way() {
    let mut checked = Checked::new(&[DataType::Int64]);
    let mut feed = |values: ArrayRef, direct: bool| {
        let len = values.len();
        checked.feed(&[values], Selected::All(len));
        assert_eq!(matches!(checked.state.index, Index::Direct(_)), direct);
        checked.check();
    };
    feed(ints((0..3000).map(Some)), true);
    feed(ints((-5000..0).map(|v| (v % 7 != 0).then_some(v))), true);
    feed(ints((3000..60_000).map(Some)), true);
    feed(ints((59_000..200_000).map(Some)), true);
    feed(ints([Some(i64::MAX), None, Some(i64::MIN)]), false);
    feed(ints((-100..100).map(|v| Some(v << 40))), false);
}

#[test]
fn unsigned_keys_of_the_full_range_are_told_apart() {
    let mut checked = Checked::new(&[DataType::UInt64]);
    let values: ArrayRef = Arc::new(UInt64Array::from(vec![0, u64::MAX, 1, u64::MAX - 1, 1 << 63]));
    checked.feed(std::slice::from_ref(&values), Selected::All(5));
    checked.check_lookup(&[values]);
    assert_eq!(checked.state.len(), 5);
}

#[test]
fn packed_strings_give_way_to_longer_ones() {
    let strings =
        |values: &[&str]| -> ArrayRef { Arc::new(StringViewArray::from(values.to_vec())) };
    let mut checked = Checked::new(&[DataType::Utf8View, DataType::Utf8View]);
    let mut feed = |a: &[&str], b: &[&str]| {
        checked.feed(&[strings(a), strings(b)], Selected::All(a.len()));
        checked.check();
        match checked.state.index {
            Index::Packed64(_) => 64,
            Index::Packed128(_) => 128,
            Index::Hashed(_) => 0,
            Index::Global | Index::Direct(_) => panic!("two strings"),
        }
    };
    assert_eq!(feed(&["A", "N", "R", "A", ""], &["F", "O", "F", "F", ""]), 64);
    assert_eq!(feed(&["abc", "ab", "a"], &["", "c", "bc"]), 64);
    assert_eq!(feed(&["abcdefg", "A"], &["x", "F"]), 128);
    assert_eq!(feed(&["abcdefgh", "A"], &["x", "F"]), 0);
    assert_eq!(feed(&["a string that no view holds", "R"], &["x", "F"]), 0);
}

#[test]
fn without_keys_there_is_one_row() {
    let mut state = state(&[]);
    let (mut out, mut new) = (Vec::new(), Vec::new());
    state.lookup(&[], None, Selected::All(2), &mut out).unwrap();
    assert_eq!(out, [NO_ROW, NO_ROW]);
    state.lookup_or_insert(&[], None, Selected::All(0), &mut out, &mut new).unwrap();
    assert!(state.is_empty());
    state.lookup_or_insert(&[], None, Selected::All(3), &mut out, &mut new).unwrap();
    assert_eq!((out.as_slice(), new.as_slice(), state.len()), (&[0, 0, 0][..], &[0][..], 1));
    state.lookup_or_insert(&[], None, Selected::Rows(&[7]), &mut out, &mut new).unwrap();
    assert_eq!((out.as_slice(), new.len()), (&[0][..], 0));
}

#[test]
fn a_refused_call_leaves_the_state_as_it_was() {
    let types =
        [vec![DataType::Int64], vec![DataType::Utf8], vec![DataType::Utf8, DataType::Int32]];
    for (seed, types) in types.iter().enumerate() {
        let mut refused = 0;
        for k in 0..40 {
            let manager = MemoryManager::unlimited();
            let reservation = manager.reserve("state");
            let mut checked = Checked::new(types);
            checked.state = KeyedState::new(types, &[StateSlot::new(8, 8)], reservation).unwrap();
            let mut random = Random::new(seed as u64);
            let first: Vec<ArrayRef> =
                types.iter().map(|t| random_array(&mut random, t, 20, 10)).collect();
            checked.feed(&first, Selected::All(20));
            let wide: ArrayRef =
                Arc::new(Int64Array::from_iter_values((0..3000).map(|v| v * 1001)));
            let second: Vec<ArrayRef> =
                types.iter().map(|t| arrow::compute::cast(&wide, t).unwrap()).collect();
            manager.refuse_grow(k);
            let (mut out, mut new) = (Vec::new(), Vec::new());
            let result = checked.state.lookup_or_insert(
                &second,
                None,
                Selected::All(3000),
                &mut out,
                &mut new,
            );
            if result.is_ok() {
                break;
            }
            refused += 1;
            assert_eq!(checked.state.len(), checked.model.len());
            checked.check_lookup(&second);
            checked.feed(&second, Selected::All(3000));
            checked.feed(&first, Selected::All(20));
            checked.check();
        }
        assert!(refused > 2, "{types:?}: {refused}");
    }
}

#[test]
fn snapshots_bring_everything_back() {
    for types in [vec![DataType::Int32], vec![DataType::Utf8View, DataType::Float64], vec![]] {
        let mut random = Random::new(77);
        let mut checked = Checked::new(&types);
        let keys: Vec<ArrayRef> =
            types.iter().map(|t| random_array(&mut random, t, 500, 10)).collect();
        if !types.is_empty() {
            checked.feed(&keys, Selected::All(500));
        }
        let mut bytes = vec![];
        checked.state.snapshot(&mut bytes);
        bytes.extend_from_slice(b"rest");
        checked.state = state(&types);
        let mut rest = bytes.as_slice();
        checked.state.restore(&mut rest).unwrap();
        assert_eq!(rest, b"rest");
        if !types.is_empty() {
            checked.check();
            checked.check_lookup(&keys);
            checked.feed(&keys, Selected::All(500));
            checked.check();
        }
        let mut other = state(&[DataType::Date32]);
        assert!(other.restore(&mut bytes.as_slice()).is_err(), "another layout is refused");
        assert!(other.restore(&mut &bytes[..12]).is_err());
    }
}

#[test]
fn partial_states_merge_by_partition() {
    const PARTITIONS: usize = 8;
    for types in
        [vec![DataType::Int32], vec![DataType::Utf8, DataType::Int16], vec![DataType::Float64]]
    {
        let mut random = Random::new(78);
        let manager = MemoryManager::unlimited();
        let mut counts: HashMap<Vec<u8>, i64> = HashMap::new();
        let new_state =
            || KeyedState::new(&types, &[StateSlot::new(8, 8)], manager.reserve("state")).unwrap();
        let mut finals: Vec<KeyedState> = (0..PARTITIONS).map(|_| new_state()).collect();
        for producer in 0..3 {
            let mut partial = new_state();
            let offset = partial.layout().states()[0].offset;
            let keys: Vec<ArrayRef> =
                types.iter().map(|t| random_array(&mut random, t, 700, 5 * producer)).collect();
            let (mut out, mut new) = (Vec::new(), Vec::new());
            partial.lookup_or_insert(&keys, None, Selected::All(700), &mut out, &mut new).unwrap();
            partial.states_mut().update_each(&out, offset, |_, count: i64| count + 1);
            model_keys(&keys).into_iter().for_each(|key| *counts.entry(key).or_default() += 1);
            let parts = partial.take_partitions(PARTITIONS).unwrap();
            assert!(partial.is_empty() && parts.len() == PARTITIONS);
            for (target, pages) in finals.iter_mut().zip(parts) {
                target
                    .merge_pages(pages, |mut matches| {
                        let source = matches.source;
                        let rows = matches.rows;
                        matches.target.update_each(matches.ids, offset, |i, count: i64| {
                            count + source.read::<i64>(rows[i] as usize, offset)
                        });
                        Ok(())
                    })
                    .unwrap();
            }
        }
        let mut found: HashMap<Vec<u8>, i64> = HashMap::new();
        for target in &mut finals {
            let offset = target.layout().states()[0].offset;
            let ids: Vec<RowId> = target.ids().collect();
            assert!(ids.iter().enumerate().all(|(i, &id)| i == id as usize), "ids are dense");
            let keys = model_keys(&target.gather_keys(&ids).unwrap());
            let states = target.states_mut();
            for (key, id) in keys.into_iter().zip(ids) {
                assert!(
                    found.insert(key, states.read(id, offset)).is_none(),
                    "one partition a key"
                );
            }
        }
        assert_eq!(found, counts);
        drop(finals);
        assert_eq!(manager.used(), 0);
    }
}

#[test]
fn given_hashes_are_used_and_columns_may_be_dictionaries() {
    let mut random = Random::new(79);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let types = [dictionary, DataType::Decimal128(20, 2)];
    let mut state = state(&types);
    let keys: Vec<ArrayRef> = types.iter().map(|t| random_array(&mut random, t, 300, 10)).collect();
    let mut hashes = Vec::new();
    crate::rows::hash_columns(&keys, Selected::All(300), crate::rows::HASH_SEED, &mut hashes)
        .unwrap();
    let (mut a, mut b, mut new) = (Vec::new(), Vec::new(), Vec::new());
    state.lookup_or_insert(&keys, Some(&hashes), Selected::All(300), &mut a, &mut new).unwrap();
    state.lookup_or_insert(&keys, None, Selected::All(300), &mut b, &mut new).unwrap();
    assert_eq!(a, b);
    let ids: Vec<u32> = a.clone();
    let gathered = state.gather_keys(&ids).unwrap();
    let all = UInt32Array::from_iter_values(0..300);
    assert_eq!(model_keys(&gathered), model_keys(&keys));
    assert_eq!(&gathered[1], &take(&keys[1], &all, None).unwrap());
}
