//! Records of text as they come in: CSV, JSON, and lines as they are.
//!
//! An incomplete last line waits for the rest of it, or for the end. What was read is gone for others: a position says
//! nothing, and whoever goes on at one reads what comes then.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg_runtime::Result;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceSpec};

use super::feed::{Arrival, ByteOrigin, Feed};
use super::options::{ConnectorOptions, wrong_value};
use super::raw::RawRecords;
use super::reader::{StreamFormat, StreamProgress, StreamSource, StreamSplit};
use crate::connectors::csv::{self, CsvRecords};
use crate::connectors::files::{CsvOptions, FileFormat, FileOptions};
use crate::connectors::json::{JsonLayout, JsonRecords};
use crate::connectors::metadata::RowOrigin;
use crate::connectors::rejects::{BadRecords, Rejects};
use crate::connectors::scan::ReadLayout;
use crate::connectors::single_file::{ObjectRecords, RowFormat};
use crate::connectors::text::{Block, Decoded, RecordIndex, starts};
use crate::error::{self, Report};

/// How text is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextFormat {
    /// What a record is.
    pub shape: TextShape,
    /// What becomes of records that cannot be read.
    pub bad_records: BadRecords,
}

/// What a record of text is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextShape {
    /// Delimited text; what is open there has its default.
    Csv(CsvOptions),
    /// One object a line.
    Json,
    /// One change a line.
    DebeziumJson,
    /// One value a line.
    Raw,
}

/// The formats by their names, for messages.
const NAMES: &str = "csv, json, debezium_json or raw";

impl TextFormat {
    /// Takes the options of a format.
    pub fn new(
        format: Option<&str>,
        schema: &SchemaRef,
        options: &mut ConnectorOptions<'_>,
        dead_letters: Option<u64>,
    ) -> error::Result<Self> {
        let Some(format) = format else {
            let report = Report::new("the option \"format\" is missing");
            return Err(error::Error::catalog(
                report.with_hint(format!("The formats are {NAMES}.")),
            ));
        };
        let mut reading = FileOptions { dead_letters, ..FileOptions::default() };
        let of_text = |key: &&str| !key.starts_with("scan.");
        for key in FileOptions::KEYS.into_iter().filter(of_text) {
            if let Some(value) = options.text(key) {
                reading.set(key, &value)?;
            }
        }
        let bad_records = reading.bad_records();
        let shape = match format.to_ascii_lowercase().as_str() {
            "csv" => {
                reading.check(FileFormat::Csv)?;
                TextShape::Csv(reading.csv)
            }
            "json" => {
                reading.check(FileFormat::Json)?;
                TextShape::Json
            }
            "debezium_json" | "debezium-json" => {
                reading.check(FileFormat::Json)?;
                TextShape::DebeziumJson
            }
            "raw" => {
                if let Some(key) = reading.named.first() {
                    let report = Report::new(format!("the format \"raw\" has no option \"{key}\""));
                    return Err(error::Error::catalog(report));
                }
                check_raw(schema)?;
                TextShape::Raw
            }
            _ => return Err(wrong_value("format", format, NAMES)),
        };
        Ok(TextFormat { shape, bad_records })
    }

    /// Whether records take rows back that came before.
    pub fn withdraws(&self) -> bool {
        self.shape == TextShape::DebeziumJson
    }

    /// How records of a table become the columns of a layout.
    pub fn records(&self, spec: &SourceSpec, layout: &ReadLayout) -> TextRecords {
        let batch_rows = spec.batch_rows.max(1);
        let rejects = Rejects::new(self.bad_records);
        match &self.shape {
            TextShape::Csv(options) => {
                let names: Vec<String> =
                    spec.schema.fields().iter().map(|field| field.name().clone()).collect();
                let columns = layout.columns.iter().map(|&c| {
                    let field = spec.schema.field(c);
                    let (name, data_type) = (field.name().clone(), field.data_type().clone());
                    csv::Column { origin: csv::Origin::Field(c), name, data_type }
                });
                TextRecords::Csv(Box::new(CsvRecords {
                    structure: csv::structure(options, names.len()),
                    null: options.null.clone().map(String::into_bytes),
                    rejects,
                    header: options.header.unwrap_or(false),
                    check_names: true,
                    guessed: false,
                    columns: columns.collect(),
                    found: RecordIndex::new(names.len()),
                    names,
                    batch_rows,
                    chosen: None,
                }))
            }
            TextShape::Json => {
                let fields = layout.schema.fields().iter().map(|field| {
                    // The decoder must not refuse what the table allows.
                    Field::new(field.name(), field.data_type().clone(), true)
                });
                TextRecords::Json(JsonRecords {
                    layout: JsonLayout::Lines,
                    rejects,
                    schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
                    constants: Vec::new(),
                    batch_rows,
                    places: Vec::new(),
                })
            }
            TextShape::DebeziumJson => {
                let (format, bad) = (RowFormat::DebeziumJson, self.bad_records);
                TextRecords::Objects(ObjectRecords::new(format, &layout.schema, bad, batch_rows))
            }
            TextShape::Raw => TextRecords::Raw(RawRecords::new(layout, batch_rows, rejects)),
        }
    }
}

fn check_raw(schema: &SchemaRef) -> error::Result<()> {
    let one = schema.fields().len() == 1;
    if one && matches!(schema.field(0).data_type(), DataType::Utf8View | DataType::Binary) {
        return Ok(());
    }
    let report = Report::new("a table of the format \"raw\" has one column of VARCHAR or BYTEA");
    Err(error::Error::catalog(report))
}

/// Records on their way to columns.
pub enum TextRecords {
    /// Delimited text.
    Csv(Box<CsvRecords>),
    /// Objects.
    Json(JsonRecords),
    /// Objects that are changes.
    Objects(ObjectRecords),
    /// Lines.
    Raw(RawRecords),
}

impl TextRecords {
    /// Takes a batch of records from a block of a text called `name`.
    pub fn decode(&mut self, block: &mut Block, name: &str) -> Result<Decoded> {
        match self {
            TextRecords::Csv(records) => records.decode(block, name),
            TextRecords::Json(records) => records.decode(block, name),
            TextRecords::Objects(records) => records.decode(block, name),
            TextRecords::Raw(records) => records.decode(block, name),
        }
    }

    /// Where the record of each row of the last batch begins in the block.
    pub fn starts(&self) -> Vec<usize> {
        match self {
            TextRecords::Csv(records) => starts(&records.places()),
            TextRecords::Json(records) => starts(&records.places),
            TextRecords::Objects(records) => starts(records.places()),
            TextRecords::Raw(records) => starts(records.places()),
        }
    }

    /// Hands on the records that could not be read.
    pub fn deliver_rejects(&mut self, name: &str, job: &JobContext) -> Result<()> {
        let rejects = match self {
            TextRecords::Csv(records) => &mut records.rejects,
            TextRecords::Json(records) => &mut records.rejects,
            TextRecords::Objects(records) => records.rejects(),
            TextRecords::Raw(records) => &mut records.rejects,
        };
        rejects.deliver(name, job)
    }
}

/// Opens the source over an origin.
pub fn open(
    spec: &SourceSpec,
    origin: Arc<dyn ByteOrigin>,
    text: TextFormat,
    job: &Arc<JobContext>,
) -> Arc<dyn Source> {
    StreamSource::open(spec, Box::new(FeedFormat { spec: spec.clone(), origin, text }), job)
}

struct FeedFormat {
    spec: SourceSpec,
    origin: Arc<dyn ByteOrigin>,
    text: TextFormat,
}

impl StreamFormat for FeedFormat {
    fn splits(&self) -> u64 {
        1
    }

    fn split_name(&self, _split: u64) -> Option<String> {
        Some(self.origin.name())
    }

    fn open(
        &self,
        _split: u64,
        _position: Option<&Value>,
        layout: &ReadLayout,
        job: &Arc<JobContext>,
    ) -> Result<Box<dyn StreamSplit>> {
        Ok(Box::new(FeedSplit {
            feed: Feed::new(&job.env, self.origin.clone()),
            name: self.origin.name(),
            block: Block::unread(),
            records: self.text.records(&self.spec, layout),
            parsed: true,
        }))
    }

    fn rows(&self) -> Option<u64> {
        None
    }
}

struct FeedSplit {
    feed: Feed,
    name: String,
    block: Block,
    records: TextRecords,
    /// Whether the block has no further whole record.
    parsed: bool,
}

impl StreamSplit for FeedSplit {
    fn step(&mut self, cx: &OperatorContext<'_>) -> Result<StreamProgress> {
        if !self.parsed {
            let decoded = self.records.decode(&mut self.block, &self.name)?;
            self.records.deliver_rejects(&self.name, cx.job)?;
            match decoded {
                Decoded::Rows(_, 0) => return Ok(StreamProgress::Working),
                Decoded::Rows(columns, rows) => return Ok(StreamProgress::Rows(columns, rows)),
                Decoded::Changes(columns, kinds) => {
                    return Ok(StreamProgress::Changes(columns, kinds));
                }
                Decoded::NeedsMore | Decoded::Finished if self.block.last => {
                    return Ok(StreamProgress::Finished);
                }
                Decoded::NeedsMore | Decoded::Finished => self.parsed = true,
            }
        }
        let bytes = match self.feed.poll(cx.waker)? {
            Arrival::Wait { caught_up } => return Ok(StreamProgress::Wait { caught_up }),
            Arrival::Bytes(bytes) => bytes,
            Arrival::End => Vec::new(),
        };
        self.block.check_record(&self.name)?;
        self.block.move_on(&bytes, &self.name)?;
        self.parsed = false;
        Ok(StreamProgress::Working)
    }

    fn origin(&self) -> RowOrigin {
        RowOrigin { file: None, lines: Some(self.block.lines_of(&self.records.starts())) }
    }

    fn position(&self) -> Value {
        Value::Null
    }
}
