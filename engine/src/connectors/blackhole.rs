//! The connector "blackhole": takes rows and drops them. Nothing can be read from it.

use thalweg_runtime::Result;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::operators::sink::SinkSpec;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};

use super::registry::TableDefinition;
use super::streaming::{ConnectorOptions, ConnectorTable};
use super::write::RowCounter;
use crate::catalog::{SinkKind, TableSink};
use crate::error;

/// The connector's registered name.
pub const CONNECTOR: &str = "blackhole";

/// The table of a definition.
pub(super) fn table(definition: TableDefinition) -> error::Result<ConnectorTable> {
    let schema = definition.columns(CONNECTOR)?;
    definition.refuse_format(CONNECTOR)?;
    ConnectorOptions::new(CONNECTOR, &definition.options).finish()?;
    let options = serde_json::json!({});
    let spec = SinkSpec { sink: CONNECTOR.to_string(), options: options.clone() };
    let sink = TableSink { spec, parallel: true, kind: SinkKind::Retract };
    let table = ConnectorTable::unbounded(CONNECTOR, options, schema, definition.constraints);
    Ok(table.bounded(Some(0)).with_sink(sink))
}

/// Counts rows and drops them.
#[derive(Debug, Default)]
pub struct BlackholeSink;

impl SinkConnector for BlackholeSink {
    fn writer(
        &self,
        options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(BlackholeWriter { counter: RowCounter::by_options(options) }))
    }
}

struct BlackholeWriter {
    counter: RowCounter,
}

impl SinkWriter for BlackholeWriter {
    fn write(&mut self, batch: Batch, _cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        self.counter.add(batch.num_rows() as u64);
        Ok(SinkPoll::Ready)
    }

    fn finish(&mut self, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        Ok(true)
    }
}
