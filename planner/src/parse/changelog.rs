//! `WITH c AS CHANGELOG FROM t`: the changes of a table as rows that stay.
//!
//! In the tokens it becomes `c AS (SELECT * FROM __changelog_of(row_ids, 't'))`, a table function that the catalog knows.
//! The column that numbers the rows is there if the statement names it. Invariant: every token that is put in has the
//! place of one that was there.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use crate::catalog::CHANGELOG_OF;

/// The column that numbers the rows of a changelog.
const ROW_ID: &str = "_changelog_row_id";

/// Rewrites the changelogs among the tokens.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Some((end, names)) = changelog(tokens, at) {
            let span = tokens[at].span;
            let row_ids = names_row_ids(tokens, at);
            let call = call(&names, row_ids, span);
            let length = call.len();
            tokens.splice(at..end, call);
            at += length;
        } else {
            at += 1;
        }
    }
}

/// The next tokens that are not white space, with their places.
fn solid(tokens: &[TokenWithSpan], from: usize) -> impl Iterator<Item = (usize, &Token)> {
    let placed = tokens.iter().enumerate().skip(from).map(|(at, token)| (at, &token.token));
    placed.filter(|(_, token)| !matches!(token, Token::Whitespace(_)))
}

/// Whether `CHANGELOG FROM name` begins at a place, in a WITH: where it ends, and the parts of the name.
fn changelog(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, Vec<Word>)> {
    if !is_word(&tokens[at].token, "changelog") || !begins_cte(tokens, at) {
        return None;
    }
    let mut next = solid(tokens, at + 1);
    let (_, from) = next.next()?;
    if !matches!(from, Token::Word(word) if word.keyword == Keyword::FROM) {
        return None;
    }
    let mut names = Vec::new();
    loop {
        let (place, Token::Word(word)) = next.next()? else { return None };
        names.push(word.clone());
        match tokens.get(place + 1) {
            Some(dot) if dot.token == Token::Period => next.next(),
            _ => return Some((place + 1, names)),
        };
    }
}

/// Whether `name AS` of a WITH stands before a place: not the alias of a SELECT.
fn begins_cte(tokens: &[TokenWithSpan], at: usize) -> bool {
    let mut depth = 0_usize;
    let mut before = tokens[..at].iter().rev().filter(|t| !matches!(t.token, Token::Whitespace(_)));
    if !before.next().is_some_and(|token| is_keyword(&token.token, Keyword::AS)) {
        return false;
    }
    for token in before {
        match &token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return false,
            Token::LParen => depth -= 1,
            _ if depth > 0 => {}
            Token::SemiColon => return false,
            token if is_keyword(token, Keyword::SELECT) => return false,
            token if is_keyword(token, Keyword::WITH) => return true,
            _ => {}
        }
    }
    false
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

fn is_word(token: &Token, name: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

/// Whether the statement at a place names the column with the numbers.
fn names_row_ids(tokens: &[TokenWithSpan], at: usize) -> bool {
    let ends = |token: &&TokenWithSpan| token.token == Token::SemiColon;
    let before = tokens[..at].iter().rev().take_while(|token| !ends(token));
    let after = tokens[at..].iter().take_while(|token| !ends(token));
    before.chain(after).any(|token| is_word(&token.token, ROW_ID))
}

fn call(names: &[Word], row_ids: bool, span: Span) -> Vec<TokenWithSpan> {
    let mut call = vec![
        Token::LParen,
        Token::make_keyword("SELECT"),
        Token::Mul,
        Token::make_keyword("FROM"),
        Token::make_word(CHANGELOG_OF, None),
        Token::LParen,
        Token::make_keyword(if row_ids { "TRUE" } else { "FALSE" }),
    ];
    for name in names {
        let folded = match name.quote_style {
            None => name.value.to_lowercase(),
            Some(_) => name.value.clone(),
        };
        call.push(Token::Comma);
        call.push(Token::SingleQuotedString(folded));
    }
    call.extend([Token::RParen, Token::RParen]);
    call.into_iter().map(|token| TokenWithSpan { token, span }).collect()
}

#[cfg(test)]
mod tests {
    use datafusion_sql::sqlparser::dialect::GenericDialect;
    use datafusion_sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn rewritten(sql: &str) -> String {
        let mut tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().unwrap();
        rewrite(&mut tokens);
        let words = tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_)));
        words.map(|t| t.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn changelogs_become_calls() {
        for (sql, wanted) in [
            (
                "WITH c AS changelog FROM s.T SELECT * FROM c",
                "WITH c AS ( SELECT * FROM __changelog_of ( FALSE , 's' , 't' ) ) SELECT * FROM c",
            ),
            (
                "SELECT _changelog_row_id ; WITH c AS CHANGELOG FROM \"T\" SELECT 1",
                "SELECT _changelog_row_id ; WITH c AS ( SELECT * FROM __changelog_of ( FALSE , 'T' ) ) SELECT 1",
            ),
            (
                "WITH c AS CHANGELOG FROM t SELECT _changelog_row_id FROM c",
                "WITH c AS ( SELECT * FROM __changelog_of ( TRUE , 't' ) ) SELECT _changelog_row_id FROM c",
            ),
            (
                "WITH a AS CHANGELOG FROM t, b AS (SELECT 1) , c AS CHANGELOG FROM u SELECT 2",
                "WITH a AS ( SELECT * FROM __changelog_of ( FALSE , 't' ) ) , b AS ( SELECT 1 ) , c AS ( SELECT * FROM __changelog_of ( FALSE , 'u' ) ) SELECT 2",
            ),
            // An alias of that name before FROM.
            (
                "WITH a AS (SELECT 1) SELECT b, c AS changelog FROM t",
                "WITH a AS ( SELECT 1 ) SELECT b , c AS changelog FROM t",
            ),
        ] {
            assert_eq!(rewritten(sql), wanted);
        }
    }
}
