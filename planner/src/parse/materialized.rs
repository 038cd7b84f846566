//! `WITH name AS [NOT] MATERIALIZED (query)`: the parser reads the hint for one other dialect only.
//!
//! The words are taken out of the tokens, and put back into the tree by the place of the closing parenthesis.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{CteAsMaterialized, Query, VisitorMut};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Whitespace};

/// The hints of a text by where their CTEs end.
#[derive(Debug, Default)]
pub(super) struct Materialized {
    by_end: HashMap<Location, CteAsMaterialized>,
}

impl Materialized {
    /// Turns the hints' words into white space and remembers them.
    pub(super) fn take_from(tokens: &mut [TokenWithSpan]) -> Self {
        let words: Vec<usize> = (0..tokens.len())
            .filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_)))
            .collect();
        let mut found = Materialized::default();
        for at in 0..words.len() {
            let is = |n: usize, keyword| {
                words.get(at + n).is_some_and(|&i| is_keyword(&tokens[i].token, keyword))
            };
            let (hint, length) =
                match (is(0, Keyword::AS), is(1, Keyword::MATERIALIZED), is(1, Keyword::NOT)) {
                    (true, true, _) => (CteAsMaterialized::Materialized, 1),
                    (true, _, true) if is(2, Keyword::MATERIALIZED) => {
                        (CteAsMaterialized::NotMaterialized, 2)
                    }
                    _ => continue,
                };
            let Some(end) = closing(tokens, &words[at + 1 + length..]) else { continue };
            found.by_end.insert(end, hint);
            for &word in &words[at + 1..=at + length] {
                tokens[word].token = Token::Whitespace(Whitespace::Space);
            }
        }
        found
    }
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// Where the parenthesis closes that the first of these tokens opens.
fn closing(tokens: &[TokenWithSpan], words: &[usize]) -> Option<Location> {
    if tokens[*words.first()?].token != Token::LParen {
        return None;
    }
    let mut depth = 0_usize;
    for &at in words {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(tokens[at].span.start);
        }
    }
    None
}

/// Puts the hints into the tree.
pub(super) struct PutBack<'a>(pub(super) &'a Materialized);

impl VisitorMut for PutBack<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let end = cte.closing_paren_token.0.span.start;
            if let Some(hint) = self.0.by_end.get(&end) {
                cte.materialized = Some(*hint);
            }
        }
        ControlFlow::Continue(())
    }
}
