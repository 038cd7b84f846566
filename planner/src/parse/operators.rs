//! Operators that the tokenizer takes apart: `<->` and `<#>`.
//!
//! Invariant: only tokens that touch are joined, and none that mean something apart: no operand begins with `->` or `#>`.

use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Joins the tokens of each such operator into one.
pub(super) fn join(tokens: &mut Vec<TokenWithSpan>) {
    let joined = |pair: &[TokenWithSpan]| match pair {
        [first, second] if first.token == Token::Lt && second.span.start == first.span.end => {
            match second.token {
                Token::Arrow => Some("<->"),
                Token::HashArrow => Some("<#>"),
                _ => None,
            }
        }
        _ => None,
    };
    if !tokens.windows(2).any(|pair| joined(pair).is_some()) {
        return;
    }
    let mut at = 0;
    while at + 1 < tokens.len() {
        if let Some(operator) = joined(&tokens[at..at + 2]) {
            tokens[at].span.end = tokens[at + 1].span.end;
            tokens[at].token = Token::CustomBinaryOperator(operator.to_string());
            tokens.remove(at + 1);
        }
        at += 1;
    }
}
