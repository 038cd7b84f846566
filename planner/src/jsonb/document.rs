//! JSON documents: read from text, and written in the one form in which equal documents have equal texts.
//!
//! As in PostgreSQL, an object's keys are in the order of their length and then their bytes, of a key that is there twice
//! the last value counts, and numbers keep their digits. Invariant: what is written is read back as the same document.

use std::fmt::Write;

/// How deeply values may be nested.
const MAX_DEPTH: usize = 256;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// In the digits that it is written in.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The document of a text; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Json> {
        let mut reader = Reader { bytes: text.as_bytes(), text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        (reader.at == text.len()).then_some(value)
    }

    /// An object of these pairs, its keys in their order.
    pub(super) fn object(mut pairs: Vec<(String, Json)>) -> Json {
        // Of equal keys the last is the first of the reversed.
        pairs.reverse();
        pairs.sort_by(|a, b| (a.0.len(), &a.0).cmp(&(b.0.len(), &b.0)));
        pairs.dedup_by(|later, first| later.0 == first.0);
        Json::Object(pairs)
    }

    /// The element of a list, from the end for a negative place, or `None`.
    pub(super) fn element(&self, place: i64) -> Option<&Json> {
        let Json::List(items) = self else { return None };
        let at = if place < 0 { place + items.len() as i64 } else { place };
        items.get(usize::try_from(at).ok()?)
    }

    /// The value of a key.
    pub(super) fn field(&self, key: &str) -> Option<&Json> {
        let Json::Object(pairs) = self else { return None };
        pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// What kind of value it is, as `jsonb_typeof` says.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::Text(_) => "string",
            Json::List(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// The text of the document.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(digits) => out.push_str(digits),
            Json::Text(text) => write_string(text, out),
            Json::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(pairs) => {
                out.push('{');
                for (at, (key, value)) in pairs.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    write_string(key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Passes over a byte that must be there, and the space before it.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.space();
        (self.bytes.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            value
        })
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.space();
        match self.bytes.get(self.at)? {
            _ if depth > MAX_DEPTH => None,
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'"' => self.string().map(Json::Text),
            b'[' => self.list(depth),
            b'{' => self.object(depth),
            _ => self.number(),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.take(b'[')?;
        let mut items = Vec::new();
        if self.take(b']').is_some() {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b',').is_none() {
                self.take(b']')?;
                return Some(Json::List(items));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.take(b'{')?;
        let mut pairs = Vec::new();
        if self.take(b'}').is_some() {
            return Some(Json::Object(pairs));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.take(b':')?;
            pairs.push((key, self.value(depth + 1)?));
            if self.take(b',').is_none() {
                self.take(b'}')?;
                return Some(Json::object(pairs));
            }
        }
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while reader.bytes.get(reader.at).is_some_and(u8::is_ascii_digit) {
                reader.at += 1;
            }
            (reader.at > from).then_some(reader.at - from)
        };
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        let zero = self.bytes.get(self.at) == Some(&b'0');
        let whole = digits(self)?;
        if zero && whole > 1 {
            return None;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            digits(self)?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            digits(self)?;
        }
        Some(Json::Number(self.text[start..self.at].to_string()))
    }

    fn string(&mut self) -> Option<String> {
        (self.bytes.get(self.at)? == &b'"').then(|| self.at += 1)?;
        let mut out = String::new();
        loop {
            let c = self.text[self.at..].chars().next()?;
            self.at += c.len_utf8();
            match c {
                '"' => return Some(out),
                '\\' => out.push(self.escape()?),
                c if u32::from(c) < 0x20 => return None,
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let c = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(match c {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hexadecimal()?;
                if !(0xd800..0xdc00).contains(&high) {
                    return char::from_u32(high);
                }
                self.take(b'\\')?;
                self.take(b'u')?;
                let low = self.hexadecimal().filter(|low| (0xdc00..0xe000).contains(low))?;
                return char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00));
            }
            _ => return None,
        })
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        let all = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        all.then(|| u32::from_str_radix(digits, 16).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_documents_have_one_text() {
        for (text, wanted) in [
            (
                " {\"bb\":1,\"a\" : [1.10, -2e5 ,null,true] , \"c\":{}}",
                "{\"a\": [1.10, -2e5, null, true], \"c\": {}, \"bb\": 1}",
            ),
            ("{\"a\":1,\"a\":2}", "{\"a\": 2}"),
            ("\"\\u00e9\\n\\ud83d\\ude00/\\/\"", "\"é\\n😀//\""),
            ("[]", "[]"),
        ] {
            let read = Json::parse(text).unwrap();
            assert_eq!(read.text(), wanted);
            assert_eq!(Json::parse(wanted), Some(read));
        }
    }

    #[test]
    fn what_is_no_document_is_not_read() {
        let deep = "[".repeat(100_000);
        for text in ["", "01", "1.", "[1,]", "{a:1}", "\"\\ud800\"", "nul", "1 2", "\"\n\"", &deep]
        {
            assert_eq!(Json::parse(text), None, "{text:.20}");
        }
    }
}
