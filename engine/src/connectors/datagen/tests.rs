//! Tests of the generator.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion_common::Constraints;
use thalweg_runtime::source::SourceSpec;

use super::*;
use crate::catalog::Table;
use crate::connectors::testing;

fn definition(fields: &[(&str, DataType)], options: &[(&str, &str)]) -> TableDefinition {
    let fields: Vec<Field> =
        fields.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect();
    TableDefinition {
        name: "g".into(),
        connector: CONNECTOR.into(),
        format: None,
        locations: Vec::new(),
        schema: Some(Arc::new(Schema::new(fields))),
        constraints: Constraints::default(),
        options: options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        partition_columns: Vec::new(),
        dead_letters: None,
    }
}

fn spec(fields: &[(&str, DataType)], options: &[(&str, &str)]) -> SourceSpec {
    testing::spec(&table(definition(fields, options)).unwrap())
}

fn sorted(batch: &RecordBatch) -> Vec<String> {
    let mut rows = testing::rows_as_text(batch);
    rows.sort_unstable();
    rows
}

fn all_types() -> Vec<(&'static str, DataType)> {
    vec![
        ("tiny", DataType::Int8),
        ("int", DataType::Int32),
        ("big", DataType::Int64),
        ("real", DataType::Float32),
        ("double", DataType::Float64),
        ("money", DataType::Decimal128(10, 2)),
        ("long", DataType::Decimal128(38, 0)),
        ("text", DataType::Utf8View),
        ("bytes", DataType::Binary),
        ("yes", DataType::Boolean),
        ("day", DataType::Date32),
        ("clock", DataType::Time64(TimeUnit::Nanosecond)),
        ("at", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ]
}

const FIXED: [(&str, &str); 5] = [
    ("seed", "7"),
    ("rows-per-second", "0"),
    ("number-of-rows", "1000"),
    ("fields.at.min", "2026-01-01"),
    ("fields.at.max", "2026-01-31 12:00:00"),
];

#[test]
fn the_same_seed_gives_the_same_rows_however_they_are_read() {
    let one = testing::run(&spec(&all_types(), &FIXED), 1).unwrap();
    assert_eq!(one.num_rows(), 1000);
    for (splits, subtasks) in [("1", 3), ("4", 1), ("4", 3), ("7", 2)] {
        let options: Vec<_> = FIXED.into_iter().chain([("splits", splits)]).collect();
        let spec = SourceSpec { batch_rows: 37, ..spec(&all_types(), &options) };
        let other = testing::run(&spec, subtasks).unwrap();
        assert_eq!(sorted(&one), sorted(&other), "{splits} splits");
    }
    let options: Vec<_> = FIXED.into_iter().chain([("seed", "8")]).collect();
    let other = testing::run(&spec(&all_types(), &options), 1).unwrap();
    assert_ne!(sorted(&one), sorted(&other));
}

#[test]
fn values_are_within_their_limits() {
    let fields =
        [("a", DataType::Int64), ("s", DataType::Utf8View), ("d", DataType::Decimal128(6, 2))];
    let options = [
        ("rows-per-second", "0"),
        ("number-of-rows", "2000"),
        ("seed", "1"),
        ("fields.a.min", "-3"),
        ("fields.A.max", "3"),
        ("fields.a.null-rate", "0.25"),
        ("fields.s.length", "5"),
        ("fields.d.min", "1.25"),
        ("fields.d.max", "1.5"),
    ];
    let batch = testing::run(&spec(&fields, &options), 1).unwrap();
    let a = batch.column(0).as_primitive::<Int64Type>();
    assert!((400..600).contains(&a.null_count()), "{}", a.null_count());
    assert_eq!(arrow::compute::min(a), Some(-3));
    assert_eq!(arrow::compute::max(a), Some(3));
    assert!(batch.column(1).as_string_view().iter().all(|s| s.unwrap().len() == 5));
    let d = batch.column(2).as_primitive::<arrow::datatypes::Decimal128Type>();
    assert_eq!((arrow::compute::min(d), arrow::compute::max(d)), (Some(125), Some(150)));
}

#[test]
fn a_sequence_ends_its_table() {
    let fields = [("a", DataType::Int64), ("at", DataType::Timestamp(TimeUnit::Microsecond, None))];
    let options = [
        ("rows-per-second", "0"),
        ("fields.a.kind", "sequence"),
        ("fields.a.start", "5"),
        ("fields.a.end", "10"),
        ("fields.a.step", "2"),
        ("fields.at.kind", "sequence"),
        ("fields.at.start", "2026-01-01"),
        ("fields.at.step", "500 ms"),
    ];
    let table = table(definition(&fields, &options)).unwrap();
    assert!(!table.is_unbounded());
    assert_eq!(table.statistics().rows, Some(3.0));
    let batch = testing::run(&testing::spec(&table), 1).unwrap();
    let wanted = ["5|2026-01-01T00:00:00", "7|2026-01-01T00:00:00.500", "9|2026-01-01T00:00:01"];
    assert_eq!(testing::rows_as_text(&batch), wanted);
}

#[test]
fn a_table_without_a_number_of_rows_has_no_end() {
    let endless = table(definition(&[("a", DataType::Int64)], &[])).unwrap();
    assert!(endless.is_unbounded());
    assert_eq!(endless.statistics().rows, None);
    // A limit ends it: nobody waits for the rows behind it.
    let spec = SourceSpec { fetch: Some(10), ..testing::spec(&endless) };
    let spec = SourceSpec { projection: Vec::new(), ..spec };
    assert!(testing::run(&spec, 2).unwrap().num_rows() >= 10);
}

#[test]
fn rows_come_as_the_clock_allows() {
    let options = [("number-of-rows", "30"), ("rows-per-second", "1000"), ("splits", "2")];
    let batch = testing::run(&spec(&[("a", DataType::Int64)], &options), 1).unwrap();
    assert_eq!(batch.num_rows(), 30);
}

#[test]
fn a_position_lies_behind_what_was_delivered() {
    use thalweg_runtime::source::SourceOutput;
    let spec = SourceSpec { batch_rows: 64, ..spec(&all_types(), &FIXED) };
    let job = testing::job();
    let connector = DatagenConnector;
    let source = connector.open(&spec, &job).unwrap();
    let mut reader = source.reader(0).unwrap();
    let mut rows = Vec::new();
    let schema = testing::output_schema(&spec);
    let take = |output, rows: &mut Vec<String>| match output {
        SourceOutput::Batch(batch) => {
            rows.extend(testing::rows_as_text(&batch.to_record_batch(schema.clone()).unwrap()));
            true
        }
        SourceOutput::Finished => false,
        SourceOutput::Continue | SourceOutput::Split(_) | SourceOutput::Wait(_) => true,
    };
    for _ in 0..11 {
        let output = testing::with_context(&job, (0, 1), |cx| reader.step(cx)).unwrap();
        take(output, &mut rows);
    }
    let position = reader.snapshot().unwrap();
    let source = connector.open(&spec, &job).unwrap();
    let mut reader = source.reader(0).unwrap();
    reader.restore(&position).unwrap();
    while take(testing::with_context(&job, (0, 1), |cx| reader.step(cx)).unwrap(), &mut rows) {}
    let mut wanted = testing::rows_as_text(&testing::run(&spec, 1).unwrap());
    wanted.sort_unstable();
    rows.sort_unstable();
    assert_eq!(rows, wanted);
}

#[test]
fn what_cannot_be_made_is_refused() {
    let error = |fields: &[(&str, DataType)], options: &[(&str, &str)]| {
        table(definition(fields, options)).unwrap_err().to_string()
    };
    let a = [("a", DataType::Int8)];
    assert!(error(&a, &[("fields.a.min", "200")]).contains("no value of"));
    assert!(error(&a, &[("fields.b.min", "1")]).contains("no option \"fields.b.min\""));
    assert!(error(&a, &[("fields.a.kind", "sequential")]).contains("random or sequence"));
    assert!(error(&a, &[("fields.a.kind", "sequence")]).contains("needs a start"));
    assert!(error(&a, &[("number-of-row", "1")]).contains("did you mean \"number-of-rows\"?"));
    assert!(error(&a, &[("fields.a.null-rate", "2")]).contains("from 0 to 1"));
    let list = DataType::new_list(DataType::Int64, true);
    assert!(error(&[("l", list)], &[]).contains("column \"l\""));
    let none = TableDefinition { schema: None, ..definition(&a, &[]) };
    assert!(table(none).unwrap_err().to_string().contains("columns"));
}
