//! Between the two ways to name a place in text: line and column (what the tokenizer tells) and byte offset.

use datafusion_sql::sqlparser::tokenizer::{Location, Span as TokenSpan};

use crate::error::Span;

/// The line starts of a text.
pub(crate) struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        LineIndex { text, starts }
    }

    /// The byte offset of a location; the text's end for locations outside it.
    pub(crate) fn offset(&self, location: Location) -> usize {
        let Some(&start) =
            (location.line as usize).checked_sub(1).and_then(|line| self.starts.get(line))
        else {
            return self.text.len();
        };
        let column = (location.column as usize).saturating_sub(1);
        self.text[start..].char_indices().nth(column).map_or(self.text.len(), |(at, _)| start + at)
    }

    /// The location of the text's end.
    pub(crate) fn end(&self) -> (u32, u32) {
        let start = self.starts.last().copied().unwrap_or(0);
        (self.starts.len() as u32, self.text[start..].chars().count() as u32 + 1)
    }
}

/// A token's span as ours; `None` for the parser's "no place".
pub(crate) fn span_of(span: TokenSpan) -> Option<Span> {
    let pair = |l: Location| (l.line as u32, l.column as u32);
    (span.start.line > 0).then(|| Span { start: pair(span.start), end: pair(span.end) })
}

/// The text after a token.
pub(crate) fn text_after(text: &str, token: TokenSpan) -> &str {
    &text[LineIndex::new(text).offset(token.end)..]
}

/// Splits the place off a parser's message that ends in `at Line: n, Column: m`.
pub(crate) fn split_place(message: &str) -> (&str, Option<Span>) {
    let Some((text, place)) = message.rsplit_once(" at Line: ") else {
        return (message, None);
    };
    let Some((line, column)) = place.split_once(", Column: ") else {
        return (message, None);
    };
    match (line.trim().parse(), column.trim().parse()) {
        (Ok(line), Ok(column)) => (text, (line > 0).then(|| Span::point(line, column))),
        _ => (message, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_count_characters_not_bytes() {
        let index = LineIndex::new("é = 1\nab");
        assert_eq!(index.offset(Location::new(1, 3)), 3);
        assert_eq!(index.offset(Location::new(2, 2)), 8);
        assert_eq!(index.offset(Location::new(7, 1)), 9);
        assert_eq!(index.end(), (2, 3));
    }

    #[test]
    fn places_are_split_off_messages() {
        let (text, span) = split_place("Expected: x, found: y at Line: 2, Column: 7");
        assert_eq!((text, span), ("Expected: x, found: y", Some(Span::point(2, 7))));
        assert_eq!(split_place("no place"), ("no place", None));
    }
}
