//! Types in the columns of CREATE TABLE that the parser knows under other names: `ROW<a INT, …>` is a STRUCT, and
//! TIMESTAMP WITH LOCAL TIME ZONE is a TIMESTAMP WITH TIME ZONE.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// Renames the types of a column, which is these tokens.
pub(super) fn rename(tokens: &mut [TokenWithSpan], column: &[usize]) {
    for at in 1..column.len().saturating_sub(1) {
        let (before, after) = (&tokens[column[at - 1]].token, &tokens[column[at + 1]].token);
        match tokens[column[at]].token {
            Token::Word(Word { keyword: Keyword::ROW, quote_style: None, .. })
                if *after == Token::Lt =>
            {
                tokens[column[at]].token = Token::make_keyword("STRUCT");
            }
            Token::Word(Word { keyword: Keyword::LOCAL, quote_style: None, .. })
                if is(before, Keyword::WITH) && is(after, Keyword::TIME) =>
            {
                tokens[column[at]].token = Token::Whitespace(Whitespace::Space);
            }
            _ => {}
        }
    }
}

fn is(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}
