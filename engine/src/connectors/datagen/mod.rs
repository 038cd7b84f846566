//! The connector "datagen": rows of random values and sequences.
//!
//! A value follows from the seed, its column and the row's number alone.

mod columns;
mod values;

use std::sync::Arc;

use arrow::array::ArrayRef;
use serde::{Deserialize, Serialize};
use thalweg_runtime::job::JobContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use self::columns::ColumnSpec;
use super::registry::TableDefinition;
use super::scan::ReadLayout;
use super::streaming::generator::{self, Extent, Generator, Rows};
use super::streaming::{ConnectorOptions, ConnectorTable, mix};
use crate::connectors::metadata::MetadataKey;
use crate::error;

/// The connector's registered name.
pub const CONNECTOR: &str = "datagen";
/// Rows a second, when the user does not say.
const ROWS_PER_SECOND: u64 = 10_000;

/// What the connector gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct DatagenSpec {
    columns: Vec<ColumnSpec>,
    /// `None`: without an end.
    rows: Option<u64>,
    /// 0: as fast as possible.
    rows_per_second: u64,
    seed: u64,
    splits: u64,
}

/// The table of a definition.
pub(super) fn table(definition: TableDefinition) -> error::Result<ConnectorTable> {
    let schema = definition.columns(CONNECTOR)?;
    definition.refuse_format(CONNECTOR)?;
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let columns = schema
        .fields()
        .iter()
        .map(|field| ColumnSpec::new(field, &mut options))
        .collect::<error::Result<Vec<_>>>()?;
    let asked = options.number("number-of-rows", 0)?;
    let ends = columns.iter().filter_map(ColumnSpec::rows);
    let spec = DatagenSpec {
        rows: ends.chain(asked).min(),
        rows_per_second: options.number("rows-per-second", 0)?.unwrap_or(ROWS_PER_SECOND),
        seed: match options.value("seed", "a whole number")? {
            Some(seed) => seed,
            None => some_seed(),
        },
        splits: options.number("splits", 1)?.unwrap_or(1),
        columns,
    };
    options.finish()?;
    let rows = spec.rows;
    let value = serde_json::to_value(&spec)
        .map_err(|e| error::Error::internal(format!("the options of a generator: {e}")))?;
    let table = ConnectorTable::unbounded(CONNECTOR, value, schema, definition.constraints)
        .knowing(MetadataKey::OF_GENERATORS);
    Ok(match rows {
        Some(rows) => table.bounded(Some(rows)),
        None => table,
    })
}

/// A seed for a table whose user named none: its rows are the same each time that it is read.
fn some_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("datagen")
}

/// Makes the rows.
#[derive(Debug, Default)]
pub struct DatagenConnector;

impl SourceConnector for DatagenConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let datagen: DatagenSpec = serde_json::from_value(spec.options.clone())
            .map_err(|e| Error::Internal(format!("the options of a generator: {e}")))?;
        if datagen.columns.len() != spec.schema.fields().len() {
            return Err(Error::Internal("a generator of other columns than its table".into()));
        }
        let extent = Extent {
            rows: datagen.rows,
            rows_per_second: Some(datagen.rows_per_second),
            splits: datagen.splits,
        };
        Ok(generator::open(spec, Arc::new(datagen), extent, job))
    }
}

impl Generator for DatagenSpec {
    fn columns(&self, layout: &ReadLayout, rows: Rows, now_us: i64) -> Result<Vec<ArrayRef>> {
        let columns = layout.columns.iter().zip(layout.schema.fields());
        let made = columns.map(|(&column, field)| {
            // Each column has a seed of its own.
            let seed = mix(self.seed ^ mix(column as u64));
            values::column(&self.columns[column], field.data_type(), rows, seed, now_us)
        });
        made.collect()
    }
}

#[cfg(test)]
mod tests;
