//! The connector "nexmark": the events of an online auction, for benchmarks.
//!
//! Persons, auctions and bids follow each other in fixed proportions; ids and times follow from an event's number alone,
//! as in the benchmark's own generator, and all other values from a hash of it. So the events of a table do not depend on
//! how many splits, threads or batches there are, and are the same each time.

mod columns;
mod events;
mod records;
mod texts;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use thalweg_runtime::job::JobContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use self::columns::EventColumn;
use self::events::Events;
use super::registry::TableDefinition;
use super::scan::ReadLayout;
use super::streaming::generator::{self, Extent, Generator, Rows};
use super::streaming::options::wrong_value;
use super::streaming::{ConnectorOptions, ConnectorTable};
use crate::connectors::metadata::MetadataKey;
use crate::error;

/// The connector's registered name.
pub const CONNECTOR: &str = "nexmark";

/// What the connector gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct NexmarkSpec {
    columns: Vec<EventColumn>,
    events: Events,
    /// `None`: without an end.
    rows: Option<u64>,
    splits: u64,
    rate_limited: bool,
}

/// The table of a definition.
pub(super) fn table(definition: TableDefinition) -> error::Result<ConnectorTable> {
    definition.refuse_format(CONNECTOR)?;
    let schema: SchemaRef = match &definition.schema {
        Some(schema) => schema.clone(),
        None => columns::all(),
    };
    let columns = schema
        .fields()
        .iter()
        .map(|field| EventColumn::new(field))
        .collect::<error::Result<Vec<_>>>()?;
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let rows = options.number("events.num", 0)?.filter(|events| *events > 0);
    let spec = NexmarkSpec {
        columns,
        events: events(&mut options)?,
        rows,
        splits: options.number("splits", 1)?.unwrap_or(1),
        rate_limited: rate_limited(&mut options)?.unwrap_or(rows.is_none()),
    };
    options.finish()?;
    let value = serde_json::to_value(&spec)
        .map_err(|e| error::Error::internal(format!("the options of a generator: {e}")))?;
    let table = ConnectorTable::unbounded(CONNECTOR, value, schema, definition.constraints)
        .knowing(MetadataKey::OF_GENERATORS);
    Ok(match rows {
        Some(rows) => table.bounded(Some(rows)),
        None => table,
    })
}

fn events(options: &mut ConnectorOptions<'_>) -> error::Result<Events> {
    let mut events = Events::default();
    let mut set = |key: &str, least: u64, value: &mut u64| -> error::Result<()> {
        *value = options.number(key, least)?.unwrap_or(*value);
        match *value > u64::from(u32::MAX) {
            true => Err(wrong_value(key, &value.to_string(), "a number of 32 bits")),
            false => Ok(()),
        }
    };
    set("first-event.rate", 1, &mut events.rate)?;
    set("person.proportion", 0, &mut events.persons)?;
    set("auction.proportion", 0, &mut events.auctions)?;
    set("bid.proportion", 0, &mut events.bids)?;
    set("person.avg-size", 0, &mut events.person_size)?;
    set("auction.avg-size", 0, &mut events.auction_size)?;
    set("bid.avg-size", 0, &mut events.bid_size)?;
    set("bid.hot-ratio.auctions", 1, &mut events.hot_auctions)?;
    set("bid.hot-ratio.bidders", 1, &mut events.hot_bidders)?;
    set("auction.hot-ratio.sellers", 1, &mut events.hot_sellers)?;
    let mut next_rate = events.rate;
    set("next-event.rate", 1, &mut next_rate)?;
    if next_rate != events.rate {
        let what = "the rate of the first event: rates do not change";
        return Err(wrong_value("next-event.rate", &next_rate.to_string(), what));
    }
    if events.total() == 0 {
        return Err(wrong_value("bid.proportion", "0", "greater when there is nothing else"));
    }
    let base = options.value("base-time", "milliseconds since 1970")?;
    events.base_ms = base.unwrap_or(events.base_ms);
    Ok(events)
}

/// Whether events come as fast as their times tell, under any of the names that this has.
fn rate_limited(options: &mut ConnectorOptions<'_>) -> error::Result<Option<bool>> {
    let limited = options.boolean("rate-limited")?;
    let dotted = options.boolean("rate.limited")?;
    let fast = options.boolean("max-emit-speed")?;
    Ok(limited.or(dotted).or(fast.map(|fast| !fast)))
}

/// Makes the events.
#[derive(Debug, Default)]
pub struct NexmarkConnector;

impl SourceConnector for NexmarkConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let nexmark: NexmarkSpec = serde_json::from_value(spec.options.clone())
            .map_err(|e| Error::Internal(format!("the options of a generator: {e}")))?;
        if nexmark.columns.len() != spec.schema.fields().len() {
            return Err(Error::Internal("a generator of other columns than its table".into()));
        }
        let extent = Extent {
            rows: nexmark.rows,
            rows_per_second: nexmark.rate_limited.then_some(nexmark.events.rate),
            splits: nexmark.splits,
        };
        Ok(generator::open(spec, Arc::new(nexmark), extent, job))
    }
}

impl Generator for NexmarkSpec {
    fn columns(&self, layout: &ReadLayout, rows: Rows, _now_us: i64) -> Result<Vec<ArrayRef>> {
        let columns = layout.columns.iter().zip(layout.schema.fields());
        columns.map(|(&c, field)| self.columns[c].array(field, &self.events, rows)).collect()
    }
}

#[cfg(test)]
mod tests;
