//! `a ASOF [LEFT] JOIN b ON …`, which the parser does not read, and `MATCH_CONDITION (…)`, which it reads only in one place.
//!
//! In the tokens, ASOF becomes GLOBAL, a word before JOIN that the parser notes in the tree and nothing here has another
//! use for. `MATCH_CONDITION (c) ON d` becomes `ON (c) AND d`, and `MATCH_CONDITION (c) USING (k)` becomes
//! `ON (c) AND using(k)` with a name for the call that no user can mean. A user's own GLOBAL becomes an ordinary word.
//! Invariant: every token that is put in has the place of one that was there.

use datafusion_sql::sqlparser::ast::Ident;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The name of the call that stands for USING beside a match condition.
pub(crate) const USING: &str = "\u{1}using";

/// Rewrites the joins among the tokens.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    hide_global(tokens);
    if !tokens.iter().any(|t| is_word(&t.token, Keyword::ASOF)) {
        return;
    }
    let mut any = false;
    for at in 0..tokens.len() {
        if is_word(&tokens[at].token, Keyword::ASOF) && begins_join(tokens, at) {
            any = true;
            move_before_side(tokens, at);
        }
    }
    if any {
        let mut at = 0;
        while at < tokens.len() {
            if is_word(&tokens[at].token, Keyword::MATCH_CONDITION) {
                merge_condition(tokens, at);
            }
            at += 1;
        }
    }
}

fn is_word(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// The first token behind a place that is not white space.
fn solid(tokens: &[TokenWithSpan], after: usize) -> Option<usize> {
    (after + 1..tokens.len()).find(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
}

/// The last token before a place that is not white space.
fn solid_before(tokens: &[TokenWithSpan], before: usize) -> Option<usize> {
    (0..before).rev().find(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
}

const SIDES: [Keyword; 5] =
    [Keyword::JOIN, Keyword::INNER, Keyword::LEFT, Keyword::RIGHT, Keyword::FULL];

fn begins_join(tokens: &[TokenWithSpan], at: usize) -> bool {
    let next = solid(tokens, at);
    next.is_some_and(|next| SIDES.iter().any(|side| is_word(&tokens[next].token, *side)))
}

/// A GLOBAL that a user wrote would be taken for ASOF.
fn hide_global(tokens: &mut [TokenWithSpan]) {
    for at in 0..tokens.len() {
        if is_word(&tokens[at].token, Keyword::GLOBAL)
            && begins_join(tokens, at)
            && let Token::Word(word) = &mut tokens[at].token
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
}

fn word(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: value.to_string(), quote_style: None, keyword })
}

/// `ASOF LEFT JOIN` and `LEFT [OUTER] ASOF JOIN` → `GLOBAL LEFT [OUTER] JOIN`.
fn move_before_side(tokens: &mut [TokenWithSpan], at: usize) {
    tokens[at].token = word("asof", Keyword::GLOBAL);
    let mut first = at;
    while let Some(before) = solid_before(tokens, first)
        && [Keyword::OUTER, Keyword::INNER, Keyword::LEFT, Keyword::RIGHT, Keyword::FULL]
            .iter()
            .any(|side| is_word(&tokens[before].token, *side))
    {
        let side = std::mem::replace(&mut tokens[before].token, Token::EOF);
        let asof = std::mem::replace(&mut tokens[first].token, side);
        tokens[before].token = asof;
        first = before;
    }
}

/// Puts the condition that begins at a place behind ON.
fn merge_condition(tokens: &mut Vec<TokenWithSpan>, at: usize) {
    let Some(open) = solid(tokens, at).filter(|at| tokens[*at].token == Token::LParen) else {
        return;
    };
    let Some(close) = closing(tokens, open) else { return };
    tokens[at].token = word("ON", Keyword::ON);
    let Some(next) = solid(tokens, close) else { return };
    if is_word(&tokens[next].token, Keyword::ON) {
        tokens[next].token = word("AND", Keyword::AND);
    } else if is_word(&tokens[next].token, Keyword::USING) {
        let name = Ident::with_quote('"', USING);
        let quoted =
            Word { value: name.value, quote_style: Some('"'), keyword: Keyword::NoKeyword };
        tokens[next].token = Token::Word(quoted);
        let span = tokens[next].span;
        tokens.insert(next, TokenWithSpan { token: word("AND", Keyword::AND), span });
    }
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
    use datafusion_sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::parse::dialect::ThalwegDialect;

    fn rewritten(sql: &str) -> String {
        let mut tokens =
            Tokenizer::new(&ThalwegDialect, sql).tokenize_with_location().expect("it is readable");
        rewrite(&mut tokens);
        tokens.iter().map(|t| t.token.to_string()).collect()
    }

    #[test]
    fn all_spellings_become_one() {
        for (sql, wanted) in [
            ("a ASOF JOIN b ON x", "a asof JOIN b ON x"),
            ("a asof left join b USING (k)", "a asof left join b USING (k)"),
            ("a LEFT OUTER ASOF JOIN b ON x", "a asof LEFT OUTER JOIN b ON x"),
            (
                "a ASOF JOIN (b) MATCH_CONDITION ((x) > y) ON z",
                "a asof JOIN (b) ON ((x) > y) AND z",
            ),
            ("a ASOF JOIN b MATCH_CONDITION (x)", "a asof JOIN b ON (x)"),
            (
                "a ASOF JOIN b MATCH_CONDITION (x) USING (k)",
                "a asof JOIN b ON (x) AND\"\u{1}using\" (k)",
            ),
            ("SELECT asof FROM match_condition", "SELECT asof FROM match_condition"),
            ("asof AS (b) SELECT 'ASOF JOIN'", "asof AS (b) SELECT 'ASOF JOIN'"),
        ] {
            assert_eq!(rewritten(sql), wanted, "{sql}");
        }
    }
}
