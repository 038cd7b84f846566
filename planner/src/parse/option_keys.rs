//! Options whose keys have dots: `WITH (refresh.interval.sec = 3)`.
//!
//! The parser takes single words. In the tokens the words of a key become one. Invariant: only words that are joined by
//! dots and stand between `(` or `,` and `=`, within the parentheses of WITH, are changed.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Joins the words of keys among the tokens.
pub(super) fn join(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if begins_options(tokens, at) {
            join_within(tokens, at + 1);
        }
        at += 1;
    }
}

/// Whether the parenthesis of `WITH (` is at a place.
fn begins_options(tokens: &[TokenWithSpan], at: usize) -> bool {
    let before = tokens[..at].iter().rev().find(|t| !matches!(t.token, Token::Whitespace(_)));
    tokens[at].token == Token::LParen
        && before
            .is_some_and(|t| matches!(&t.token, Token::Word(word) if word.keyword == Keyword::WITH))
}

fn join_within(tokens: &mut Vec<TokenWithSpan>, from: usize) {
    let (mut at, mut expects_key) = (from, true);
    while at < tokens.len() {
        match &tokens[at].token {
            Token::RParen | Token::LParen | Token::SemiColon => return,
            Token::Comma => expects_key = true,
            Token::Whitespace(_) => {}
            Token::Word(_) if expects_key => {
                expects_key = false;
                join_key(tokens, at);
            }
            _ => expects_key = false,
        }
        at += 1;
    }
}

/// Makes one word of those that begin at a place, if there are several and `=` follows.
fn join_key(tokens: &mut Vec<TokenWithSpan>, at: usize) {
    let mut key = String::new();
    let mut end = at;
    loop {
        let Token::Word(word) = &tokens[end].token else { return };
        key.push_str(&word.value.to_lowercase());
        match (tokens.get(end + 1).map(|t| &t.token), tokens.get(end + 2).map(|t| &t.token)) {
            (Some(Token::Period), Some(Token::Word(_))) => {
                key.push('.');
                end += 2;
            }
            _ => break,
        }
    }
    let next = tokens[end + 1..].iter().find(|t| !matches!(t.token, Token::Whitespace(_)));
    if end > at && next.is_some_and(|t| t.token == Token::Eq) {
        tokens[at].token = Token::make_word(&key, Some('"'));
        tokens.drain(at + 1..=end);
    }
}

#[cfg(test)]
mod tests {
    use datafusion_sql::sqlparser::dialect::GenericDialect;
    use datafusion_sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn keys_with_dots_are_one_word() {
        for (sql, wanted) in [
            ("WITH (a.B.c = 3, d = e.f)", "WITH (\"a.b.c\" = 3, d = e.f)"),
            ("WITH (a = 1)", "WITH (a = 1)"),
            ("WITH x AS (SELECT a.b = 1)", "WITH x AS (SELECT a.b = 1)"),
        ] {
            let mut tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().unwrap();
            join(&mut tokens);
            assert_eq!(tokens.iter().map(|t| t.token.to_string()).collect::<String>(), wanted);
        }
    }
}
