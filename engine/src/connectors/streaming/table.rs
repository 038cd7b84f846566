//! A table of a connector that needs nothing but its options.

use arrow::datatypes::SchemaRef;
use datafusion_common::Constraints;
use thalweg_optimizer::TableStatistics;
use thalweg_optimizer::physical::Provenance;

use crate::catalog::{Table, TableSink};
use crate::connectors::metadata::MetadataKey;

/// The table. It knows how many rows there are if its connector does.
#[derive(Debug)]
pub struct ConnectorTable {
    connector: &'static str,
    options: serde_json::Value,
    schema: SchemaRef,
    constraints: Constraints,
    rows: Option<u64>,
    unbounded: bool,
    withdraws: bool,
    metadata_keys: &'static [MetadataKey],
    sink: Option<TableSink>,
}

impl ConnectorTable {
    /// A table without an end whose rows come from a connector with these options.
    pub fn unbounded(
        connector: &'static str,
        options: serde_json::Value,
        schema: SchemaRef,
        constraints: Constraints,
    ) -> Self {
        ConnectorTable {
            connector,
            options,
            schema,
            constraints,
            rows: None,
            unbounded: true,
            withdraws: false,
            metadata_keys: &[],
            sink: None,
        }
    }

    /// The table with an end, behind this many rows if that is known.
    pub fn bounded(self, rows: Option<u64>) -> Self {
        ConnectorTable { rows, unbounded: false, ..self }
    }

    /// The table whose records take rows back that came before, if that is so.
    pub fn withdrawing(self, withdraws: bool) -> Self {
        ConnectorTable { withdraws, ..self }
    }

    /// The table that knows this of a row beside its values.
    pub fn knowing(self, metadata_keys: &'static [MetadataKey]) -> Self {
        ConnectorTable { metadata_keys, ..self }
    }

    /// The table with a sink that takes rows.
    pub fn with_sink(self, sink: TableSink) -> Self {
        ConnectorTable { sink: Some(sink), ..self }
    }
}

impl Table for ConnectorTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn connector(&self) -> &str {
        self.connector
    }

    fn options(&self) -> serde_json::Value {
        self.options.clone()
    }

    fn statistics(&self) -> TableStatistics {
        let provenance = match self.rows {
            Some(_) => Provenance::Stats,
            None => Provenance::Default,
        };
        let rows = self.rows.map(|rows| rows as f64);
        TableStatistics { rows, provenance, bytes: None, columns: Vec::new() }
    }

    fn is_unbounded(&self) -> bool {
        self.unbounded
    }

    fn metadata_keys(&self) -> &'static [MetadataKey] {
        self.metadata_keys
    }

    fn withdraws(&self) -> bool {
        self.withdraws
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn is_only_declared(&self) -> bool {
        true
    }

    fn sink(&self) -> Option<TableSink> {
        self.sink.clone()
    }
}
