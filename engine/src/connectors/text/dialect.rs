//! Which values must stand in quotes, so that whoever finds out how a file is built reads them back as they were.

use super::kinds::Kinds;
use super::record::is_line_end;

/// Delimiters that are tried on a file, the likeliest first.
pub const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Whether a text must be quoted: it would end its field otherwise, or be taken for NULL or for another type.
pub fn needs_quotes(text: &[u8], delimiter: u8, quote: u8) -> bool {
    text.is_empty() || ends_a_field(text, delimiter, quote) || !Kinds::of(text).is_text()
}

/// Whether a column's name must be quoted: where it could be cut or split, and where it looks like values.
pub fn header_needs_quotes(name: &[u8], delimiter: u8, quote: u8) -> bool {
    !stands_without_quotes(name, delimiter, quote) || !Kinds::of(name).is_wording()
}

/// Whether a text without quotes is read as it is, by whoever tries any of the usual delimiters.
pub fn stands_without_quotes(text: &[u8], delimiter: u8, quote: u8) -> bool {
    !text.is_empty()
        && !ends_a_field(text, delimiter, quote)
        && text.len() == trimmed(text).len()
        && !text.iter().any(|b| DELIMITERS.contains(b))
}

/// Whether a text has bytes that structure a file.
pub fn ends_a_field(text: &[u8], delimiter: u8, quote: u8) -> bool {
    text.iter().any(|&b| b == delimiter || b == quote || is_line_end(b))
}

/// The name without white space around it, of which Unicode has more than ASCII.
fn trimmed(name: &[u8]) -> &[u8] {
    std::str::from_utf8(name).map_or(name, |name| name.trim().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_read_as_something_else_is_quoted() {
        for text in
            ["", " ", "a,b", "a\"b", "a\nb", "a\rb", "1", "1e5", "TRUE", "2024-01-31", "\\x00"]
        {
            assert!(needs_quotes(text.as_bytes(), b',', b'"'), "{text}");
        }
        for text in ["a b", "a;b", "007", "t", "-", "10:00", "NULL", " x"] {
            assert!(!needs_quotes(text.as_bytes(), b',', b'"'), "{text}");
        }
        for name in ["a;b", " x", "2024", "007", "x\u{a0}"] {
            assert!(header_needs_quotes(name.as_bytes(), b',', b'"'), "{name}");
        }
        for name in ["id", "a b"] {
            assert!(!header_needs_quotes(name.as_bytes(), b',', b'"'), "{name}");
        }
    }
}
