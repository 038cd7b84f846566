//! The connector "stdout": writes rows to standard output in a format. Nothing can be read from it.
//!
//! The formats are those of files of text; `debezium_json` tells of changes, the others of rows that stay.

use serde::{Deserialize, Serialize};
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::CheckpointId;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::operators::sink::SinkSpec;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

use super::print::Printer;
use super::registry::TableDefinition;
use super::streaming::{ConnectorOptions, ConnectorTable};
use super::text_rows::{TextRows, TextRowsSpec};
use super::write::RowCounter;
use crate::catalog::TableSink;
use crate::error;

/// The connector's registered name.
pub const CONNECTOR: &str = "stdout";

/// What the connector gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StdoutSpec {
    rows: TextRowsSpec,
}

/// The table of a definition.
pub(super) fn table(definition: TableDefinition) -> error::Result<ConnectorTable> {
    let schema = definition.columns(CONNECTOR)?;
    definition.refuse_files(CONNECTOR)?;
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let rows = TextRowsSpec::of(&definition, &schema, &mut options)?;
    options.finish()?;
    let kind = rows.kind();
    let options = serde_json::to_value(StdoutSpec { rows })
        .map_err(|e| error::Error::internal(format!("the options of standard output: {e}")))?;
    let spec = SinkSpec { sink: CONNECTOR.to_string(), options: options.clone() };
    // One writer, so that rows leave in their order.
    let sink = TableSink { spec, parallel: false, kind };
    let table = ConnectorTable::unbounded(CONNECTOR, options, schema, definition.constraints);
    Ok(table.bounded(Some(0)).with_sink(sink))
}

/// Writes rows.
#[derive(Debug, Default)]
pub struct StdoutSink;

impl SinkConnector for StdoutSink {
    fn writer(
        &self,
        options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let spec: StdoutSpec = serde_json::from_value(options.clone())
            .map_err(|e| Error::Internal(format!("the options of standard output: {e}")))?;
        let rows = TextRows::new(spec.rows, options)?;
        Ok(Box::new(TextWriter::new(rows, options, Printer::new(false))))
    }
}

/// Hands the text of rows on.
pub(super) struct TextWriter {
    rows: TextRows,
    counter: RowCounter,
    printer: Printer,
}

impl TextWriter {
    /// Hands it to a printer, and counts rows as the options of the sink say.
    pub(super) fn new(rows: TextRows, options: &serde_json::Value, printer: Printer) -> Self {
        TextWriter { rows, counter: RowCounter::by_options(options), printer }
    }
}

impl SinkWriter for TextWriter {
    fn write(&mut self, batch: Batch, cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        if !self.printer.ready(cx)? {
            return Ok(SinkPoll::Full(batch));
        }
        if self.printer.is_closed() {
            return Ok(SinkPoll::Closed);
        }
        self.counter.add(batch.num_rows() as u64);
        let text = self.rows.text(batch)?;
        self.printer.print(text, cx);
        Ok(SinkPoll::Ready)
    }

    fn commit(&mut self, _id: CheckpointId, cx: &mut OperatorContext<'_>) -> Result<bool> {
        if cx.job.is_settling() { self.printer.ready(cx) } else { Ok(true) }
    }

    fn finish(&mut self, cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.printer.ready(cx)
    }
}
