//! Scanning delimited text: pieces of files as splits, records to columns.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use thalweg_runtime::Result;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceSpec};

use super::infer::structure;
use super::records::{Column, CsvRecords, Origin};
use crate::connectors::files::partition_value;
use crate::connectors::metadata::RowOrigin;
use crate::connectors::rejects::Rejects;
use crate::connectors::scan::{
    FileScan, ReadLayout, SplitFormat, SplitProgress, SplitScan, SplitSource, Wanted,
    file_may_match,
};
use crate::connectors::text::{Pieces, RecordIndex, TextBlocks};

/// Opens the source.
pub fn open(spec: &SourceSpec, scan: FileScan, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
    let own = spec.schema.fields().len() - scan.partition_columns.len();
    let (mut splits, mut files) = (Vec::new(), Vec::new());
    for file in scan.files.iter().filter(|f| file_may_match(spec, &scan, f)) {
        let width = file.columns.as_ref().map_or(own, Vec::len);
        let pieces = Pieces::new(file.clone(), scan.kind.compression, structure(&scan.csv, width));
        (0..pieces.count()).for_each(|piece| splits.push((files.len(), piece)));
        files.push(pieces);
    }
    let format = CsvFormat { spec: spec.clone(), scan, own, files, splits };
    Ok(SplitSource::open(spec, Box::new(format), job))
}

struct CsvFormat {
    spec: SourceSpec,
    scan: FileScan,
    /// Columns that are in the files themselves.
    own: usize,
    files: Vec<Arc<Pieces>>,
    /// File and piece of each split.
    splits: Vec<(usize, usize)>,
}

impl SplitFormat for CsvFormat {
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
        let names = pieces.file().columns.clone().unwrap_or_else(|| self.table_names());
        let columns = layout
            .columns
            .iter()
            .map(|&c| self.column(c, pieces, &names))
            .collect::<Result<Vec<_>>>()?;
        let records = CsvRecords {
            structure: structure(&self.scan.csv, names.len()),
            null: self.scan.csv.null.clone().map(String::into_bytes),
            rejects: Rejects::new(self.scan.bad_records),
            header: self.scan.csv_header,
            check_names: self.scan.csv_by_name,
            guessed: self.scan.csv_guessed,
            found: RecordIndex::new(names.len()),
            names,
            columns,
            batch_rows: self.spec.batch_rows.max(1),
            chosen: None,
        };
        Ok(Box::new(CsvScan { blocks: TextBlocks::new(pieces, piece, &job.env), records }))
    }
}

impl CsvFormat {
    fn table_names(&self) -> Vec<String> {
        self.spec.schema.fields()[..self.own].iter().map(|f| f.name().clone()).collect()
    }

    fn column(&self, index: usize, pieces: &Pieces, names: &[String]) -> Result<Column> {
        let field = self.spec.schema.field(index);
        let file = pieces.file();
        let origin = if index >= self.own {
            let text = file.partition.get(index - self.own).and_then(|v| v.as_deref());
            Origin::Constant(partition_value(text, field.data_type())?)
        } else if file.columns.is_none() {
            Origin::Field(index)
        } else {
            match names.iter().position(|n| n == field.name()) {
                Some(position) => Origin::Field(position),
                None => Origin::Constant(ScalarValue::try_from(field.data_type())?),
            }
        };
        Ok(Column { origin, name: field.name().clone(), data_type: field.data_type().clone() })
    }
}

/// One piece being parsed.
struct CsvScan {
    blocks: TextBlocks,
    records: CsvRecords,
}

impl SplitScan for CsvScan {
    fn step(&mut self, cx: &OperatorContext<'_>, wanted: Wanted<'_>) -> Result<SplitProgress> {
        if !self.blocks.ready(cx.waker)? {
            return Ok(SplitProgress::Wait);
        }
        let (block, file) = self.blocks.block_and_name();
        if let Some(without_records) = self.records.find(block, file)? {
            self.records.rejects.deliver(file, cx.job)?;
            return self.blocks.go_on(without_records);
        }
        let (columns, rows) = self.records.wanted_columns(block, file, wanted)?;
        self.records.rejects.place(block);
        self.records.rejects.deliver(file, cx.job)?;
        Ok(SplitProgress::Wanted { columns, rows, seen: self.records.found.len() })
    }

    fn origin(&self) -> RowOrigin {
        self.blocks.origin(&self.records.places())
    }
}
