//! What an error of binding still lacks: its place, when only the word it is about is known, and the names of functions
//! that may have been meant.

use datafusion_sql::sqlparser::tokenizer::Token;

use crate::error::{PlannerError, Span};
use crate::functions::Functions;
use crate::parse::{ParsedStatement, tokens_of};
use crate::suggest::did_you_mean;

impl ParsedStatement {
    /// Where a word, or `table.column`, stands in the text; `None` unless it stands there once or is quoted text.
    pub fn place_of(&self, word: &str) -> Option<Span> {
        place_of(word, self)
    }
}

/// Adds place and suggestions to an error of a statement.
pub(super) fn complete(
    mut error: PlannerError,
    statement: &ParsedStatement,
    functions: &Functions,
) -> PlannerError {
    let Some(subject) = error.subject.clone() else { return error };
    if error.message == format!("function {subject} does not exist")
        && functions.window(&subject).is_some()
    {
        error.message = format!("the window function {subject} needs OVER (…)");
    } else if error.hint.is_none() && error.message.starts_with("function ") {
        let names = functions.names();
        error.hint = did_you_mean(&subject, names.iter().map(|(name, _)| name.as_str()));
    }
    match error.span {
        Some(_) => error,
        None => {
            let span = place_of(&subject, statement);
            error.with_span(span)
        }
    }
}

/// Where a word, or `table.column`, stands in the statement; `None` unless the word stands there exactly once or is quoted
/// text.
fn place_of(subject: &str, statement: &ParsedStatement) -> Option<Span> {
    let tokens = tokens_of(statement);
    if let Some((table, column)) = subject.split_once('.') {
        let qualified = tokens.windows(3).find_map(|three| match three {
            [(Token::Word(t), first), (Token::Period, _), (Token::Word(c), last)]
                if t.value.eq_ignore_ascii_case(table) && c.value.eq_ignore_ascii_case(column) =>
            {
                Some(Span { start: first.start, end: last.end })
            }
            _ => None,
        });
        if qualified.is_some() {
            return qualified;
        }
    }
    let mut places = tokens.into_iter().filter(|(token, _)| match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.eq_ignore_ascii_case(subject),
        Token::Word(word) => word.value == subject,
        Token::SingleQuotedString(text) => text == subject,
        _ => false,
    });
    let first = places.next()?;
    match places.next() {
        Some(_) if matches!(first.0, Token::Word(_)) => None,
        _ => Some(first.1),
    }
}
