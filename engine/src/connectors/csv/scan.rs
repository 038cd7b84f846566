//! Scanning delimited text: pieces of files as splits, records to columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBufferBuilder, new_null_array};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::columns::{column_names, header_name};
use super::error::{bad_value, ragged, unclosed_quote};
use super::infer::structure;
use super::parse::ColumnFields;
use crate::connectors::files::partition_value;
use crate::connectors::scan::{
    FileScan, ReadLayout, SplitFormat, SplitProgress, SplitScan, SplitSource, apply_mask, constant,
    file_may_match,
};
use crate::connectors::text::{Field, Pieces, RecordEnd, Structure, TextBlocks};

/// Bytes of text that a batch is parsed from at most.
const BATCH_TEXT_BYTES: usize = 2 << 20;

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
        Ok(Box::new(CsvScan {
            blocks: TextBlocks::new(pieces, piece, &job.env),
            structure: structure(&self.scan.csv, names.len()),
            null: self.scan.csv.null.clone().map(String::into_bytes),
            ignore_errors: self.scan.csv.ignore_errors,
            skipped: 0,
            header: self.scan.csv_header,
            check_names: self.scan.csv_by_name,
            guessed: self.scan.csv_guessed,
            names,
            columns,
            batch_rows: self.spec.batch_rows.max(1),
            fields: Vec::new(),
            starts: Vec::new(),
        }))
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

/// A column that is read, in one file.
struct Column {
    origin: Origin,
    name: String,
    data_type: DataType,
}

enum Origin {
    /// A field of each record.
    Field(usize),
    /// The same value for every row.
    Constant(ScalarValue),
}

/// One piece being parsed.
struct CsvScan {
    blocks: TextBlocks,
    structure: Structure,
    null: Option<Vec<u8>>,
    ignore_errors: bool,
    /// Records left out that the job has not been told of.
    skipped: usize,
    header: bool,
    check_names: bool,
    guessed: bool,
    /// The columns of the file.
    names: Vec<String>,
    columns: Vec<Column>,
    batch_rows: usize,
    /// The fields of the records in hand, and where each record begins.
    fields: Vec<Field>,
    starts: Vec<usize>,
}

impl SplitScan for CsvScan {
    fn step(&mut self, cx: &OperatorContext<'_>) -> Result<SplitProgress> {
        if !self.blocks.ready(cx.waker)? {
            return Ok(SplitProgress::Wait);
        }
        if self.blocks.block().first && self.header && !self.skip_header()? {
            return Ok(SplitProgress::Working);
        }
        self.fields.clear();
        self.starts.clear();
        let whole = self.take_records()?;
        cx.job.count_skipped(&mut self.skipped);
        if self.starts.is_empty() {
            return match whole {
                true => Ok(SplitProgress::Finished),
                false => {
                    self.blocks.lengthen()?;
                    Ok(SplitProgress::Working)
                }
            };
        }
        let (columns, rows) = self.parse()?;
        cx.job.count_skipped(&mut self.skipped);
        Ok(if rows == 0 { SplitProgress::Working } else { SplitProgress::Rows(columns, rows) })
    }
}

impl CsvScan {
    /// Passes over the header; false if it is not there yet.
    fn skip_header(&mut self) -> Result<bool> {
        let structure = self.structure;
        let block = self.blocks.block();
        let mut fields = Vec::new();
        block.at = behind_line_ends(&block.bytes, block.at);
        match structure.record(&block.bytes, block.at, block.last, &mut fields) {
            RecordEnd::NeedsMore => {
                self.blocks.lengthen()?;
                return Ok(false);
            }
            RecordEnd::Finished => block.at = block.bytes.len(),
            RecordEnd::At(next) => {
                if fields.last().is_some_and(|field| field.unclosed) {
                    let line = block.line_of(block.at);
                    return Err(unclosed_quote(self.blocks.file_name(), line));
                }
                let mut text = Vec::new();
                let names = fields.iter().map(|f| {
                    let raw = &block.bytes[f.start..f.end];
                    match f.escaped {
                        true => structure.unescape(raw, &mut text),
                        false => text = raw.to_vec(),
                    }
                    header_name(&text, f.quoted)
                });
                let names = column_names(Some(names.collect()), fields.len());
                block.at = next;
                if self.check_names && names != self.names {
                    return Err(other_columns(self.blocks.file_name(), &names, &self.names));
                }
            }
        }
        self.blocks.block().first = false;
        Ok(true)
    }

    /// Takes records of a batch; true if no further one belongs to the block.
    fn take_records(&mut self) -> Result<bool> {
        let (structure, width) = (self.structure, self.names.len());
        let name = self.blocks.file_name().to_string();
        let block = self.blocks.block();
        let from = block.at;
        while self.starts.len() < self.batch_rows && block.at - from < BATCH_TEXT_BYTES {
            if !structure.empty_lines {
                block.at = behind_line_ends(&block.bytes, block.at);
            }
            if block.is_used_up() {
                return Ok(true);
            }
            let before = self.fields.len();
            match structure.record(&block.bytes, block.at, block.last, &mut self.fields) {
                RecordEnd::At(next) => block.at = next,
                RecordEnd::NeedsMore => {
                    self.fields.truncate(before);
                    return Ok(false);
                }
                RecordEnd::Finished => {
                    block.at = block.bytes.len();
                    return Ok(true);
                }
            }
            let found = self.fields.len() - before;
            let first = self.fields[before].start;
            if let Some(open) = self.fields.last().filter(|field| field.unclosed) {
                let line = block.line_of(open.start);
                self.fields.truncate(before);
                if !self.ignore_errors {
                    return Err(unclosed_quote(&name, line));
                }
                self.skipped += 1;
                continue;
            }
            if found != width {
                self.fields.truncate(before);
                if !self.ignore_errors {
                    return Err(ragged(&name, block.line_of(first), found, width));
                }
                self.skipped += 1;
                continue;
            }
            self.starts.push(first);
        }
        Ok(false)
    }

    fn parse(&mut self) -> Result<(Vec<ArrayRef>, usize)> {
        let rows = self.starts.len();
        let file = self.blocks.file_name().to_string();
        let block = self.blocks.block();
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut bad_rows: Vec<usize> = Vec::new();
        for column in &self.columns {
            let index = match &column.origin {
                Origin::Constant(value) => {
                    columns.push(match value.is_null() {
                        true => new_null_array(&column.data_type, rows),
                        false => constant(value, rows)?,
                    });
                    continue;
                }
                Origin::Field(index) => *index,
            };
            let fields = ColumnFields {
                bytes: &block.bytes,
                fields: &self.fields,
                stride: self.names.len(),
                index,
                structure: self.structure,
                null: self.null.as_deref(),
                guessed: self.guessed,
            };
            let (array, bad) = fields.parse(&column.data_type)?;
            if let Some(row) = bad.first()
                && !self.ignore_errors
            {
                let field = self.fields[row.0 * self.names.len() + index];
                let line = block.line_of(field.start);
                let value = &block.bytes[field.start..field.end];
                return Err(bad_value(&file, line, index, &column.name, value, &column.data_type));
            }
            bad_rows.extend(bad.into_iter().map(|b| b.0));
            columns.push(array);
        }
        let kept = leave_out(&mut columns, rows, &bad_rows)?;
        self.skipped += rows - kept;
        Ok((columns, kept))
    }
}

/// The first byte behind empty lines.
fn behind_line_ends(bytes: &[u8], at: usize) -> usize {
    let at = at.min(bytes.len());
    at + bytes[at..].iter().take_while(|b| matches!(b, b'\n' | b'\r')).count()
}

/// Leaves rows out of columns; the answer is how many are left.
fn leave_out(columns: &mut [ArrayRef], rows: usize, bad: &[usize]) -> Result<usize> {
    if bad.is_empty() {
        return Ok(rows);
    }
    let mut kept = BooleanBufferBuilder::new(rows);
    kept.append_n(rows, true);
    bad.iter().for_each(|&row| kept.set_bit(row, false));
    let kept = kept.finish();
    apply_mask(columns, &kept)?;
    Ok(kept.count_set_bits())
}

fn other_columns(file: &str, found: &[String], wanted: &[String]) -> Error {
    Error::User {
        message: format!("the CSV file \"{file}\" has other columns than the table"),
        detail: Some(format!(
            "its header is {}; the table has {}",
            found.join(", "),
            wanted.join(", ")
        )),
        hint: Some("set 'csv.header' = 'false' if the first line is no header".into()),
    }
}
