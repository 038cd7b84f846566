//! Records that cannot be read: each is an error, is left out and counted, or becomes a row of a dead-letter table.
//!
//! Invariant: a record that is left out is counted, and one for a dead-letter table is in it before any row that was read
//! behind its batch leaves. A dead-letter table that is gone is an error: no record is lost in silence.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{
    ArrayRef, BinaryBuilder, Int64Array, RecordBatch, StringArray, StringBuilder, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use serde::{Deserialize, Serialize};
use thalweg_runtime::job::JobContext;
use thalweg_runtime::{Error, Result};

use super::memory;
use super::text::Block;

/// The columns of a dead-letter table, in the order in which one is made.
pub(crate) const COLUMNS: [(&str, DataType); 4] = [
    ("source", DataType::Utf8View),
    ("line", DataType::Int64),
    ("raw", DataType::Utf8View),
    ("error", DataType::Utf8View),
];

/// What becomes of a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum BadRecords {
    /// It is an error.
    #[default]
    Fail,
    /// It is left out and counted.
    LeaveOut,
    /// It becomes a row of the table in memory of this number, and is counted.
    Keep(u64),
}

impl BadRecords {
    /// What the options of a table say: a dead-letter table counts before the wish to leave records out.
    pub fn of(dead_letters: Option<u64>, ignore_errors: bool) -> Self {
        match (dead_letters, ignore_errors) {
            (Some(table), _) => BadRecords::Keep(table),
            (None, true) => BadRecords::LeaveOut,
            (None, false) => BadRecords::Fail,
        }
    }
}

/// The records of one reader that could not be read.
#[derive(Debug)]
pub struct Rejects {
    policy: BadRecords,
    /// Records left out that nobody has been told of.
    left_out: usize,
    /// Records whose lines are not known yet.
    unplaced: Vec<Letter>,
    placed: Vec<Letter>,
}

#[derive(Debug)]
struct Letter {
    /// Where it begins in the block, later the line in which it begins.
    at: u64,
    raw: Vec<u8>,
    error: String,
}

impl Rejects {
    /// None yet.
    pub fn new(policy: BadRecords) -> Self {
        Rejects { policy, left_out: 0, unplaced: Vec::new(), placed: Vec::new() }
    }

    /// Takes a record that lies between two bytes of a block, or fails with its error.
    pub fn reject(
        &mut self,
        block: &Block,
        (start, end): (usize, usize),
        error: impl FnOnce() -> Error,
    ) -> Result<()> {
        match self.policy {
            BadRecords::Fail => return Err(error()),
            BadRecords::LeaveOut => self.left_out += 1,
            BadRecords::Keep(_) => {
                let raw = block.bytes[start..end].trim_ascii_end().to_vec();
                let error = message(error());
                self.unplaced.push(Letter { at: start as u64, raw, error });
            }
        }
        Ok(())
    }

    /// How many records were left out, from now on counted anew.
    #[cfg(test)]
    pub fn take_left_out(&mut self) -> usize {
        std::mem::take(&mut self.left_out)
    }

    /// Finds the lines of the records that were taken from a block, before it moves on.
    pub fn place(&mut self, block: &Block) {
        if self.unplaced.is_empty() {
            return;
        }
        self.unplaced.sort_by_key(|letter| letter.at);
        let starts: Vec<usize> = self.unplaced.iter().map(|letter| letter.at as usize).collect();
        for (mut letter, line) in self.unplaced.drain(..).zip(block.lines_of(&starts)) {
            letter.at = line;
            self.placed.push(letter);
        }
    }

    /// Tells the job of the records, and hands them to their table. `source` is the text's name.
    pub fn deliver(&mut self, source: &str, job: &JobContext) -> Result<()> {
        job.count_skipped(&mut self.left_out);
        let BadRecords::Keep(table) = self.policy else { return Ok(()) };
        if self.placed.is_empty() {
            return Ok(());
        }
        let letters = std::mem::take(&mut self.placed);
        memory::append_to(table, |schema| rows(&letters, source, schema)).map_err(|error| {
            Error::User {
                message: format!("bad records of {source} have no dead-letter table any more"),
                detail: Some(error.to_string()),
                hint: Some("make the table that has the option 'dead-letter.table' anew".into()),
            }
        })?;
        job.rejected_records.fetch_add(letters.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn message(error: Error) -> String {
    match error {
        Error::User { message, .. } => message,
        other => other.to_string(),
    }
}

/// The records as rows of a table with these columns.
fn rows(letters: &[Letter], source: &str, schema: &Arc<Schema>) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| {
        let column: ArrayRef = match field.name().as_str() {
            "source" => Arc::new(StringArray::from(vec![source; letters.len()])),
            "line" => Arc::new(Int64Array::from_iter_values(letters.iter().map(|l| l.at as i64))),
            "raw" => raw(letters, field.data_type()),
            "error" => Arc::new(StringArray::from_iter_values(letters.iter().map(|l| &l.error))),
            _ => new_null_array(field.data_type(), letters.len()),
        };
        Ok(cast(&column, field.data_type())?)
    });
    Ok(RecordBatch::try_new(schema.clone(), columns.collect::<Result<_>>()?)?)
}

/// The bytes of records; in text those that are none stand as `\x…`.
fn raw(letters: &[Letter], data_type: &DataType) -> ArrayRef {
    if data_type.is_binary() || *data_type == DataType::BinaryView {
        let mut bytes = BinaryBuilder::new();
        letters.iter().for_each(|letter| bytes.append_value(&letter.raw));
        return Arc::new(bytes.finish());
    }
    let mut texts = StringBuilder::new();
    for letter in letters {
        match std::str::from_utf8(&letter.raw) {
            Ok(text) => texts.append_value(text),
            Err(_) => {
                let hex: String = letter.raw.iter().map(|byte| format!("{byte:02x}")).collect();
                texts.append_value(format!("\\x{hex}"));
            }
        }
    }
    Arc::new(texts.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Table;
    use crate::connectors::text::BlockBytes;
    use crate::connectors::{MemoryTable, testing};

    fn block(text: &[u8]) -> Block {
        let mut block = Block::unread();
        block.bytes = BlockBytes::Own(text.to_vec());
        block
    }

    #[test]
    fn an_error_stays_one_unless_records_are_left_out() {
        let block = block(b"a\nb\n");
        let error = || Error::user("bad");
        assert!(Rejects::new(BadRecords::Fail).reject(&block, (0, 2), error).is_err());
        let mut rejects = Rejects::new(BadRecords::LeaveOut);
        rejects.reject(&block, (0, 2), error).unwrap();
        let job = testing::job();
        rejects.deliver("f", &job).unwrap();
        assert_eq!(job.skipped_records.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn kept_records_have_their_lines_in_order() {
        let fields = COLUMNS.map(|(name, of)| arrow::datatypes::Field::new(name, of, true));
        let table = MemoryTable::new(Arc::new(Schema::new(fields.to_vec())), Vec::new());
        let block = block(b"a\nb\xff\r\nc\n");
        let mut rejects = Rejects::new(BadRecords::Keep(table.id()));
        rejects.reject(&block, (6, 8), || Error::user("no c")).unwrap();
        rejects.reject(&block, (2, 6), || Error::user("no b")).unwrap();
        rejects.place(&block);
        let job = testing::job();
        rejects.deliver("f", &job).unwrap();
        let batches = table.batches();
        assert_eq!(testing::rows_as_text(&batches[0]), ["f|2|\\x62ff|no b", "f|3|c|no c"]);
        assert_eq!(job.rejected_records.load(Ordering::Relaxed), 2);
        assert_eq!(table.schema().fields().len(), 4);
    }

    #[test]
    fn a_table_that_is_gone_is_an_error() {
        let block = block(b"a\n");
        let mut rejects = Rejects::new(BadRecords::Keep(u64::MAX));
        rejects.reject(&block, (0, 2), || Error::user("bad")).unwrap();
        rejects.place(&block);
        let error = rejects.deliver("f", &testing::job()).unwrap_err().to_string();
        assert!(error.contains("no dead-letter table"), "{error}");
    }
}
