//! Scanning JSON: pieces of files as splits.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use thalweg_runtime::Result;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceSpec};

use super::layout::JsonLayout;
use super::records::JsonRecords;
use crate::connectors::files::partition_value;
use crate::connectors::metadata::RowOrigin;
use crate::connectors::rejects::Rejects;
use crate::connectors::scan::{
    FileScan, ReadLayout, SplitFormat, SplitProgress, SplitScan, SplitSource, Wanted,
    file_may_match,
};
use crate::connectors::text::{Pieces, Structure, TextBlocks};

/// Objects have no quoting that spans lines.
const LINES: Structure = Structure { delimiter: b'\n', quote: None, empty_lines: false };

/// Opens the source.
pub fn open(spec: &SourceSpec, scan: FileScan, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
    let (mut splits, mut files) = (Vec::new(), Vec::new());
    for file in scan.files.iter().filter(|f| file_may_match(spec, &scan, f)) {
        let pieces = match scan.json_layout {
            JsonLayout::Lines => Pieces::new(file.clone(), scan.kind.compression, LINES),
            JsonLayout::Values => Pieces::in_sequence(file.clone(), scan.kind.compression, LINES),
        };
        (0..pieces.count()).for_each(|piece| splits.push((files.len(), piece)));
        files.push(pieces);
    }
    Ok(SplitSource::open(
        spec,
        Box::new(JsonFormat { spec: spec.clone(), scan, files, splits }),
        job,
    ))
}

struct JsonFormat {
    spec: SourceSpec,
    scan: FileScan,
    files: Vec<Arc<Pieces>>,
    /// File and piece of each split.
    splits: Vec<(usize, usize)>,
}

impl SplitFormat for JsonFormat {
    fn splits(&self) -> Vec<(usize, u64)> {
        let bytes = |&(file, piece): &(usize, usize)| self.files[file].bytes(piece);
        self.splits.iter().enumerate().map(|(i, split)| (i, bytes(split))).collect()
    }

    fn split_name(&self, split: usize) -> Option<String> {
        let (file, piece) = *self.splits.get(split)?;
        Some(self.files[file].name_of(piece))
    }

    fn open(
        &self,
        split: usize,
        layout: &ReadLayout,
        job: &Arc<JobContext>,
    ) -> Result<Box<dyn SplitScan>> {
        let (file, piece) = self.splits[split];
        let pieces = &self.files[file];
        let own = self.spec.schema.fields().len() - self.scan.partition_columns.len();
        let (mut fields, mut constants) = (Vec::new(), Vec::new());
        for (place, &c) in layout.columns.iter().enumerate() {
            let field = self.spec.schema.field(c);
            if c < own {
                // The decoder must not refuse what the table allows.
                fields.push(Field::new(field.name(), field.data_type().clone(), true));
            } else {
                let text = pieces.file().partition.get(c - own).and_then(|v| v.as_deref());
                constants.push((place, partition_value(text, field.data_type())?));
            }
        }
        let records = JsonRecords {
            layout: self.scan.json_layout,
            rejects: Rejects::new(self.scan.bad_records),
            places: Vec::new(),
            schema: Arc::new(Schema::new(fields)),
            constants,
            batch_rows: self.spec.batch_rows.max(1),
        };
        Ok(Box::new(JsonScan { blocks: TextBlocks::new(pieces, piece, &job.env), records }))
    }
}

/// One piece being decoded.
struct JsonScan {
    blocks: TextBlocks,
    records: JsonRecords,
}

impl SplitScan for JsonScan {
    fn step(&mut self, cx: &OperatorContext<'_>, _wanted: Wanted<'_>) -> Result<SplitProgress> {
        if !self.blocks.ready(cx.waker)? {
            return Ok(SplitProgress::Wait);
        }
        let (block, file) = self.blocks.block_and_name();
        let decoded = self.records.decode(block, file)?;
        self.records.rejects.deliver(file, cx.job)?;
        self.blocks.go_on(decoded)
    }

    fn origin(&self) -> RowOrigin {
        self.blocks.origin(&self.records.places)
    }
}
