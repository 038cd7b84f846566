//! Guessing the names and types of columns from records.
//!
//! Invariant: a file that our writer wrote with a header is read back with its names and types, whatever they look like.
//! The writer quotes text that looks like another type, and names likewise; only a name that looks like the text below
//! it has no quotes, since a file that quotes everything and has no header begins just so. For the same reason something is
//! missing or added at the end of a header of such names that stands alone: see [`Sample::is_one_row`].

use arrow::datatypes::DataType;

use super::infer::Sample;
use crate::connectors::text::{
    Field, FixedPoint, Kinds, header_needs_quotes, stands_without_quotes,
};

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
        let Some(quote) = sample.structure.quote else { return Quotes::Text };
        let delimiter = sample.structure.delimiter;
        // Nobody who quotes only where it is needed would quote such a name, or such a value.
        let name = |text: &[u8]| !header_needs_quotes(text, delimiter, quote);
        let value = |text: &[u8]| {
            stands_without_quotes(text, delimiter, quote) && Kinds::of(text).is_text()
        };
        let is_needless = |needless: &dyn Fn(&[u8]) -> bool, field: &Field| {
            field.quoted && needless(&sample.value(field))
        };
        let needless = sample.fields(0).iter().any(|f| is_needless(&name, f))
            || rows().any(|f| is_needless(&value, f));
        if needless { Quotes::Nothing } else { Quotes::Text }
    }
}

/// What is known of a column's values.
#[derive(Debug, Clone, Copy)]
struct Guess {
    kinds: Kinds,
    fixed: FixedPoint,
    /// Whether there are values in quotes, blank ones left out.
    quoted: bool,
    /// Whether there are values without quotes.
    unquoted: bool,
    /// Whether there are quotes around nothing or white space.
    blank: bool,
}

impl Guess {
    const NEW: Guess = Guess {
        kinds: Kinds::ANY,
        fixed: FixedPoint::NEW,
        quoted: false,
        unquoted: false,
        blank: false,
    };

    fn seen(&self) -> bool {
        self.quoted || self.unquoted
    }

    fn data_type(&self, quotes: Quotes) -> DataType {
        let text = match quotes {
            // An empty text that was written with quotes keeps its column text.
            Quotes::Text => !self.unquoted || self.blank,
            Quotes::Nothing => !self.seen(),
        };
        if text { DataType::Utf8View } else { self.kinds.data_type(self.fixed.scale()) }
    }

    /// Whether there are values of another type than text.
    fn is_typed(&self, quotes: Quotes) -> bool {
        self.seen() && self.data_type(quotes) != DataType::Utf8View
    }

    /// Whether the values could be names: quotes say so, or they look like nothing else.
    fn is_wording(&self, quotes: Quotes) -> bool {
        self.seen() && ((quotes == Quotes::Text && !self.unquoted) || self.kinds.is_wording())
    }

    /// Whether the values look like those of another column.
    fn is_like(&self, other: &Guess) -> bool {
        self.seen() && other.seen() && self.kinds.looks_like(other.kinds)
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
                guess.blank |= field.quoted;
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

    /// Whether the first record names the columns of those below, which were added; and what quotes say.
    pub fn header_above(&self, sample: &Sample<'_>) -> (bool, Quotes) {
        let mut first = ColumnGuesses::new(sample.width(0), self.null);
        first.add(sample, 0);
        let quotes = Quotes::of(sample);
        let found = match quotes {
            Quotes::Text if self.is_bare_name(&first, sample) => true,
            Quotes::Text if self.continues(&first, sample) => return (false, Quotes::Nothing),
            Quotes::Text | Quotes::Nothing => self.are_named_by(&first, quotes),
        };
        (found, quotes)
    }

    /// Whether a first record has something else than the values below, or only what may be names.
    fn are_named_by(&self, first: &ColumnGuesses<'_>, quotes: Quotes) -> bool {
        let differs = first.columns.iter().zip(&self.columns).any(|(first, below)| {
            let other = first.is_wording(quotes) || (first.seen() && !first.is_like(below));
            other && below.is_typed(quotes)
        });
        let names = first.columns.iter().filter(|guess| guess.is_wording(quotes)).count();
        let seen = first.columns.iter().filter(|guess| guess.seen()).count();
        // A column without a name is none of a header's, unless it is the first: that one may number the rows.
        let columns = first.columns.iter().zip(&self.columns).skip(1);
        let missing = |(name, below): (&Guess, &Guess)| !name.seen() && !name.blank && below.seen();
        differs || (names > 0 && names == seen && !columns.into_iter().any(missing))
    }

    /// Whether the first record has a value without quotes above text in quotes that looks just like it.
    fn is_bare_name(&self, first: &ColumnGuesses<'_>, sample: &Sample<'_>) -> bool {
        let columns = first.columns.iter().zip(&self.columns).enumerate();
        columns.into_iter().any(|(column, (name, below))| {
            name.unquoted
                && below.seen()
                && !below.is_typed(Quotes::Text)
                && self.first_value(sample, column).is_some_and(|(value, quoted)| {
                    let value = Kinds::of(&value);
                    quoted && !value.is_text() && value.looks_like(name.kinds)
                })
        })
    }

    /// The first value of a column below the first record that is not blank, and whether it is quoted.
    fn first_value(&self, sample: &Sample<'_>, column: usize) -> Option<(Vec<u8>, bool)> {
        let fields = (1..sample.records).filter_map(|record| sample.fields(record).get(column));
        let mut values = fields.map(|field| (sample.value(field), field.quoted));
        values.find(|(value, quoted)| {
            !value.trim_ascii().is_empty() && (*quoted || self.null != Some(&value[..]))
        })
    }

    /// Whether all values are quoted and the first record goes on below: it has values of the same types, and nothing
    /// above values of other types. A record by itself goes on if it is written as a row. What the writer would have had to
    /// quote even as a name proves nothing.
    fn continues(&self, first: &ColumnGuesses<'_>, sample: &Sample<'_>) -> bool {
        let mut all = self.columns.iter().chain(&first.columns);
        if all.any(|guess| guess.unquoted) || self.are_named_by(first, Quotes::Nothing) {
            return false;
        }
        let below = if sample.is_one_row() { first } else { self };
        let columns = first.columns.iter().zip(&below.columns);
        columns.zip(sample.fields(0)).any(|((first, below), field)| {
            first.is_like(below)
                && !below.kinds.is_text()
                && sample.structure.quote.is_some_and(|quote| {
                    let (value, delimiter) = (sample.value(field), sample.structure.delimiter);
                    stands_without_quotes(&value, delimiter, quote)
                })
        })
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
