//! Statements about what goes on in the background: FLUSH, STOP JOB, DESCRIBE JOB, and sets of INSERTs that run as one;
//! and APPEND ONLY, which says that a table's changes are INSERTs.
//!
//! Only INSERTs may stand in a statement set; that they can be planned is not looked at here.

use datafusion_sql::sqlparser::ast::Statement as SqlStatement;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::position::span_of;
use super::script::Script;
use super::{Ast, DescribeAst};
use crate::error::{PlannerError, Result};
use crate::inspection::JobName;

impl Script<'_> {
    /// `FLUSH`.
    pub(super) fn flush(&mut self) -> Result<Ast> {
        self.parser.next_token();
        Ok(Ast::Flush)
    }

    /// Whether the next tokens are `STOP JOB`.
    pub(super) fn stops_job(&self) -> bool {
        self.peek_is("STOP") && self.nth_is(1, "JOB")
    }

    /// `STOP JOB number | name`.
    pub(super) fn stop_job(&mut self) -> Result<Ast> {
        self.parser.next_token();
        self.parser.next_token();
        Ok(Ast::StopJob(self.job_name()?))
    }

    /// The number or name of a job.
    fn job_name(&mut self) -> Result<JobName> {
        let token = self.parser.next_token();
        Ok(match &token.token {
            Token::Word(word) if word.quote_style.is_none() => {
                JobName::Name(word.value.to_lowercase())
            }
            Token::Word(word) => JobName::Name(word.value.clone()),
            Token::SingleQuotedString(name) => JobName::Name(name.clone()),
            Token::Number(..) => JobName::Number(self.job_number(&token)?),
            _ => return Err(self.expected("the number or name of a job", &token)),
        })
    }

    /// Whether the next tokens, behind DESCRIBE, are `JOB` and a number or name; alone it is the name of a table.
    pub(super) fn describes_job(&self) -> bool {
        let names = |token: &Token| {
            matches!(token, Token::Number(..) | Token::Word(_) | Token::SingleQuotedString(_))
        };
        self.peek_is("JOB") && names(&self.parser.peek_nth_token(1).token)
    }

    /// `JOB number | name`, behind DESCRIBE.
    pub(super) fn describe_job(&mut self) -> Result<Ast> {
        self.parser.next_token();
        Ok(Ast::Describe(DescribeAst::Job(self.job_name()?)))
    }

    fn job_number(&self, token: &TokenWithSpan) -> Result<u64> {
        let Token::Number(text, _) = &token.token else {
            return Err(self.expected("the number of a job", token));
        };
        text.parse().map_err(|_| self.expected("the number of a job", token))
    }

    /// Whether the next tokens are `EXECUTE STATEMENT SET`.
    pub(super) fn executes_statement_set(&self) -> bool {
        self.peek_is("EXECUTE") && self.nth_is(1, "STATEMENT") && self.nth_is(2, "SET")
    }

    /// `EXECUTE STATEMENT SET BEGIN insert; … END`.
    pub(super) fn statement_set(&mut self) -> Result<Ast> {
        for _ in 0..3 {
            self.parser.next_token();
        }
        let begin = self.parser.next_token();
        if !matches!(&begin.token, Token::Word(word) if word.keyword == Keyword::BEGIN) {
            return Err(self.expected("BEGIN", &begin));
        }
        let mut inserts = Vec::new();
        loop {
            while self.parser.consume_token(&Token::SemiColon) {}
            let first = self.parser.peek_token();
            if self.parser.parse_keyword(Keyword::END) {
                break;
            }
            if first.token == Token::EOF {
                return Err(self.expected("END", &first));
            }
            let statement = self.statement()?;
            if !matches!(&statement, Ast::Sql(sql) if matches!(**sql, SqlStatement::Insert(_))) {
                let error = PlannerError::not_supported("anything but INSERT in a statement set");
                return Err(error.with_span(span_of(first.span)));
            }
            inserts.push(statement);
            let after = self.parser.peek_token();
            if after.token != Token::SemiColon {
                return Err(self.expected("; behind the statement", &after));
            }
        }
        match inserts.is_empty() {
            true => Err(PlannerError::syntax("a statement set needs at least one INSERT")
                .with_span(span_of(begin.span))),
            false => Ok(Ast::StatementSet(inserts)),
        }
    }

    /// Reads APPEND ONLY behind the columns of a table, if it is there.
    pub(super) fn append_only(&mut self) -> bool {
        let there = self.peek_is("APPEND") && self.nth_is(1, "ONLY");
        if there {
            self.parser.next_token();
            self.parser.next_token();
        }
        there
    }

    /// Passes over `DISTRIBUTED BY (columns)` behind an index: where rows of an index lie is the engine's business.
    pub(super) fn skip_distribution(&mut self) {
        let is_open = self.parser.peek_nth_token(2).token == Token::LParen;
        if !(self.peek_is("DISTRIBUTED") && self.nth_is(1, "BY") && is_open) {
            return;
        }
        while !matches!(self.parser.peek_token().token, Token::EOF | Token::SemiColon) {
            if self.parser.next_token().token == Token::RParen {
                return;
            }
        }
    }

    fn nth_is(&self, n: usize, word: &str) -> bool {
        matches!(
            self.parser.peek_nth_token(n).token,
            Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(word)
        )
    }
}
