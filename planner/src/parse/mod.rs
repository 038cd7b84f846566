//! SQL text → parsed statements: tokens, places, hints, and the syntax trees of single statements.
//!
//! Statements the parser crate does not know, or reads in another spirit, have heads of their own in this folder
//! (EXPLAIN, COPY, SET, SHOW, DESCRIBE, CREATE EXTERNAL TABLE, CREATE SINK, RENAME TO, FLUSH, STOP JOB, EXECUTE STATEMENT SET); all others are read by `sqlparser`. Nothing here
//! knows a table or a function.

mod aggregate_prefix;
mod asof;
mod changelog;
mod conflicts;
mod copy;
mod depth;
mod dialect;
mod emit;
mod external;
mod hint_places;
mod hints;
mod jobs;
mod json_arrows;
mod keywords;
mod materialized;
mod operators;
mod option_keys;
mod position;
mod script;
mod session;
mod sinks;
mod table_columns;
mod type_names;
mod window_functions;

use std::ops::Range;
use std::sync::Arc;

use datafusion_sql::sqlparser::ast::{self, ObjectName, Query};

use crate::error::Span;
use crate::inspection::{ExplainOptions, JobName};
use crate::statement::{DropKind, Emit};

pub use hint_places::HintScope;
pub use hints::Hint;
pub(crate) use hints::OPTIONS;

/// The operator that stands for an arrow between a name and a constant.
pub(crate) const JSON_ARROW: &str = "->";

pub(crate) use asof::USING as ASOF_USING;
pub(crate) use conflicts::{
    ALL as CONFLICT_ALL, ERROR as CONFLICT_ERROR, is_marker as is_conflict_marker,
};
pub(crate) use copy::{CopyAst, CopySource};
pub(crate) use external::ExternalTableAst;
pub(crate) use position::{span_of, text_after};
pub(crate) use script::{parse_script, tokens_of};
pub(crate) use session::ShowAst;
pub(crate) use sinks::{CreateSinkAst, SinkSource};
pub(crate) use table_columns::{ComputedAst, TableColumns, WatermarkAst};

/// One statement of a text, parsed but not yet bound to tables.
#[derive(Debug, Clone)]
pub struct ParsedStatement {
    pub(crate) text: Arc<str>,
    pub(crate) range: Range<usize>,
    pub(crate) span: Span,
    pub(crate) hints: Vec<Hint>,
    pub(crate) emit: Option<Emit>,
    pub(crate) ast: Ast,
}

impl ParsedStatement {
    /// The statement's own text, without the `;` that ends it.
    pub fn sql(&self) -> &str {
        &self.text[self.range.clone()]
    }

    /// The whole text the statement was parsed from; spans of errors count in it.
    pub fn source_text(&self) -> &Arc<str> {
        &self.text
    }

    /// The statement's bytes within the whole text.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Line and column of the statement's first character and after its last.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The optimizer hints of all its query blocks, in the order written.
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// Whether it is a query (or EXPLAIN of one), that is, whether running it changes nothing.
    pub fn is_query(&self) -> bool {
        match &self.ast {
            Ast::Query(_) | Ast::Table(_) => true,
            Ast::Explain { inner, .. } => matches!(**inner, Ast::Query(_) | Ast::Table(_)),
            Ast::Copy(_)
            | Ast::CreateTable { .. }
            | Ast::ExternalTable(_)
            | Ast::Set { .. }
            | Ast::Reset { .. }
            | Ast::Show(_)
            | Ast::Describe(_)
            | Ast::StatementSet(_)
            | Ast::Flush
            | Ast::StopJob(_)
            | Ast::CreateSink(_)
            | Ast::DropSink { .. }
            | Ast::Rename { .. }
            | Ast::Sql(_) => false,
        }
    }
}

/// The syntax tree of one statement.
#[derive(Debug, Clone)]
pub(crate) enum Ast {
    Query(Box<Query>),
    /// `TABLE t`.
    Table(ObjectName),
    Explain {
        options: ExplainOptions,
        inner: Box<Ast>,
    },
    Copy(Box<CopyAst>),
    CreateTable {
        create: Box<ast::CreateTable>,
        columns: Box<TableColumns>,
    },
    ExternalTable(Box<ExternalTableAst>),
    Set {
        key: String,
        value: String,
    },
    Reset {
        key: Option<String>,
    },
    Show(ShowAst),
    Describe(DescribeAst),
    /// Each is an INSERT.
    StatementSet(Vec<Ast>),
    Flush,
    StopJob(JobName),
    CreateSink(Box<CreateSinkAst>),
    DropSink {
        name: ObjectName,
        if_exists: bool,
    },
    Rename {
        kind: DropKind,
        from: ObjectName,
        to: ObjectName,
    },
    Sql(Box<ast::Statement>),
}

/// The object of DESCRIBE.
#[derive(Debug, Clone)]
pub(crate) enum DescribeAst {
    Table(ObjectName),
    Query(Box<Query>),
    Job(JobName),
}
