//! Statements that show something: EXPLAIN, SHOW and DESCRIBE.

use arrow::datatypes::SchemaRef;

use crate::catalog::TableName;

/// What EXPLAIN does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExplainOptions {
    /// Run it and report what happened.
    pub analyze: bool,
    /// Tell more.
    pub verbose: bool,
    /// Run it as a batch and as a stream and compare the answers.
    pub verify: bool,
    /// Show the plan that keeps the result up to date, with the kinds of changes that leave each operator.
    pub changelog_mode: bool,
    /// How to print.
    pub format: ExplainFormat,
}

/// How EXPLAIN prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExplainFormat {
    /// An indented tree.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// What SHOW lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShowKind {
    /// One setting.
    Setting(String),
    /// All settings.
    All,
    /// Tables and views.
    Tables,
    /// Views only.
    Views,
    /// Schemas.
    Schemas,
    /// The columns of one table.
    Columns(TableName),
    /// All functions.
    Functions,
    /// The statement that would create this table or view.
    Create(TableName),
    /// The jobs of the session.
    Jobs,
}

/// A job of the session, as STOP JOB names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobName {
    /// By its number.
    Number(u64),
    /// By its name.
    Name(String),
}

/// What DESCRIBE describes.
#[derive(Debug, Clone)]
pub enum DescribeTarget {
    /// A table, view or path that has been resolved.
    Table {
        /// The name as written.
        name: TableName,
        /// Its columns.
        schema: SchemaRef,
    },
    /// A query's result.
    Query {
        /// Its columns.
        schema: SchemaRef,
    },
    /// The operators of a job.
    Job(JobName),
}
