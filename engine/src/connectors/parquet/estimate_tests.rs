//! Estimates of distinct values and selectivity against files whose answers are known.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use thalweg_optimizer::MeasuredShare;
use thalweg_runtime::expr::{BinaryOperator, Expr, FunctionRegistry};

use crate::catalog::Table;
use crate::connectors::{FileOptions, FileTable};

const ROWS: usize = 60_000;
const GROUP_ROWS: usize = 10_000;

/// A number that looks random for each row and purpose.
fn noise(row: usize, purpose: u64) -> u64 {
    let mixed =
        (row as u64 + 1).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ purpose.wrapping_mul(0x9e37_79b9);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 32)
}

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>, dictionary: bool) -> FileTable {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(2_000)
        .set_write_batch_size(500)
        .set_dictionary_enabled(dictionary)
        .build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    FileTable::discover(&[path.display().to_string()], None, &FileOptions::default()).unwrap()
}

fn ints(value: impl Fn(usize) -> Option<i32>) -> ArrayRef {
    Arc::new((0..ROWS).map(value).collect::<Int32Array>())
}

fn texts(value: impl Fn(usize) -> Option<String>) -> ArrayRef {
    Arc::new((0..ROWS).map(value).collect::<StringArray>())
}

fn assert_near(actual: f64, expected: f64, factor: f64) {
    assert!(
        actual <= expected * factor && actual >= expected / factor,
        "{actual} is not within a factor of {factor} of {expected}"
    );
}

fn compare(column: usize, op: BinaryOperator, value: ScalarValue) -> Expr {
    Expr::Binary { op, left: Box::new(Expr::Column(column)), right: Box::new(Expr::literal(value)) }
}

fn int(value: i32) -> ScalarValue {
    ScalarValue::Int32(Some(value))
}

fn text(value: &str) -> ScalarValue {
    ScalarValue::Utf8View(Some(value.into()))
}

fn measure(table: &FileTable, filters: &[Expr]) -> MeasuredShare {
    table.selectivity(filters, &FunctionRegistry::built_in()).unwrap()
}

#[test]
fn dictionaries_tell_distinct_values() {
    let dir = tempfile::tempdir().unwrap();
    let columns = vec![
        ("few", texts(|r| (r % 10 != 0).then(|| format!("v{}", noise(r, 1) % 7)))),
        ("drawn", texts(|r| Some(format!("v{}", noise(r, 2) % 5_000)))),
        ("sorted", ints(|r| Some(r as i32 / 4))),
        ("unique", texts(|r| Some(format!("{r:08}")))),
        ("skewed", texts(|r| Some(format!("v{}", (noise(r, 3) % 100).pow(2) / 100)))),
        ("null", ints(|_| None)),
    ];
    let table = write(&dir.path().join("d.parquet"), columns, true);
    let distinct = |column| table.distinct(column).unwrap();
    assert_eq!(distinct(0), 7.0);
    assert_near(distinct(1), 5_000.0, 1.1);
    assert_near(distinct(2), 15_000.0, 1.05);
    assert_near(distinct(3), 60_000.0, 1.05);
    let squares = (0..100_u64).map(|v| v.pow(2) / 100).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(distinct(4), squares.len() as f64);
    assert!(table.distinct(5).is_none_or(|values| values == 1.0));
}

#[test]
fn columns_without_dictionaries_are_not_guessed_at() {
    let dir = tempfile::tempdir().unwrap();
    let columns = vec![("t", texts(|r| Some(format!("v{}", r % 7))))];
    let table = write(&dir.path().join("p.parquet"), columns, false);
    assert_eq!(table.distinct(0), None);
}

#[test]
fn files_and_folders_are_taken_together() {
    let dir = tempfile::tempdir().unwrap();
    for day in 0..3 {
        let folder = dir.path().join(format!("day={day}"));
        std::fs::create_dir(&folder).unwrap();
        let columns = vec![("t", texts(|r| Some(format!("v{}", noise(r, day) % 9))))];
        write(&folder.join("f.parquet"), columns, true);
    }
    let pattern = format!("{}/*/*.parquet", dir.path().display());
    let table = FileTable::discover(&[pattern], None, &FileOptions::default()).unwrap();
    assert_eq!(table.distinct(0), Some(9.0));
    let day = table.schema().index_of("day").unwrap();
    assert_eq!(table.distinct(day), Some(3.0));
    let one_day =
        ScalarValue::Int64(Some(1)).cast_to(table.schema().field(day).data_type()).unwrap();
    let filters =
        [compare(day, BinaryOperator::Eq, one_day), compare(0, BinaryOperator::Eq, text("v3"))];
    assert_near(measure(&table, &filters).share, 1.0 / 27.0, 1.3);
}

#[test]
fn a_sample_sees_skew_patterns_and_what_hangs_together() {
    let dir = tempfile::tempdir().unwrap();
    let columns = vec![
        (
            "kind",
            texts(|r| {
                Some(if noise(r, 1).is_multiple_of(10) { "rare metal" } else { "wood" }.into())
            }),
        ),
        ("same", ints(|r| Some(if noise(r, 1).is_multiple_of(10) { 1 } else { 0 }))),
        ("period", ints(|r| Some(r as i32 % 8))),
        ("nulls", ints(|r| (r % 2 == 0).then_some(5))),
    ];
    let table = write(&dir.path().join("s.parquet"), columns, true);
    let like = |pattern: &str, negated| Expr::Like {
        negated,
        case_insensitive: false,
        expr: Box::new(Expr::Column(0)),
        pattern: Box::new(Expr::literal(text(pattern))),
    };
    let share = |filters: &[Expr]| {
        let measured = measure(&table, filters);
        assert!(measured.sample_rows > 1_000, "{measured:?}");
        assert!(measured.measured.iter().all(|m| *m));
        measured.share
    };
    assert_near(share(&[like("%metal", false)]), 0.1, 1.2);
    assert_near(share(&[like("%metal", true)]), 0.9, 1.1);
    let same = compare(1, BinaryOperator::Eq, int(1));
    assert_near(share(&[like("%metal", false), same]), 0.1, 1.2);
    assert_near(share(&[compare(2, BinaryOperator::Eq, int(3))]), 0.125, 1.2);
    assert_near(share(&[compare(3, BinaryOperator::Eq, int(5))]), 0.5, 1.1);
    let nothing = measure(&table, &[like("%glass%", false)]);
    assert!(nothing.hits == 0.0 && nothing.share > 0.0 && nothing.share < 0.001);
    let again = measure(&table, &[like("%glass%", false)]);
    assert_eq!(nothing, again);
}

#[test]
fn ranges_over_sorted_rows_follow_the_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let columns = vec![
        ("day", ints(|r| Some(r as i32 / 60))),
        (
            "value",
            Arc::new(
                (0..ROWS).map(|r| Some((noise(r, 4) % 1_000) as f64)).collect::<Float64Array>(),
            ) as ArrayRef,
        ),
    ];
    let table = write(&dir.path().join("r.parquet"), columns, true);
    let range =
        [compare(0, BinaryOperator::GtEq, int(100)), compare(0, BinaryOperator::Lt, int(150))];
    let measured = measure(&table, &range);
    assert_near(measured.share, 0.05, 1.02);
    assert_eq!(measured.sample_rows, 0);
    let value = compare(1, BinaryOperator::Lt, ScalarValue::Float64(Some(250.0)));
    let both = measure(&table, &[range[0].clone(), range[1].clone(), value]);
    assert_near(both.share, 0.0125, 1.2);
    assert!(both.sample_rows > 0);
    let outside = measure(&table, &[compare(0, BinaryOperator::Gt, int(5_000))]);
    assert!(outside.hits.is_infinite() && outside.share == 0.0);
}

#[test]
fn a_filter_that_fails_on_the_sample_is_left_to_guessing() {
    let dir = tempfile::tempdir().unwrap();
    let columns =
        vec![("zero", ints(|r| Some(r as i32 % 3))), ("one", ints(|r| Some(r as i32 % 5)))];
    let table = write(&dir.path().join("f.parquet"), columns, true);
    let quotient = Expr::Binary {
        op: BinaryOperator::Divide,
        left: Box::new(Expr::literal(int(6))),
        right: Box::new(Expr::Column(0)),
    };
    let failing = Expr::Binary {
        op: BinaryOperator::Gt,
        left: Box::new(quotient),
        right: Box::new(Expr::literal(int(1))),
    };
    let measured = measure(&table, &[failing, compare(1, BinaryOperator::Eq, int(2))]);
    assert_eq!(measured.measured, [false, true]);
    assert_near(measured.share, 0.2, 1.2);
}

#[test]
fn large_texts_are_sampled_by_their_first_pages() {
    let dir = tempfile::tempdir().unwrap();
    let filler = "x".repeat(200);
    let columns = vec![(
        "text",
        texts(|r| {
            Some(format!(
                "{} {filler} {r}",
                if noise(r, 5).is_multiple_of(4) { "yes" } else { "no" }
            ))
        }),
    )];
    let table = write(&dir.path().join("l.parquet"), columns, false);
    let pattern = Expr::Like {
        negated: false,
        case_insensitive: false,
        expr: Box::new(Expr::Column(0)),
        pattern: Box::new(Expr::literal(text("yes%"))),
    };
    let measured = measure(&table, &[pattern]);
    assert_near(measured.share, 0.25, 1.25);
    assert!(measured.sample_rows >= 1_000);
}

#[test]
fn small_tables_are_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let values: Int64Array = (0..3_000).map(|r| Some(i64::from(r >= 2_990))).collect();
    let table =
        write(&dir.path().join("w.parquet"), vec![("x", Arc::new(values) as ArrayRef)], true);
    assert_eq!(table.schema().field(0).data_type(), &DataType::Int64);
    let filter = compare(0, BinaryOperator::Eq, ScalarValue::Int64(Some(1)));
    let measured = measure(&table, &[filter]);
    assert_eq!(measured.sample_rows, 3_000);
    assert_eq!(measured.share, 10.0 / 3_000.0);
}
