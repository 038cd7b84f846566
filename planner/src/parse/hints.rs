//! Optimizer hints: `SELECT /*+ NAME(arguments), … */`.
//!
//! Hints are read from the tokens, because the syntax tree keeps neither their place nor those it does not expect.
//! A hint anywhere but right after SELECT is an error, as is an unknown name: a hint that is silently dropped is worse
//! than none.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::position::span_of;
use crate::error::{PlannerError, Result, Span};
use crate::suggest::did_you_mean;

/// The hints there are.
const KNOWN: [&str; 6] =
    ["BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LEADING", "ROWS"];

/// One optimizer hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Its name in upper case.
    pub name: String,
    /// The text between its parentheses, trimmed; empty when there are none.
    pub arguments: String,
    /// Which SELECT of the statement it belongs to, counted from 0 in the order the keywords are written.
    pub block: usize,
    /// Where the comment that holds it stands.
    pub span: Option<Span>,
}

/// All hints among the tokens of one statement.
pub(super) fn collect(tokens: &[TokenWithSpan]) -> Result<Vec<Hint>> {
    let mut hints = Vec::new();
    let mut selects = 0;
    let mut after_select = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(Whitespace::MultiLineComment(comment))
                if comment.starts_with('+') =>
            {
                let span = span_of(token.span);
                if !after_select {
                    return Err(PlannerError::not_supported("a hint at this place")
                        .with_hint("write hints right after SELECT: SELECT /*+ … */".to_string())
                        .with_span(span));
                }
                read(&comment[1..], selects - 1, span, &mut hints)?;
            }
            Token::Whitespace(_) => {}
            Token::Word(word) if word.keyword == Keyword::SELECT && word.quote_style.is_none() => {
                selects += 1;
                after_select = true;
            }
            _ => after_select = false,
        }
    }
    Ok(hints)
}

/// Reads `NAME`, `NAME(arguments)`, … from a comment's text.
fn read(text: &str, block: usize, span: Option<Span>, hints: &mut Vec<Hint>) -> Result<()> {
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
        hints.push(Hint { name, arguments: arguments.trim().to_string(), block, span });
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
