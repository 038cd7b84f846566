//! Rows as text, one after another, as sinks write it that are not files: `csv`, `json`, `debezium_json` or `raw`.
//!
//! `debezium_json` tells of changes, the others of rows that stay.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use thalweg_runtime::Result;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::RowKind;

use super::debezium::write_changes;
use super::files::FileFormat;
use super::print::{key_of, primary_key};
use super::registry::TableDefinition;
use super::single_file::{Objects, RowFormat};
use super::streaming::ConnectorOptions;
use super::streaming::options::wrong_value;
use super::write::{Encoder, FileWriteOptions, encoder, typed_batch};
use crate::catalog::SinkKind;
use crate::error::{self, Report};

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Shape {
    Csv { header: bool, delimiter: u8 },
    Json,
    DebeziumJson,
    Raw,
}

/// What is to be written, as sinks are told it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TextRowsSpec {
    shape: Shape,
    schema: Schema,
    key: Option<Vec<usize>>,
}

impl TextRowsSpec {
    /// What a definition asks for; takes the options of its format.
    pub(super) fn of(
        definition: &TableDefinition,
        schema: &SchemaRef,
        options: &mut ConnectorOptions<'_>,
    ) -> error::Result<Self> {
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
            "raw" if is_one_text(schema) => Shape::Raw,
            "raw" => {
                let report =
                    Report::new("a table of the format \"raw\" has one column of VARCHAR or BYTEA");
                return Err(error::Error::catalog(report));
            }
            _ => return Err(wrong_value("format", format, "csv, json, debezium_json or raw")),
        };
        let key = primary_key(&definition.constraints);
        Ok(TextRowsSpec { shape, schema: schema.as_ref().clone(), key })
    }

    /// What may become of rows.
    pub(super) fn kind(&self) -> SinkKind {
        match self.shape {
            Shape::DebeziumJson => SinkKind::Retract,
            Shape::Csv { .. } | Shape::Json | Shape::Raw => SinkKind::Append,
        }
    }
}

fn is_one_text(schema: &SchemaRef) -> bool {
    schema.fields().len() == 1
        && matches!(schema.field(0).data_type(), DataType::Utf8View | DataType::Binary)
}

/// Makes text of batches.
pub(super) struct TextRows {
    shape: Shape,
    schema: SchemaRef,
    /// Columns that tell rows apart, by position.
    key: Option<Vec<usize>>,
    csv: Option<Box<dyn Encoder>>,
}

impl TextRows {
    /// Of what is asked for; `options` may tell a key of the query.
    pub(super) fn new(spec: TextRowsSpec, options: &serde_json::Value) -> Result<Self> {
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
        Ok(TextRows { shape: spec.shape, schema, key: key_of(spec.key, options), csv })
    }

    /// The text of the rows of a batch without a selection.
    pub(super) fn text(&mut self, batch: Batch) -> Result<Vec<u8>> {
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
