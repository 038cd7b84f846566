//! What is written is read back.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float64Array,
    Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use thalweg_runtime::Result;

use super::{FILE_SINK, FileWriteOptions, Replaced, RowCounter};
use crate::catalog::Table;
use crate::connectors::testing::{read, rows_as_text, run, spec, write};
use crate::connectors::{FileOptions, FileTable, MemoryTable};

fn sample() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)]))),
        ("f", Arc::new(Float64Array::from(vec![Some(1.0), Some(f64::NAN), Some(1e300)]))),
        ("s", Arc::new(StringViewArray::from(vec![Some("a,\"b\"\n"), Some(""), None]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("d", Arc::new(Date32Array::from(vec![Some(0), Some(-1), None]))),
        ("t", Arc::new(TimestampMicrosecondArray::from(vec![Some(1_500_000), None, Some(0)]))),
        (
            "z",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(7), None, Some(0)])
                    .with_timezone("+00:00"),
            ),
        ),
        (
            "m",
            Arc::new(
                Decimal128Array::from(vec![Some(-5), None, Some(12_345)])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        ("x", Arc::new(BinaryViewArray::from(vec![Some(&b"\x00\xff"[..]), None, Some(b"")]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn options(path: &str, settings: &[(&str, &str)], batch: &RecordBatch) -> FileWriteOptions {
    let mut options = FileWriteOptions::new(path, &batch.schema());
    settings.iter().for_each(|(k, v)| assert!(options.set(k, v).unwrap(), "{k}"));
    options
}

fn round_trip(name: &str, settings: &[(&str, &str)]) -> Result<RecordBatch> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name).display().to_string();
    let batch = sample();
    let counter = RowCounter::new();
    let options =
        FileWriteOptions { counter: Some(counter.id()), ..options(&path, settings, &batch) };
    write(FILE_SINK, &options.to_value(), &[batch.clone(), batch])?;
    assert_eq!(counter.rows(), 6);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    let schema = Arc::new(options.schema.clone());
    read(&path, &FileOptions { schema: Some(schema), ..Default::default() })
}

#[test]
fn every_format_reads_back() {
    let cases: [(&str, &[(&str, &str)]); 9] = [
        ("a.csv", &[]),
        ("a.csv.gz", &[]),
        ("a.tsv", &[("header", "off")]),
        ("a.csv.zst", &[("delimiter", ";")]),
        ("a.parquet", &[("compression", "zstd"), ("row_group_size", "2")]),
        ("a.parquet", &[("compression", "lz4")]),
        ("folder/", &[("format", "csv")]),
        ("name", &[("format", "csv")]),
        ("other", &[]),
    ];
    let twice = [rows_as_text(&sample()), rows_as_text(&sample())].concat();
    for (name, settings) in cases {
        // The delimiter is no part of the table's definition here, and must be found out.
        let batch = round_trip(name, settings).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        assert_eq!(rows_as_text(&batch), twice, "{name}");
    }
}

#[test]
fn csv_has_the_documented_form() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv").display().to_string();
    write(FILE_SINK, &options(&path, &[], &sample()).to_value(), &[sample()]).unwrap();
    let expected = "i,f,s,b,d,t,z,m,x\n\
        1,1.0,\"a,\"\"b\"\"\n\",true,1970-01-01,1970-01-01 00:00:01.5,1970-01-01 00:00:00.000007+00,-0.05,\\x00ff\n\
        ,NaN,\"\",,1969-12-31,,,,\n\
        -3,1e300,,false,,1970-01-01 00:00:00,1970-01-01 00:00:00+00,123.45,\\x\n";
    assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
}

#[test]
fn partitions_become_folders_and_columns_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").display().to_string();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(StringViewArray::from(vec![Some("a/b"), None, Some("c"), Some("a/b")]))),
        ("x", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let options = options(&path, &[("partition_by", "k"), ("format", "parquet")], &batch);
    write(FILE_SINK, &options.to_value(), &[batch]).unwrap();
    let mut rows = rows_as_text(&read(&path, &FileOptions::default()).unwrap());
    rows.sort();
    assert_eq!(rows, ["1|a/b", "2|∅", "3|c", "4|a/b"]);
    let all = FileWriteOptions { partition_by: vec![0, 1], ..options.clone() };
    assert!(all.check(true).is_err(), "no column would be left for the files");
    let found = |o: FileWriteOptions| Replaced::find(&o).map(drop).map_err(|e| e.to_string());
    let refused = found(options.clone());
    assert!(refused.as_ref().is_err_and(|e| e.contains("is not empty")), "{refused:?}");
    let refused = found(FileWriteOptions { partition_by: vec![], ..options.clone() });
    assert!(refused.is_err(), "a folder that holds partitions takes no files beside them");
    assert_eq!(found(FileWriteOptions { append: true, ..options }), Ok(()));
}

#[test]
fn files_are_replaced_when_the_new_ones_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").display().to_string();
    let rows = |keys: Vec<&str>| {
        let keys: ArrayRef = Arc::new(StringViewArray::from(keys));
        RecordBatch::try_from_iter(vec![("k", keys.clone()), ("x", keys)]).unwrap()
    };
    let replace = |batch: RecordBatch, run: u64| {
        let settings = [("partition_by", "k"), ("format", "csv"), ("overwrite", "on")];
        let options = FileWriteOptions { run, ..options(&path, &settings, &batch) };
        let replaced = Replaced::find(&options)?;
        write(FILE_SINK, &options.to_value(), &[batch])?;
        replaced.remove()
    };
    replace(rows(vec!["a", "b"]), 1).unwrap();
    replace(rows(vec!["b", "c"]), 2).unwrap();
    let mut found = rows_as_text(&read(&path, &FileOptions::default()).unwrap());
    found.sort();
    assert_eq!(found, ["b|b", "c|c"]);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2, "the folder k=a is gone");
    std::fs::write(dir.path().join("out/letter.odt"), "mine").unwrap();
    let refused = replace(rows(vec!["d"]), 3).map_err(|e| e.to_string());
    assert!(refused.is_err_and(|e| e.contains("cannot be replaced")));
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    use crate::connectors::sinks;
    use crate::connectors::testing::{job, with_context};

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv").display().to_string();
    let job = job();
    let options = options(&path, &[], &sample()).to_value();
    let mut writer =
        with_context(&job, (0, 1), |cx| sinks()[FILE_SINK].writer(&options, cx)).unwrap();
    for _ in 0..40_000 {
        let batch = sample().into();
        with_context(&job, (0, 1), |cx| writer.write(batch, cx)).unwrap();
    }
    drop(writer);
    // A write that was under way may create the file anew before it sees that nobody waits.
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_empty_result_is_a_file_with_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet").display().to_string();
    write(FILE_SINK, &options(&path, &[], &sample()).to_value(), &[]).unwrap();
    let table = FileTable::discover(&[path], None, &FileOptions::default()).unwrap();
    assert_eq!(table.schema().fields().len(), 9);
    assert_eq!(run(&spec(&table), 1).unwrap().num_rows(), 0);
}

#[test]
fn rows_are_appended_to_tables_in_memory() {
    let table = MemoryTable::new(sample().schema(), vec![sample()]);
    write("memory", &table.sink_options(), &[sample()]).unwrap();
    assert_eq!(table.row_count(), 6);
    let batch = run(&spec(&table), 2).unwrap();
    assert_eq!(rows_as_text(&batch), [rows_as_text(&sample()), rows_as_text(&sample())].concat());
    let statistics = table.statistics();
    assert_eq!(statistics.rows, Some(6.0));
    assert_eq!(statistics.columns[0].null_count, Some(2.0));
}

#[test]
fn targets_that_cannot_be_written_are_refused() {
    let (batch, dir) = (sample(), tempfile::tempdir().unwrap());
    let refused = |name: &str, given: bool| {
        let path = dir.path().join(name).display().to_string();
        options(&path, &[], &batch).check(given).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(refused("a.csv.gz", false), "");
    assert_eq!(refused("folder", false), "");
    assert!(refused("missing/a.csv", false).contains("there is no folder"));
    assert!(refused("a.xlsx", false).contains("does not tell a file format"));
    assert_eq!(refused("a.xlsx", true), "");
    assert!(refused("a.parquet.gz", false).contains("not compressed as a whole"));
    let mut arrow = options("a.arrow", &[], &batch);
    assert!(arrow.set("compression", "gzip").is_err());
    assert!(arrow.set("compression", "zstd").unwrap());
    assert!(options("a.csv", &[], &batch).set("compression", "snappy").is_err());
    let other_formats = |name: &str, key: &str, value: &str| {
        options(name, &[(key, value)], &batch).check(false).map_err(|e| e.to_string())
    };
    for (name, key, value) in [
        ("a.json", "header", "on"),
        ("a.parquet", "delimiter", ";"),
        ("a.csv", "row_group_size", "9"),
    ] {
        let refused = other_formats(name, key, value);
        assert!(refused.is_err_and(|e| e.contains("files have no option")), "{name} {key}");
    }
    assert_eq!(other_formats("a.tsv", "header", "off"), Ok(()));
}

#[test]
fn one_file_is_written_where_a_name_and_a_format_are_given() {
    let (batch, dir) = (sample(), tempfile::tempdir().unwrap());
    let single = |name: &str, settings: &[(&str, &str)]| {
        let path = dir.path().join(name).display().to_string();
        options(&path, settings, &batch).is_single_file()
    };
    assert!(single("a.csv", &[]));
    assert!(single("name", &[("format", "csv")]));
    assert!(!single("name", &[]));
    assert!(!single("name/", &[("format", "csv")]));
    assert!(!single("", &[("format", "csv")]), "the folder is there");
    assert!(!single("a.csv", &[("partition_by", "i")]));
}
