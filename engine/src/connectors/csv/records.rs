//! Records of delimited text, whatever the text comes from; their columns are made in `rows.rs`.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use thalweg_runtime::{Error, Result};

use super::columns::{column_names, header_name};
use super::error::{ragged, unclosed_quote};
use crate::connectors::rejects::Rejects;
use crate::connectors::text::{Block, Decoded, Field, RecordEnd, RecordIndex, Stretch, Structure};

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
    /// What becomes of records that cannot be read.
    pub rejects: Rejects,
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
    /// The records in hand.
    pub found: RecordIndex,
    /// The numbers of those that the last batch is made of, if these are not all.
    pub chosen: Option<Vec<u32>>,
}

impl CsvRecords {
    /// Takes a batch of records from a block. `file` is the text's name in messages.
    pub fn decode(&mut self, block: &mut Block, file: &str) -> Result<Decoded> {
        if let Some(without_records) = self.find(block, file)? {
            return Ok(without_records);
        }
        let (columns, rows) = self.all_columns(block, file)?;
        self.rejects.place(block);
        Ok(Decoded::Rows(columns, rows))
    }

    /// Finds the records of a batch; what the block came to if there are none.
    pub(super) fn find(&mut self, block: &mut Block, file: &str) -> Result<Option<Decoded>> {
        if block.first && self.header && !self.skip_header(block, file)? {
            return Ok(Some(Decoded::NeedsMore));
        }
        self.found.clear();
        self.chosen = None;
        let from = block.at;
        let whole = self.take_records(block, file)?;
        if self.found.len() > 0 {
            return Ok(None);
        }
        self.rejects.place(block);
        Ok(Some(match whole {
            true => Decoded::Finished,
            false if block.at > from => Decoded::Rows(Vec::new(), 0),
            false => Decoded::NeedsMore,
        }))
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
        let (text_end, records_max) = (block.at + BATCH_TEXT_BYTES, self.batch_rows);
        let is_full =
            |records: &RecordIndex, at: usize| records.len() >= records_max || at >= text_end;
        let mut fields = Vec::new();
        while !is_full(&self.found, block.at) {
            let stretch = Stretch {
                bytes: &block.bytes,
                from: block.at,
                until: block.end.min(text_end),
                records_max,
            };
            block.at = self.found.scan(&self.structure, stretch);
            if is_full(&self.found, block.at) {
                break;
            }
            match self.take_record(block, &mut fields, file)? {
                Taken::Record => {}
                Taken::NeedsMore => return Ok(false),
                Taken::Finished => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Takes one record, whatever it is like.
    fn take_record(
        &mut self,
        block: &mut Block,
        fields: &mut Vec<Field>,
        file: &str,
    ) -> Result<Taken> {
        fields.clear();
        if !self.structure.empty_lines {
            block.at = behind_line_ends(&block.bytes, block.at);
        }
        if block.is_used_up() {
            return Ok(Taken::Finished);
        }
        let start = block.at;
        match self.structure.record(&block.bytes, block.at, block.last, fields) {
            RecordEnd::At(next) => block.at = next,
            RecordEnd::NeedsMore => return Ok(Taken::NeedsMore),
            RecordEnd::Finished => {
                block.at = block.bytes.len();
                return Ok(Taken::Finished);
            }
        }
        let (place, wanted) = ((start, block.at), self.names.len());
        let first = fields.first().map_or(start, |field| field.start);
        if let Some(open) = fields.last().filter(|field| field.unclosed) {
            self.rejects
                .reject(block, place, || unclosed_quote(file, block.line_of(open.start)))?;
        } else if fields.len() != wanted {
            let error = || ragged(file, block.line_of(first), fields.len(), wanted);
            self.rejects.reject(block, place, error)?;
        } else {
            self.found.push(fields);
        }
        Ok(Taken::Record)
    }

    /// Where the record of each row of the last batch begins and ends in the block.
    pub fn places(&self) -> Vec<(usize, usize)> {
        match &self.chosen {
            None => (0..self.found.len()).map(|record| self.found.place(record)).collect(),
            Some(chosen) => chosen.iter().map(|&r| self.found.place(r as usize)).collect(),
        }
    }
}

/// What became of an attempt to take a record.
enum Taken {
    /// It is among those found, or was left out.
    Record,
    /// It is not whole.
    NeedsMore,
    /// There is none.
    Finished,
}

/// The first byte behind empty lines.
fn behind_line_ends(bytes: &[u8], at: usize) -> usize {
    let at = at.min(bytes.len());
    at + bytes[at..].iter().take_while(|b| matches!(b, b'\n' | b'\r')).count()
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
