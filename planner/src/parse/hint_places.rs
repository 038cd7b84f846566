//! Where in a statement hints stand: which query block or which table each belongs to.
//!
//! The syntax tree keeps hints at SELECT alone, so places are found in the tokens: parentheses, the clause that is being
//! read at each depth, and the names that follow or precede a query in parentheses. A table that a hint follows is one
//! of a FROM clause, or the argument of a windowing function.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// What a hint is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HintScope {
    /// The statement's outermost query block.
    Query,
    /// The query block of a derived table or a common table expression, by its name.
    Block(String),
    /// One table of a FROM clause, by its alias, or else by its own name.
    Table(String),
    /// A query block without a name: a branch of a set operation or a subquery of an expression.
    Unnamed,
    /// Neither right after SELECT nor behind a table.
    Nowhere,
}

/// The clause that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clause {
    /// A FROM clause, where names are tables.
    From,
    /// The condition of a join: a comma or a JOIN goes back to tables.
    On,
    /// Anything else.
    Other,
}

/// A pair of parentheses, or the statement itself.
struct Frame {
    clause: Clause,
    /// SELECTs that belong to it; more than one is a set operation.
    selects: usize,
    /// The name of the query in it, once known.
    name: Option<String>,
    /// Whether it stands where a table could.
    in_from: bool,
    parent: Option<usize>,
}

/// The hints of a statement by the position of their tokens, with what they are about.
pub(super) struct HintPlaces {
    /// In the order written.
    pub(super) scopes: Vec<(usize, HintScope)>,
    /// The names of all derived tables and common table expressions.
    pub(super) blocks: Vec<String>,
}

/// What the walk remembers about a hint until the names of blocks are known.
enum Found {
    Block(usize),
    Known(HintScope),
}

/// Finds the places of all hints.
pub(super) fn places(tokens: &[TokenWithSpan]) -> HintPlaces {
    let code: Vec<usize> = (0..tokens.len())
        .filter(|&i| !matches!(tokens[i].token, Token::Whitespace(_)) || is_hint(&tokens[i].token))
        .collect();
    let significant: Vec<usize> =
        code.iter().copied().filter(|&i| !is_hint(&tokens[i].token)).collect();
    let walk = Walk { tokens, significant, frames: Vec::new() };
    walk.run(&code)
}

/// Whether a token is a comment that holds hints.
pub(super) fn is_hint(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::MultiLineComment(c)) if c.starts_with('+'))
}

struct Walk<'a> {
    tokens: &'a [TokenWithSpan],
    /// Tokens that are neither white space nor hints.
    significant: Vec<usize>,
    frames: Vec<Frame>,
}

impl Walk<'_> {
    fn run(mut self, code: &[usize]) -> HintPlaces {
        self.frames.push(Frame {
            clause: Clause::Other,
            selects: 0,
            name: None,
            in_from: false,
            parent: None,
        });
        let (mut open, mut read) = (0, 0);
        let mut found = Vec::new();
        for &at in code {
            let token = &self.tokens[at].token;
            if is_hint(token) {
                found.push((at, self.find(open, read)));
                continue;
            }
            read += 1;
            match token {
                Token::LParen => open = self.open(open, read),
                Token::RParen => open = self.close(open, read),
                Token::Comma if self.frames[open].clause == Clause::On => {
                    self.frames[open].clause = Clause::From;
                }
                Token::Word(word) if word.quote_style.is_none() => {
                    self.enter_clause(open, word.keyword);
                }
                _ => {}
            }
        }
        let scope_of = |found| match found {
            Found::Known(scope) => scope,
            Found::Block(frame) => self.scope(frame),
        };
        let scopes = found.into_iter().map(|(at, place)| (at, scope_of(place))).collect();
        let blocks = self.frames.iter().filter_map(|frame| frame.name.clone()).collect();
        HintPlaces { scopes, blocks }
    }

    /// The `n`-th token before the next one, from 1.
    fn before(&self, read: usize, n: usize) -> Option<&Token> {
        let at = self.significant.get(read.checked_sub(n)?)?;
        Some(&self.tokens[*at].token)
    }

    /// The `n`-th of the tokens that follow, from 0.
    fn after(&self, read: usize, n: usize) -> Option<&Token> {
        self.significant.get(read + n).map(|at| &self.tokens[*at].token)
    }

    fn enter_clause(&mut self, open: usize, keyword: Keyword) {
        let frame = &mut self.frames[open];
        match keyword {
            Keyword::SELECT => {
                frame.selects += 1;
                frame.clause = Clause::Other;
            }
            Keyword::FROM | Keyword::JOIN => frame.clause = Clause::From,
            Keyword::ON | Keyword::USING if frame.clause == Clause::From => {
                frame.clause = Clause::On;
            }
            Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::QUALIFY
            | Keyword::WINDOW
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT => frame.clause = Clause::Other,
            _ => {}
        }
    }

    /// `read` counts the parenthesis.
    fn open(&mut self, open: usize, read: usize) -> usize {
        let in_from = self.frames[open].clause == Clause::From;
        // A call's arguments are no tables, but a parenthesis of a FROM clause may hold joins.
        let call =
            matches!(self.before(read, 2), Some(Token::Word(w)) if w.keyword == Keyword::NoKeyword);
        let clause = if in_from && !call { Clause::From } else { Clause::Other };
        let name = self.cte_name(read);
        self.frames.push(Frame { clause, selects: 0, name, in_from, parent: Some(open) });
        self.frames.len() - 1
    }

    /// The name before `AS [[NOT] MATERIALIZED] (`, behind which columns may be listed.
    fn cte_name(&self, read: usize) -> Option<String> {
        let mut back = 2;
        while let Some(Token::Word(Word {
            keyword: Keyword::MATERIALIZED | Keyword::NOT, ..
        })) = self.before(read, back)
        {
            back += 1;
        }
        let Some(Token::Word(Word { keyword: Keyword::AS, .. })) = self.before(read, back) else {
            return None;
        };
        back += 1;
        if let Some(Token::RParen) = self.before(read, back) {
            while !matches!(self.before(read, back), Some(Token::LParen) | None) {
                back += 1;
            }
            back += 1;
        }
        self.before(read, back).and_then(identifier)
    }

    fn close(&mut self, open: usize, read: usize) -> usize {
        let frame = &self.frames[open];
        let Some(parent) = frame.parent else { return open };
        if frame.selects > 0 && frame.name.is_none() && frame.in_from {
            self.frames[open].name = self.alias(read);
        }
        if self.frames[open].selects == 0 {
            // `WITH c AS (VALUES …)`, a window's definition, or a cast: no block of SELECTs.
            self.frames[open].name = None;
        }
        parent
    }

    /// The alias that follows.
    fn alias(&self, read: usize) -> Option<String> {
        match self.after(read, 0)? {
            Token::Word(Word { keyword: Keyword::AS, .. }) => {
                self.after(read, 1).and_then(identifier)
            }
            token => identifier(token),
        }
    }

    /// What the hint before the next token is about.
    fn find(&self, open: usize, read: usize) -> Found {
        let Some(Token::Word(word)) = self.before(read, 1) else {
            return Found::Known(HintScope::Nowhere);
        };
        if word.keyword == Keyword::SELECT && word.quote_style.is_none() {
            return Found::Block(open);
        }
        let mut back = 2;
        while let (Some(Token::Period), Some(Token::Word(_))) =
            (self.before(read, back), self.before(read, back + 1))
        {
            back += 2;
        }
        let table = match self.before(read, back) {
            Some(Token::Word(word)) => match word.keyword {
                Keyword::FROM | Keyword::JOIN => self.frames[open].clause == Clause::From,
                Keyword::TABLE => true,
                _ => false,
            },
            Some(Token::Comma | Token::LParen) => self.frames[open].clause == Clause::From,
            _ => false,
        };
        let name = identifier_of(word);
        Found::Known(match table {
            true => HintScope::Table(self.alias(read).unwrap_or(name)),
            false => HintScope::Nowhere,
        })
    }

    fn scope(&self, frame: usize) -> HintScope {
        let frame = &self.frames[frame];
        match (frame.selects, frame.parent, &frame.name) {
            (1, None, _) => HintScope::Query,
            (1, Some(_), Some(name)) => HintScope::Block(name.clone()),
            _ => HintScope::Unnamed,
        }
    }
}

/// The name that a token is, unless it is a keyword.
fn identifier(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) if word.keyword == Keyword::NoKeyword || word.quote_style.is_some() => {
            Some(identifier_of(word))
        }
        _ => None,
    }
}

fn identifier_of(word: &Word) -> String {
    match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion_sql::sqlparser::dialect::GenericDialect;
    use datafusion_sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn scopes(sql: &str) -> Vec<HintScope> {
        let tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().unwrap();
        places(&tokens).scopes.into_iter().map(|(_, scope)| scope).collect()
    }

    fn table(name: &str) -> HintScope {
        HintScope::Table(name.to_string())
    }

    #[test]
    fn tables_are_named_by_their_alias_or_by_themselves() {
        let sql = "SELECT /*+ h */ a FROM s.T /*+ h */, u /*+ h */ AS \"X\" JOIN v /*+ h */ w ON w.a = u.a, z /*+ h */";
        assert_eq!(scopes(sql), [HintScope::Query, table("t"), table("X"), table("w"), table("z")]);
        assert_eq!(scopes("SELECT * FROM (a /*+ h */ JOIN b /*+ h */ ON x = y)").len(), 2);
        let window =
            "SELECT * FROM TABLE(TUMBLE(TABLE bids /*+ h */, DESCRIPTOR(ts), INTERVAL '1' DAY))";
        assert_eq!(scopes(window), [table("bids")]);
    }

    #[test]
    fn blocks_have_the_names_of_their_queries() {
        let sql = "WITH c (k) AS (SELECT /*+ h */ 1) SELECT /*+ h */ * FROM c, (SELECT /*+ h */ 2 FROM t) AS d \
                   WHERE k IN (SELECT /*+ h */ 3)";
        let block = |name: &str| HintScope::Block(name.to_string());
        assert_eq!(scopes(sql), [block("c"), HintScope::Query, block("d"), HintScope::Unnamed]);
        let branches = "SELECT /*+ h */ 1 UNION ALL SELECT /*+ h */ 2";
        assert_eq!(scopes(branches), [HintScope::Unnamed, HintScope::Unnamed]);
    }

    #[test]
    fn other_places_belong_to_nothing() {
        for sql in [
            "SELECT a /*+ h */ FROM t",
            "SELECT a, b /*+ h */ FROM t",
            "SELECT f(a, b /*+ h */) FROM t",
            "SELECT * FROM t WHERE a /*+ h */ = 1",
            "SELECT * FROM t JOIN u ON t.a /*+ h */ = u.a",
            "/*+ h */ SELECT 1",
            "SELECT * FROM f(a /*+ h */)",
        ] {
            assert_eq!(scopes(sql), [HintScope::Nowhere], "{sql}");
        }
    }
}
