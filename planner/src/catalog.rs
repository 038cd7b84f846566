//! What the planner asks of the outside world: tables, views, paths and table functions by name.
//!
//! The planner does no I/O; an implementation answers from what it knows (or finds out on its own account).

use std::fmt;
use std::sync::Arc;

use datafusion_common::TableReference;
use datafusion_expr::{Expr, TableSource};

use crate::error::Result;

/// The table function by which `CHANGELOG FROM t` asks for the changelog of a table: whether its rows are numbered, and
/// then the parts of the table's name.
pub const CHANGELOG_OF: &str = "__changelog_of";

/// The table function by which views ask for the time: one row, changed when views commit.
pub const CLOCK: &str = "__clock";
/// The only column of [`CLOCK`].
pub const CLOCK_TIME: &str = "time";

/// The name of a table, view or schema-bound object, already normalised (unquoted parts are lower-case).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The catalog part, if written.
    pub catalog: Option<String>,
    /// The schema part, if written.
    pub schema: Option<String>,
    /// The table part.
    pub table: String,
}

impl TableName {
    /// A name of one part.
    pub fn bare(table: impl Into<String>) -> Self {
        TableName { catalog: None, schema: None, table: table.into() }
    }

    /// A name of two parts.
    pub fn partial(schema: impl Into<String>, table: impl Into<String>) -> Self {
        TableName { catalog: None, schema: Some(schema.into()), table: table.into() }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.catalog, &self.schema].into_iter().flatten() {
            write!(f, "{part}.")?;
        }
        f.write_str(&self.table)
    }
}

impl From<&TableReference> for TableName {
    fn from(reference: &TableReference) -> Self {
        TableName {
            catalog: reference.catalog().map(str::to_string),
            schema: reference.schema().map(str::to_string),
            table: reference.table().to_string(),
        }
    }
}

impl From<&TableName> for TableReference {
    fn from(name: &TableName) -> Self {
        match (&name.catalog, &name.schema) {
            (Some(catalog), Some(schema)) => {
                TableReference::full(catalog.as_str(), schema.as_str(), name.table.as_str())
            }
            (_, Some(schema)) => TableReference::partial(schema.as_str(), name.table.as_str()),
            (_, None) => TableReference::bare(name.table.as_str()),
        }
    }
}

/// A view: its defining query as text, and its column names where the definition renames them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewDefinition {
    /// One query, as given in `CREATE VIEW … AS query`.
    pub sql: String,
    /// The names of all columns, or empty to take the query's own.
    pub columns: Vec<String>,
}

/// Tables, views, paths and table functions as the planner sees them.
///
/// Sources that evaluate any filter exactly should report `TableProviderFilterPushDown::Exact`, so that all
/// single-table conditions end up in `TableScan.filters`.
pub trait Catalog: Send + Sync {
    /// The table of this name; `None` when there is none (a view is not a table).
    fn table(&self, name: &TableName) -> Result<Option<Arc<dyn TableSource>>>;

    /// The view of this name, if there is one. Asked before [`Catalog::table`].
    fn view(&self, name: &TableName) -> Option<ViewDefinition>;

    /// The file or files behind `FROM 'path or glob'`, and behind quoted names that are no table and look like a path.
    fn path(&self, path: &str) -> Result<Arc<dyn TableSource>>;

    /// All names a user may write after FROM, for suggestions.
    fn table_names(&self) -> Vec<String>;

    /// A function in FROM; `None` when there is none of this name. Arguments are literals where they can be
    /// simplified to literals.
    fn table_function(&self, name: &str, args: &[Expr]) -> Result<Option<Arc<dyn TableSource>>>;

    /// The positions of a source's computed columns, in ascending order: no statement writes them.
    fn computed_columns(&self, _source: &dyn TableSource) -> Vec<usize> {
        Vec::new()
    }

    /// The position of the column that tells when a source's rows happened, if it declares one.
    fn event_time(&self, _source: &dyn TableSource) -> Option<usize> {
        None
    }

    /// The positions of the columns of a source's primary key, if it declares one, whether or not rows are held to it.
    fn primary_key(&self, _source: &dyn TableSource) -> Vec<usize> {
        Vec::new()
    }

    /// Whether a source's rows have no end.
    fn is_unbounded(&self, _source: &dyn TableSource) -> bool {
        false
    }

    /// The names of all table functions, for suggestions.
    fn table_function_names(&self) -> Vec<String> {
        Vec::new()
    }
}
