//! Reads a file of objects from its beginning, as one split.

use std::sync::Arc;

use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::records::ObjectRecords;
use super::table::ReadSpec;
use crate::connectors::files::strip_compression;
use crate::connectors::metadata::RowOrigin;
use crate::connectors::scan::{
    ReadLayout, SplitFormat, SplitProgress, SplitScan, SplitSource, Wanted,
};
use crate::connectors::text::{Pieces, Structure, TextBlocks};

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
        let ReadSpec { format, bad_records, .. } = self.read;
        Ok(Box::new(SingleFileScan {
            blocks: TextBlocks::new(&self.pieces, split, &job.env),
            records: ObjectRecords::new(format, &layout.schema, bad_records, self.batch_rows),
        }))
    }
}

struct SingleFileScan {
    blocks: TextBlocks,
    records: ObjectRecords,
}

impl SplitScan for SingleFileScan {
    fn step(&mut self, cx: &OperatorContext<'_>, _wanted: Wanted<'_>) -> Result<SplitProgress> {
        if !self.blocks.ready(cx.waker)? {
            return Ok(SplitProgress::Wait);
        }
        let (block, file) = self.blocks.block_and_name();
        let decoded = self.records.decode(block, file)?;
        self.records.rejects().deliver(file, cx.job)?;
        self.blocks.go_on(decoded)
    }

    fn origin(&self) -> RowOrigin {
        self.blocks.origin(self.records.places())
    }
}
