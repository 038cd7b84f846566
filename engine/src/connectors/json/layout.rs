//! How objects follow each other in a file, and where each ends.

use serde::{Deserialize, Serialize};

/// The arrangement of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum JsonLayout {
    /// One a line: the file can be cut anywhere.
    #[default]
    Lines,
    /// Over several lines, or inside a top-level array: the file is read from its beginning.
    Values,
}

/// What became of an attempt to find the next object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueEnd {
    /// It lies between these bytes; the next one is looked for behind.
    At(usize, usize),
    /// The buffer ends too early.
    NeedsMore,
    /// There is none.
    Finished,
}

impl JsonLayout {
    /// The layout of a file's beginning.
    pub fn of(text: &[u8]) -> Self {
        let text = text.trim_ascii_start();
        let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
        let whole = serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        if text.first() == Some(&b'[') || !whole { JsonLayout::Values } else { JsonLayout::Lines }
    }

    /// The next object at or behind `at`. `last` tells that the buffer ends with the file.
    pub fn next(self, bytes: &[u8], at: usize, last: bool) -> ValueEnd {
        match self {
            JsonLayout::Lines => next_line(bytes, at, last),
            JsonLayout::Values => next_value(bytes, at, last),
        }
    }
}

fn next_line(bytes: &[u8], at: usize, last: bool) -> ValueEnd {
    let rest = bytes.get(at..).unwrap_or_default();
    let start = at + rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
    match memchr::memchr(b'\n', bytes.get(start..).unwrap_or_default()) {
        Some(length) => ValueEnd::At(start, start + length),
        None if !last => ValueEnd::NeedsMore,
        None if start >= bytes.len() => ValueEnd::Finished,
        None => ValueEnd::At(start, bytes.len()),
    }
}

/// Objects are told apart by their brackets; what stands between them is skipped.
fn next_value(bytes: &[u8], at: usize, last: bool) -> ValueEnd {
    let between = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b'[' | b']');
    let start = match bytes.get(at..).unwrap_or_default().iter().position(|b| !between(b)) {
        Some(n) => at + n,
        None if last => return ValueEnd::Finished,
        None => return ValueEnd::NeedsMore,
    };
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (i, &byte) in bytes.iter().enumerate().skip(start) {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return ValueEnd::At(start, i + 1);
                }
            }
            b',' | b'\n' if depth == 0 => return ValueEnd::At(start, i),
            _ => {}
        }
    }
    if last { ValueEnd::At(start, bytes.len()) } else { ValueEnd::NeedsMore }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<&str> {
        let (layout, mut at, mut found) = (JsonLayout::of(text.as_bytes()), 0, Vec::new());
        while let ValueEnd::At(start, end) = layout.next(text.as_bytes(), at, true) {
            found.push(&text[start..end]);
            at = end;
        }
        found
    }

    #[test]
    fn objects_are_told_apart() {
        assert_eq!(all("{\"a\":1}\n\n {\"a\":2}\r\n"), ["{\"a\":1}", "{\"a\":2}\r"]);
        assert_eq!(
            all("[{\"a\":\"}\\\"\"},\n {\"b\":[1,{}]}]"),
            ["{\"a\":\"}\\\"\"}", "{\"b\":[1,{}]}"]
        );
        assert_eq!(all("{\n \"a\": 1\n}\n{\"a\":2}"), ["{\n \"a\": 1\n}", "{\"a\":2}"]);
    }
}
