//! SET, RESET and SHOW: settings by dotted key, values in any form.

use datafusion_sql::sqlparser::ast::ObjectName;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::Ast;
use super::script::Script;
use crate::error::Result;

/// The object of SHOW.
#[derive(Debug, Clone)]
pub(crate) enum ShowAst {
    Setting(String),
    All,
    Tables,
    Views,
    Schemas,
    Functions,
    Jobs,
    Columns(ObjectName),
    Create(ObjectName),
}

impl Script<'_> {
    /// `SET key = value`, `SET key TO value`, `SET key = DEFAULT`, `SET TIME ZONE value`.
    pub(super) fn set(&mut self) -> Result<Ast> {
        self.parser.next_token();
        if self.peek_is("SESSION")
            && !matches!(self.parser.peek_nth_token(1).token, Token::Eq | Token::Period)
        {
            self.parser.next_token();
        }
        let key = if self.parser.parse_keywords(&[Keyword::TIME, Keyword::ZONE]) {
            "time_zone".to_string()
        } else {
            let key = self.setting_key()?;
            let sign = self.parser.peek_token();
            if !self.parser.consume_token(&Token::Eq) && !self.parser.parse_keyword(Keyword::TO) {
                return Err(self.expected("= or TO", &sign));
            }
            key
        };
        if self.peek_is("DEFAULT")
            && matches!(self.parser.peek_nth_token(1).token, Token::EOF | Token::SemiColon)
        {
            self.parser.next_token();
            return Ok(Ast::Reset { key: Some(key) });
        }
        let value = self.setting_value()?;
        Ok(Ast::Set { key, value })
    }

    /// `RESET key`, `RESET ALL`, `RESET`.
    pub(super) fn reset(&mut self) -> Result<Ast> {
        self.parser.next_token();
        if self.at_end() {
            return Ok(Ast::Reset { key: None });
        }
        if self.peek_is("ALL")
            && matches!(self.parser.peek_nth_token(1).token, Token::EOF | Token::SemiColon)
        {
            self.parser.next_token();
            return Ok(Ast::Reset { key: None });
        }
        Ok(Ast::Reset { key: Some(self.setting_key()?) })
    }

    /// `SHOW ALL | TABLES | VIEWS | SCHEMAS | FUNCTIONS | JOBS | COLUMNS FROM t | CREATE TABLE t | key`.
    pub(super) fn show(&mut self) -> Result<Ast> {
        self.parser.next_token();
        let word = self.parser.peek_token().token.to_string().to_uppercase();
        let single = matches!(self.parser.peek_nth_token(1).token, Token::EOF | Token::SemiColon);
        let listing = match word.as_str() {
            "ALL" => Some(ShowAst::All),
            "TABLES" => Some(ShowAst::Tables),
            "VIEWS" => Some(ShowAst::Views),
            "SCHEMAS" => Some(ShowAst::Schemas),
            "FUNCTIONS" => Some(ShowAst::Functions),
            "JOBS" => Some(ShowAst::Jobs),
            _ => None,
        };
        if let (true, Some(listing)) = (single, listing) {
            self.parser.next_token();
            return Ok(Ast::Show(listing));
        }
        if self.parser.parse_keywords(&[Keyword::TIME, Keyword::ZONE]) {
            return Ok(Ast::Show(ShowAst::Setting("time_zone".to_string())));
        }
        if self.parser.parse_keyword(Keyword::COLUMNS) {
            let next = self.parser.peek_token();
            if self.parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]).is_none() {
                return Err(self.expected("FROM", &next));
            }
            return self.object_name().map(|name| Ast::Show(ShowAst::Columns(name)));
        }
        if self.parser.parse_keyword(Keyword::CREATE) {
            let _ = self.parser.parse_keyword(Keyword::MATERIALIZED);
            let next = self.parser.peek_token();
            if self.parser.parse_one_of_keywords(&[Keyword::TABLE, Keyword::VIEW]).is_none() {
                return Err(self.expected("TABLE or VIEW", &next));
            }
            return self.object_name().map(|name| Ast::Show(ShowAst::Create(name)));
        }
        self.setting_key().map(|key| Ast::Show(ShowAst::Setting(key)))
    }

    pub(super) fn object_name(&mut self) -> Result<ObjectName> {
        self.parser.parse_object_name(true).map_err(|e| self.translate(e))
    }

    fn at_end(&self) -> bool {
        matches!(self.parser.peek_token().token, Token::EOF | Token::SemiColon)
    }

    /// Whether the next token is this unquoted word (given in upper case).
    pub(super) fn peek_is(&self, word: &str) -> bool {
        matches!(self.parser.peek_token().token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// `a`, `a.b-c`, `"a.b"`, `'a.b'`: unquoted parts become lower-case.
    pub(super) fn setting_key(&mut self) -> Result<String> {
        let mut key = String::new();
        loop {
            let token = self.parser.next_token();
            match &token.token {
                Token::Word(word) if word.quote_style.is_none() => {
                    key.push_str(&word.value.to_lowercase())
                }
                Token::Word(word) => key.push_str(&word.value),
                Token::SingleQuotedString(text) => key.push_str(text),
                _ => return Err(self.expected("the name of a setting", &token)),
            }
            if self.parser.consume_token(&Token::Period) {
                key.push('.');
            } else if self.joins_with_minus(&token) && self.parser.consume_token(&Token::Minus) {
                key.push('-');
            } else {
                return Ok(key);
            }
        }
    }

    /// Whether the next two tokens are a minus and a word that touch the token before: `csv.ignore-errors`.
    fn joins_with_minus(&self, before: &TokenWithSpan) -> bool {
        let (minus, word) = (self.parser.peek_nth_token(0), self.parser.peek_nth_token(1));
        minus.token == Token::Minus
            && minus.span.start == before.span.end
            && word.span.start == minus.span.end
            && matches!(word.token, Token::Word(_))
    }

    /// All text up to the statement's end: the content of one quoted string, or the text as written.
    fn setting_value(&mut self) -> Result<String> {
        let first = self.parser.peek_token();
        if self.at_end() {
            return Err(self.expected("a value", &first));
        }
        let mut tokens = 0;
        while !self.at_end() {
            self.parser.next_token();
            tokens += 1;
        }
        match (tokens, &first.token) {
            (1, Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => {
                Ok(text.clone())
            }
            (1, Token::Word(word)) => Ok(word.value.clone()),
            _ => Ok(self.text_from(&first).to_string()),
        }
    }
}
