//! `COPY table | (query) TO 'path'` and `COPY table [(columns)] FROM 'path'` with its options, in both usual forms:
//! `(FORMAT parquet, PARTITION_BY (a, b), key value)` and `STORED AS parquet PARTITIONED BY (a) OPTIONS (key value)`.

use datafusion_sql::sqlparser::ast::{Ident, ObjectName, Query};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::IsOptional::Mandatory;
use datafusion_sql::sqlparser::tokenizer::Token;

use super::Ast;
use super::script::Script;
use crate::error::{PlannerError, Result};

/// A COPY statement.
#[derive(Debug, Clone)]
pub(crate) struct CopyAst {
    pub(crate) source: CopySource,
    pub(crate) path: String,
    pub(crate) format: Option<String>,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) partition_by: Vec<String>,
}

/// Where COPY takes its rows from; only rows of a file go to a table.
#[derive(Debug, Clone)]
pub(crate) enum CopySource {
    Table(ObjectName),
    Query(Box<Query>),
    File { table: ObjectName, columns: Vec<Ident> },
}

/// An option's value as written.
enum OptionValue {
    None,
    Text(String),
    List(Vec<String>),
}

impl Script<'_> {
    /// Reads a COPY statement.
    pub(super) fn copy(&mut self) -> Result<Ast> {
        self.parser.next_token();
        let source = if self.parser.consume_token(&Token::LParen) {
            let query = self.parser.parse_query().map_err(|e| self.translate(e))?;
            self.expect(&Token::RParen)?;
            CopySource::Query(query)
        } else {
            CopySource::Table(self.object_name()?)
        };
        let source = self.copy_direction(source)?;
        let path = self.string("the quoted path of a file")?;
        let mut copy =
            CopyAst { source, path, format: None, options: Vec::new(), partition_by: Vec::new() };
        self.copy_clauses(&mut copy)?;
        Ok(Ast::Copy(Box::new(copy)))
    }

    /// `TO`, or `[(columns)] FROM`, which makes the table a target.
    fn copy_direction(&mut self, source: CopySource) -> Result<CopySource> {
        let next = self.parser.peek_token();
        let CopySource::Table(table) = source else {
            return match self.parser.parse_keyword(Keyword::TO) {
                true => Ok(source),
                false => Err(self.expected("TO", &next)),
            };
        };
        let columns = match next.token {
            Token::LParen => {
                let columns = self.parser.parse_parenthesized_column_list(Mandatory, false);
                columns.map_err(|e| self.translate(e))?
            }
            _ => Vec::new(),
        };
        let next = self.parser.peek_token();
        if self.parser.parse_keyword(Keyword::FROM) {
            return Ok(CopySource::File { table, columns });
        }
        if !self.parser.parse_keyword(Keyword::TO) {
            return Err(self.expected("TO or FROM", &next));
        }
        if columns.is_empty() {
            return Ok(CopySource::Table(table));
        }
        let hint = "write COPY (SELECT columns FROM table) TO";
        Err(self.expected("FROM", &next).with_hint(hint.to_string()))
    }

    fn copy_clauses(&mut self, copy: &mut CopyAst) -> Result<()> {
        loop {
            if self.parser.parse_keyword(Keyword::STORED) {
                let next = self.parser.peek_token();
                if !self.parser.parse_keyword(Keyword::AS) {
                    return Err(self.expected("AS", &next));
                }
                copy.format = Some(self.option_text("a format")?.to_lowercase());
            } else if self.parser.parse_keywords(&[Keyword::PARTITIONED, Keyword::BY]) {
                copy.partition_by = self.parenthesised_names()?;
            } else if self.parser.peek_token().token == Token::LParen
                || self.parser.parse_keyword(Keyword::OPTIONS)
                || self.parser.parse_keyword(Keyword::WITH)
            {
                for (key, value) in self.option_list()? {
                    copy.set_option(key, value)?;
                }
            } else {
                return Ok(());
            }
        }
    }

    fn option_list(&mut self) -> Result<Vec<(String, OptionValue)>> {
        self.expect(&Token::LParen)?;
        let mut options = Vec::new();
        while !self.parser.consume_token(&Token::RParen) {
            let key = self.setting_key()?.to_lowercase();
            let _ = self.parser.consume_token(&Token::Eq);
            let value = match self.parser.peek_token().token {
                Token::Comma | Token::RParen => OptionValue::None,
                Token::LParen => OptionValue::List(self.parenthesised_names()?),
                _ => OptionValue::Text(self.option_text("a value")?),
            };
            options.push((key, value));
            let next = self.parser.peek_token();
            if !self.parser.consume_token(&Token::Comma) && next.token != Token::RParen {
                return Err(self.expected(", or )", &next));
            }
        }
        Ok(options)
    }

    /// `(key value, …)` with or without `=`, where every key has one plain value.
    pub(super) fn plain_options(&mut self) -> Result<Vec<(String, String)>> {
        let options = self.option_list()?;
        options.into_iter().map(|(key, value)| Ok((key, value.into_text()))).collect()
    }

    pub(super) fn parenthesised_names(&mut self) -> Result<Vec<String>> {
        if !self.parser.consume_token(&Token::LParen) {
            return Ok(vec![self.option_text("a name")?]);
        }
        let mut names = Vec::new();
        loop {
            names.push(self.option_text("a name")?);
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)?;
        Ok(names)
    }

    pub(super) fn string(&mut self, what: &str) -> Result<String> {
        let token = self.parser.next_token();
        match token.token {
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Ok(text),
            Token::Word(ref word) if word.quote_style == Some('"') => Ok(word.value.clone()),
            _ => Err(self.expected(what, &token)),
        }
    }

    /// A word (lower-case unless quoted), a string or a signed number.
    fn option_text(&mut self, what: &str) -> Result<String> {
        let token = self.parser.next_token();
        match &token.token {
            Token::Word(word) if word.quote_style.is_none() => Ok(word.value.to_lowercase()),
            Token::Word(word) => Ok(word.value.clone()),
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Ok(text.clone()),
            Token::EscapedStringLiteral(text) => Ok(text.clone()),
            Token::Number(number, _) => Ok(number.clone()),
            Token::Minus => Ok(format!("-{}", self.option_text("a number")?)),
            _ => Err(self.expected(what, &token)),
        }
    }
}

impl OptionValue {
    /// An option without a value is a switch that is on.
    fn into_text(self) -> String {
        match self {
            OptionValue::None => "true".to_string(),
            OptionValue::Text(text) => text,
            OptionValue::List(names) => names.join(","),
        }
    }
}

impl CopyAst {
    fn set_option(&mut self, key: String, value: OptionValue) -> Result<()> {
        match (key.as_str(), value) {
            ("format", OptionValue::Text(format)) => self.format = Some(format.to_lowercase()),
            ("partition_by", OptionValue::List(names)) => self.partition_by = names,
            ("partition_by", OptionValue::Text(name)) => self.partition_by = vec![name],
            ("format" | "partition_by", _) => {
                return Err(PlannerError::syntax(format!("the option {key} needs a value")));
            }
            (_, value) => self.options.push((key, value.into_text())),
        }
        Ok(())
    }
}
