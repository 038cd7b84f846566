//! What planning returns: a statement that is bound to tables, coerced and rewritten, ready to be optimised or obeyed.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Constraints;
use datafusion_expr::{Expr, LogicalPlan, TableSource};

use crate::bind::{Parameter, SqlFunction};
use crate::catalog::TableName;
use crate::inspection::{DescribeTarget, ExplainOptions, JobName, ShowKind};
use crate::parse::{HintScope, ParsedStatement};

/// Identifies one shared plan within its statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedId(pub usize);

impl fmt::Display for SharedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A plan that other plans of the statement read through scans of [`SharedSource`](crate::SharedSource).
#[derive(Debug, Clone)]
pub struct SharedPlan {
    /// What the scans name.
    pub id: SharedId,
    /// The name the user gave it (a CTE's name), for EXPLAIN.
    pub name: String,
    /// Its rows; the columns are those of its `SharedSource`, in order.
    pub plan: LogicalPlan,
}

/// A query: the main plan and what it shares.
#[derive(Debug, Clone)]
pub struct QueryPlan {
    /// The plan whose rows are the result.
    pub plan: LogicalPlan,
    /// The names of the result's columns as the user should see them: aliases, column names, or the text of the
    /// expression. As many as the plan has columns; two may be equal.
    pub names: Vec<String>,
    /// Shared plans in dependency order: each reads only earlier ones.
    pub shared: Vec<SharedPlan>,
    /// Join hints, one for each relation that a hint names.
    pub hints: Vec<RelationHint>,
    /// When results leave of groups that a watermark closes; `None` if the query does not say.
    pub emit: Option<Emit>,
    /// Options that hints set for parts of the query.
    pub options: Box<[OptionHint]>,
}

/// The clause EMIT of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emit {
    /// When results leave.
    pub when: EmitWhen,
    /// How long groups are kept after they have closed, for rows that come late; microseconds.
    pub allow_lateness_us: i64,
    /// Which rows of a group are aggregated; all if it does not say.
    pub keep: Option<Keep>,
}

/// The rows of a group that are aggregated: the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// So many.
    Rows(u64),
    /// Those less than so long before the last.
    Interval {
        /// How long, in microseconds.
        micros: i64,
    },
}

/// When results of groups leave that a watermark closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmitWhen {
    /// When they are closed.
    WindowClose,
    /// Whenever they change.
    Update,
    /// Their changes, from time to time.
    Periodic {
        /// How often, in microseconds of the clock.
        every_us: i64,
    },
}

/// `OPTIONS('key' = 'value')` for a part of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionHint {
    /// The part: the outermost block, a named block, or a table.
    pub scope: HintScope,
    /// The option, in lower case.
    pub key: String,
    /// Its value, as it is written between the quotes.
    pub value: String,
    /// The names of the statement's derived tables and common table expressions: parts that have options of their own, or
    /// none.
    pub blocks: Arc<[String]>,
}

/// A join hint about one relation of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationHint {
    /// `BROADCAST`, `SHUFFLE_HASH`, `SHUFFLE_MERGE` or `NEST_LOOP`.
    pub name: String,
    /// The relation's alias, or its table's name; the query reads at least one of that name.
    pub relation: String,
}

/// What DROP drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropKind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A materialized view.
    MaterializedView,
    /// A schema.
    Schema,
    /// An index.
    Index,
}

/// A column whose value follows from others: `name AS expr`.
#[derive(Debug, Clone, PartialEq)]
pub struct ComputedColumn {
    /// Its position among all columns of the table.
    pub column: usize,
    /// Its value: coerced and simplified, over the names of columns that are stored (never of computed ones).
    pub expr: Expr,
}

/// A column that the connector fills from what it knows of a row: `name type METADATA FROM 'key' VIRTUAL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataColumn {
    /// Its position among all columns of the table; it counts among those that are stored.
    pub column: usize,
    /// What the connector calls the value: the key, or the name of the column.
    pub key: String,
    /// It is left out when rows are written.
    pub is_virtual: bool,
}

/// `WATERMARK FOR column AS expr`: later rows should have times after `expr`.
#[derive(Debug, Clone, PartialEq)]
pub struct Watermark {
    /// The position of the column, which may be computed: a timestamp or, of a table in memory that is APPEND ONLY, a whole
    /// number or a date.
    pub column: usize,
    /// What a row declares, in the column's type: over the names of columns that are stored; volatile only WITH TTL.
    pub expr: Expr,
    /// Rows behind it leave the table.
    pub ttl: bool,
}

/// `CREATE TABLE` without a connector: an in-memory table, with the rows of a query when there is one.
#[derive(Debug, Clone)]
pub struct CreateTable {
    /// Its name.
    pub name: TableName,
    /// Do nothing when it exists.
    pub if_not_exists: bool,
    /// Replace it when it exists.
    pub or_replace: bool,
    /// It ends with the session.
    pub temporary: bool,
    /// Its columns in the order declared, computed ones included.
    pub schema: SchemaRef,
    /// Primary key and unique constraints, by column index; never over computed columns.
    pub constraints: Constraints,
    /// Whether rows are held to the constraints; false for `NOT ENFORCED`.
    pub keys_enforced: bool,
    /// Values of columns that an INSERT leaves out, by column name.
    pub defaults: Vec<(String, Expr)>,
    /// Columns that are computed when the table is read.
    pub computed: Vec<ComputedColumn>,
    /// Columns that a connector would fill.
    pub metadata: Vec<MetadataColumn>,
    /// When rows happened.
    pub watermark: Option<Watermark>,
    /// Options of the WITH clause (never `connector` or `path`).
    pub options: Vec<(String, String)>,
    /// The rows it starts with, already cast to `schema`.
    pub query: Option<QueryPlan>,
    /// Whether rows only come, and never go or change.
    pub append_only: bool,
}

/// `CREATE VIEW`.
#[derive(Debug, Clone)]
pub struct CreateView {
    /// Its name.
    pub name: TableName,
    /// The defining query as text; it has been planned once, so it is valid now.
    pub sql: String,
    /// New names of all its columns, or empty.
    pub columns: Vec<String>,
    /// The columns it has now.
    pub schema: SchemaRef,
    /// Replace it when it exists.
    pub or_replace: bool,
    /// Do nothing when it exists.
    pub if_not_exists: bool,
    /// It ends with the session.
    pub temporary: bool,
}

/// `CREATE MATERIALIZED VIEW`: a query whose result is kept up to date.
#[derive(Debug, Clone)]
pub struct CreateMaterializedView {
    /// Its name.
    pub name: TableName,
    /// The defining query as text.
    pub sql: String,
    /// The query, under the names of the view's columns. An order of its rows that decides nothing is left out.
    pub query: QueryPlan,
    /// Replace it when it exists.
    pub or_replace: bool,
    /// Do nothing when it exists.
    pub if_not_exists: bool,
}

/// `CREATE EXTERNAL TABLE … STORED AS … LOCATION …` and `CREATE TABLE … WITH ('connector' = …)`.
#[derive(Debug, Clone)]
pub struct CreateExternalTable {
    /// Its name.
    pub name: TableName,
    /// `filesystem` for STORED AS; else the option `connector`.
    pub connector: String,
    /// Lower-case format name, if given.
    pub format: Option<String>,
    /// Paths or globs; empty for connectors that need none.
    pub locations: Vec<String>,
    /// Declared columns in their order, computed ones included; `None` when they are to be found out.
    pub schema: Option<SchemaRef>,
    /// Primary key and unique constraints, by column index; never enforced, never over computed columns.
    pub constraints: Constraints,
    /// Columns that are computed when the table is read, which its connector does not know.
    pub computed: Vec<ComputedColumn>,
    /// Columns that the connector fills from what it knows of a row.
    pub metadata: Vec<MetadataColumn>,
    /// When rows happened.
    pub watermark: Option<Watermark>,
    /// All other options, in the order written.
    pub options: Vec<(String, String)>,
    /// Names of the columns that are encoded in paths.
    pub partition_columns: Vec<String>,
    /// Do nothing when it exists.
    pub if_not_exists: bool,
    /// Replace it when it exists.
    pub or_replace: bool,
    /// It ends with the session.
    pub temporary: bool,
}

/// `INSERT INTO` and `INSERT OVERWRITE`.
#[derive(Clone)]
pub struct Insert {
    /// The table written to.
    pub table: TableName,
    /// Its source.
    pub source: Arc<dyn TableSource>,
    /// The rows: cast to the table's types, in its column order, missing columns filled with their defaults, without
    /// computed columns.
    pub input: QueryPlan,
    /// Replace all rows instead of adding.
    pub overwrite: bool,
    /// What becomes of rows that have the same primary key, if the statement says so.
    pub on_conflict: Option<ConflictAction>,
}

/// `ON CONFLICT` of an INSERT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictAction {
    /// They are an error.
    Error,
    /// The first one stays.
    Nothing,
    /// The last one takes the place of those before.
    Update,
}

impl fmt::Debug for Insert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Insert { table, source: _, input, overwrite, on_conflict } = self;
        f.debug_struct("Insert")
            .field("table", table)
            .field("input", input)
            .field("overwrite", overwrite)
            .field("on_conflict", on_conflict)
            .finish()
    }
}

/// `CREATE SINK … INTO t`: the changes of a query's result go into a table for ever.
#[derive(Debug, Clone)]
pub struct CreateSink {
    /// Its name.
    pub name: String,
    /// The table, and the query.
    pub insert: Insert,
    /// Do nothing when it exists.
    pub if_not_exists: bool,
    /// Rows that the query takes back stay in the table.
    pub ignore_delete: bool,
}

/// Which statement changes a table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modification {
    /// `DELETE FROM`, `TRUNCATE`: the query gives the rows that stay.
    Delete,
    /// `UPDATE`: the query gives all rows as they are to be, and a last column that says which of them are changed.
    Update,
}

/// `DELETE FROM`, `TRUNCATE` and `UPDATE`: a query whose rows take the place of the table's.
#[derive(Clone)]
pub struct Modify {
    /// The table that changes.
    pub table: TableName,
    /// Its source.
    pub source: Arc<dyn TableSource>,
    /// What kind of change it is.
    pub kind: Modification,
    /// The rows, in the types of the columns that the table stores.
    pub input: QueryPlan,
    /// The names of the columns behind these, which are the result for rows that are changed.
    pub returned: Vec<String>,
}

impl fmt::Debug for Modify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Modify { table, source: _, kind, input, returned } = self;
        f.debug_struct("Modify")
            .field("table", table)
            .field("kind", kind)
            .field("input", input)
            .field("returned", returned)
            .finish()
    }
}

/// `COPY … FROM`: the rows of a file are added to a table.
#[derive(Clone)]
pub struct CopyFrom {
    /// The table written to.
    pub table: TableName,
    /// Its source.
    pub source: Arc<dyn TableSource>,
    /// The columns that the file has, by position among those that the table stores; empty for all.
    pub columns: Vec<usize>,
    /// Where from: a path or glob.
    pub path: String,
    /// Lower-case format name, if given.
    pub format: Option<String>,
    /// All other options, in the order written; keys are lower-case.
    pub options: Vec<(String, String)>,
}

impl fmt::Debug for CopyFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CopyFrom { table, source: _, columns, path, format, options } = self;
        f.debug_struct("CopyFrom")
            .field("table", table)
            .field("columns", columns)
            .field("path", path)
            .field("format", format)
            .field("options", options)
            .finish()
    }
}

/// `CREATE INDEX`. Indexes are declarations: scans read columns, so that no query is answered from one.
#[derive(Debug, Clone)]
pub struct CreateIndex {
    /// Its name.
    pub name: String,
    /// The table; it exists, and so do the columns.
    pub table: TableName,
    /// Do nothing when it exists.
    pub if_not_exists: bool,
}

/// `COPY … TO`.
#[derive(Debug, Clone)]
pub struct Copy {
    /// The rows.
    pub input: QueryPlan,
    /// Where to.
    pub path: String,
    /// Lower-case format name, if given.
    pub format: Option<String>,
    /// All other options, in the order written; keys are lower-case.
    pub options: Vec<(String, String)>,
    /// Columns that go into the path instead of the files.
    pub partition_by: Vec<String>,
}

/// A planned statement.
#[derive(Debug, Clone)]
pub enum Statement {
    /// Rows for the user.
    Query(QueryPlan),
    /// EXPLAIN of another statement, which is planned too.
    Explain {
        /// How.
        options: ExplainOptions,
        /// What is explained.
        statement: Box<Statement>,
    },
    /// See [`CreateTable`].
    CreateTable(Box<CreateTable>),
    /// See [`CreateView`].
    CreateView(CreateView),
    /// See [`CreateMaterializedView`].
    CreateMaterializedView(CreateMaterializedView),
    /// See [`CreateExternalTable`].
    CreateExternalTable(CreateExternalTable),
    /// `CREATE SCHEMA`.
    CreateSchema {
        /// Its name.
        name: String,
        /// Do nothing when it exists.
        if_not_exists: bool,
    },
    /// See [`Insert`].
    Insert(Insert),
    /// `EXECUTE STATEMENT SET BEGIN insert; … END`: runs all of them or none.
    StatementSet(Vec<Insert>),
    /// See [`struct@Copy`].
    Copy(Copy),
    /// See [`CopyFrom`].
    CopyFrom(CopyFrom),
    /// See [`Modify`].
    Modify(Modify),
    /// See [`CreateIndex`].
    CreateIndex(CreateIndex),
    /// `CREATE FUNCTION` and `CREATE MACRO`.
    CreateFunction {
        /// What is created.
        function: SqlFunction,
        /// Replace it when it exists.
        or_replace: bool,
        /// Do nothing when it exists.
        if_not_exists: bool,
    },
    /// `DROP FUNCTION`.
    DropFunction {
        /// Their names; at least one.
        names: Vec<String>,
        /// Do nothing about those that do not exist.
        if_exists: bool,
    },
    /// `SET key = value`.
    Set {
        /// The key, dots included.
        key: String,
        /// The value as text, quotes removed.
        value: String,
    },
    /// `RESET key`, or all for `None`.
    Reset {
        /// The key.
        key: Option<String>,
    },
    /// SHOW.
    Show(ShowKind),
    /// DESCRIBE.
    Describe(DescribeTarget),
    /// DROP.
    Drop {
        /// What kind of thing.
        kind: DropKind,
        /// Their names; at least one.
        names: Vec<TableName>,
        /// Do nothing about those that do not exist.
        if_exists: bool,
        /// Drop the materialized views that read them, too.
        cascade: bool,
    },
    /// `FLUSH`: wait until all materialized views have taken in the changes made so far.
    Flush,
    /// `STOP JOB`.
    StopJob(JobName),
    /// See [`CreateSink`].
    CreateSink(CreateSink),
    /// `DROP SINK`.
    DropSink {
        /// Its name.
        name: String,
        /// Do nothing when it does not exist.
        if_exists: bool,
    },
    /// `ALTER … RENAME TO`.
    Rename {
        /// What kind of thing.
        kind: DropKind,
        /// Its name.
        from: TableName,
        /// Its name from now on.
        to: TableName,
    },
    /// `PREPARE name AS statement`.
    Prepare {
        /// Its name.
        name: String,
        /// The statement, to be planned at each EXECUTE.
        statement: Box<ParsedStatement>,
    },
    /// `EXECUTE name(values)`: plan the prepared statement with
    /// [`Planner::plan_with_parameters`](crate::Planner::plan_with_parameters).
    Execute {
        /// Its name.
        name: String,
        /// The values of `$1`, `$2`, ….
        parameters: Vec<Parameter>,
    },
    /// `DEALLOCATE name`, or all for `None`.
    Deallocate {
        /// Its name.
        name: Option<String>,
    },
}
