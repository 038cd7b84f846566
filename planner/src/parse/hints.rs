//! Hints: `SELECT /*+ NAME(arguments), … */`, and `table /*+ OPTIONS('key' = 'value') */`.
//!
//! Hints are read from the tokens, because the syntax tree keeps neither their place nor those it does not expect.
//! A hint anywhere else is an error, as is an unknown name: a hint that is silently dropped is worse than none.

use std::sync::Arc;

use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::hint_places::{HintScope, is_hint, places};
use super::position::span_of;
use crate::error::{PlannerError, Result, Span};
use crate::suggest::did_you_mean;

/// The hints there are.
const KNOWN: [&str; 7] =
    ["BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LEADING", "ROWS", OPTIONS];

/// The hint that sets options of what it stands at.
pub(crate) const OPTIONS: &str = "OPTIONS";

/// One hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Its name in upper case.
    pub name: String,
    /// The text between its parentheses, trimmed; empty when there are none.
    pub arguments: String,
    /// What it is about.
    pub scope: HintScope,
    /// The names of all derived tables and common table expressions of the statement.
    pub blocks: Arc<[String]>,
    /// Where the comment that holds it stands.
    pub span: Option<Span>,
}

/// All hints among the tokens of one statement.
pub(super) fn collect(tokens: &[TokenWithSpan]) -> Result<Vec<Hint>> {
    let mut hints = Vec::new();
    if !tokens.iter().any(|token| is_hint(&token.token)) {
        return Ok(hints);
    }
    let places = places(tokens);
    let blocks: Arc<[String]> = places.blocks.into();
    for (at, scope) in places.scopes {
        let span = span_of(tokens[at].span);
        let Token::Whitespace(Whitespace::MultiLineComment(comment)) = &tokens[at].token else {
            continue;
        };
        if scope == HintScope::Nowhere {
            return Err(misplaced().with_span(span));
        }
        read(&comment[1..], &Place { scope, blocks: blocks.clone(), span }, &mut hints)?;
    }
    Ok(hints)
}

fn misplaced() -> PlannerError {
    PlannerError::not_supported("a hint at this place").with_hint(
        "write hints right after SELECT: SELECT /*+ … */, or OPTIONS behind a table's name"
            .to_string(),
    )
}

/// Where a comment with hints stands.
struct Place {
    scope: HintScope,
    blocks: Arc<[String]>,
    span: Option<Span>,
}

/// Reads `NAME`, `NAME(arguments)`, … from a comment's text.
fn read(text: &str, place: &Place, hints: &mut Vec<Hint>) -> Result<()> {
    let span = place.span;
    let mut rest = text.trim_start_matches(separator);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            return Err(PlannerError::syntax(format!(
                "cannot read the hint at \"{}\"",
                rest.trim()
            ))
            .with_span(span));
        }
        let (arguments, after) = arguments(after, name, span)?;
        let name = name.to_uppercase();
        if !KNOWN.contains(&name.as_str()) {
            return Err(PlannerError::name(format!("unknown hint {name}"))
                .with_hint(
                    did_you_mean(&name, KNOWN)
                        .or_else(|| Some(format!("the hints are {}", KNOWN.join(", ")))),
                )
                .with_span(span));
        }
        if matches!(place.scope, HintScope::Table(_)) && name != OPTIONS {
            return Err(misplaced().with_span(span));
        }
        let (scope, blocks) = (place.scope.clone(), place.blocks.clone());
        hints.push(Hint { name, arguments: arguments.trim().to_string(), scope, blocks, span });
        rest = after.trim_start_matches(separator);
    }
    Ok(())
}

fn separator(c: char) -> bool {
    c.is_whitespace() || c == ','
}

/// The text between the parentheses that `text` begins with, if any, and what follows them.
fn arguments<'a>(text: &'a str, name: &str, span: Option<Span>) -> Result<(&'a str, &'a str)> {
    let trimmed = text.trim_start();
    if !trimmed.starts_with('(') {
        return Ok(("", text));
    }
    let mut depth = 0_usize;
    for (at, c) in trimmed.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok((&trimmed[1..at], &trimmed[at + 1..]));
        }
    }
    Err(PlannerError::syntax(format!("missing \")\" in the hint {name}")).with_span(span))
}
