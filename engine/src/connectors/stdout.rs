//! The connector "stdout": writes rows to standard output in a format. Nothing can be read from it.
//!
//! The formats are those of files of text; `debezium_json` tells of changes, the others of rows that stay.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::RowKind;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::operators::sink::SinkSpec;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

use super::debezium::write_changes;
use super::files::FileFormat;
use super::print::{Printer, key_of, primary_key};
use super::registry::TableDefinition;
use super::single_file::{Objects, RowFormat};
use super::streaming::options::wrong_value;
use super::streaming::{ConnectorOptions, ConnectorTable};
use super::write::{Encoder, FileWriteOptions, RowCounter, encoder, typed_batch};
use crate::catalog::{SinkKind, TableSink};
use crate::error::{self, Report};

/// The connector's registered name.
pub const CONNECTOR: &str = "stdout";

/// What the connector gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StdoutSpec {
    shape: Shape,
    schema: Schema,
    key: Option<Vec<usize>>,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Shape {
    Csv { header: bool, delimiter: u8 },
    Json,
    DebeziumJson,
    Raw,
}

/// The table of a definition.
pub(super) fn table(definition: TableDefinition) -> error::Result<ConnectorTable> {
    let schema = definition.columns(CONNECTOR)?;
    definition.refuse_files(CONNECTOR)?;
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let Some(format) = &definition.format else {
        let report = Report::new("the option \"format\" is missing");
        let hint = "The formats are csv, json, debezium_json and raw.".to_string();
        return Err(error::Error::catalog(report.with_hint(hint)));
    };
    let shape = match format.to_ascii_lowercase().as_str() {
        "csv" => Shape::Csv {
            header: options.boolean("csv.header")?.unwrap_or(false),
            delimiter: match options.text("csv.delimiter") {
                Some(text) => super::files::one_byte("csv.delimiter", &text)?,
                None => b',',
            },
        },
        "json" => Shape::Json,
        "debezium_json" | "debezium-json" => Shape::DebeziumJson,
        "raw" if is_one_text(&schema) => Shape::Raw,
        "raw" => {
            let report =
                Report::new("a table of the format \"raw\" has one column of VARCHAR or BYTEA");
            return Err(error::Error::catalog(report));
        }
        _ => return Err(wrong_value("format", format, "csv, json, debezium_json or raw")),
    };
    options.finish()?;
    let key = primary_key(&definition.constraints);
    let spec = StdoutSpec { shape, schema: schema.as_ref().clone(), key };
    let options = serde_json::to_value(&spec)
        .map_err(|e| error::Error::internal(format!("the options of standard output: {e}")))?;
    let kind = match shape {
        Shape::DebeziumJson => SinkKind::Retract,
        Shape::Csv { .. } | Shape::Json | Shape::Raw => SinkKind::Append,
    };
    let spec = SinkSpec { sink: CONNECTOR.to_string(), options: options.clone() };
    // One writer, so that rows leave in their order.
    let sink = TableSink { spec, parallel: false, kind };
    let table = ConnectorTable::unbounded(CONNECTOR, options, schema, definition.constraints);
    Ok(table.bounded(Some(0)).with_sink(sink))
}

fn is_one_text(schema: &SchemaRef) -> bool {
    schema.fields().len() == 1
        && matches!(schema.field(0).data_type(), DataType::Utf8View | DataType::Binary)
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
        let schema = Arc::new(spec.schema);
        let csv = match spec.shape {
            Shape::Csv { header, delimiter } => {
                let mut target = FileWriteOptions::new("", &schema);
                (target.format, target.header, target.delimiter) =
                    (FileFormat::Csv, header, delimiter);
                Some(encoder(&target, &schema)?)
            }
            Shape::Json | Shape::DebeziumJson | Shape::Raw => None,
        };
        Ok(Box::new(StdoutWriter {
            shape: spec.shape,
            schema,
            key: key_of(spec.key, options),
            csv,
            counter: RowCounter::by_options(options),
            printer: Printer::new(false),
        }))
    }
}

struct StdoutWriter {
    shape: Shape,
    schema: SchemaRef,
    /// Columns that tell rows apart, by position.
    key: Option<Vec<usize>>,
    csv: Option<Box<dyn Encoder>>,
    counter: RowCounter,
    printer: Printer,
}

impl StdoutWriter {
    fn text(&mut self, batch: Batch) -> Result<Vec<u8>> {
        let kinds: Option<Vec<RowKind>> = batch.kinds().map(<[RowKind]>::to_vec);
        let rows = typed_batch(batch, &self.schema)?;
        if let Some(csv) = &mut self.csv {
            csv.write(&rows)?;
            return Ok(csv.take());
        }
        let mut text = Vec::new();
        match self.shape {
            Shape::DebeziumJson => {
                let objects = Objects::new(&rows, RowFormat::DebeziumJson)?;
                write_changes(&rows, kinds.as_deref(), &objects, self.key.as_deref(), &mut text)?;
            }
            Shape::Json => {
                let objects = Objects::new(&rows, RowFormat::Json)?;
                for row in 0..rows.num_rows() {
                    objects.write(row, &mut text);
                    text.push(b'\n');
                }
            }
            Shape::Raw => write_lines(rows.column(0), &mut text)?,
            Shape::Csv { .. } => {}
        }
        Ok(text)
    }
}

/// Writes each value as a line; NULL is an empty one.
fn write_lines(column: &ArrayRef, text: &mut Vec<u8>) -> Result<()> {
    let bytes = cast(column, &DataType::Binary)?;
    let bytes = bytes.as_binary::<i32>();
    for row in 0..bytes.len() {
        if bytes.is_valid(row) {
            text.extend_from_slice(bytes.value(row));
        }
        text.push(b'\n');
    }
    Ok(())
}

impl SinkWriter for StdoutWriter {
    fn write(&mut self, batch: Batch, cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        if !self.printer.ready(cx)? {
            return Ok(SinkPoll::Full(batch));
        }
        if self.printer.is_closed() {
            return Ok(SinkPoll::Closed);
        }
        self.counter.add(batch.num_rows() as u64);
        let text = self.text(batch)?;
        self.printer.print(text, cx);
        Ok(SinkPoll::Ready)
    }

    fn finish(&mut self, cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.printer.ready(cx)
    }
}
