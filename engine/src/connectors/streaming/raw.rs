//! Lines as they are: each is one value of text or bytes, without its line end.

use std::sync::Arc;

use arrow::array::builder::make_view;
use arrow::array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use thalweg_runtime::{Error, Result};

use crate::connectors::rejects::Rejects;
use crate::connectors::scan::ReadLayout;
use crate::connectors::text::{Block, Decoded};

/// Bytes of text that a batch has at most, unless it is one line.
const BATCH_TEXT_BYTES: usize = 2 << 20;

/// How lines are read.
pub struct RawRecords {
    /// The type of the column, if it is read.
    data_type: Option<DataType>,
    batch_rows: usize,
    /// The lines that are no text.
    pub rejects: Rejects,
    /// Where the lines in hand lie.
    lines: Vec<(usize, usize)>,
}

impl RawRecords {
    /// Reads the lines of a table of one column.
    pub fn new(layout: &ReadLayout, batch_rows: usize, rejects: Rejects) -> Self {
        let data_type = layout.schema.fields().first().map(|field| field.data_type().clone());
        RawRecords { data_type, batch_rows, rejects, lines: Vec::new() }
    }

    /// Where the lines of the last batch lie in the block.
    pub fn places(&self) -> &[(usize, usize)] {
        &self.lines
    }

    /// Takes a batch of lines from a block of a text called `name`.
    pub fn decode(&mut self, block: &mut Block, name: &str) -> Result<Decoded> {
        self.lines.clear();
        let from = block.at;
        while self.lines.len() < self.batch_rows && block.at - from < BATCH_TEXT_BYTES {
            let end = match memchr::memchr(b'\n', &block.bytes[block.at..]) {
                Some(length) => block.at + length,
                None if block.last && block.at < block.bytes.len() => block.bytes.len(),
                None => break,
            };
            let returned = end > block.at && block.bytes[end - 1] == b'\r';
            self.lines.push((block.at, end - usize::from(returned)));
            block.at = (end + 1).min(block.bytes.len());
        }
        if self.lines.is_empty() {
            return Ok(Decoded::NeedsMore);
        }
        block.first = false;
        if self.data_type.as_ref().is_some_and(|of| *of != DataType::Binary) {
            self.reject_what_is_no_text(block, from, name)?;
        }
        let rows = self.lines.len();
        let columns = match &self.data_type {
            None => Vec::new(),
            Some(DataType::Binary) => {
                vec![cast(&self.views(block, from)?, &DataType::Binary)?]
            }
            Some(_) => vec![self.views(block, from)?],
        };
        Ok(Decoded::Rows(columns, rows))
    }

    fn views(&self, block: &Block, from: usize) -> Result<ArrayRef> {
        let text = Buffer::from(&block.bytes[from..block.at]);
        let view = |&(start, end): &(usize, usize)| {
            make_view(&block.bytes[start..end], 0, (start - from) as u32)
        };
        let views: ScalarBuffer<u128> = self.lines.iter().map(view).collect();
        if self.data_type == Some(DataType::Binary) {
            let array = BinaryViewArray::try_new(views, vec![text], None)?;
            return Ok(Arc::new(array));
        }
        Ok(Arc::new(StringViewArray::try_new(views, vec![text], None)?))
    }

    fn reject_what_is_no_text(&mut self, block: &Block, from: usize, name: &str) -> Result<()> {
        if std::str::from_utf8(&block.bytes[from..block.at]).is_ok() {
            return Ok(());
        }
        let mut texts = Vec::with_capacity(self.lines.len());
        for &line in &self.lines {
            match std::str::from_utf8(&block.bytes[line.0..line.1]) {
                Ok(_) => texts.push(line),
                Err(_) => {
                    self.rejects.reject(block, line, || not_text(block.line_of(line.0), name))?;
                }
            }
        }
        self.lines = texts;
        self.rejects.place(block);
        Ok(())
    }
}

fn not_text(line: u64, name: &str) -> Error {
    Error::User {
        message: format!("line {line} of {name} is not valid UTF-8"),
        detail: None,
        hint: Some("declare the column as BYTEA".into()),
    }
}
