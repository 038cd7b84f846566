//! The types of the libraries in their messages → those of SQL.

use arrow::datatypes::DataType;

use super::types::sql_type_name;

/// Types with parameters, which messages often name without them.
const BARE: [(&str, &str); 13] = [
    ("Timestamp", "TIMESTAMP"),
    ("Interval", "INTERVAL"),
    ("Duration", "INTERVAL"),
    ("Time32", "TIME"),
    ("Time64", "TIME"),
    ("Decimal32", "DECIMAL"),
    ("Decimal64", "DECIMAL"),
    ("Decimal128", "DECIMAL"),
    ("Decimal256", "DECIMAL"),
    ("List", "LIST"),
    ("FixedSizeList", "LIST"),
    ("Struct", "STRUCT"),
    ("Map", "MAP"),
];

/// A message with the names of SQL for types. What stands in quotes is the user's, and stays as it is; so does a
/// message's first word, which is in capitals for another reason, unless it can only be a type.
pub fn with_sql_types(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut at = 0;
    while let Some(first) = message[at..].chars().next() {
        let rest = &message[at..];
        let before = message[..at].chars().next_back();
        let in_word = before.is_some_and(|c| c.is_alphanumeric() || "_.".contains(c));
        let length = if in_word {
            first.len_utf8()
        } else if let Some(end) = quoted_end(rest, first) {
            end
        } else if let Some((name, length)) = type_at(rest, at == 0) {
            out.push_str(&name);
            at += length;
            continue;
        } else {
            first.len_utf8()
        };
        out.push_str(&rest[..length]);
        at += length;
    }
    out
}

/// Where a quoted text ends with which a text begins.
fn quoted_end(text: &str, quote: char) -> Option<usize> {
    if !matches!(quote, '\'' | '"') {
        return None;
    }
    text[1..].find(quote).map(|end| end + 2)
}

/// The type with which a text begins, as SQL names it, and its length.
fn type_at(text: &str, first: bool) -> Option<(String, usize)> {
    let length = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let word = &text[..length];
    if !word.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    if text[length..].starts_with('(')
        && let Some(end) = closing(&text[length..])
        && let Ok(data_type) = text[..length + end].parse::<DataType>()
    {
        return Some((sql_type_name(&data_type), length + end));
    }
    if first && !word.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Some((_, name)) = BARE.iter().find(|(known, _)| *known == word) {
        return Some(((*name).to_string(), length));
    }
    // Words in capitals are SQL already, though the library reads some of them.
    let data_type =
        word.parse::<DataType>().ok().filter(|data_type| data_type.to_string() == word)?;
    Some((sql_type_name(&data_type), length))
}

/// Behind the parenthesis that closes the one with which a text begins.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at + 1),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_get_the_names_of_sql() {
        for (message, text) in [
            (
                "Cannot cast string 'Int32' to value of Int32 type",
                "Cannot cast string 'Int32' to value of INTEGER type",
            ),
            ("sum(Utf8View)", "sum(VARCHAR)"),
            ("Int64 + Utf8View", "BIGINT + VARCHAR"),
            (
                "of Decimal128(3, 2), List(Int64) and Timestamp(µs)",
                "of DECIMAL(3,2), BIGINT[] and TIMESTAMP",
            ),
            (
                "type Boolean is not Struct, Map, or Null",
                "type BOOLEAN is not STRUCT, MAP, or NULL",
            ),
            ("Map keys must not be NULL", "Map keys must not be NULL"),
            (
                "column \"Int64\" of t.Int64 isn't an Int64",
                "column \"Int64\" of t.Int64 isn't an BIGINT",
            ),
            ("the connector's Interval", "the connector's INTERVAL"),
        ] {
            assert_eq!(with_sql_types(message), text);
        }
    }
}
