//! Reads a file of objects from its beginning, as one split.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::instants;
use super::table::{ReadSpec, RowFormat};
use crate::connectors::debezium;
use crate::connectors::files::strip_compression;
use crate::connectors::json::{JsonLayout, JsonRecords};
use crate::connectors::scan::{ReadLayout, SplitFormat, SplitProgress, SplitScan, SplitSource};
use crate::connectors::text::{Decoded, Pieces, Structure, TextBlocks};

/// Objects have no quoting that spans lines.
const LINES: Structure = Structure { delimiter: b'\n', quote: None, empty_lines: false };

/// Reads single files.
#[derive(Debug, Default)]
pub struct SingleFileConnector;

impl SourceConnector for SingleFileConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let read: ReadSpec = serde_json::from_value(spec.options.clone())
            .map_err(|e| Error::Internal(format!("the options of a single file: {e}")))?;
        if read.only_written {
            return Err(Error::User {
                message: format!("nothing can be read from the sink \"{}\"", read.file.name),
                detail: None,
                hint: Some("a table with type = 'source' reads the file".into()),
            });
        }
        if !read.found {
            return Err(Error::user(format!("there is no file \"{}\"", read.file.name)));
        }
        let (compression, _) = strip_compression(&read.file.name);
        let pieces = Pieces::in_sequence(read.file.clone(), compression, LINES);
        let format = SingleFile { pieces, read, batch_rows: spec.batch_rows.max(1) };
        Ok(SplitSource::open(spec, Box::new(format), job))
    }
}

struct SingleFile {
    pieces: Arc<Pieces>,
    read: ReadSpec,
    batch_rows: usize,
}

impl SplitFormat for SingleFile {
    fn splits(&self) -> Vec<(usize, u64)> {
        (0..self.pieces.count()).map(|piece| (piece, self.pieces.bytes(piece))).collect()
    }

    fn open(
        &self,
        split: usize,
        layout: &ReadLayout,
        job: &Arc<JobContext>,
    ) -> Result<Box<dyn SplitScan>> {
        let decoded = layout.schema.fields().iter().map(|field| instants::decoded(field));
        let decoded = Schema::new(decoded.collect::<Vec<_>>());
        let schema = match self.read.format {
            RowFormat::Json => Arc::new(decoded),
            RowFormat::DebeziumJson => debezium::schema(&decoded),
        };
        let records = JsonRecords {
            layout: JsonLayout::Lines,
            ignore_errors: self.read.ignore_errors,
            skipped: 0,
            schema,
            constants: Vec::new(),
            batch_rows: self.batch_rows,
        };
        Ok(Box::new(SingleFileScan {
            blocks: TextBlocks::new(&self.pieces, split, &job.env),
            records,
            format: self.read.format,
            columns: layout.schema.clone(),
        }))
    }
}

struct SingleFileScan {
    blocks: TextBlocks,
    records: JsonRecords,
    format: RowFormat,
    /// The columns that are read, in the table's types.
    columns: SchemaRef,
}

impl SingleFileScan {
    fn finished(&self, decoded: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let file = &self.blocks.name();
        let columns = decoded.iter().zip(self.columns.fields());
        columns.map(|(column, field)| instants::finished(column, field, file)).collect()
    }
}

impl SplitScan for SingleFileScan {
    fn step(&mut self, cx: &OperatorContext<'_>) -> Result<SplitProgress> {
        if !self.blocks.ready(cx.waker)? {
            return Ok(SplitProgress::Wait);
        }
        let (block, file) = self.blocks.block_and_name();
        let decoded = self.records.decode(block, file)?;
        cx.job.count_skipped(&mut self.records.skipped);
        match (decoded, self.format) {
            (Decoded::Rows(columns, rows), RowFormat::Json) if rows > 0 => {
                Ok(SplitProgress::Rows(self.finished(&columns)?, rows))
            }
            (Decoded::Rows(records, rows), RowFormat::DebeziumJson) if rows > 0 => {
                let (columns, kinds) = debezium::changes(&records, self.blocks.name())?;
                Ok(SplitProgress::Changes(self.finished(&columns)?, kinds))
            }
            (decoded, _) => self.blocks.go_on(decoded),
        }
    }
}
