//! What the parser does not read among the columns of CREATE TABLE: computed columns (`ts [type] AS expression`), columns that
//! the connector knows of a row (`k VARCHAR METADATA FROM 'key' VIRTUAL`), and `WATERMARK FOR ts [AS expression] [WITH TTL]`.
//!
//! They are taken out of the tokens before the parser sees them, and read when the parser has read the rest of the
//! statement. Invariant: what was taken out belongs to the table whose name stands before its parenthesis; what no
//! statement asks for is an error, never dropped.

use std::collections::BTreeMap;

use datafusion_sql::sqlparser::ast::{CastKind, Expr, Ident, ObjectName};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Whitespace};

use super::script::Script;
use super::{span_of, type_names};
use crate::error::{PlannerError, Result};

/// What was found among the columns of one table, in the order written.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableColumns {
    pub(crate) computed: Vec<ComputedAst>,
    pub(crate) metadata: Vec<MetadataAst>,
    pub(crate) watermark: Option<WatermarkAst>,
    /// APPEND ONLY stands behind them.
    pub(crate) append_only: bool,
}

/// `name [type] AS expr`; the cast to the type is part of the expression.
#[derive(Debug, Clone)]
pub(crate) struct ComputedAst {
    pub(crate) name: Ident,
    pub(crate) expr: Expr,
    /// It is written with a type, `GENERATED ALWAYS AS (expr)`; the cast is part of the expression.
    pub(crate) is_generated: bool,
}

/// `name type METADATA [FROM 'key'] [VIRTUAL]`; the type is with the other columns.
#[derive(Debug, Clone)]
pub(crate) struct MetadataAst {
    pub(crate) name: Ident,
    pub(crate) key: Option<String>,
    pub(crate) is_virtual: bool,
}

/// `WATERMARK FOR column AS expr [WITH TTL]`; without AS the column itself is the expression.
#[derive(Debug, Clone)]
pub(crate) struct WatermarkAst {
    pub(crate) column: Ident,
    pub(crate) expr: Expr,
    /// Rows behind it leave the table.
    pub(crate) ttl: bool,
}

/// The pieces of a text by where the name of their table begins. Each piece ends with the token that ended it.
#[derive(Debug, Default)]
pub(super) struct TakenColumns {
    by_name: BTreeMap<Location, Vec<Piece>>,
}

#[derive(Debug)]
struct Piece {
    kind: Kind,
    tokens: Vec<TokenWithSpan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Computed,
    /// With a type before AS.
    TypedComputed,
    Metadata,
    Watermark,
}

impl TakenColumns {
    /// Turns what the parser does not read into white space and remembers it.
    pub(super) fn take_from(tokens: &mut [TokenWithSpan]) -> Self {
        let words: Vec<usize> = (0..tokens.len())
            .filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_)))
            .collect();
        let mut taken = TakenColumns::default();
        for at in 0..words.len() {
            let Some((name, open)) = table_head(tokens, &words[at..]) else { continue };
            let start = tokens[words[at + name]].span.start;
            let pieces = pieces_of(tokens, &words[at + open..]);
            if !pieces.is_empty() {
                taken.by_name.insert(start, pieces);
            }
        }
        taken
    }

    /// Where the first piece stands whose table is named within the place, if one is left there.
    pub(super) fn first_within(&self, start: Location, end: Location) -> Option<&TokenWithSpan> {
        let (_, pieces) = self.by_name.range(start..end).next()?;
        pieces.first()?.tokens.first()
    }
}

impl Script<'_> {
    /// Reads what was taken out of the columns of the table of this name.
    pub(super) fn columns_of(&mut self, name: &ObjectName) -> Result<TableColumns> {
        let start = name.0.first().and_then(|part| part.as_ident()).map(|name| name.span.start);
        let pieces = start.and_then(|start| self.taken_columns.by_name.remove(&start));
        let mut columns = TableColumns::default();
        for Piece { kind, tokens } in pieces.into_iter().flatten() {
            // The words that were taken out are read by a parser of their own, so that places and messages stay right.
            let outer = std::mem::replace(&mut self.parser, Script::parser_of(tokens));
            let read = self.piece(kind, &mut columns);
            self.parser = outer;
            read?;
        }
        Ok(columns)
    }

    fn piece(&mut self, kind: Kind, columns: &mut TableColumns) -> Result<()> {
        match kind {
            Kind::Computed => {
                let name = self.column_name()?;
                let expr = self.expression_after_as()?;
                columns.computed.push(ComputedAst { name, expr, is_generated: false });
            }
            Kind::TypedComputed => {
                let name = self.column_name()?;
                let data_type = self.parser.parse_data_type().map_err(|e| self.translate(e))?;
                let expr = Box::new(self.expression_after_as()?);
                let (kind, array, format) = (CastKind::Cast, false, None);
                let expr = Expr::Cast { kind, expr, data_type, array, format };
                columns.computed.push(ComputedAst { name, expr, is_generated: false });
            }
            Kind::Metadata => {
                let name = self.column_name()?;
                self.parser.next_token();
                let key = match self.parser.parse_keyword(Keyword::FROM) {
                    true => Some(self.string("the quoted name of a value of the connector")?),
                    false => None,
                };
                let is_virtual = self.parser.parse_keyword(Keyword::VIRTUAL);
                columns.metadata.push(MetadataAst { name, key, is_virtual });
            }
            Kind::Watermark => {
                let first = self.parser.next_token();
                self.parser.next_token();
                let column = self.column_name()?;
                let expr = match self.parser.peek_token().token {
                    Token::Comma | Token::RParen => Expr::Identifier(column.clone()),
                    _ if self.is_next_ttl() => Expr::Identifier(column.clone()),
                    _ => self.expression_as()?,
                };
                let ttl = self.is_next_ttl();
                if ttl {
                    self.parser.next_token();
                    self.parser.next_token();
                }
                self.end_of_column()?;
                if columns.watermark.replace(WatermarkAst { column, expr, ttl }).is_some() {
                    let error = PlannerError::invalid("a table has one watermark at most");
                    return Err(error.with_span(span_of(first.span)));
                }
            }
        }
        Ok(())
    }

    fn column_name(&mut self) -> Result<Ident> {
        self.parser.parse_identifier().map_err(|e| self.translate(e))
    }

    /// Whether WITH TTL comes next.
    fn is_next_ttl(&self) -> bool {
        is_keyword(&self.parser.peek_token().token, Keyword::WITH)
            && is_word(&self.parser.peek_nth_token(1).token, "TTL")
    }

    /// `AS expression [COMMENT 'text']` up to the end of the piece.
    fn expression_after_as(&mut self) -> Result<Expr> {
        let expr = self.expression_as()?;
        self.end_of_column()?;
        Ok(expr)
    }

    /// `AS expression [COMMENT 'text']`.
    fn expression_as(&mut self) -> Result<Expr> {
        let next = self.parser.peek_token();
        if !self.parser.parse_keyword(Keyword::AS) {
            return Err(self.expected("AS", &next));
        }
        let expr = self.parser.parse_expr().map_err(|e| self.translate(e))?;
        if self.parser.parse_keyword(Keyword::COMMENT) {
            self.string("the quoted text of a comment")?;
        }
        Ok(expr)
    }

    fn end_of_column(&mut self) -> Result<()> {
        let end = self.parser.next_token();
        match end.token {
            Token::Comma | Token::RParen => Ok(()),
            _ => Err(self.expected(", or ) after a column", &end)),
        }
    }
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

fn is_word(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

/// Where the name and the parenthesis of the columns stand among these tokens, if they begin with
/// `CREATE … TABLE name (`.
fn table_head(tokens: &[TokenWithSpan], words: &[usize]) -> Option<(usize, usize)> {
    let token = |at: usize| words.get(at).map(|&word| &tokens[word].token);
    let is = |at: usize, keyword| token(at).is_some_and(|token| is_keyword(token, keyword));
    if !is(0, Keyword::CREATE) {
        return None;
    }
    let mut at = 1;
    while [Keyword::OR, Keyword::REPLACE, Keyword::TEMP, Keyword::TEMPORARY, Keyword::EXTERNAL]
        .into_iter()
        .any(|keyword| is(at, keyword))
    {
        at += 1;
    }
    if !is(at, Keyword::TABLE) {
        return None;
    }
    at += 1;
    if is(at, Keyword::IF) && is(at + 1, Keyword::NOT) && is(at + 2, Keyword::EXISTS) {
        at += 3;
    }
    let name = at;
    while matches!(token(at)?, Token::Word(_)) {
        match token(at + 1)? {
            Token::Period => at += 2,
            Token::LParen => return Some((name, at + 1)),
            _ => return None,
        }
    }
    None
}

/// Takes the pieces out of the columns whose parenthesis is the first of these tokens.
fn pieces_of(tokens: &mut [TokenWithSpan], words: &[usize]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut depth, mut first) = (0_usize, 1);
    for at in 0..words.len() {
        match tokens[words[at]].token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            Token::Comma if depth == 1 => {}
            Token::SemiColon => break,
            _ => continue,
        }
        let ends = depth == 0 || (depth == 1 && tokens[words[at]].token == Token::Comma);
        if ends {
            let column = &words[first..=at];
            let piece = piece_of(tokens, column);
            if piece.as_ref().is_none_or(|piece| piece.kind == Kind::Metadata) {
                quote_name(tokens, column);
                type_names::rename(tokens, column);
            }
            pieces.extend(piece);
            first = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    pieces
}

/// Takes a column out, or what its declaration has too much for the parser; the last token is the one that ends it.
fn piece_of(tokens: &mut [TokenWithSpan], words: &[usize]) -> Option<Piece> {
    let token = |at: usize| words.get(at).map(|&word| &tokens[word].token);
    let second = token(1)?;
    let (kind, taken) = if is_word(token(0)?, "WATERMARK") && is_keyword(second, Keyword::FOR) {
        (Kind::Watermark, words.to_vec())
    } else if matches!(token(0)?, Token::Word(_)) && is_keyword(second, Keyword::AS) {
        (Kind::Computed, words.to_vec())
    } else if is_typed_computed(tokens, words) {
        type_names::rename(tokens, words);
        (Kind::TypedComputed, words.to_vec())
    } else {
        let (from, to) = metadata(tokens, words)?;
        let mut taken = vec![words[0]];
        taken.extend_from_slice(&words[from..=to]);
        (Kind::Metadata, taken)
    };
    let piece = taken.iter().map(|&at| tokens[at].clone()).collect();
    // The name of a metadata column stays, and so does what follows; so does the parenthesis that ends all columns.
    let gone = match kind {
        Kind::Metadata => &taken[1..taken.len() - 1],
        Kind::Computed | Kind::TypedComputed | Kind::Watermark => {
            match tokens[*taken.last()?].token {
                Token::Comma => &taken[..],
                _ => &taken[..taken.len() - 1],
            }
        }
    };
    gone.iter().for_each(|&at| tokens[at].token = Token::Whitespace(Whitespace::Space));
    Some(Piece { kind, tokens: piece })
}

/// Whether a column is `name type AS expression`; the parser reads those that are STORED or VIRTUAL by itself.
fn is_typed_computed(tokens: &[TokenWithSpan], words: &[usize]) -> bool {
    let mut depth = 0_usize;
    for (at, &word) in words.iter().enumerate() {
        match &tokens[word].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            token if depth == 0 && at >= 2 && is_keyword(token, Keyword::AS) => {
                let own = |word: &usize| {
                    let token = &tokens[*word].token;
                    is_keyword(token, Keyword::STORED) || is_keyword(token, Keyword::VIRTUAL)
                };
                return !words[at..].iter().any(own);
            }
            Token::Word(word) if at == 0 => {
                if word.quote_style.is_none() && word.keyword == Keyword::CONSTRAINT {
                    return false;
                }
            }
            token => {
                let other = [Keyword::GENERATED, Keyword::DEFAULT, Keyword::CHECK];
                if at >= 2 && other.into_iter().any(|keyword| is_keyword(token, keyword)) {
                    return false;
                }
            }
        }
    }
    false
}

/// Lets a column be called `key` or `index`: the parser would read an index, which no table has, unless the word is
/// quoted.
fn quote_name(tokens: &mut [TokenWithSpan], column: &[usize]) {
    let [first, second, ..] = column else { return };
    let is_column = matches!(tokens[*second].token, Token::Word(_));
    if let Token::Word(word) = &mut tokens[*first].token
        && is_column
        && word.quote_style.is_none()
        && matches!(word.keyword, Keyword::KEY | Keyword::INDEX)
    {
        word.value = word.value.to_lowercase();
        word.quote_style = Some('"');
        word.keyword = Keyword::NoKeyword;
    }
}

/// Which tokens of a column say `METADATA [FROM 'key'] [VIRTUAL]`, if it does: the first, and the one behind the last.
fn metadata(tokens: &[TokenWithSpan], words: &[usize]) -> Option<(usize, usize)> {
    let token = |at: usize| words.get(at).map(|&word| &tokens[word].token);
    let is = |at: usize, keyword| token(at).is_some_and(|token| is_keyword(token, keyword));
    let mut depth = 0_usize;
    for at in 0..words.len() {
        match token(at)? {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            word if at >= 2 && depth == 0 && is_word(word, "METADATA") => {
                let mut to = at + 1;
                if is(to, Keyword::FROM) {
                    to += 2;
                }
                if is(to, Keyword::VIRTUAL) {
                    to += 1;
                }
                return Some((at, to.min(words.len() - 1)));
            }
            _ => {}
        }
    }
    None
}
