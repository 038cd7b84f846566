//! The catalog as the planner sees it while one statement is planned.
//!
//! Files behind a path are found once a statement, so that all its parts see the same files; the next statement looks
//! anew. Nothing here runs a query. The tables and views that were asked for are remembered, for those who depend on them.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion_common::{Constraint, ScalarValue};
use datafusion_expr::{Expr, TableSource};
use parking_lot::Mutex;
use thalweg_planner::{
    CHANGELOG_OF, CLOCK, Catalog, ErrorKind, PlannerError, TableName, ViewDefinition, suggest,
};

use super::listing::{INFORMATION_TABLES, Listings};
use super::store::{CATALOG_NAME, Entry, EntryKey, INFORMATION_SCHEMA, ViewJob};
use super::table::{EngineTable, Table};
use super::table_functions;
use crate::connectors::memory::{ChangelogTable, ViewTable};
use crate::connectors::{FileTable, MemoryTable};
use crate::error::Error;

type PlannerResult<T> = Result<T, PlannerError>;

/// The late rows of a query, view or job, by its text or name.
pub type LateRowsOf<'a> = dyn Fn(&str) -> crate::error::Result<Arc<dyn Table>> + Send + Sync + 'a;

/// See the module.
pub struct StatementCatalog<'a> {
    listings: Listings<'a>,
    late_rows: &'a LateRowsOf<'a>,
    paths: Mutex<HashMap<String, Arc<EngineTable>>>,
    found: Mutex<BTreeSet<EntryKey>>,
}

impl<'a> StatementCatalog<'a> {
    /// The catalog for one statement.
    pub fn new(listings: Listings<'a>, late_rows: &'a LateRowsOf<'a>) -> Self {
        StatementCatalog { listings, late_rows, paths: Mutex::default(), found: Mutex::default() }
    }

    /// The tables and views that were asked for.
    pub fn found(&self) -> BTreeSet<EntryKey> {
        self.found.lock().clone()
    }

    fn find(&self, name: &TableName) -> Option<Entry> {
        let (schema, entry) = self.listings.catalog.find(name)?;
        self.found.lock().insert(EntryKey { schema, name: name.table.clone() });
        Some(entry)
    }

    fn information_table(&self, name: &str) -> PlannerResult<Option<Arc<dyn TableSource>>> {
        let Some(batch) = self.listings.information_table(name) else { return Ok(None) };
        let batch = batch.map_err(planner_error)?;
        let table = MemoryTable::new(batch.schema(), vec![batch]);
        Ok(Some(EngineTable::new(Arc::new(table))))
    }
}

impl Catalog for StatementCatalog<'_> {
    fn table(&self, name: &TableName) -> PlannerResult<Option<Arc<dyn TableSource>>> {
        let ours = name.catalog.as_deref().is_none_or(|catalog| catalog == CATALOG_NAME);
        if ours && name.schema.as_deref() == Some(INFORMATION_SCHEMA) {
            return self.information_table(&name.table);
        }
        Ok(match self.find(name) {
            Some(Entry::Table { table, defaults, .. }) => {
                let trusted = self.listings.settings.trust_constraints();
                Some(EngineTable::with_defaults(table, defaults, trusted))
            }
            Some(Entry::MaterializedView { table, job, .. }) => {
                refuse_failed(name, &job)?;
                Some(EngineTable::new(table))
            }
            Some(Entry::View { .. }) | None => None,
        })
    }

    fn view(&self, name: &TableName) -> Option<ViewDefinition> {
        match self.find(name) {
            Some(Entry::View { definition, .. }) => Some(definition),
            Some(Entry::Table { .. } | Entry::MaterializedView { .. }) | None => None,
        }
    }

    fn path(&self, path: &str) -> PlannerResult<Arc<dyn TableSource>> {
        if let Some(found) = self.paths.lock().get(path) {
            return Ok(found.clone());
        }
        let table = FileTable::discover(&[path.to_string()], None, &Default::default())
            .map_err(planner_error)?;
        let table = EngineTable::new(Arc::new(table));
        self.paths.lock().insert(path.to_string(), table.clone());
        Ok(table)
    }

    fn table_names(&self) -> Vec<String> {
        let mut names = self.listings.catalog.names();
        names.extend(INFORMATION_TABLES.iter().map(|name| format!("{INFORMATION_SCHEMA}.{name}")));
        names
    }

    fn table_function(
        &self,
        name: &str,
        args: &[Expr],
    ) -> PlannerResult<Option<Arc<dyn TableSource>>> {
        if name == CHANGELOG_OF {
            return self.changelog(args).map(Some);
        }
        if name == CLOCK {
            let clock = self.listings.catalog.clock().table().map_err(planner_error)?;
            return Ok(Some(EngineTable::new(Arc::new(clock))));
        }
        if name == table_functions::LATE_ROWS {
            let text = table_functions::only_text(name, args).map_err(planner_error)?;
            let table = (self.late_rows)(&text).map_err(planner_error)?;
            return Ok(Some(EngineTable::new(table)));
        }
        let table = table_functions::table(name, args).map_err(planner_error)?;
        Ok(table.map(|table: Arc<dyn Table>| EngineTable::new(table) as Arc<dyn TableSource>))
    }

    fn computed_columns(&self, source: &dyn TableSource) -> Vec<usize> {
        let table = EngineTable::of(source).map(|engine| engine.table.computed());
        let mut columns: Vec<usize> =
            table.unwrap_or_default().iter().map(|column| column.column).collect();
        // Nobody writes what connectors know of rows.
        let metadata = EngineTable::of(source).map(|engine| engine.table.metadata());
        columns.extend(metadata.unwrap_or_default().iter().map(|column| column.column));
        columns.sort_unstable();
        columns
    }

    fn event_time(&self, source: &dyn TableSource) -> Option<usize> {
        Some(EngineTable::of(source)?.table.event_time()?.column)
    }

    fn primary_key(&self, source: &dyn TableSource) -> Vec<usize> {
        let table = EngineTable::of(source).and_then(|engine| engine.table.constraints());
        let mut keys = table.into_iter().flat_map(|keys| keys.iter());
        let primary = keys.find_map(|key| match key {
            Constraint::PrimaryKey(columns) => Some(columns.clone()),
            Constraint::Unique(_) => None,
        });
        primary.unwrap_or_default()
    }

    fn is_unbounded(&self, source: &dyn TableSource) -> bool {
        EngineTable::of(source).is_some_and(|engine| engine.table.is_unbounded())
    }

    fn table_function_names(&self) -> Vec<String> {
        table_functions::NAMES.iter().map(|name| name.to_string()).collect()
    }
}

impl StatementCatalog<'_> {
    /// The changelog of the table or materialized view that is named by the arguments behind the first, which says whether
    /// rows are numbered.
    fn changelog(&self, args: &[Expr]) -> PlannerResult<Arc<dyn TableSource>> {
        let wrong = || PlannerError::internal("a changelog is of a table's name");
        let [Expr::Literal(ScalarValue::Boolean(Some(row_ids)), _), parts @ ..] = args else {
            return Err(wrong());
        };
        let text = |part: &Expr| match part {
            Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_string),
            _ => None,
        };
        let parts = parts.iter().map(text).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        let name = match parts.as_slice() {
            [table] => TableName::bare(table),
            [schema, table] => TableName::partial(schema, table),
            _ => return Err(wrong()),
        };
        let shown = name.to_string();
        let Some(source) = self.table(&name)? else {
            let known = self.table_names();
            let hint = suggest::did_you_mean(&shown, known.iter().map(String::as_str));
            let what = match self.view(&name) {
                Some(_) => {
                    format!("a changelog of the view \"{shown}\", which is not materialized")
                }
                None => format!("table {shown} does not exist"),
            };
            return Err(PlannerError::new(ErrorKind::Invalid, what).with_hint(hint));
        };
        let followed = EngineTable::of(source.as_ref()).map(|engine| engine.table.clone());
        let key = self.primary_key(source.as_ref());
        let is = |table: &Arc<dyn Table>| {
            let any = table.as_ref() as &dyn Any;
            (any.is::<MemoryTable>(), any.is::<ViewTable>())
        };
        match followed.map(|table| (is(&table), table)) {
            // Which rows of a view belong together is not known.
            Some(((true, _) | (_, true), table)) => {
                let pairs = is(&table).0;
                let changelog = ChangelogTable::new(table, *row_ids, key, pairs);
                Ok(EngineTable::new(Arc::new(changelog)))
            }
            Some(_) | None => {
                let what =
                    format!("a changelog of \"{shown}\", which is not a plain table in memory");
                let hint = "A materialized view over it has a changelog.".to_string();
                Err(PlannerError::new(ErrorKind::NotSupported, what).with_hint(Some(hint)))
            }
        }
    }
}

/// Fails for a view that is no longer kept up to date.
fn refuse_failed(name: &TableName, job: &ViewJob) -> PlannerResult<()> {
    let Some(cause) = job.failure() else { return Ok(()) };
    let what = match cause {
        thalweg_runtime::Error::Cancelled => "was stopped",
        _ => "has failed",
    };
    let cause = Error::from(cause);
    let detail = cause.report().map(|report| format!("The cause: {report}"));
    let hint = "CREATE OR REPLACE MATERIALIZED VIEW starts it anew.".to_string();
    Err(PlannerError::new(ErrorKind::Invalid, format!("the materialized view \"{name}\" {what}"))
        .with_detail(detail)
        .with_hint(hint))
}

/// An error of the engine's on its way through the planner, which knows the place.
fn planner_error(error: impl Into<Error>) -> PlannerError {
    let error = error.into();
    let kind = match &error {
        Error::Internal(_) => ErrorKind::Internal,
        Error::Unsupported(_) => ErrorKind::NotSupported,
        Error::Statement(_)
        | Error::Setting(_)
        | Error::Catalog(_)
        | Error::Execution(_)
        | Error::Io(_)
        | Error::ResourcesExhausted(_)
        | Error::Cancelled => ErrorKind::Invalid,
    };
    let report = error.report().cloned().unwrap_or_default();
    let message = if error.is_cancelled() { error.to_string() } else { report.message };
    PlannerError::new(kind, message).with_detail(report.detail).with_hint(report.hint)
}
