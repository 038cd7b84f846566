//! Statements about sinks into tables, and new names: `CREATE SINK s INTO t FROM u | AS query`, `DROP SINK`,
//! `ALTER TABLE | [MATERIALIZED] VIEW … RENAME TO`.
//!
//! The parser knows none of them, or not for all objects. Nothing here knows whether the objects exist.

use datafusion_sql::sqlparser::ast::{Ident, ObjectName, Query, SqlOption};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::IsOptional;
use datafusion_sql::sqlparser::tokenizer::{Token, Word};

use super::Ast;
use super::script::Script;
use crate::error::{PlannerError, Result};
use crate::statement::DropKind;

/// `CREATE SINK name INTO table (columns) FROM … | AS …`
#[derive(Debug, Clone)]
pub(crate) struct CreateSinkAst {
    pub(crate) name: ObjectName,
    pub(crate) if_not_exists: bool,
    pub(crate) table: ObjectName,
    /// None for all.
    pub(crate) columns: Vec<Ident>,
    pub(crate) source: SinkSource,
    /// Whether rows stay that the source takes back.
    pub(crate) ignore_delete: bool,
}

/// Where the rows of a sink come from.
#[derive(Debug, Clone)]
pub(crate) enum SinkSource {
    Table(ObjectName),
    Query(Box<Query>),
}

impl Script<'_> {
    /// Whether the next words begin one of the statements.
    pub(super) fn is_about_sinks(&self) -> bool {
        (self.word_is(0, "CREATE") || self.word_is(0, "DROP")) && self.word_is(1, "SINK")
    }

    /// Whether the next words are `ALTER TABLE | [MATERIALIZED] VIEW name RENAME TO`.
    pub(super) fn renames(&self) -> bool {
        let kind = match (
            self.word_is(1, "TABLE") || self.word_is(1, "VIEW"),
            self.word_is(1, "MATERIALIZED"),
        ) {
            (true, _) => 1,
            (_, true) if self.word_is(2, "VIEW") => 2,
            _ => return false,
        };
        let mut at = kind + 2;
        while self.parser.peek_nth_token(at).token == Token::Period {
            at += 2;
        }
        self.word_is(0, "ALTER") && self.word_is(at, "RENAME") && self.word_is(at + 1, "TO")
    }

    fn word_is(&self, n: usize, word: &str) -> bool {
        matches!(
            self.parser.peek_nth_token(n).token,
            Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(word)
        )
    }

    /// `ALTER … RENAME TO name`
    pub(super) fn rename(&mut self) -> Result<Ast> {
        self.parser.next_token();
        let kind = match self.parser.next_token().token {
            Token::Word(word) if word.keyword == Keyword::TABLE => DropKind::Table,
            Token::Word(word) if word.keyword == Keyword::VIEW => DropKind::View,
            _ => {
                self.parser.next_token();
                DropKind::MaterializedView
            }
        };
        let from = self.object_name()?;
        self.parser.next_token();
        self.parser.next_token();
        let to = self.object_name()?;
        Ok(Ast::Rename { kind, from, to })
    }

    /// `CREATE SINK` or `DROP SINK`
    pub(super) fn sink(&mut self) -> Result<Ast> {
        let creates = self.word_is(0, "CREATE");
        self.parser.next_token();
        self.parser.next_token();
        match creates {
            true => self.create_sink(),
            false => self.drop_sink(),
        }
    }

    fn drop_sink(&mut self) -> Result<Ast> {
        let if_exists = self.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let name = self.object_name()?;
        let _ = self.parser.parse_keyword(Keyword::CASCADE);
        Ok(Ast::DropSink { name, if_exists })
    }

    fn create_sink(&mut self) -> Result<Ast> {
        let if_not_exists =
            self.parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
        let name = self.object_name()?;
        if !self.parser.parse_keyword(Keyword::INTO) {
            let error = PlannerError::not_supported("a sink into anything but a table");
            let hint = "write CREATE SINK s INTO t …; other systems are written with INSERT INTO a table that has a connector";
            return Err(error.with_hint(hint.to_string()));
        }
        let table = self.object_name()?;
        let mut columns = Vec::new();
        if self.parser.peek_token().token == Token::LParen {
            let list = self.parser.parse_parenthesized_column_list(IsOptional::Mandatory, false);
            columns = list.map_err(|error| self.translate(error))?;
        }
        let before = self.parser.parse_options(Keyword::WITH);
        let mut options = before.map_err(|error| self.translate(error))?;
        let source = if self.parser.parse_keyword(Keyword::FROM) {
            SinkSource::Table(self.object_name()?)
        } else if self.parser.parse_keyword(Keyword::AS) {
            SinkSource::Query(self.parser.parse_query().map_err(|error| self.translate(error))?)
        } else {
            let found = self.parser.peek_token();
            return Err(self.expected("FROM or AS", &found));
        };
        let behind = self.parser.parse_options(Keyword::WITH);
        options.extend(behind.map_err(|error| self.translate(error))?);
        let mut ignore_delete = false;
        for option in options {
            ignore_delete |= ignores_deletes(&option)?;
        }
        let sink = CreateSinkAst { name, if_not_exists, table, columns, source, ignore_delete };
        Ok(Ast::CreateSink(Box::new(sink)))
    }
}

/// The value of the one option that a sink into a table has; `type = 'append-only'` and its like say nothing new here.
fn ignores_deletes(option: &SqlOption) -> Result<bool> {
    let SqlOption::KeyValue { key, value } = option else {
        return Err(PlannerError::not_supported(format!("the sink option {option}")));
    };
    let text = value.to_string().trim_matches('\'').to_lowercase();
    match (key.value.to_lowercase().as_str(), text.as_str()) {
        ("ignore_delete", "true") => Ok(true),
        ("ignore_delete", "false") => Ok(false),
        _ => Err(PlannerError::invalid(format!("unknown sink option {option}"))
            .with_hint("the option of a sink into a table is ignore_delete = 'true'".to_string())),
    }
}
