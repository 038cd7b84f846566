//! Tests of rows against Arrow's own kernels and naive models, over every type.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::test_data::{Random, all_types, any_null, model_keys, random_array};
use super::*;
use crate::memory::MemoryManager;

const SMALL_PAGE: usize = 2048;

fn store(types: &[DataType]) -> RowStore {
    let layout = RowLayout::build(types, &[], true, SMALL_PAGE).unwrap();
    RowStore::new(layout, MemoryManager::unlimited().reserve("rows"))
}

fn taken(array: &ArrayRef, rows: &[u32]) -> ArrayRef {
    take(&canonical::unpack(array).unwrap(), &UInt32Array::from(rows.to_vec()), None).unwrap()
}

/// Several appends, whole and selected; returns the store and, by row id, the row of the columns.
fn filled(random: &mut Random, columns: &[ArrayRef]) -> (RowStore, Vec<u32>) {
    let types: Vec<DataType> = columns.iter().map(|c| c.data_type().clone()).collect();
    let len = columns[0].len();
    let (mut store, mut origin) = (store(&types), Vec::new());
    for round in 0..4 {
        let ids = if round % 2 == 0 {
            origin.extend(0..len as u32);
            store.append(columns, Selected::All(len)).unwrap()
        } else {
            let rows = random.indices(len / 3, len);
            origin.extend_from_slice(&rows);
            store.append(columns, Selected::Rows(&rows)).unwrap()
        };
        assert_eq!(ids.end as usize, origin.len());
    }
    (store, origin)
}

#[test]
fn every_type_comes_back() {
    for (seed, data_type) in all_types().into_iter().enumerate() {
        for null_percent in [0, 30] {
            let mut random = Random::new(seed as u64 + 1);
            let column = random_array(&mut random, &data_type, 300, null_percent);
            let (store, origin) = filled(&mut random, std::slice::from_ref(&column));
            assert!(store.num_pages() > 1 || data_type == DataType::Null, "{data_type}");
            let mut ids = random.indices(500, origin.len());
            let rows: Vec<u32> = ids.iter().map(|&id| origin[id as usize]).collect();
            assert_eq!(&store.gather(0, &ids).unwrap(), &taken(&column, &rows), "{data_type}");

            ids[3] = NO_ROW;
            let rows: Vec<Option<u32>> =
                ids.iter().map(|&id| (id != NO_ROW).then(|| origin[id as usize])).collect();
            let plain = canonical::unpack(&column).unwrap();
            let expected = take(&plain, &UInt32Array::from(rows), None).unwrap();
            assert_eq!(&store.gather_nullable(0, &ids).unwrap(), &expected, "{data_type}");
        }
    }
}

#[test]
fn comparing_agrees_with_the_model() {
    for (seed, data_type) in all_types().into_iter().enumerate() {
        for null_percent in [0, 30] {
            let mut random = Random::new(seed as u64 + 100);
            let stored = random_array(&mut random, &data_type, 200, null_percent);
            let probe = random_array(&mut random, &data_type, 150, null_percent);
            let (store, origin) = filled(&mut random, std::slice::from_ref(&stored));
            let (stored_keys, probe_keys) = (
                model_keys(std::slice::from_ref(&stored)),
                model_keys(std::slice::from_ref(&probe)),
            );
            let (rows, ids) = (random.indices(400, 150), random.indices(400, origin.len()));
            for null_equal in [false, true] {
                let mut matches: Vec<u32> = (0..400).filter(|i| i % 7 != 0).collect();
                let expected: Vec<u32> = matches
                    .iter()
                    .copied()
                    .filter(|&i| {
                        let (row, id) = (rows[i as usize] as usize, ids[i as usize] as usize);
                        probe_keys[row] == stored_keys[origin[id] as usize]
                            && (null_equal || !any_null(std::slice::from_ref(&probe), row))
                    })
                    .collect();
                let pairs = Pairs { rows: &rows, ids: &ids };
                store
                    .compare(std::slice::from_ref(&probe), pairs, &[null_equal], &mut matches)
                    .unwrap();
                assert_eq!(matches, expected, "{data_type} null_equal {null_equal}");
            }
        }
    }
}

#[test]
fn equal_keys_have_equal_hashes() {
    for (seed, data_type) in all_types().into_iter().enumerate() {
        let mut random = Random::new(seed as u64 + 200);
        let columns = [
            random_array(&mut random, &data_type, 300, 20),
            random_array(&mut random, &DataType::Int16, 300, 10),
        ];
        let keys = model_keys(&columns);
        let (mut hashes, mut selected_hashes, mut stable) = (Vec::new(), Vec::new(), Vec::new());
        hash_columns(&columns, Selected::All(300), HASH_SEED, &mut hashes).unwrap();
        key_group_hash(&columns, Selected::All(300), &mut stable).unwrap();
        let selection = random.indices(40, 300);
        hash_columns(&columns, Selected::Rows(&selection), HASH_SEED, &mut selected_hashes)
            .unwrap();
        assert!(selection.iter().all(|&row| selected_hashes[row as usize] == hashes[row as usize]));
        for a in 0..300 {
            for b in 0..a {
                assert_eq!(keys[a] == keys[b], hashes[a] == hashes[b], "{data_type} {a} {b}");
                assert_eq!(keys[a] == keys[b], stable[a] == stable[b], "{data_type} {a} {b}");
            }
        }
    }
}

#[test]
fn hashes_do_not_depend_on_the_form_of_strings() {
    let mut random = Random::new(7);
    let strings = random_array(&mut random, &DataType::Utf8, 200, 10);
    let hash = |array: &ArrayRef| {
        let mut hashes = Vec::new();
        hash_columns(std::slice::from_ref(array), Selected::All(200), HASH_SEED, &mut hashes)
            .unwrap();
        hashes
    };
    let expected = hash(&strings);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
    for form in [DataType::LargeUtf8, DataType::Utf8View, DataType::Binary, dictionary] {
        let other = arrow::compute::cast(&strings, &form).unwrap();
        assert_eq!(hash(&other), expected, "{form}");
    }
}

#[test]
fn hashes_spread_over_buckets_salts_and_partitions() {
    type Sequence = (&'static str, fn(u64) -> u64);
    let sequences: [Sequence; 4] = [
        ("sequential", |i| i),
        ("even", |i| i << 1),
        ("high bits", |i| i << 40),
        ("pages", |i| i << 12),
    ];
    for (name, value) in sequences {
        let values = arrow::array::UInt64Array::from_iter_values((0..65_536).map(value));
        let column: ArrayRef = std::sync::Arc::new(values);
        let mut hashes = Vec::new();
        hash_columns(&[column], Selected::All(65_536), HASH_SEED, &mut hashes).unwrap();
        let fullest = |bucket: &dyn Fn(u64) -> usize, buckets: usize| {
            let mut counts = vec![0_usize; buckets];
            hashes.iter().for_each(|&hash| counts[bucket(hash)] += 1);
            counts.into_iter().max().unwrap()
        };
        assert!(fullest(&|h| (h & 0xffff) as usize, 65_536) <= 12, "{name}: buckets");
        assert!(fullest(&|h| (h >> 48) as usize, 65_536) <= 12, "{name}: salts");
        assert!(fullest(&|h| partition_of(h, 64), 64) <= 1300, "{name}: partitions");
    }
}

#[test]
fn pages_move_and_survive_as_bytes() {
    let mut random = Random::new(11);
    let types = [
        DataType::Utf8,
        DataType::Int64,
        DataType::List(std::sync::Arc::new(arrow::datatypes::Field::new(
            "item",
            DataType::Int32,
            true,
        ))),
    ];
    let columns: Vec<ArrayRef> =
        types.iter().map(|t| random_array(&mut random, t, 300, 10)).collect();
    let (mut source, origin) = filled(&mut random, &columns);
    let layout = source.layout().clone();
    let manager = MemoryManager::unlimited();
    let mut target = RowStore::new(layout.clone(), manager.reserve("target"));
    let mut bytes = Vec::new();
    let pages = source.take_pages();
    pages.iter().for_each(|page| page.write_to(&layout, &mut bytes));
    assert!(source.is_empty());
    drop(pages);
    let mut rest = bytes.as_slice();
    let mut pages = Vec::new();
    while !rest.is_empty() {
        pages.push(RowPage::read_from(&layout, target.reservation(), &mut rest).unwrap());
    }
    target.append_pages(pages).unwrap();
    let ids: Vec<u32> = target.ids().collect();
    assert_eq!(ids.len(), origin.len());
    for (i, column) in columns.iter().enumerate() {
        assert_eq!(&target.gather(i, &ids).unwrap(), &taken(column, &origin), "{i}");
    }
    for cut in [0, 1, 10, bytes.len() / 2] {
        let broken = RowPage::read_from(&layout, target.reservation(), &mut &bytes[..cut.min(40)]);
        assert!(broken.is_err());
    }
}

#[test]
fn evicted_pages_come_back() {
    let mut random = Random::new(12);
    let column = random_array(&mut random, &DataType::Utf8View, 300, 10);
    let (mut store, origin) = filled(&mut random, std::slice::from_ref(&column));
    store.pin(0);
    assert!(store.evict(0).is_none(), "a pinned page stays");
    store.unpin(0);
    let before = store.memory_bytes();
    let page = store.evict(0).unwrap();
    assert!(!store.is_resident(0) && store.memory_bytes() < before);
    assert!(store.evict(0).is_none());
    store.restore(0, page);
    let ids: Vec<u32> = store.ids().collect();
    assert_eq!(&store.gather(0, &ids).unwrap(), &taken(&column, &origin));
}

#[test]
fn partitions_hold_the_rows_of_their_hashes() {
    let mut random = Random::new(13);
    let types = [DataType::Utf8View, DataType::Int32];
    let columns: Vec<ArrayRef> =
        types.iter().map(|t| random_array(&mut random, t, 500, 10)).collect();
    let mut hashes = Vec::new();
    hash_columns(&columns, Selected::All(500), HASH_SEED, &mut hashes).unwrap();
    let layout = RowLayout::build(&types, &[], true, SMALL_PAGE).unwrap();
    let reservation = MemoryManager::unlimited().reserve("rows");
    let mut by_column = PartitionedRows::new(&layout, &reservation, 8);
    by_column.append(&columns, &hashes, Selected::All(500)).unwrap();
    let mut whole = RowStore::new(layout.clone(), reservation.share());
    let ids = whole.append(&columns, Selected::All(500)).unwrap();
    whole.write_hashes(ids.zip(hashes.iter().copied()));
    let mut by_row = PartitionedRows::new(&layout, &reservation, 8);
    by_row.append_store(&whole).unwrap();
    assert_eq!((by_column.len(), by_row.len()), (500, 500));
    for p in 0..8 {
        let rows: Vec<u32> =
            (0..500).filter(|&row| partition_of(hashes[row as usize], 8) == p).collect();
        for store in [by_column.partition(p), by_row.partition(p)] {
            let ids: Vec<u32> = store.ids().collect();
            assert!(ids.iter().all(|&id| partition_of(store.read_hash(id), 8) == p));
            for (i, column) in columns.iter().enumerate() {
                assert_eq!(&store.gather(i, &ids).unwrap(), &taken(column, &rows));
            }
        }
    }
}

#[test]
fn a_refused_append_leaves_the_rows_as_they_were() {
    let mut random = Random::new(14);
    let types = [DataType::Utf8View, DataType::Int32];
    let columns: Vec<ArrayRef> =
        types.iter().map(|t| random_array(&mut random, t, 300, 10)).collect();
    let layout = RowLayout::build(&types, &[], false, SMALL_PAGE).unwrap();
    let first: Vec<ArrayRef> = columns.iter().map(|column| column.slice(0, 37)).collect();
    for k in 0.. {
        let manager = MemoryManager::unlimited();
        let mut store = RowStore::new(layout.clone(), manager.reserve("rows"));
        store.append(&first, Selected::All(37)).unwrap();
        manager.refuse_grow(k);
        let refused = store.append(&columns, Selected::All(300));
        if refused.is_ok() {
            assert!(k > 5, "an append of several pages grows several times");
            break;
        }
        assert_eq!((store.len(), store.next_id()), (37, 37));
        store.append(&columns, Selected::All(300)).unwrap();
        let ids: Vec<u32> = store.ids().collect();
        let rows: Vec<u32> = (0..37).chain(0..300).collect();
        assert_eq!(&store.gather(0, &ids).unwrap(), &taken(&columns[0], &rows));
        drop(store);
        assert_eq!(manager.used(), 0);
    }
}

#[test]
fn states_start_as_zeros_and_keep_strings() {
    let slots = [StateSlot::new(8, 8), StateSlot::byte_string(), StateSlot::new(1, 1)];
    let layout = RowLayout::build(&[DataType::Int32], &slots, false, SMALL_PAGE).unwrap();
    let mut random = Random::new(15);
    let column = random_array(&mut random, &DataType::Int32, 200, 0);
    let reservation = MemoryManager::unlimited().reserve("rows");
    let mut store = RowStore::new(layout.clone(), reservation.share());
    store.append(std::slice::from_ref(&column), Selected::All(200)).unwrap();
    let (sum, text) = (layout.states()[0].offset, layout.states()[1].offset);
    let ids: Vec<u32> = (0..200).chain(0..100).collect();
    let mut states = store.states_mut();
    states.update_each(&ids, sum, |i, value: i64| value + i as i64);
    for id in 0..200 {
        states.set_bytes(id, text, b"short").unwrap();
        states.set_bytes(id, text, format!("a longer string, number {id}").as_bytes()).unwrap();
        states.set_bytes(id, text, format!("string number {id}").as_bytes()).unwrap();
    }
    assert_eq!(states.read::<i64>(50, sum), 50 + 250);
    assert_eq!(states.bytes(150, text), b"string number 150");

    let mut other = RowStore::new(layout.clone(), reservation.share());
    other.append(&[column], Selected::All(200)).unwrap();
    let pages = store.take_pages();
    let mut target = other.states_mut();
    for row in 0..pages[0].len() {
        target.copy_states(row as u32 + 3, &PageStates::new(&layout, &pages[0]), row).unwrap();
    }
    drop(pages);
    assert_eq!(
        (target.read::<i64>(10, sum), target.bytes(10, text)),
        (7 + 207, &b"string number 7"[..])
    );
}

#[test]
fn sort_keys_order_rows() {
    use std::cmp::Ordering;
    let column = |descending, nulls_first| {
        [DataType::Float64, DataType::Utf8View].map(|data_type| SortColumn {
            data_type,
            descending,
            nulls_first,
        })
    };
    let mut random = Random::new(16);
    let floats = random_array(&mut random, &DataType::Float64, 300, 20);
    let strings = random_array(&mut random, &DataType::Utf8View, 300, 20);
    use arrow::array::AsArray;
    let (f, s) = (floats.as_primitive::<arrow::datatypes::Float64Type>(), strings.as_string_view());
    for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let encoder = SortKeyEncoder::new(&column(descending, nulls_first)).unwrap();
        let keys = encoder.encode(&[floats.clone(), strings.clone()]).unwrap();
        let nulls = |a: bool, b: bool| match (a, b) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(if nulls_first { Ordering::Less } else { Ordering::Greater }),
            (false, true) => Some(if nulls_first { Ordering::Greater } else { Ordering::Less }),
            (false, false) => None,
        };
        let turn = |order: Ordering| if descending { order.reverse() } else { order };
        let number = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => a.partial_cmp(&b).unwrap(),
        };
        let compare = |a: usize, b: usize| {
            nulls(f.is_null(a), f.is_null(b))
                .unwrap_or_else(|| turn(number(f.value(a), f.value(b))))
                .then_with(|| {
                    nulls(s.is_null(a), s.is_null(b))
                        .unwrap_or_else(|| turn(s.value(a).cmp(s.value(b))))
                })
        };
        for a in 0..300 {
            for b in 0..300 {
                assert_eq!(keys.key(a).cmp(keys.key(b)), compare(a, b), "{a} {b}");
                if keys.prefix(a) != keys.prefix(b) {
                    assert_eq!(keys.prefix(a).cmp(&keys.prefix(b)), compare(a, b));
                }
            }
        }
        let mut expected: Vec<u32> = (0..300).collect();
        expected.sort_by(|&a, &b| compare(a as usize, b as usize));
        assert_eq!(keys.sorted(), expected);
    }
    let single = SortColumn { data_type: DataType::Int64, descending: false, nulls_first: false };
    assert!(SortKeyEncoder::new(&[single]).unwrap().prefix_decides());
}
