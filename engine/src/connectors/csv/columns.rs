//! Guessing the names and types of columns from records.

use arrow::datatypes::DataType;

use super::infer::Sample;
use crate::connectors::text::{FixedPoint, Kinds, is_needlessly_quoted};

/// What quotes around a value say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// That it is text, though it may look like something else.
    Text,
    /// Nothing: all values are quoted, even those that need no quotes.
    Nothing,
}

impl Quotes {
    /// What quotes say in a sample whose first record may be a header.
    pub fn of(sample: &Sample<'_>) -> Self {
        let rows = || (1..sample.records).flat_map(|r| sample.fields(r));
        let blank = |f: &&_| sample.value(f).trim_ascii().is_empty();
        if rows().any(|f| !f.quoted && !blank(&f)) {
            return Quotes::Text;
        }
        let (delimiter, quote) = (sample.structure.delimiter, sample.structure.quote);
        let needless = (0..sample.records)
            .flat_map(|r| sample.fields(r))
            .any(|f| f.quoted && is_needlessly_quoted(&sample.value(f), delimiter, quote));
        if needless { Quotes::Nothing } else { Quotes::Text }
    }
}

/// What is known of a column's values.
#[derive(Debug, Clone, Copy)]
struct Guess {
    kinds: Kinds,
    fixed: FixedPoint,
    quoted: bool,
    unquoted: bool,
}

impl Guess {
    const NEW: Guess =
        Guess { kinds: Kinds::ANY, fixed: FixedPoint::NEW, quoted: false, unquoted: false };

    fn seen(&self) -> bool {
        self.quoted || self.unquoted
    }

    fn data_type(&self, quotes: Quotes) -> DataType {
        let text = match quotes {
            Quotes::Text => !self.unquoted,
            Quotes::Nothing => !self.seen(),
        };
        if text { DataType::Utf8View } else { self.kinds.data_type(self.fixed.scale()) }
    }
}

/// The guesses for all columns.
pub struct ColumnGuesses<'a> {
    /// Unquoted text that means NULL.
    pub null: Option<&'a [u8]>,
    columns: Vec<Guess>,
}

impl<'a> ColumnGuesses<'a> {
    /// Columns of which no value is known.
    pub fn new(columns: usize, null: Option<&'a [u8]>) -> Self {
        ColumnGuesses { null, columns: vec![Guess::NEW; columns] }
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Adds the values of a record.
    pub fn add(&mut self, sample: &Sample<'_>, record: usize) {
        for (guess, field) in self.columns.iter_mut().zip(sample.fields(record)) {
            let text = sample.value(field);
            if text.trim_ascii().is_empty() {
                // An empty text that was written with quotes keeps its column text.
                if field.quoted {
                    (guess.kinds, guess.quoted) = (Kinds::TEXT, true);
                }
            } else if field.quoted || self.null != Some(&text[..]) {
                guess.kinds = guess.kinds.and(Kinds::of(&text));
                guess.fixed.add(&text);
                guess.quoted |= field.quoted;
                guess.unquoted |= !field.quoted;
            }
        }
    }

    /// Some values are not looked at: no scale is expected of them.
    pub fn leave_open(&mut self) {
        self.columns.iter_mut().for_each(|guess| guess.fixed.leave_open());
    }

    /// Whether the first record names the columns: it is text where values below are not, or all of it is text.
    pub fn header_above(&self, sample: &Sample<'_>, quotes: Quotes) -> bool {
        let mut first = ColumnGuesses::new(sample.width(0), self.null);
        first.add(sample, 0);
        let is_text = |g: &Guess| g.seen() && g.data_type(quotes) == DataType::Utf8View;
        let differs = first.columns.iter().zip(&self.columns).any(|(first, below)| {
            is_text(first) && below.seen() && below.data_type(quotes) != DataType::Utf8View
        });
        let some_text = first.columns.iter().any(is_text);
        let all_text = first.columns.iter().all(|g| is_text(g) || !g.seen());
        differs || (some_text && all_text)
    }

    /// The type of a column.
    pub fn data_type(&self, column: usize, quotes: Quotes) -> DataType {
        self.columns[column].data_type(quotes)
    }
}

/// A name as a header writes it: white space belongs to it only inside quotes.
pub fn header_name(text: &[u8], quoted: bool) -> String {
    let text = String::from_utf8_lossy(text);
    if quoted { text.into_owned() } else { text.trim().to_string() }
}

/// Names for columns: those of the header, made unique, and `column_1` … where there is none.
pub fn column_names(header: Option<Vec<String>>, columns: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(columns);
    let header = header.unwrap_or_default();
    for i in 0..columns {
        let name = header.get(i).filter(|n| !n.trim().is_empty());
        let base = name.cloned().unwrap_or_else(|| format!("column_{}", i + 1));
        let mut unique = base.clone();
        let mut n = 1;
        while names.contains(&unique) {
            unique = format!("{base}_{n}");
            n += 1;
        }
        names.push(unique);
    }
    names
}
