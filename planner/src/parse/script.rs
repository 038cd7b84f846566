//! The statements of a text, one after another.
//!
//! [`parse_script`] returns all statements before the first that cannot be read, and the error, so that a script may
//! run up to it.

use std::sync::Arc;

use datafusion_sql::sqlparser::ast::Statement as SqlStatement;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};

use super::conflicts;
use super::dialect::ThalwegDialect;
use super::emit::Emits;
use super::materialized::Materialized;
use super::position::{LineIndex, span_of, split_place};
use super::table_columns::TakenColumns;
use super::{
    Ast, DescribeAst, ParsedStatement, aggregate_prefix, asof, changelog, depth, hints,
    json_arrows, keywords, operators, option_keys, window_functions,
};
use crate::error::{PlannerError, Result, Span};
use crate::inspection::{ExplainFormat, ExplainOptions};

/// How deeply statements, queries and expressions may be nested in the text.
const MAX_NESTING: usize = 200;

static DIALECT: ThalwegDialect = ThalwegDialect;

/// All statements up to the first error, and that error.
pub(crate) fn parse_script(sql: &str) -> (Vec<ParsedStatement>, Option<PlannerError>) {
    let text: Arc<str> = Arc::from(sql);
    let index = LineIndex::new(&text);
    let tokens = match Tokenizer::new(&DIALECT, &text).tokenize_with_location() {
        Ok(tokens) => tokens,
        Err(error) => {
            let place = Span::point(error.location.line as u32, error.location.column as u32);
            return (
                Vec::new(),
                Some(PlannerError::syntax(sentence(&error.message)).with_span(Some(place))),
            );
        }
    };
    let mut script = Script::new(&text, &index, tokens);
    let mut statements = Vec::new();
    loop {
        match script.next_statement() {
            Ok(Some(statement)) => statements.push(statement),
            Ok(None) => return (statements, None),
            Err(error) => return (statements, Some(keywords::complete(error, &script.tokens))),
        }
    }
}

/// The tokens of a statement that are not white space, with their places in the whole text.
pub(crate) fn tokens_of(statement: &ParsedStatement) -> Vec<(Token, Span)> {
    let tokens =
        Tokenizer::new(&DIALECT, &statement.text).tokenize_with_location().unwrap_or_default();
    let within = |span: &Span| span.start >= statement.span.start && span.end <= statement.span.end;
    let placed = tokens.into_iter().filter_map(|t| Some((t.token, span_of(t.span)?)));
    placed.filter(|(token, span)| within(span) && !matches!(token, Token::Whitespace(_))).collect()
}

/// The parser's message as a message of ours.
fn sentence(message: &str) -> String {
    let mut message = message
        .strip_prefix("Expected: ")
        .map_or_else(|| message.to_string(), |rest| format!("expected {rest}"));
    if let Some(first) = message.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    let message = message.strip_suffix('.').unwrap_or(&message);
    message
        .replace(", found: EOF", ", but the text ends here")
        .replace(" before EOF", ", but the text ends here")
        .replace("unexpected EOF while in a multi-line comment", "unterminated comment")
        .replace(", found: ", ", found ")
}

/// A token stream with the text it came from; the statement heads are methods in the sibling files.
pub(super) struct Script<'a> {
    text: &'a Arc<str>,
    index: &'a LineIndex<'a>,
    tokens: Vec<TokenWithSpan>,
    materialized: Materialized,
    emits: Emits,
    pub(super) taken_columns: TakenColumns,
    pub(super) parser: Parser<'static>,
}

impl<'a> Script<'a> {
    fn new(text: &'a Arc<str>, index: &'a LineIndex<'a>, tokens: Vec<TokenWithSpan>) -> Self {
        let mut stripped = tokens.clone();
        operators::join(&mut stripped);
        option_keys::join(&mut stripped);
        json_arrows::mark(&mut stripped);
        aggregate_prefix::rewrite(&mut stripped);
        changelog::rewrite(&mut stripped);
        asof::rewrite(&mut stripped);
        window_functions::rewrite(&mut stripped);
        conflicts::rewrite(&mut stripped);
        let materialized = Materialized::take_from(&mut stripped);
        let emits = Emits::take_from(&mut stripped);
        let taken_columns = TakenColumns::take_from(&mut stripped);
        let parser = Self::parser_of(stripped);
        Script { text, index, tokens, materialized, emits, taken_columns, parser }
    }

    pub(super) fn parser_of(tokens: Vec<TokenWithSpan>) -> Parser<'static> {
        Parser::new(&DIALECT).with_recursion_limit(MAX_NESTING).with_tokens_with_locations(tokens)
    }

    fn next_statement(&mut self) -> Result<Option<ParsedStatement>> {
        while self.parser.consume_token(&Token::SemiColon) {}
        let first = self.parser.peek_token();
        if first.token == Token::EOF {
            return Ok(None);
        }
        let mut ast = self.statement()?;
        let after = self.parser.peek_token();
        if !matches!(after.token, Token::SemiColon | Token::EOF) {
            return Err(self.expected("end of statement", &after));
        }
        let end = match after.token {
            Token::EOF => Location::new(u64::MAX, 0),
            _ => after.span.start,
        };
        if let Some(left) = self.taken_columns.first_within(first.span.start, end) {
            return Err(self.expected("a column with a type", left));
        }
        depth::check(&mut ast, &self.materialized)?;
        self.finish(ast, &first).map(Some)
    }

    /// Puts the statement together with its place and hints; the next token is the one that ends it.
    fn finish(&mut self, ast: Ast, first: &TokenWithSpan) -> Result<ParsedStatement> {
        let tokens = self.tokens_from(first);
        let hints = hints::collect(tokens)?;
        let last = tokens
            .iter()
            .rev()
            .find(|t| !matches!(t.token, Token::Whitespace(_)))
            .map_or(first.span, |t| t.span);
        let (start, end) = (first.span.start, last.end);
        let range = self.index.offset(start)..self.index.offset(end);
        let pair =
            |l: datafusion_sql::sqlparser::tokenizer::Location| (l.line as u32, l.column as u32);
        let span = Span { start: pair(start), end: pair(end) };
        let emit = self.emits.within(start, end)?;
        Ok(ParsedStatement { text: Arc::clone(self.text), range, span, hints, emit, ast })
    }

    /// The tokens from `first` up to the parser's next one.
    fn tokens_from(&self, first: &TokenWithSpan) -> &[TokenWithSpan] {
        let from = self.tokens.partition_point(|t| t.span.start < first.span.start);
        let next = self.parser.peek_token();
        let to = match next.token {
            Token::EOF => self.tokens.len(),
            _ => self.tokens.partition_point(|t| t.span.start < next.span.start),
        };
        &self.tokens[from..to.max(from)]
    }

    /// One statement, without what ends it.
    pub(super) fn statement(&mut self) -> Result<Ast> {
        let Token::Word(Word { keyword, quote_style: None, value }) =
            self.parser.peek_token().token
        else {
            return self.sql();
        };
        match keyword {
            Keyword::EXPLAIN => self.explain(),
            Keyword::COPY => self.copy(),
            Keyword::SET => self.set(),
            Keyword::RESET => self.reset(),
            Keyword::SHOW => self.show(),
            Keyword::DESCRIBE | Keyword::DESC => self.describe(),
            Keyword::TABLE => self.table(),
            Keyword::FLUSH => self.flush(),
            Keyword::EXECUTE if self.executes_statement_set() => self.statement_set(),
            _ if self.stops_job() => self.stop_job(),
            _ if self.is_about_sinks() => self.sink(),
            _ if self.renames() => self.rename(),
            Keyword::CREATE if self.creates_external_table() => self.create_external_table(),
            Keyword::NoKeyword if value.eq_ignore_ascii_case("describe") => self.describe(),
            _ => self.sql(),
        }
    }

    fn sql(&mut self) -> Result<Ast> {
        match self.parser.parse_statement() {
            Ok(SqlStatement::Query(query)) => Ok(Ast::Query(query)),
            Ok(SqlStatement::CreateTable(create)) => {
                let mut columns = Box::new(self.columns_of(&create.name)?);
                columns.append_only = self.append_only();
                Ok(Ast::CreateTable { create: Box::new(create), columns })
            }
            Ok(statement) => {
                if matches!(statement, SqlStatement::CreateIndex(_)) {
                    self.skip_distribution();
                }
                Ok(Ast::Sql(Box::new(statement)))
            }
            Err(error) => Err(self.translate(error)),
        }
    }

    fn explain(&mut self) -> Result<Ast> {
        self.parser.next_token();
        let mut options = ExplainOptions::default();
        if self.parser.peek_token().token == Token::LParen
            && !starts_query(&self.parser.peek_nth_token(1).token)
        {
            self.parser.next_token();
            loop {
                let option = self.parser.next_token();
                match option.token.to_string().to_uppercase().as_str() {
                    "ANALYZE" => options.analyze = self.explain_flag()?,
                    "VERBOSE" => options.verbose = self.explain_flag()?,
                    "VERIFY" => options.verify = self.explain_flag()?,
                    "CHANGELOG_MODE" => options.changelog_mode = self.explain_flag()?,
                    "FORMAT" => options.format = self.explain_format()?,
                    _ => {
                        let known = "ANALYZE, VERBOSE, VERIFY, CHANGELOG_MODE or FORMAT";
                        return Err(self.expected(known, &option));
                    }
                }
                if !self.parser.consume_token(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        } else {
            options.changelog_mode = self.word("CHANGELOG_MODE");
            options.analyze = self.parser.parse_keyword(Keyword::ANALYZE);
            options.verbose = self.parser.parse_keyword(Keyword::VERBOSE);
            if self.parser.parse_keyword(Keyword::FORMAT) {
                options.format = self.explain_format()?;
            }
        }
        let inner = self.statement()?;
        if let Ast::Explain { .. } = inner {
            return Err(PlannerError::not_supported("EXPLAIN of EXPLAIN"));
        }
        Ok(Ast::Explain { options, inner: Box::new(inner) })
    }

    /// Takes a word that the parser has no keyword for.
    fn word(&mut self, word: &str) -> bool {
        let next = self.parser.peek_token();
        let found = matches!(&next.token, Token::Word(w) if w.value.eq_ignore_ascii_case(word));
        if found {
            self.parser.next_token();
        }
        found
    }

    fn explain_flag(&mut self) -> Result<bool> {
        let next = self.parser.peek_token();
        let on = match next.token.to_string().to_uppercase().as_str() {
            "," | ")" => return Ok(true),
            "TRUE" | "ON" | "1" => true,
            "FALSE" | "OFF" | "0" => false,
            _ => return Err(self.expected("ON or OFF", &next)),
        };
        self.parser.next_token();
        Ok(on)
    }

    fn explain_format(&mut self) -> Result<ExplainFormat> {
        let token = self.parser.next_token();
        let name = match &token.token {
            Token::SingleQuotedString(s) => s.to_uppercase(),
            other => other.to_string().to_uppercase(),
        };
        match name.as_str() {
            "TEXT" => Ok(ExplainFormat::Text),
            "JSON" => Ok(ExplainFormat::Json),
            _ => Err(self.expected("TEXT or JSON", &token)),
        }
    }

    fn describe(&mut self) -> Result<Ast> {
        self.parser.next_token();
        if self.describes_job() {
            return self.describe_job();
        }
        let _ = self.parser.parse_keyword(Keyword::TABLE);
        if starts_query(&self.parser.peek_token().token) {
            let query = self.parser.parse_query().map_err(|e| self.translate(e))?;
            return Ok(Ast::Describe(DescribeAst::Query(query)));
        }
        let name = self.parser.parse_object_name(true).map_err(|e| self.translate(e))?;
        Ok(Ast::Describe(DescribeAst::Table(name)))
    }

    /// `TABLE t`: all rows of a table.
    fn table(&mut self) -> Result<Ast> {
        self.parser.next_token();
        self.object_name().map(Ast::Table)
    }

    /// The text from `first` to the token before the parser's next one, as it was written.
    pub(super) fn text_from(&self, first: &TokenWithSpan) -> &'a str {
        let tokens = self.tokens_from(first);
        let end = tokens
            .iter()
            .rev()
            .find(|t| !matches!(t.token, Token::Whitespace(_)))
            .map_or(first.span.end, |t| t.span.end);
        &self.text[self.index.offset(first.span.start)..self.index.offset(end)]
    }

    pub(super) fn expect(&mut self, token: &Token) -> Result<()> {
        self.parser.expect_token(token).map(|_| ()).map_err(|e| self.translate(e))
    }

    pub(super) fn expected(&self, what: &str, found: &TokenWithSpan) -> PlannerError {
        let message = match found.token {
            Token::EOF => format!("expected {what}, but the text ends here"),
            ref token => format!("expected {what}, found {token}"),
        };
        PlannerError::syntax(message).with_span(self.place(found))
    }

    fn place(&self, token: &TokenWithSpan) -> Option<Span> {
        let (line, column) = self.index.end();
        span_of(token.span).or(Some(Span::point(line, column)))
    }

    pub(super) fn translate(&self, error: ParserError) -> PlannerError {
        let (line, column) = self.index.end();
        match error {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
                let (message, span) = split_place(&message);
                PlannerError::syntax(sentence(message))
                    .with_span(span.map(|s| self.widen(s)))
                    .with_span(message.ends_with("EOF").then(|| Span::point(line, column)))
            }
            ParserError::RecursionLimitExceeded => PlannerError::invalid(
                "the statement is nested too deeply",
            )
            .with_detail(format!(
                "At most {MAX_NESTING} levels of parentheses, subqueries and operators are allowed."
            ))
            .with_span(self.place(&self.parser.peek_token())),
        }
    }

    /// A point widened to the token that begins there.
    fn widen(&self, point: Span) -> Span {
        let pair =
            |l: datafusion_sql::sqlparser::tokenizer::Location| (l.line as u32, l.column as u32);
        let at = self.tokens.partition_point(|t| pair(t.span.start) < point.start);
        match self.tokens.get(at) {
            Some(token) if pair(token.span.start) == point.start => {
                Span { start: point.start, end: pair(token.span.end) }
            }
            _ => point,
        }
    }
}

/// Whether a token can only begin a query.
pub(super) fn starts_query(token: &Token) -> bool {
    match token {
        Token::LParen => true,
        Token::Word(word) => {
            word.quote_style.is_none()
                && matches!(
                    word.keyword,
                    Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::FROM
                )
        }
        _ => false,
    }
}
