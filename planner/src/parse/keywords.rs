//! What an error of syntax still lacks: the keyword that a misspelt word may have been meant to be, and the name of what
//! is not supported where the parser only misses something else.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::position::span_of;
use crate::error::{ErrorKind, PlannerError};
use crate::suggest::did_you_mean;

/// Keywords that are suggested.
const KNOWN: [&str; 52] = [
    "ANALYZE",
    "BETWEEN",
    "CASE",
    "COPY",
    "CREATE",
    "CROSS",
    "DELETE",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "EXCEPT",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "FETCH",
    "FROM",
    "FULL",
    "FUNCTION",
    "GROUP",
    "HAVING",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTO",
    "JOIN",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NATURAL",
    "OFFSET",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PREPARE",
    "RIGHT",
    "SCHEMA",
    "SELECT",
    "SHOW",
    "TABLE",
    "THEN",
    "TRUNCATE",
    "UNION",
    "UPDATE",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Shorter words are near to too many keywords.
const MIN_LETTERS: usize = 3;

/// Adds to an error of syntax.
pub(super) fn complete(error: PlannerError, tokens: &[TokenWithSpan]) -> PlannerError {
    if error.kind != ErrorKind::Syntax {
        return error;
    }
    if let Some(what) = unsupported(&error.message) {
        return PlannerError::not_supported(what).with_span(error.span);
    }
    if error.hint.is_some() {
        return error;
    }
    let Some(place) = error.span else { return error };
    let words = tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_)));
    let before =
        words.take_while(|t| span_of(t.span).is_some_and(|span| span.start <= place.start));
    let before: Vec<&TokenWithSpan> = before.collect();
    // A misspelt keyword may have been read as a name, so that the word behind it is what surprises.
    let hint = before.iter().rev().take(2).find_map(|t| suggestion(&t.token));
    error.with_hint(hint)
}

fn suggestion(token: &Token) -> Option<String> {
    match token {
        Token::Word(word)
            if word.quote_style.is_none()
                && word.keyword == Keyword::NoKeyword
                && word.value.len() >= MIN_LETTERS =>
        {
            did_you_mean(&word.value, KNOWN)
        }
        _ => None,
    }
}

/// What the parser reads no further than to the point where it misses something that it does know.
fn unsupported(message: &str) -> Option<&'static str> {
    let message = message.to_ascii_lowercase();
    if message.starts_with("expected match_condition") {
        Some("ASOF JOIN")
    } else if message == "expected ), found exclude" {
        Some("EXCLUDE in a window frame")
    } else {
        None
    }
}
