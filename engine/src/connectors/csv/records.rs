//! Records of delimited text to columns, whatever the text comes from.

use arrow::array::{ArrayRef, BooleanBufferBuilder, new_null_array};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use thalweg_runtime::{Error, Result};

use super::columns::{column_names, header_name};
use super::error::{bad_value, ragged, unclosed_quote};
use super::parse::ColumnFields;
use crate::connectors::scan::{apply_mask, constant};
use crate::connectors::text::{Block, Decoded, Field, RecordEnd, Structure};

/// Bytes of text that a batch is parsed from at most.
const BATCH_TEXT_BYTES: usize = 2 << 20;

/// A column that is read.
pub struct Column {
    /// Where it comes from.
    pub origin: Origin,
    /// Its name, for messages.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
}

/// Where a column comes from.
pub enum Origin {
    /// A field of each record.
    Field(usize),
    /// The same value for every row.
    Constant(ScalarValue),
}

/// How records are read.
pub struct CsvRecords {
    /// What ends records and fields.
    pub structure: Structure,
    /// Unquoted text that means NULL.
    pub null: Option<Vec<u8>>,
    /// Whether records that cannot be read are left out.
    pub ignore_errors: bool,
    /// Records left out that nobody has been told of.
    pub skipped: usize,
    /// Whether the text begins with a header.
    pub header: bool,
    /// Whether the header must name the columns.
    pub check_names: bool,
    /// Whether types were guessed.
    pub guessed: bool,
    /// The columns of the text.
    pub names: Vec<String>,
    /// The columns that are read.
    pub columns: Vec<Column>,
    /// Rows of a batch at most.
    pub batch_rows: usize,
    /// The fields of the records in hand.
    pub fields: Vec<Field>,
    /// Where each record begins.
    pub starts: Vec<usize>,
}

impl CsvRecords {
    /// Takes a batch of records from a block. `file` is the text's name in messages.
    pub fn decode(&mut self, block: &mut Block, file: &str) -> Result<Decoded> {
        if block.first && self.header && !self.skip_header(block, file)? {
            return Ok(Decoded::NeedsMore);
        }
        self.fields.clear();
        self.starts.clear();
        let from = block.at;
        let whole = self.take_records(block, file)?;
        if self.starts.is_empty() {
            return Ok(match whole {
                true => Decoded::Finished,
                false if block.at > from => Decoded::Rows(Vec::new(), 0),
                false => Decoded::NeedsMore,
            });
        }
        let (columns, rows) = self.parse(block, file)?;
        Ok(Decoded::Rows(columns, rows))
    }

    /// Passes over the header; false if it is not there yet.
    fn skip_header(&mut self, block: &mut Block, file: &str) -> Result<bool> {
        let structure = self.structure;
        let mut fields = Vec::new();
        block.at = behind_line_ends(&block.bytes, block.at);
        match structure.record(&block.bytes, block.at, block.last, &mut fields) {
            RecordEnd::NeedsMore => return Ok(false),
            RecordEnd::Finished => block.at = block.bytes.len(),
            RecordEnd::At(next) => {
                if fields.last().is_some_and(|field| field.unclosed) {
                    let line = block.line_of(block.at);
                    return Err(unclosed_quote(file, line));
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
                    return Err(other_columns(file, &names, &self.names));
                }
            }
        }
        block.first = false;
        Ok(true)
    }

    /// Takes records of a batch; true if no further one belongs to the block.
    fn take_records(&mut self, block: &mut Block, file: &str) -> Result<bool> {
        let (structure, width) = (self.structure, self.names.len());
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
                    return Err(unclosed_quote(file, line));
                }
                self.skipped += 1;
                continue;
            }
            if found != width {
                self.fields.truncate(before);
                if !self.ignore_errors {
                    return Err(ragged(file, block.line_of(first), found, width));
                }
                self.skipped += 1;
                continue;
            }
            self.starts.push(first);
        }
        Ok(false)
    }

    fn parse(&mut self, block: &Block, file: &str) -> Result<(Vec<ArrayRef>, usize)> {
        let rows = self.starts.len();
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
                return Err(bad_value(file, line, index, &column.name, value, &column.data_type));
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
