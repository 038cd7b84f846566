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
use crate::connectors::scan::ReadLayout;
use crate::connectors::text::{Block, Decoded, RecordIndex};
use crate::error::{self, Report};

/// How text is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextFormat {
    /// Delimited text; what is open there has its default.
    Csv(CsvOptions),
    /// One object a line.
    Json {
        /// Whether objects that cannot be read are left out.
        ignore_errors: bool,
    },
    /// One value a line.
    Raw,
}

impl TextFormat {
    /// Takes the options of a format.
    pub fn new(
        format: Option<&str>,
        schema: &SchemaRef,
        options: &mut ConnectorOptions<'_>,
    ) -> error::Result<Self> {
        let Some(format) = format else {
            let report = Report::new("the option \"format\" is missing");
            return Err(error::Error::catalog(
                report.with_hint("'format' is 'csv', 'json' or 'raw'".to_string()),
            ));
        };
        let mut reading = FileOptions::default();
        for key in FileOptions::KEYS {
            if let Some(value) = options.text(key) {
                reading.set(key, &value)?;
            }
        }
        match format.to_ascii_lowercase().as_str() {
            "csv" => {
                reading.check(FileFormat::Csv)?;
                Ok(TextFormat::Csv(reading.csv))
            }
            "json" => {
                reading.check(FileFormat::Json)?;
                Ok(TextFormat::Json { ignore_errors: reading.json_ignore_errors })
            }
            "raw" => {
                if let Some(key) = reading.named.first() {
                    let report = Report::new(format!("the format \"raw\" has no option \"{key}\""));
                    return Err(error::Error::catalog(report));
                }
                check_raw(schema)?;
                Ok(TextFormat::Raw)
            }
            _ => Err(wrong_value("format", format, "csv, json or raw")),
        }
    }

    /// How records of a table become the columns of a layout.
    pub fn records(&self, spec: &SourceSpec, layout: &ReadLayout) -> TextRecords {
        let batch_rows = spec.batch_rows.max(1);
        match self {
            TextFormat::Csv(options) => {
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
                    ignore_errors: options.ignore_errors,
                    skipped: 0,
                    header: options.header.unwrap_or(false),
                    check_names: true,
                    guessed: false,
                    columns: columns.collect(),
                    found: RecordIndex::new(names.len()),
                    names,
                    batch_rows,
                }))
            }
            TextFormat::Json { ignore_errors } => {
                let fields = layout.schema.fields().iter().map(|field| {
                    // The decoder must not refuse what the table allows.
                    Field::new(field.name(), field.data_type().clone(), true)
                });
                TextRecords::Json(JsonRecords {
                    layout: JsonLayout::Lines,
                    ignore_errors: *ignore_errors,
                    skipped: 0,
                    schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
                    constants: Vec::new(),
                    batch_rows,
                })
            }
            TextFormat::Raw => TextRecords::Raw(RawRecords::new(layout, batch_rows)),
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
    /// Lines.
    Raw(RawRecords),
}

impl TextRecords {
    /// Takes a batch of records from a block of a text called `name`.
    pub fn decode(&mut self, block: &mut Block, name: &str) -> Result<Decoded> {
        match self {
            TextRecords::Csv(records) => records.decode(block, name),
            TextRecords::Json(records) => records.decode(block, name),
            TextRecords::Raw(records) => records.decode(block, name),
        }
    }

    /// Tells the job how many records were left out.
    pub fn count_skipped(&mut self, job: &JobContext) {
        match self {
            TextRecords::Csv(records) => job.count_skipped(&mut records.skipped),
            TextRecords::Json(records) => job.count_skipped(&mut records.skipped),
            TextRecords::Raw(_) => {}
        }
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
            self.records.count_skipped(cx.job);
            match decoded {
                Decoded::Rows(_, 0) => return Ok(StreamProgress::Working),
                Decoded::Rows(columns, rows) => return Ok(StreamProgress::Rows(columns, rows)),
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

    fn position(&self) -> Value {
        Value::Null
    }
}
