//! `aggregate:f(x ORDER BY y)`: a function of a list, over the values of a group.
//!
//! In the tokens it becomes `f(array_agg(x ORDER BY y))`. Invariant: every token that is put in has the place of one that
//! was there, and a colon elsewhere stays.

use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Rewrites the calls among the tokens.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 3 < tokens.len() {
        if is_prefix(&tokens[at..at + 4])
            && let Some(close) = closing(tokens, at + 3)
        {
            let span = tokens[at].span;
            let end = tokens[close].span;
            tokens.insert(close, TokenWithSpan { token: Token::RParen, span: end });
            tokens.insert(at + 4, TokenWithSpan { token: Token::LParen, span });
            let collect = Token::make_word("array_agg", None);
            tokens.insert(at + 4, TokenWithSpan { token: collect, span });
            tokens.drain(at..at + 2);
        }
        at += 1;
    }
}

fn is_prefix(tokens: &[TokenWithSpan]) -> bool {
    let [prefix, colon, name, open] = tokens else { return false };
    matches!(&prefix.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("aggregate"))
        && colon.token == Token::Colon
        && matches!(name.token, Token::Word(_))
        && open.token == Token::LParen
}

/// Where the parenthesis closes that opens at a place.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (open..tokens.len()).find(|&at| {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use datafusion_sql::sqlparser::dialect::GenericDialect;
    use datafusion_sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn the_values_are_collected() {
        for (sql, wanted) in [
            ("SELECT aggregate:f(x ORDER BY (y)) AS r", "SELECT f(array_agg(x ORDER BY (y))) AS r"),
            ("SELECT aggregate:f(aggregate:g(x))", "SELECT f(array_agg(g(array_agg(x))))"),
            ("SELECT aggregate, a:b FROM t", "SELECT aggregate, a:b FROM t"),
        ] {
            let mut tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().unwrap();
            rewrite(&mut tokens);
            assert_eq!(tokens.iter().map(|t| t.token.to_string()).collect::<String>(), wanted);
        }
    }
}
