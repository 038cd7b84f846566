//! `ON CONFLICT [(key)] DO ERROR | DO DEDUPLICATE | DO UPDATE` behind an INSERT, of which the parser reads `DO UPDATE SET …`
//! and `DO NOTHING` alone.
//!
//! In the tokens each becomes `DO UPDATE SET name = name`, with a name that no user can mean. Invariant: every token that
//! is put in has the place of one that was there.

use datafusion_sql::sqlparser::ast::Ident;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The name that stands for DO ERROR.
pub(crate) const ERROR: &str = "\u{1}error";
/// The name that stands for DO DEDUPLICATE and a DO UPDATE that sets all columns.
pub(crate) const ALL: &str = "\u{1}all";

/// Rewrites the clauses among the tokens.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at].token, "CONFLICT")
            && let Some((action, name)) = action_behind(tokens, at)
        {
            let span = tokens[action].span;
            let placed = |token: Token| TokenWithSpan { token, span };
            let word = |word: &str, keyword: Keyword| {
                placed(Token::Word(Word { value: word.to_string(), quote_style: None, keyword }))
            };
            let marker = || {
                placed(Token::Word(Word {
                    value: name.to_string(),
                    quote_style: Some('"'),
                    keyword: Keyword::NoKeyword,
                }))
            };
            let put = [
                word("UPDATE", Keyword::UPDATE),
                word("SET", Keyword::SET),
                marker(),
                placed(Token::Eq),
                marker(),
            ];
            tokens.splice(action..=action, put);
        }
        at += 1;
    }
}

/// The place of the action behind CONFLICT, and the name that stands for it; `None` where the parser reads it.
fn action_behind(tokens: &[TokenWithSpan], conflict: usize) -> Option<(usize, &'static str)> {
    let mut solid = (conflict + 1..tokens.len())
        .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)));
    let mut at = solid.next()?;
    if tokens[at].token == Token::LParen {
        while tokens[at].token != Token::RParen {
            at = solid.next()?;
        }
        at = solid.next()?;
    }
    if !is_word(&tokens[at].token, "DO") {
        return None;
    }
    let action = solid.next()?;
    let token = &tokens[action].token;
    if is_word(token, "ERROR") {
        return Some((action, ERROR));
    }
    let sets = solid.next().is_some_and(|next| is_word(&tokens[next].token, "SET"));
    let all = is_word(token, "DEDUPLICATE") || (is_word(token, "UPDATE") && !sets);
    all.then_some((action, ALL))
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w)
        if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// Whether an identifier is one of the names above.
pub(crate) fn is_marker(ident: &Ident, name: &str) -> bool {
    ident.value == name
}
