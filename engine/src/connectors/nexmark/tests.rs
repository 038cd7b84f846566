//! Tests of the generator.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, TimestampMicrosecondType};
use datafusion_common::Constraints;
use thalweg_runtime::source::SourceSpec;

use super::*;
use crate::catalog::Table;
use crate::connectors::testing;

fn definition(schema: Option<SchemaRef>, options: &[(&str, &str)]) -> TableDefinition {
    TableDefinition {
        name: "n".into(),
        connector: CONNECTOR.into(),
        format: None,
        locations: Vec::new(),
        schema,
        constraints: Constraints::default(),
        options: options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        partition_columns: Vec::new(),
        dead_letters: None,
    }
}

fn read(options: &[(&str, &str)], batch_rows: usize, subtasks: usize) -> RecordBatch {
    let table = table(definition(None, options)).unwrap();
    let spec = SourceSpec { batch_rows, ..testing::spec(&table) };
    testing::run(&spec, subtasks).unwrap()
}

fn sorted(batch: &RecordBatch) -> Vec<String> {
    let mut rows = testing::rows_as_text(batch);
    rows.sort_unstable();
    rows
}

fn field<'a>(batch: &'a RecordBatch, column: usize, name: &str) -> &'a ArrayRef {
    batch.column(column).as_struct().column_by_name(name).unwrap()
}

#[test]
fn events_do_not_depend_on_how_they_are_read() {
    let one = read(&[("events.num", "5000")], 8192, 1);
    assert_eq!(one.num_rows(), 5000);
    for (splits, subtasks) in [("1", 2), ("3", 1), ("4", 3)] {
        let other = read(&[("events.num", "5000"), ("splits", splits)], 77, subtasks);
        assert_eq!(sorted(&one), sorted(&other), "{splits} splits");
    }
}

#[test]
fn kinds_ids_and_times_follow_from_the_number() {
    let batch = read(
        &[("events.num", "10000"), ("first-event.rate", "1000"), ("next-event.rate", "1000")],
        8192,
        1,
    );
    let kinds = batch.column(0).as_primitive::<Int32Type>();
    let count = |kind: i32| kinds.values().iter().filter(|k| **k == kind).count();
    assert_eq!((count(0), count(1), count(2)), (200, 600, 9200));
    for (column, kind) in [(1, 0), (2, 1), (3, 2)] {
        let record = batch.column(column);
        assert!(
            (0..batch.num_rows()).all(|row| record.is_valid(row) == (kinds.value(row) == kind))
        );
    }
    let ids = |column: usize| {
        let ids = field(&batch, column, "id").as_primitive::<Int64Type>();
        ids.iter().flatten().collect::<Vec<_>>()
    };
    // The first event has the id 2: the second auction of a round.
    assert_eq!(ids(2)[..3], [1001, 1002, 1003]);
    assert!(ids(2).windows(2).all(|w| w[1] == w[0] + 1));
    assert_eq!(ids(1)[..2], [1001, 1002]);
    let times = batch.column(4).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.value(0), 1_436_918_400_001_000);
    assert_eq!(times.value(9_999), 1_436_918_400_000_000 + 10_000_000);
}

#[test]
fn bids_are_for_auctions_that_exist_or_soon_will() {
    let batch = read(&[("events.num", "20000")], 8192, 1);
    let auctions = field(&batch, 3, "auction").as_primitive::<Int64Type>();
    let bidders = field(&batch, 3, "bidder").as_primitive::<Int64Type>();
    let prices = field(&batch, 3, "price").as_primitive::<Int64Type>();
    let mut hot = 0;
    for row in (0..batch.num_rows()).filter(|row| auctions.is_valid(*row)) {
        let round = (row as i64 + 2) / 50;
        assert!((1000..1000 + round * 3 + 3 + 10).contains(&auctions.value(row)));
        assert!((1000..1000 + round + 1 + 11).contains(&bidders.value(row)));
        assert!((100..=100_000_000).contains(&prices.value(row)));
        hot += usize::from(auctions.value(row) % 100 == 0);
    }
    assert!((8_500..10_500).contains(&hot), "{hot}");
    let expires = field(&batch, 2, "expires").as_primitive::<TimestampMicrosecondType>();
    let times = field(&batch, 2, "dateTime").as_primitive::<TimestampMicrosecondType>();
    assert!(expires.iter().zip(times).all(|(end, at)| end.is_none() || end > at));
}

#[test]
fn texts_look_as_they_should() {
    let batch = read(&[("events.num", "5000")], 8192, 1);
    let all = |column, name| -> Vec<String> {
        field(&batch, column, name).as_string_view().iter().flatten().map(String::from).collect()
    };
    assert!(
        all(3, "url")
            .iter()
            .all(|url| url.starts_with("https://www.nexmark.com/") && url.split('/').count() == 7)
    );
    let channels = all(3, "channel");
    assert!(
        channels.iter().any(|c| c == "Apple") && channels.iter().any(|c| c.starts_with("channel-"))
    );
    assert!(all(1, "creditCard").iter().all(|card| card.len() == 19));
    assert!(all(1, "emailAddress").iter().all(|mail| mail.ends_with(".com") && mail.contains('@')));
    let extra = all(3, "extra");
    let mean = extra.iter().map(String::len).sum::<usize>() / extra.len();
    assert!((64..72).contains(&mean), "{mean}");
    let distinct: std::collections::HashSet<_> = extra.iter().collect();
    assert!(distinct.len() * 100 > extra.len() * 99);
}

#[test]
fn some_columns_in_the_users_types() {
    let fields = [
        ("Auction", DataType::Int32),
        ("price", DataType::Decimal128(12, 0)),
        ("datetime", DataType::Date32),
    ];
    let fields: Vec<Field> = fields.into_iter().map(|(n, t)| Field::new(n, t, true)).collect();
    let bid = Field::new("bid", DataType::Struct(fields.into()), true);
    let schema = Arc::new(Schema::new(vec![Field::new("event_type", DataType::Int64, true), bid]));
    let table = table(definition(Some(schema), &[("events.num", "60")])).unwrap();
    assert_eq!(table.statistics().rows, Some(60.0));
    let batch = testing::run(&testing::spec(&table), 1).unwrap();
    let rows = testing::rows_as_text(&batch);
    assert_eq!(rows[0], "1|∅");
    assert!(
        rows[2].starts_with("2|{Auction: ") && rows[2].ends_with("datetime: 2015-07-15}"),
        "{}",
        rows[2]
    );
}

#[test]
fn what_is_unknown_is_refused() {
    let error = |name: &str, data_type: DataType, options: &[(&str, &str)]| {
        let schema = Arc::new(Schema::new(vec![Field::new(name, data_type, true)]));
        table(definition(Some(schema), options)).unwrap_err().to_string()
    };
    assert!(error("bids", DataType::Int64, &[]).contains("did you mean \"bid\"?"));
    assert!(error("bid", DataType::Int64, &[]).contains("must be a ROW"));
    let part = Field::new("prise", DataType::Int64, true);
    assert!(
        error("bid", DataType::Struct(vec![part].into()), &[]).contains("did you mean \"price\"?")
    );
    let event_type = DataType::Int32;
    assert!(
        error("event_type", event_type.clone(), &[("event.num", "1")]).contains("\"events.num\"")
    );
    assert!(error("event_type", event_type, &[("next-event.rate", "5")]).contains("do not change"));
}

#[test]
fn a_table_without_a_number_of_events_has_no_end() {
    assert!(table(definition(None, &[])).unwrap().is_unbounded());
    let fast = table(definition(None, &[("rate-limited", "false")])).unwrap();
    let spec = SourceSpec { fetch: Some(100_000), ..testing::spec(&fast) };
    assert!(testing::run(&spec, 1).unwrap().num_rows() >= 100_000);
}
