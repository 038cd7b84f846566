//! Objects of JSON to columns, whatever the text comes from: objects are decoded in batches; a batch that fails is
//! decoded object by object, so that the error names the line, or the object is left out.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder;
use datafusion_common::ScalarValue;
use serde_json::Value;
use thalweg_planner::intervals;
use thalweg_runtime::{Error, Result};

use super::layout::{JsonLayout, ValueEnd};
use crate::connectors::rejects::Rejects;
use crate::connectors::scan::constant;
use crate::connectors::text::{Block, Decoded};

/// Bytes of text that a batch is decoded from at most.
const BATCH_TEXT_BYTES: usize = 2 << 20;

/// How objects are read.
pub struct JsonRecords {
    /// How they follow each other.
    pub layout: JsonLayout,
    /// What becomes of objects that cannot be read.
    pub rejects: Rejects,
    /// The columns that come from the objects, all nullable.
    pub schema: SchemaRef,
    /// The others, by their place among those read; ascending.
    pub constants: Vec<(usize, ScalarValue)>,
    /// Rows of a batch at most.
    pub batch_rows: usize,
    /// Where the object of each row of the last batch begins and ends.
    pub places: Vec<(usize, usize)>,
}

impl JsonRecords {
    /// Takes a batch of objects from a block. `file` is the text's name in messages.
    pub fn decode(&mut self, block: &mut Block, file: &str) -> Result<Decoded> {
        let (objects, whole) = self.take_objects(block);
        if objects.is_empty() {
            return Ok(if whole { Decoded::Finished } else { Decoded::NeedsMore });
        }
        let batch = match decode(&self.schema, &block.bytes, &objects) {
            Ok(batch) => {
                self.places = objects;
                batch
            }
            Err(_) => self.decode_one_by_one(block, file, &objects)?,
        };
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        for (place, value) in &self.constants {
            columns.insert(*place, constant(value, rows)?);
        }
        Ok(Decoded::Rows(columns, rows))
    }

    /// Objects of a batch, by their places in the block; and whether no further one belongs to the block.
    fn take_objects(&self, block: &mut Block) -> (Vec<(usize, usize)>, bool) {
        let (layout, rows_max) = (self.layout, self.batch_rows);
        let (from, mut objects) = (block.at, Vec::new());
        while objects.len() < rows_max && block.at - from < BATCH_TEXT_BYTES {
            match layout.next(&block.bytes, block.at, block.last) {
                ValueEnd::At(start, _) if start >= block.end => return (objects, true),
                ValueEnd::At(start, end) => {
                    objects.push((start, end));
                    block.at = end;
                }
                // White space up to the end of the piece leads into the next one.
                ValueEnd::NeedsMore if block.is_used_up() => return (objects, true),
                ValueEnd::NeedsMore => return (objects, false),
                ValueEnd::Finished => return (objects, true),
            }
        }
        (objects, false)
    }

    fn decode_one_by_one(
        &mut self,
        block: &Block,
        file: &str,
        objects: &[(usize, usize)],
    ) -> Result<RecordBatch> {
        self.places.clear();
        let mut batches = Vec::new();
        for &(start, end) in objects {
            let text = &block.bytes[start..end];
            let decoded = decode(&self.schema, &block.bytes, &[(start, end)]).or_else(|error| {
                let plain = nested_as_text(text, &self.schema).ok_or(error)?;
                decode(&self.schema, &plain, &[(0, plain.len())])
            });
            match decoded {
                Ok(batch) => {
                    batches.push(batch);
                    self.places.push((start, end));
                }
                Err(error) => self.rejects.reject(block, (start, end), || {
                    bad_object(file, block.line_of(start), text, &error)
                })?,
            }
        }
        self.rejects.place(block);
        Ok(concat_batches(&self.schema, &batches)?)
    }
}

/// Decodes objects that lie in a buffer.
fn decode(
    schema: &SchemaRef,
    bytes: &[u8],
    objects: &[(usize, usize)],
) -> Result<RecordBatch, ArrowError> {
    let mut decoder: Decoder = ReaderBuilder::new(with_text_for_intervals(schema))
        .with_batch_size(objects.len())
        .with_coerce_primitive(true)
        .build_decoder()?;
    for &(start, end) in objects {
        for part in [&bytes[start..end], b"\n"] {
            let used = decoder.decode(part)?;
            if used < part.trim_ascii_end().len() {
                return Err(ArrowError::JsonError("more than one value".into()));
            }
        }
        if decoder.has_partial_record() {
            return Err(ArrowError::JsonError("the object is not closed".into()));
        }
    }
    match decoder.flush()? {
        Some(batch) if batch.num_rows() == objects.len() => with_intervals(batch, schema),
        _ => Err(ArrowError::JsonError("not one object a line".into())),
    }
}

fn is_interval(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Interval(IntervalUnit::MonthDayNano))
}

/// The columns as the decoder can read them: it knows no intervals.
fn with_text_for_intervals(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| is_interval(field)) {
        return schema.clone();
    }
    let fields = schema.fields().iter().map(|field| match is_interval(field) {
        true => Field::new(field.name(), DataType::Utf8, true),
        false => field.as_ref().clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The rows with intervals where they were decoded as text.
fn with_intervals(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if !schema.fields().iter().any(|field| is_interval(field)) {
        return Ok(batch);
    }
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        if !is_interval(field) {
            return Ok(column.clone());
        }
        let parsed = column.as_string::<i32>().iter().map(|text| match text {
            None => Ok(None),
            Some(text) => intervals::parse(text).map(Some).ok_or_else(|| {
                ArrowError::JsonError(format!("\"{text}\" is not the text of an interval"))
            }),
        });
        let parsed = parsed.collect::<Result<IntervalMonthDayNanoArray, ArrowError>>()?;
        Ok(Arc::new(parsed) as ArrayRef)
    });
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<Vec<_>, ArrowError>>()?)
}

/// The object with nested values written out as text where the column is text; `None` if it is no object.
fn nested_as_text(text: &[u8], schema: &Schema) -> Option<Vec<u8>> {
    let Ok(Value::Object(mut object)) = serde_json::from_slice::<Value>(text) else { return None };
    for field in schema.fields() {
        if let Some(value) = object.get_mut(field.name()) {
            write_out(value, field.data_type());
        }
    }
    serde_json::to_vec(&object).ok()
}

fn write_out(value: &mut Value, data_type: &DataType) {
    match (data_type, value) {
        (DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8, value)
            if value.is_object() || value.is_array() =>
        {
            *value = Value::String(value.to_string());
        }
        (DataType::List(item), Value::Array(items)) => {
            items.iter_mut().for_each(|v| write_out(v, item.data_type()));
        }
        (DataType::Struct(fields), Value::Object(object)) => {
            for field in fields {
                if let Some(value) = object.get_mut(field.name()) {
                    write_out(value, field.data_type());
                }
            }
        }
        _ => {}
    }
}

fn bad_object(file: &str, line: u64, text: &[u8], error: &ArrowError) -> Error {
    let shown: String = String::from_utf8_lossy(text).chars().take(80).collect();
    let reason = match error {
        ArrowError::JsonError(reason) => reason.clone(),
        other => other.to_string(),
    };
    Error::User {
        message: format!("JSON error in {file}, line {line}: {reason}"),
        detail: Some(shown),
        hint: Some("set 'json.ignore-errors' = 'true' to leave such objects out".into()),
    }
}
