//! How results are printed: one file a format.
//!
//! A [`ResultFormat`] turns one result's batches into bytes. It never holds a whole result, except the table format on
//! a terminal, which holds the rows it shows.

mod cell;
mod delimited;
mod html;
mod insert;
mod json;
mod line;
mod markdown;
mod none;
mod table;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::error::Result;

/// A format's name on the command line and in `.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatName {
    /// A box with borders.
    Table,
    /// Comma-separated values.
    Csv,
    /// Tab-separated values, quoted like CSV.
    Tsv,
    /// One JSON array of objects.
    Json,
    /// One JSON object a line.
    JsonLines,
    /// A Markdown table.
    Markdown,
    /// One `name = value` a line, rows separated by a blank line.
    Line,
    /// An HTML table.
    Html,
    /// INSERT statements.
    Insert,
    /// Nothing, though every row is computed.
    None,
}

impl FormatName {
    /// All formats with their names.
    pub const ALL: [(&'static str, FormatName); 10] = [
        ("table", FormatName::Table),
        ("csv", FormatName::Csv),
        ("tsv", FormatName::Tsv),
        ("json", FormatName::Json),
        ("jsonl", FormatName::JsonLines),
        ("markdown", FormatName::Markdown),
        ("line", FormatName::Line),
        ("html", FormatName::Html),
        ("insert", FormatName::Insert),
        ("none", FormatName::None),
    ];

    /// The format of a name; the error lists all names.
    pub fn from_name(name: &str) -> Result<FormatName, String> {
        let found = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("unknown format \"{name}\", expected one of: {}", names.join(", "))
        })
    }
}

/// Where a result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Display {
    /// Columns of the terminal; `None` when the output is no terminal, and nothing is cut then.
    pub width: Option<usize>,
    /// The table that the insert format names.
    pub insert_table: String,
}

/// Prints one result. Bytes are appended to `out`; the caller writes them and empties it.
pub trait ResultFormat {
    /// Before the first batch.
    fn begin(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<()>;
    /// The next rows.
    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;
    /// After the last batch.
    fn end(&mut self, out: &mut Vec<u8>) -> Result<()>;
}

/// A printer for one result.
pub fn result_format(name: FormatName, display: &Display) -> Box<dyn ResultFormat> {
    match name {
        FormatName::Table => Box::new(table::Table::new(display.width)),
        FormatName::Csv => Box::new(delimited::Delimited::new(b',')),
        FormatName::Tsv => Box::new(delimited::Delimited::new(b'\t')),
        FormatName::Json => Box::new(json::Json::array()),
        FormatName::JsonLines => Box::new(json::Json::lines()),
        FormatName::Markdown => Box::new(markdown::Markdown::default()),
        FormatName::Line => Box::new(line::Line::default()),
        FormatName::Html => Box::new(html::Html::default()),
        FormatName::Insert => Box::new(insert::Insert::new(&display.insert_table)),
        FormatName::None => Box::new(none::Nothing),
    }
}

#[cfg(test)]
mod tests;
