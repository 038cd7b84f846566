//! `CREATE [OR REPLACE] [TEMPORARY] EXTERNAL TABLE [IF NOT EXISTS] name [(columns)]` with STORED AS, LOCATION,
//! PARTITIONED BY and OPTIONS or WITH in any order.

use datafusion_sql::sqlparser::ast::{ColumnDef, ObjectName, TableConstraint};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::Token;

use super::Ast;
use super::script::Script;
use super::table_columns::TableColumns;
use crate::error::Result;

/// A CREATE EXTERNAL TABLE statement.
#[derive(Debug, Clone)]
pub(crate) struct ExternalTableAst {
    pub(crate) name: ObjectName,
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) temporary: bool,
    pub(crate) columns: Vec<ColumnDef>,
    pub(crate) declared: TableColumns,
    pub(crate) constraints: Vec<TableConstraint>,
    pub(crate) format: Option<String>,
    pub(crate) locations: Vec<String>,
    pub(crate) partition_columns: Vec<String>,
    pub(crate) options: Vec<(String, String)>,
}

impl Script<'_> {
    /// Whether the statement at hand is CREATE … EXTERNAL TABLE.
    pub(super) fn creates_external_table(&self) -> bool {
        for n in 1..5 {
            let Token::Word(word) = self.parser.peek_nth_token(n).token else {
                return false;
            };
            match word.value.to_uppercase().as_str() {
                "OR" | "REPLACE" | "TEMP" | "TEMPORARY" => {}
                "EXTERNAL" => return true,
                _ => return false,
            }
        }
        false
    }

    /// Reads a CREATE EXTERNAL TABLE statement.
    pub(super) fn create_external_table(&mut self) -> Result<Ast> {
        self.parser.next_token();
        let or_replace = self.parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
        let temporary =
            self.parser.parse_one_of_keywords(&[Keyword::TEMP, Keyword::TEMPORARY]).is_some();
        self.parser
            .expect_keywords(&[Keyword::EXTERNAL, Keyword::TABLE])
            .map_err(|e| self.translate(e))?;
        let if_not_exists =
            self.parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
        let name = self.object_name()?;
        let (columns, constraints) = self.parser.parse_columns().map_err(|e| self.translate(e))?;
        let declared = self.columns_of(&name)?;
        let mut table = ExternalTableAst {
            name,
            or_replace,
            if_not_exists,
            temporary,
            columns,
            declared,
            constraints,
            format: None,
            locations: Vec::new(),
            partition_columns: Vec::new(),
            options: Vec::new(),
        };
        self.external_clauses(&mut table)?;
        Ok(Ast::ExternalTable(Box::new(table)))
    }

    fn external_clauses(&mut self, table: &mut ExternalTableAst) -> Result<()> {
        loop {
            if self.parser.parse_keywords(&[Keyword::STORED, Keyword::AS]) {
                let token = self.parser.next_token();
                let Token::Word(word) = &token.token else {
                    return Err(self.expected("a format", &token));
                };
                table.format = Some(word.value.to_lowercase());
            } else if self.parser.parse_keyword(Keyword::LOCATION) {
                table.locations = self.locations()?;
            } else if self.parser.parse_keywords(&[Keyword::PARTITIONED, Keyword::BY]) {
                table.partition_columns = self.parenthesised_names()?;
            } else if self
                .parser
                .parse_one_of_keywords(&[Keyword::OPTIONS, Keyword::WITH])
                .is_some()
            {
                table.options.extend(self.plain_options()?);
            } else {
                return Ok(());
            }
        }
    }

    fn locations(&mut self) -> Result<Vec<String>> {
        if !self.parser.consume_token(&Token::LParen) {
            return Ok(vec![self.string("the quoted path of a file")?]);
        }
        let mut locations = Vec::new();
        loop {
            locations.push(self.string("the quoted path of a file")?);
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)?;
        Ok(locations)
    }
}
