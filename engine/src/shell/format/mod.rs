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
mod lines;
mod literal;
mod markdown;
mod none;
mod table;
mod zone;

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
    /// The changes of a result as comma-separated values, with a column `op` before the others.
    Changelog,
    /// Nothing, though every row is computed.
    None,
}

impl FormatName {
    /// All formats with their names.
    pub const ALL: [(&'static str, FormatName); 11] = [
        ("table", FormatName::Table),
        ("csv", FormatName::Csv),
        ("tsv", FormatName::Tsv),
        ("json", FormatName::Json),
        ("jsonl", FormatName::JsonLines),
        ("markdown", FormatName::Markdown),
        ("line", FormatName::Line),
        ("html", FormatName::Html),
        ("insert", FormatName::Insert),
        ("changelog", FormatName::Changelog),
        ("none", FormatName::None),
    ];

    /// The format of a name; the error lists all names.
    pub fn from_name(name: &str) -> Result<FormatName, String> {
        let found = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, format)| *format).ok_or_else(|| {
            format!("unknown format \"{name}\", expected one of: {}", Self::names().join(", "))
        })
    }

    /// The names of all formats.
    pub fn names() -> [&'static str; 11] {
        Self::ALL.map(|(name, _)| name)
    }
}

/// Where a result goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Display {
    /// Columns of the terminal; `None` when the output is no terminal, and nothing is cut then.
    pub width: Option<usize>,
    /// The table that the insert format names, as the user wrote it.
    pub insert_table: String,
    /// The time zone in which the formats for people show points in time; `None` for UTC, which formats for programs
    /// always have.
    pub zone: Option<String>,
    /// Whether something has been printed to the same place before; some formats need a blank line between results.
    pub follows: bool,
}

/// Prints one result. Bytes are appended to `out`; the caller writes them and empties it.
pub trait ResultFormat {
    /// Before the first batch.
    fn begin(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<()>;
    /// The next rows.
    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;
    /// The next rows may be long in coming: nothing of those that came is kept back.
    fn pause(&mut self, _out: &mut Vec<u8>) {}
    /// After the last batch.
    fn end(&mut self, out: &mut Vec<u8>) -> Result<()>;
}

/// A printer for one result.
pub fn result_format(name: FormatName, display: &Display) -> Box<dyn ResultFormat> {
    match name {
        FormatName::Table => Box::new(table::Table::new(display)),
        FormatName::Csv | FormatName::Changelog => Box::new(delimited::Delimited::new(b',')),
        FormatName::Tsv => Box::new(delimited::Delimited::new(b'\t')),
        FormatName::Json => Box::new(json::Json::array()),
        FormatName::JsonLines => Box::new(json::Json::lines()),
        FormatName::Markdown => Box::new(markdown::Markdown::new(display)),
        FormatName::Line => Box::new(line::Line::new(display)),
        FormatName::Html => Box::new(html::Html::new(display)),
        FormatName::Insert => Box::new(insert::Insert::new(&display.insert_table)),
        FormatName::None => Box::new(none::Nothing),
    }
}

/// A printer of a result that is text line by line, such as a plan, for people: neither a name nor borders.
pub fn text_lines() -> Box<dyn ResultFormat> {
    Box::new(lines::Lines)
}

#[cfg(test)]
mod tests;
