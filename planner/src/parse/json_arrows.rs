//! `j -> 'key'`: the parser would take it for a function of `j`.
//!
//! In the tokens, an arrow between a name and a constant becomes an operator of its own kind, which the binder reads. In the
//! calls of functions that take functions it becomes an arrow again there. Invariant: other arrows stay.

use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::JSON_ARROW;

/// Marks the arrows among the tokens.
pub(super) fn mark(tokens: &mut [TokenWithSpan]) {
    for at in 0..tokens.len() {
        if tokens[at].token == Token::Arrow && follows_name(tokens, at) && is_constant(tokens, at) {
            tokens[at].token = Token::CustomBinaryOperator(JSON_ARROW.to_string());
        }
    }
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

fn follows_name(tokens: &[TokenWithSpan], at: usize) -> bool {
    let before = tokens[..at].iter().rev().find(|token| !is_space(token));
    before.is_some_and(|token| matches!(token.token, Token::Word(_)))
}

/// Whether a text or a whole number follows.
fn is_constant(tokens: &[TokenWithSpan], at: usize) -> bool {
    let mut after = tokens[at + 1..].iter().filter(|token| !is_space(token)).map(|t| &t.token);
    match after.next() {
        Some(Token::SingleQuotedString(_) | Token::Number(..)) => true,
        Some(Token::Minus) => matches!(after.next(), Some(Token::Number(..))),
        _ => false,
    }
}
