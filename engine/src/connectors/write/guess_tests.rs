//! Delimited text is read back with its types and values by a reader that is told nothing.

use std::sync::Arc;

use super::{FILE_SINK, FileWriteOptions};
use crate::connectors::FileOptions;
use crate::connectors::testing::{Random, read, write};
use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float64Array,
    Int64Array, RecordBatch, StringViewArray, Time64NanosecondArray, TimestampMicrosecondArray,
    UInt64Array,
};

/// Texts that look like something else, or like structure.
const TEXTS: [&str; 32] = [
    "1e5",
    "2",
    "1.50",
    "TRUE",
    "false",
    "2024-01-31",
    "2024-01-31 10:00:00",
    "10:00:00",
    "007",
    "-1,5",
    "2024-01-31T10:00:00.5",
    "NaN",
    "\\x00ff",
    "18446744073709551615",
    "",
    " ",
    " x",
    "1 ",
    "a,b",
    "p;q",
    "\"",
    "a\nb",
    "\r",
    "'x'",
    "t|u",
    "NULL",
    "-",
    "Infinity",
    "2024-01-31T10:00:00Z",
    "ä",
    "\t",
    "x",
];

fn read_back(batch: &RecordBatch, name: &str) -> RecordBatch {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name).display().to_string();
    let options = FileWriteOptions::new(&path, &batch.schema());
    write(FILE_SINK, &options.to_value(), std::slice::from_ref(batch)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    read(&path, &FileOptions::default()).unwrap_or_else(|e| panic!("{e:?} in\n{text}"))
}

fn assert_same(batch: &RecordBatch, name: &str) {
    let again = read_back(batch, name);
    let types = |b: &RecordBatch| -> Vec<_> {
        b.schema().fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect()
    };
    assert_eq!(types(&again), types(batch), "{batch:?}");
    assert_eq!(again.columns(), batch.columns(), "{batch:?}");
}

fn nullable(columns: Vec<(String, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn text(random: &mut Random) -> &'static str {
    TEXTS[random.below(TEXTS.len())]
}

#[test]
fn random_texts_stay_text() {
    let mut random = Random(29);
    for round in 0..600 {
        let rows = random.below(6);
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for i in 0..=random.below(3) {
            let texts: StringViewArray =
                (0..rows).map(|_| (random.below(10) > 0).then(|| text(&mut random))).collect();
            // Names are not blank, and differ.
            let name = text(&mut random);
            let name = if name.trim().is_empty() { format!("c{i}") } else { name.to_string() };
            if columns.iter().all(|(known, _)| *known != name) {
                columns.push((name, Arc::new(texts)));
            }
        }
        assert_same(&nullable(columns), if round % 2 == 0 { "a.csv" } else { "a.tsv" });
    }
}

#[test]
fn names_that_look_like_the_values_below_are_found_again() {
    let texts = |values: &[Option<&str>]| -> ArrayRef {
        Arc::new(values.iter().copied().collect::<StringViewArray>())
    };
    let numbers = texts(&[Some("45.48"), Some("-5.48")]);
    let mixed = texts(&[Some("1"), Some("a,b")]);
    let late = texts(&[None, Some("7")]);
    let blank = texts(&[Some(""), Some("7")]);
    let commas = texts(&[Some("1,5"), Some("2,7")]);
    let codes = texts(&[Some("008"), Some("7")]);
    let none = texts(&[None, None]);
    let columns = [
        ("39.26", &numbers),
        ("45.48", &mixed),
        (" 1", &late),
        ("2", &blank),
        ("007", &numbers),
        ("5", &codes),
        ("6", &commas),
    ];
    for (name, column) in columns.into_iter().chain([("3", &late), ("4", &none)]) {
        for (second, other) in columns.into_iter().filter(|(second, _)| *second != name) {
            let pair = [(name.to_string(), column.clone()), (second.to_string(), other.clone())];
            assert_same(&nullable(pair.to_vec()), "a.csv");
        }
        assert_same(&nullable(vec![(name.to_string(), column.clone())]), "a.csv");
    }
}

#[test]
fn types_are_found_again() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("2024", Arc::new(Int64Array::from(vec![Some(1), None]))),
        ("true", Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0)]))),
        ("f", Arc::new(Float64Array::from(vec![Some(0.1 + 0.2), Some(1e300)]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("d", Arc::new(Date32Array::from(vec![None, Some(-1)]))),
        ("c", Arc::new(Time64NanosecondArray::from(vec![Some(1), Some(86_399_000_000_000)]))),
        ("t", Arc::new(TimestampMicrosecondArray::from(vec![Some(1_500_000), None]))),
        (
            "z",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(7), None]).with_timezone("+00:00")),
        ),
        (
            "m",
            Arc::new(
                Decimal128Array::from(vec![123_456_789_012_345_678_901, 10])
                    .with_precision_and_scale(38, 2)
                    .unwrap(),
            ),
        ),
        (
            "p",
            Arc::new(
                Decimal128Array::from(vec![150, 225]).with_precision_and_scale(38, 2).unwrap(),
            ),
        ),
        ("x", Arc::new(BinaryViewArray::from(vec![Some(&b"\x00\xff"[..]), Some(b"")]))),
        ("1", Arc::new(StringViewArray::from(vec!["1", "2"]))),
    ];
    let all = nullable(columns.iter().map(|(n, c)| (n.to_string(), c.clone())).collect());
    assert_same(&all, "a.csv");
    for (name, column) in columns {
        assert_same(&nullable(vec![(name.to_string(), column)]), "a.csv");
    }
}

#[test]
fn results_without_rows_keep_their_names() {
    let none: ArrayRef = Arc::new(StringViewArray::from(Vec::<&str>::new()));
    for names in [&["2024", "1e5"][..], &["2024"], &["007", "a,b"], &["x", "1"], &["p q"]] {
        let columns = names.iter().map(|name| (name.to_string(), none.clone()));
        assert_same(&nullable(columns.collect()), "a.csv");
    }
}
