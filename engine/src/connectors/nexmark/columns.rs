//! The columns of the table: which of them a user has declared, and their arrays.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StructArray, TimestampMicrosecondArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{CastOptions, can_cast_types};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};
use thalweg_planner::{sql_type_name, suggest};
use thalweg_runtime::expr::cast_column;
use thalweg_runtime::{Error, Result};

use super::events::{Event, Events, Kind};
use super::records::{Item, Records};
use crate::connectors::streaming::generator::Rows;
use crate::error;
use crate::error::Report;

/// The names of all columns.
const NAMES: [&str; 5] = ["event_type", "person", "auction", "bid", "dateTime"];

/// A declared column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EventColumn {
    /// `event_type`: 0 for a person, 1 for an auction, 2 for a bid.
    Type,
    /// `dateTime`: when the event happened.
    Time,
    /// A row for events of a kind, with some of its fields; NULL for all others.
    Record(Kind, Vec<Item>),
}

/// All columns, when none are declared.
pub fn all() -> SchemaRef {
    let record = |name: &str, kind: Kind| {
        let items = kind.items().iter();
        let fields: Fields =
            items.map(|(name, i)| Field::new(*name, i.data_type(), true)).collect();
        Field::new(name, DataType::Struct(fields), true)
    };
    let fields = vec![
        Field::new("event_type", DataType::Int32, true),
        record("person", Kind::Person),
        record("auction", Kind::Auction),
        record("bid", Kind::Bid),
        Field::new("dateTime", DataType::Timestamp(TimeUnit::Microsecond, None), true),
    ];
    Arc::new(Schema::new(fields))
}

impl EventColumn {
    /// What a declared column stands for, by its name, whose case does not matter.
    pub fn new(field: &Field) -> error::Result<Self> {
        let kind = match field.name().to_ascii_lowercase().as_str() {
            "event_type" => {
                check_type(field.name(), &DataType::Int32, field.data_type())?;
                return Ok(EventColumn::Type);
            }
            "datetime" => {
                check_type(field.name(), &Item::Time.data_type(), field.data_type())?;
                return Ok(EventColumn::Time);
            }
            "person" => Kind::Person,
            "auction" => Kind::Auction,
            "bid" => Kind::Bid,
            _ => {
                return Err(unknown(
                    "the table of the connector \"nexmark\"",
                    field.name(),
                    &NAMES,
                ));
            }
        };
        let DataType::Struct(fields) = field.data_type() else {
            let report = Report::new(format!("column \"{}\" must be a ROW", field.name()));
            return Err(error::Error::catalog(report));
        };
        let items = fields.iter().map(|part| item(kind, field.name(), part));
        Ok(EventColumn::Record(kind, items.collect::<error::Result<_>>()?))
    }

    /// The column for these rows.
    pub fn array(&self, field: &Field, events: &Events, rows: Rows) -> Result<ArrayRef> {
        let all = rows.iter().map(Event::of);
        match self {
            EventColumn::Type => {
                let types = Int32Array::from_iter_values(all.map(|e| events.kind(e) as i32));
                typed(Arc::new(types), field.data_type())
            }
            EventColumn::Time => {
                let times = all.map(|e| events.time_ms(e.number).saturating_mul(1_000));
                let times = TimestampMicrosecondArray::from_iter_values(times);
                typed(Arc::new(times), field.data_type())
            }
            EventColumn::Record(kind, items) => record(*kind, items, field, events, rows),
        }
    }
}

fn record(
    kind: Kind,
    items: &[Item],
    field: &Field,
    events: &Events,
    rows: Rows,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(Error::Internal(format!("column \"{}\" is no row", field.name())));
    };
    let all = rows.iter().map(Event::of).enumerate();
    let found: Vec<(usize, Event)> = all.filter(|(_, e)| events.kind(*e) == kind).collect();
    let mut valid = vec![false; rows.count];
    found.iter().for_each(|&(row, _)| valid[row] = true);
    let valid = NullBuffer::new(BooleanBuffer::from(valid));
    let records = Records { events, kind, found, rows: rows.count, valid };
    let columns = items.iter().zip(fields);
    let columns = columns.map(|(item, part)| typed(records.column(*item)?, part.data_type()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let valid = Some(records.valid);
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, valid, rows.count)?))
}

fn item(kind: Kind, of: &str, part: &Field) -> error::Result<Item> {
    let known = kind.items().iter().find(|(name, _)| name.eq_ignore_ascii_case(part.name()));
    let Some((_, item)) = known else {
        let names: Vec<&str> = kind.items().iter().map(|(name, _)| *name).collect();
        return Err(unknown(
            &format!("\"{of}\" of the connector \"nexmark\""),
            part.name(),
            &names,
        ));
    };
    check_type(part.name(), &item.data_type(), part.data_type())?;
    if !part.is_nullable() {
        let name = part.name();
        let report = Report::new(format!(
            "\"{name}\" cannot be NOT NULL: it is NULL in events of other kinds"
        ));
        return Err(error::Error::catalog(report));
    }
    Ok(*item)
}

fn unknown(owner: &str, name: &str, known: &[&str]) -> error::Error {
    let report = Report::new(format!("{owner} has no column \"{name}\""))
        .with_detail(format!("The columns are: {}.", known.join(", ")));
    error::Error::catalog(report.with_hint(suggest::did_you_mean(name, known.iter().copied())))
}

fn check_type(name: &str, made: &DataType, declared: &DataType) -> error::Result<()> {
    if can_cast_types(made, declared) {
        return Ok(());
    }
    let (made, declared) = (sql_type_name(made), sql_type_name(declared));
    let report = Report::new(format!("column \"{name}\" is {made}, which cannot be {declared}"));
    Err(error::Error::catalog(report))
}

/// A column in the type in which it is declared.
fn typed(column: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if column.data_type() == data_type {
        return Ok(column);
    }
    Ok(cast_column(&column, data_type, &CastOptions { safe: false, ..Default::default() })?)
}
