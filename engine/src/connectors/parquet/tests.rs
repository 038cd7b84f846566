//! Parquet scans against rows computed by hand.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{
    Array, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion_common::ScalarValue;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use thalweg_runtime::Error;
use thalweg_runtime::expr::{BinaryOperator, Expr};
use thalweg_runtime::source::SourceSpec;

use crate::catalog::Table;
use crate::connectors::testing::{read, read_where, rows_as_text, run, spec};
use crate::connectors::{FileOptions, FileTable};

/// Writes rows `from..to` with `x` = row, `s` = "s{row % 7}", `f` = row / 2, NULL in `s` at multiples of 10.
fn write_file(path: &std::path::Path, from: i64, to: i64, group: usize) {
    let rows: Vec<i64> = (from..to).collect();
    let text: StringArray =
        rows.iter().map(|r| (r % 10 != 0).then(|| format!("s{}", r % 7))).collect();
    let batch = RecordBatch::try_from_iter(vec![
        ("x", Arc::new(Int64Array::from(rows.clone())) as _),
        ("s", Arc::new(text) as _),
        ("f", Arc::new(rows.iter().map(|&r| Some(r as f64 / 2.0)).collect::<Float64Array>()) as _),
    ])
    .unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group))
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(50)
        .set_bloom_filter_enabled(true)
        .build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn compare(op: BinaryOperator, column: usize, value: ScalarValue) -> Expr {
    Expr::Binary { op, left: Box::new(Expr::Column(column)), right: Box::new(Expr::literal(value)) }
}

fn sum_x(batch: &RecordBatch) -> i64 {
    batch.column(0).as_primitive::<Int64Type>().values().iter().sum()
}

#[test]
fn rows_are_read_once_by_all_subtasks_together() {
    let dir = tempfile::tempdir().unwrap();
    write_file(&dir.path().join("a.parquet"), 0, 10_000, 1_000);
    write_file(&dir.path().join("b.parquet"), 10_000, 12_345, 1_000);
    let path = format!("{}/*.parquet", dir.path().display());
    for subtasks in [1, 3] {
        let batch = read_where(&path, vec![], subtasks).unwrap();
        assert_eq!(batch.num_rows(), 12_345);
        assert_eq!(sum_x(&batch), (0..12_345).sum::<i64>());
        assert_eq!(batch.column(1).data_type(), &DataType::Utf8View);
        assert_eq!(batch.column(1).null_count(), 1_235);
    }
}

#[test]
fn filters_are_exact_whole_and_late() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write_file(&path, 0, 200_000, 20_000);
    let path = path.display().to_string();
    let text = ScalarValue::Utf8View(Some("s3".into()));
    type Case = (Vec<Expr>, Box<dyn Fn(i64) -> bool>);
    let cases: Vec<Case> = vec![
        (vec![compare(BinaryOperator::Eq, 1, text)], Box::new(|r| r % 10 != 0 && r % 7 == 3)),
        (
            vec![compare(BinaryOperator::GtEq, 0, ScalarValue::Int64(Some(150_500)))],
            Box::new(|r| r >= 150_500),
        ),
        (
            vec![
                compare(BinaryOperator::Lt, 2, ScalarValue::Float64(Some(30_000.25))),
                compare(BinaryOperator::Eq, 1, ScalarValue::Utf8View(Some("s1".into()))),
            ],
            Box::new(|r| r <= 60_000 && r % 10 != 0 && r % 7 == 1),
        ),
        (
            vec![compare(BinaryOperator::Eq, 0, ScalarValue::Int64(Some(77_777)))],
            Box::new(|r| r == 77_777),
        ),
        (vec![compare(BinaryOperator::Eq, 0, ScalarValue::Int64(Some(-1)))], Box::new(|_| false)),
    ];
    for (filters, expected) in cases {
        for subtasks in [1, 2] {
            let batch = read_where(&path, filters.clone(), subtasks).unwrap();
            let expected: Vec<i64> = (0..200_000).filter(|&r| expected(r)).collect();
            assert_eq!(batch.num_rows(), expected.len(), "{filters:?}");
            assert_eq!(sum_x(&batch), expected.iter().sum::<i64>());
        }
    }
}

#[test]
fn counts_need_no_columns_and_fetch_stops_early() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write_file(&path, 0, 100_000, 10_000);
    let table =
        FileTable::discover(&[path.display().to_string()], None, &FileOptions::default()).unwrap();
    let count = run(&SourceSpec { projection: vec![], ..spec(&table) }, 2).unwrap();
    assert_eq!((count.num_rows(), count.num_columns()), (100_000, 0));
    let some = run(&SourceSpec { fetch: Some(10), ..spec(&table) }, 1).unwrap();
    assert!((10..=20_000).contains(&some.num_rows()), "{}", some.num_rows());
    let statistics = table.statistics();
    assert_eq!(statistics.rows, Some(100_000.0));
    assert_eq!(statistics.columns[0].max, Some(ScalarValue::Int64(Some(99_999))));
    assert_eq!(statistics.columns[1].null_count, Some(10_000.0));
}

#[test]
fn intervals_keep_their_months_days_and_times() {
    use arrow::array::{IntervalDayTimeArray, IntervalYearMonthArray};
    use arrow::datatypes::{IntervalDayTime, IntervalMonthDayNano, IntervalMonthDayNanoType};
    use parquet::arrow::arrow_writer::ArrowWriterOptions;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let days = IntervalDayTime { days: -3, milliseconds: 1_500 };
    let batch = RecordBatch::try_from_iter(vec![
        ("m", Arc::new(IntervalYearMonthArray::from(vec![Some(14), None])) as _),
        ("d", Arc::new(IntervalDayTimeArray::from(vec![Some(days), None])) as _),
    ])
    .unwrap();
    // With a schema of Arrow's beside the format's own, and without.
    for skipped in [false, true] {
        let options = ArrowWriterOptions::new().with_skip_arrow_metadata(skipped);
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let rows = read(&path.display().to_string(), &FileOptions::default()).unwrap();
        let of = |column: usize| {
            let values = rows.column(column).as_primitive::<IntervalMonthDayNanoType>();
            values.iter().collect::<Vec<_>>()
        };
        let interval =
            |months, days, nanoseconds| Some(IntervalMonthDayNano { months, days, nanoseconds });
        assert_eq!(of(0), [interval(14, 0, 0), None], "{skipped}");
        assert_eq!(of(1), [interval(0, -3, 1_500_000_000), None], "{skipped}");
    }
}

#[test]
fn files_with_other_columns_are_joined_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, columns: Vec<(&str, arrow::array::ArrayRef)>| {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = File::create(path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    };
    write(
        "k=1/a.parquet",
        vec![
            ("x", Arc::new(Int32Array::from(vec![1, 2]))),
            ("y", Arc::new(BooleanArray::from(vec![true, false]))),
        ],
    );
    write("k=2/b.parquet", vec![("x", Arc::new(Int64Array::from(vec![1 << 40])))]);
    let path = dir.path().display().to_string();
    let batch = read(&path, &FileOptions::default()).unwrap();
    assert_eq!(rows_as_text(&batch), ["1|true|1", "2|false|1", "1099511627776|∅|2"]);
    let k2 =
        read_where(&path, vec![compare(BinaryOperator::Eq, 2, ScalarValue::Int64(Some(2)))], 1);
    assert_eq!(rows_as_text(&k2.unwrap()), ["1099511627776|∅|2"]);
}

#[test]
fn what_is_no_parquet_file_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    std::fs::write(&path, "this is not it").unwrap();
    let error = read(&path.display().to_string(), &FileOptions::default()).unwrap_err();
    let Error::User { message, .. } = &error else { panic!("{error}") };
    assert!(message.contains("a.parquet") && message.contains("not a Parquet file"), "{message}");
}

#[test]
fn a_position_can_be_restored_at_every_batch() {
    use crate::connectors::sources;
    use crate::connectors::testing::{job, with_context};
    use thalweg_runtime::source::SourceOutput;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write_file(&path, 0, 20_000, 3_000);
    let table =
        FileTable::discover(&[path.display().to_string()], None, &FileOptions::default()).unwrap();
    let spec = SourceSpec { batch_rows: 1_000, ..spec(&table) };
    let job = job();
    let open = || sources()["file"].open(&spec, &job).unwrap().reader(0).unwrap();
    let (mut reader, mut seen) = (open(), Vec::new());
    loop {
        match with_context(&job, (0, 1), |cx| reader.step(cx)).unwrap() {
            SourceOutput::Batch(batch) => {
                seen.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
                let position = reader.snapshot().unwrap();
                reader = open();
                reader.restore(&position).unwrap();
            }
            SourceOutput::Finished => break,
            SourceOutput::Continue | SourceOutput::Split(_) => {}
            SourceOutput::Wait(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    }
    assert_eq!(seen, (0..20_000).collect::<Vec<i64>>());
}

#[test]
fn a_declared_schema_casts_and_fills() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write_file(&path, 0, 3, 10);
    let schema = Schema::new(vec![
        Field::new("missing", DataType::Date32, true),
        Field::new("X", DataType::Int32, true),
    ]);
    let options = FileOptions { schema: Some(Arc::new(schema)), ..Default::default() };
    let batch = read(&path.display().to_string(), &options).unwrap();
    assert_eq!(rows_as_text(&batch), ["∅|0", "∅|1", "∅|2"]);
}
