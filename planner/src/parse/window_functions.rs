//! `TUMBLE(TABLE t, …)` and its like in FROM: the parser reads neither tables as arguments nor `PARTITION BY` after them.
//!
//! In the tokens, `TABLE(TUMBLE(…))` loses the word around it, `TABLE t` becomes `(SELECT * FROM t)`, and
//! `TABLE t PARTITION BY k` goes on with a named argument, `, "partition by" => k`. A plain name becomes a query, too, and
//! an argument says that it was one. Invariant: nothing outside the
//! parentheses of such a call changes, and what is put in has the place of a word that was there.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::windows::{PARTITION_BY, PLAIN, WindowFunction};

/// How deeply calls may stand in each other; those within are left to the parser, which refuses them.
const MAX_DEPTH: usize = 100;

/// Rewrites the calls among the tokens.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    if tokens.iter().any(|t| is_name(&t.token)) {
        let mut pass = Pass { input: tokens, out: Vec::with_capacity(tokens.len() + 16), depth: 0 };
        pass.copy(0, tokens.len());
        *tokens = pass.out;
    }
}

fn is_name(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_none() && WindowFunction::called(&word.value).is_some()
        }
        _ => false,
    }
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

struct Pass<'a> {
    input: &'a [TokenWithSpan],
    out: Vec<TokenWithSpan>,
    depth: usize,
}

/// A call: the places of its name and its parentheses.
struct Call {
    name: usize,
    open: usize,
    close: usize,
}

impl Pass<'_> {
    /// The first token from a place on that is not white space; the end where there is none.
    fn solid(&self, from: usize, end: usize) -> usize {
        let is_solid = |at: &usize| !matches!(self.input[*at].token, Token::Whitespace(_));
        (from..end).find(is_solid).unwrap_or(end)
    }

    fn is(&self, at: usize, end: usize, token: &Token) -> bool {
        at < end && self.input[at].token == *token
    }

    fn is_word(&self, at: usize, end: usize, keyword: Keyword) -> bool {
        at < end && is_keyword(&self.input[at].token, keyword)
    }

    /// Where the parenthesis closes that opens at a place.
    fn closing(&self, open: usize, end: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (open..end).find(|&at| {
            match self.input[at].token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }

    /// The call that begins at a place.
    fn call(&self, name: usize, end: usize) -> Option<Call> {
        let open = self.solid(name + 1, end);
        if name >= end || !is_name(&self.input[name].token) || !self.is(open, end, &Token::LParen) {
            return None;
        }
        Some(Call { name, open, close: self.closing(open, end)? })
    }

    /// The call in `TABLE(call)` that begins at a place, and where the outer parenthesis closes.
    fn wrapped(&self, at: usize, end: usize) -> Option<(Call, usize)> {
        let open = self.solid(at + 1, end);
        if !self.is_word(at, end, Keyword::TABLE) || !self.is(open, end, &Token::LParen) {
            return None;
        }
        let call = self.call(self.solid(open + 1, end), end)?;
        let close = self.solid(call.close + 1, end);
        self.is(close, end, &Token::RParen).then_some((call, close))
    }

    fn push(&mut self, token: Token, span: Span) {
        self.out.push(TokenWithSpan { token, span });
    }

    /// Copies tokens, and rewrites the calls among them.
    fn copy(&mut self, from: usize, end: usize) {
        let (mut at, mut in_from) = (from, false);
        while at < end {
            if self.depth < MAX_DEPTH {
                if let Some((call, close)) = self.wrapped(at, end) {
                    self.rewrite_call(&call, true);
                    (at, in_from) = (close + 1, false);
                    continue;
                }
                if let Some(call) = self.call(at, end) {
                    self.rewrite_call(&call, in_from);
                    (at, in_from) = (call.close + 1, false);
                    continue;
                }
            }
            let token = &self.input[at];
            if !matches!(token.token, Token::Whitespace(_)) {
                in_from = is_keyword(&token.token, Keyword::FROM)
                    || is_keyword(&token.token, Keyword::JOIN);
            }
            self.out.push(token.clone());
            at += 1;
        }
    }

    fn rewrite_call(&mut self, call: &Call, in_from: bool) {
        self.depth += 1;
        self.out.extend_from_slice(&self.input[call.name..=call.open]);
        let mut from = call.open + 1;
        for (number, end) in self.argument_ends(call).into_iter().enumerate() {
            self.argument(from, end, number == 0, in_from);
            self.out.push(self.input[end].clone());
            from = end + 1;
        }
        self.depth -= 1;
    }

    /// The commas between the arguments of a call, and its closing parenthesis.
    fn argument_ends(&self, call: &Call) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut depth = 0_usize;
        for at in call.open + 1..call.close {
            match self.input[at].token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                Token::Comma if depth == 0 => ends.push(at),
                _ => {}
            }
        }
        ends.push(call.close);
        ends
    }

    fn argument(&mut self, from: usize, end: usize, first: bool, in_from: bool) {
        let name = self.solid(from, end);
        let arrow = self.solid((name + 1).min(end), end);
        let named = self.is(arrow, end, &Token::RArrow);
        let value = if named { self.solid(arrow + 1, end) } else { name };
        let is_table = self.is_word(value, end, Keyword::TABLE);
        let is_name =
            |token: &Token| matches!(token, Token::Word(_) | Token::SingleQuotedString(_));
        let plain = first && !named && in_from && value < end && is_name(&self.input[value].token);
        let keys = self.partition_by(value, end);
        if named {
            self.out.extend_from_slice(&self.input[from..value]);
        }
        let data_end = keys.map_or(end, |(partition, _)| partition);
        if is_table {
            self.table(value, data_end);
        } else if plain {
            self.select(value, value, data_end);
            let span = self.input[value].span;
            self.push(Token::Comma, span);
            self.push(Token::make_word(PLAIN, Some('"')), span);
            self.push(Token::RArrow, span);
            self.push(Token::make_keyword("TRUE"), span);
        } else {
            self.copy(value, data_end);
        }
        if let Some((partition, keys)) = keys {
            let span = self.input[partition].span;
            self.push(Token::Comma, span);
            self.push(Token::make_word(PARTITION_BY, Some('"')), span);
            self.push(Token::RArrow, span);
            self.copy(keys, end);
        }
    }

    /// The places of PARTITION and of what follows BY, outside of parentheses.
    fn partition_by(&self, from: usize, end: usize) -> Option<(usize, usize)> {
        let mut depth = 0_usize;
        for at in from..end {
            match &self.input[at].token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                token if depth == 0 && is_keyword(token, Keyword::PARTITION) => {
                    let by = self.solid(at + 1, end);
                    return self.is_word(by, end, Keyword::BY).then_some((at, by + 1));
                }
                _ => {}
            }
        }
        None
    }

    /// The argument that begins with the word TABLE.
    fn table(&mut self, word: usize, end: usize) {
        let open = self.solid(word + 1, end);
        let is_query = |token: &Token| {
            [Keyword::SELECT, Keyword::WITH, Keyword::VALUES, Keyword::FROM]
                .into_iter()
                .any(|keyword| is_keyword(token, keyword))
                || *token == Token::LParen
        };
        let inner = self.solid((open + 1).min(end), end);
        if !self.is(open, end, &Token::LParen) {
            self.select(word, open, end);
        } else if inner < end && is_query(&self.input[inner].token) {
            self.copy(open, end);
        } else {
            // `TABLE(f(…))`: the parentheses around the call go with the word.
            let close = self.closing(open, end).unwrap_or(end);
            self.select(word, inner, close);
        }
    }

    /// `(SELECT * FROM …)`
    fn select(&mut self, place: usize, from: usize, end: usize) {
        let span = self.input[place].span;
        self.push(Token::LParen, span);
        self.push(Token::make_keyword("SELECT"), span);
        self.push(Token::Mul, span);
        self.push(Token::make_keyword("FROM"), span);
        self.copy(from, end);
        self.push(Token::RParen, span);
    }
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
    fn tables_become_queries() {
        for (sql, expected) in [
            ("FROM TABLE(TUMBLE(TABLE t, d)) w", "FROM TUMBLE ( ( SELECT * FROM t ) , d ) w"),
            ("FROM hop(TABLE a.t, d)", "FROM hop ( ( SELECT * FROM a . t ) , d )"),
            ("FROM hop(t, d)", "FROM hop ( ( SELECT * FROM t ) , \"\u{1}plain\" => TRUE , d )"),
            ("FROM hop(DATA => TABLE t)", "FROM hop ( DATA => ( SELECT * FROM t ) )"),
            ("FROM hop(TABLE (SELECT 1), d)", "FROM hop ( ( SELECT 1 ) , d )"),
            ("FROM hop((SELECT 1), d)", "FROM hop ( ( SELECT 1 ) , d )"),
            (
                "FROM SESSION(TABLE t PARTITION BY (a, b), d)",
                "FROM SESSION ( ( SELECT * FROM t ) , \"partition by\" => ( a , b ) , d )",
            ),
            (
                "FROM TABLE(HOP(TABLE(TUMBLE(TABLE t, d)), e))",
                "FROM HOP ( ( SELECT * FROM TUMBLE ( ( SELECT * FROM t ) , d ) ) , e )",
            ),
            ("FROM hop(TABLE(f(1)), d)", "FROM hop ( ( SELECT * FROM f ( 1 ) ) , d )"),
        ] {
            assert_eq!(rewritten(sql), expected);
        }
    }

    #[test]
    fn nothing_else_changes() {
        for sql in [
            "SELECT tumble ( ts , 1 ) FROM t GROUP BY tumble ( ts , 1 )",
            "SELECT session FROM hop",
            "FROM ( TABLE t )",
            "FROM TUMBLE (",
            "FROM TUMBLE ( TABLE t",
            "FROM TUMBLE ( )",
            "FROM \"tumble\" ( a PARTITION BY b )",
        ] {
            assert_eq!(rewritten(sql), sql);
        }
    }

    #[test]
    fn deep_calls_are_left_alone() {
        let sql = format!("FROM {}1{}", "hop(TABLE ".repeat(5_000), ")".repeat(5_000));
        assert!(rewritten(&sql).contains("hop ( TABLE"));
    }
}
