//! Cutting bytes into records and fields.
//!
//! A quote opens a quoted field only at the field's start; inside, two quotes stand for one. What follows a closing
//! quote up to the next delimiter belongs to the field literally. A quoted field without its closing quote reaches to
//! the end of the file and says so, as does a field with something behind its closing quote. Records end with LF, CRLF or
//! CR. An empty line is a record of one empty field where the table has one column, and nothing otherwise.

use std::ops::Range;

/// The bytes that structure the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Structure {
    /// Between fields.
    pub delimiter: u8,
    /// Around fields; none if quoting is off.
    pub quote: Option<u8>,
    /// Whether an empty line is a record.
    pub empty_lines: bool,
}

/// Where a field is in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// First byte, behind an opening quote.
    pub start: usize,
    /// Behind the last byte, before a closing quote.
    pub end: usize,
    /// Whether it was quoted.
    pub quoted: bool,
    /// Whether quotes inside it must be resolved; then the bytes include the opening quote.
    pub escaped: bool,
    /// Whether the file ends before the closing quote.
    pub unclosed: bool,
    /// Whether something stands between the closing quote and the field's end.
    pub trailing: bool,
}

impl Field {
    /// Where it is with its quotes.
    pub fn raw(&self) -> Range<usize> {
        let around = usize::from(self.quoted && !self.escaped);
        self.start - around..self.end + around
    }
}

/// What became of an attempt to read a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEnd {
    /// A record; the next one begins here.
    At(usize),
    /// The buffer ends inside the record, and more bytes may follow.
    NeedsMore,
    /// There is no further record.
    Finished,
}

impl Structure {
    /// Reads the record that begins at `at` and appends its fields. `last` tells that the buffer ends with the file.
    pub fn record(
        &self,
        bytes: &[u8],
        mut at: usize,
        last: bool,
        fields: &mut Vec<Field>,
    ) -> RecordEnd {
        if !self.empty_lines {
            while at < bytes.len() && is_line_end(bytes[at]) {
                at += 1;
            }
        }
        if at >= bytes.len() {
            return if last { RecordEnd::Finished } else { RecordEnd::NeedsMore };
        }
        loop {
            let (field, end) = match self.field(bytes, at, last) {
                Some(found) => found,
                None => return RecordEnd::NeedsMore,
            };
            fields.push(field);
            match bytes.get(end) {
                Some(b) if *b == self.delimiter => at = end + 1,
                Some(b'\r') => match bytes.get(end + 1) {
                    Some(b'\n') => return RecordEnd::At(end + 2),
                    None if !last => return RecordEnd::NeedsMore,
                    _ => return RecordEnd::At(end + 1),
                },
                Some(_) => return RecordEnd::At(end + 1),
                None if last => return RecordEnd::At(end),
                None => return RecordEnd::NeedsMore,
            }
        }
    }

    /// The field at a position and where its delimiter or line end is; `None` if the buffer ends too early.
    fn field(&self, bytes: &[u8], at: usize, last: bool) -> Option<(Field, usize)> {
        if self.quote.is_some() && bytes.get(at) == self.quote.as_ref() {
            return self.quoted(bytes, at, last);
        }
        let end = self.unquoted_end(bytes, at);
        if end == bytes.len() && !last {
            return None;
        }
        Some((Field { quoted: false, ..in_quotes(at, end) }, end))
    }

    fn unquoted_end(&self, bytes: &[u8], at: usize) -> usize {
        let delimiter = self.delimiter;
        let found = bytes[at..].iter().position(|&b| b == delimiter || b == b'\n' || b == b'\r');
        found.map_or(bytes.len(), |n| at + n)
    }

    fn quoted(&self, bytes: &[u8], at: usize, last: bool) -> Option<(Field, usize)> {
        let quote = self.quote?;
        let (mut from, mut doubled) = (at + 1, false);
        loop {
            let Some(n) = memchr::memchr(quote, &bytes[from..]) else {
                // Without its closing quote the field reaches to the end of the file.
                let start = if doubled { at } else { at + 1 };
                let end = bytes.len();
                let field = Field { escaped: doubled, unclosed: true, ..in_quotes(start, end) };
                return last.then_some((field, bytes.len()));
            };
            let close = from + n;
            match bytes.get(close + 1) {
                Some(b) if *b == quote => {
                    doubled = true;
                    from = close + 2;
                }
                None if !last => return None,
                Some(b) if *b != self.delimiter && !is_line_end(*b) => {
                    let end = self.unquoted_end(bytes, close + 1);
                    if end == bytes.len() && !last {
                        return None;
                    }
                    return Some((
                        Field { escaped: true, trailing: true, ..in_quotes(at, end) },
                        end,
                    ));
                }
                _ if doubled => {
                    let end = close + 1;
                    return Some((Field { escaped: true, ..in_quotes(at, end) }, end));
                }
                _ => {
                    let (start, end) = (at + 1, close);
                    return Some((in_quotes(start, end), close + 1));
                }
            }
        }
    }

    /// The value of a field that begins with a quote, which it is given with; `scratch` has it if quotes were resolved.
    pub fn value<'a>(&self, raw: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        match self.inside(raw) {
            Some(value) => value,
            None => {
                self.unescape(raw, scratch);
                scratch
            }
        }
    }

    /// What is between the quotes around a field, if they are around it and nothing else.
    fn inside<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let quote = self.quote?;
        let value = raw.strip_prefix(&[quote])?.strip_suffix(&[quote])?;
        memchr::memchr(quote, value).is_none().then_some(value)
    }

    /// A field as it is shown in a message: without the quotes around it.
    pub fn shown<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        self.inside(raw).unwrap_or(raw)
    }

    /// Writes the value of an escaped field, quotes resolved.
    pub fn unescape(&self, raw: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let Some(quote) = self.quote else {
            out.extend_from_slice(raw);
            return;
        };
        let (mut i, mut open) = (1, true);
        while i < raw.len() {
            if open && raw[i] == quote {
                if raw.get(i + 1) == Some(&quote) {
                    out.push(quote);
                    i += 2;
                } else {
                    open = false;
                    i += 1;
                }
                continue;
            }
            out.push(raw[i]);
            i += 1;
        }
    }
}

/// A quoted field as it should be.
fn in_quotes(start: usize, end: usize) -> Field {
    Field { start, end, quoted: true, escaped: false, unclosed: false, trailing: false }
}

/// Whether a byte ends a line.
pub fn is_line_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMA: Structure = Structure { delimiter: b',', quote: Some(b'"'), empty_lines: false };

    fn all(structure: Structure, text: &str) -> Vec<Vec<String>> {
        let (bytes, mut at, mut records) = (text.as_bytes(), 0, Vec::new());
        loop {
            let mut fields = Vec::new();
            match structure.record(bytes, at, true, &mut fields) {
                RecordEnd::At(next) => at = next,
                _ => return records,
            }
            let value = |f: &Field| {
                let mut raw = bytes[f.start..f.end].to_vec();
                if f.escaped {
                    structure.unescape(&bytes[f.start..f.end], &mut raw);
                }
                String::from_utf8(raw).unwrap()
            };
            records.push(fields.iter().map(value).collect());
        }
    }

    #[test]
    fn quotes_and_line_ends() {
        let text = "a,\"b \"\"x\"\"\",c\r\n\"\n\",,\"\"\n\n1,2\r3,\"x\"y";
        let expected: Vec<Vec<&str>> =
            vec![vec!["a", "b \"x\"", "c"], vec!["\n", "", ""], vec!["1", "2"], vec!["3", "xy"]];
        assert_eq!(all(COMMA, text), expected);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_seen() {
        let mut fields = Vec::new();
        for (text, unclosed) in [("a,\"b\nc,d\n", true), ("a,\"b \"\" c", true), ("a,\"b\"", false)]
        {
            fields.clear();
            assert_eq!(
                COMMA.record(text.as_bytes(), 0, true, &mut fields),
                RecordEnd::At(text.len())
            );
            assert_eq!(fields[1].unclosed, unclosed, "{text}");
        }
    }

    #[test]
    fn what_stands_behind_a_closing_quote_is_seen() {
        for (text, trailing) in [("\"a\"b,", true), ("\"a\" ,", true), ("\"a\"\"b\"\r\n", false)] {
            let mut fields = Vec::new();
            COMMA.record(text.as_bytes(), 0, true, &mut fields);
            assert_eq!(fields[0].trailing, trailing, "{text}");
        }
    }

    #[test]
    fn empty_lines_are_records_of_one_column() {
        let one = Structure { empty_lines: true, ..COMMA };
        assert_eq!(all(one, "a\n\n\"\"\n"), [["a"], [""], [""]]);
    }

    #[test]
    fn an_unfinished_record_needs_more() {
        for text in ["a", "a,\"b", "a,\"b\"", "a\r", ""] {
            let mut fields = Vec::new();
            let end = COMMA.record(text.as_bytes(), 0, false, &mut fields);
            assert_eq!(end, RecordEnd::NeedsMore, "{text}");
        }
    }
}
