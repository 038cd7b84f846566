//! The session's schemas, tables and views by name.
//!
//! Invariant: a schema holds one thing under one name. A name without a schema is looked for in `temp`, then in
//! `public`; `information_schema` is not stored here but made when it is read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_expr::Expr;
use parking_lot::RwLock;
use thalweg_planner::{DropKind, TableName, ViewDefinition, suggest};
use thalweg_runtime::job::JobHandle;

use super::clock::Clock;
use super::indexes::Indexes;
use super::table::Table;
use crate::error::{Error, Report, Result};

/// The only catalog's name.
pub const CATALOG_NAME: &str = "thalweg";
/// The schema of names without one.
pub const DEFAULT_SCHEMA: &str = "public";
/// The schema of temporary tables and views, which is searched first.
pub const TEMPORARY_SCHEMA: &str = "temp";
/// The schema of tables about tables.
pub const INFORMATION_SCHEMA: &str = "information_schema";

/// The full name of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryKey {
    /// The schema it lies in.
    pub schema: String,
    /// Its name there.
    pub name: String,
}

/// The job that keeps a materialized view up to date.
#[derive(Clone)]
pub struct ViewJob(Arc<JobHandle>);

impl ViewJob {
    /// Why the view is no longer kept up to date; `None` as long as it is.
    pub fn failure(&self) -> Option<thalweg_runtime::Error> {
        self.0.result().and_then(Result::err)
    }
}

impl From<Arc<JobHandle>> for ViewJob {
    fn from(job: Arc<JobHandle>) -> Self {
        ViewJob(job)
    }
}

impl std::fmt::Debug for ViewJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ViewJob").field(&self.0.result()).finish()
    }
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A table.
    Table {
        /// The table.
        table: Arc<dyn Table>,
        /// The statement that would create it, if one would.
        sql: Option<String>,
        /// Values of columns that an INSERT leaves out, by column name.
        defaults: Arc<HashMap<String, Expr>>,
    },
    /// A view.
    View {
        /// Its query, which is planned anew at each use.
        definition: ViewDefinition,
        /// The columns it had when it was created.
        schema: SchemaRef,
        /// The statement that created it.
        sql: String,
    },
    /// A view whose rows are kept.
    MaterializedView {
        /// Its rows.
        table: Arc<dyn Table>,
        /// Its query.
        definition: String,
        /// The statement that created it.
        sql: String,
        /// What keeps it up to date.
        job: ViewJob,
    },
}

impl Entry {
    /// A table without defaults that no statement created.
    pub fn table(table: Arc<dyn Table>) -> Self {
        Entry::Table { table, sql: None, defaults: Arc::default() }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        match self {
            Entry::Table { table, .. } | Entry::MaterializedView { table, .. } => table.schema(),
            Entry::View { schema, .. } => schema.clone(),
        }
    }

    /// What the information schema calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            Entry::Table { .. } => "BASE TABLE",
            Entry::View { .. } => "VIEW",
            Entry::MaterializedView { .. } => "MATERIALIZED VIEW",
        }
    }

    /// The statement that would create it, if one would.
    pub fn sql(&self) -> Option<&str> {
        match self {
            Entry::Table { sql, .. } => sql.as_deref(),
            Entry::View { sql, .. } | Entry::MaterializedView { sql, .. } => Some(sql),
        }
    }

    fn drop_kind(&self) -> DropKind {
        match self {
            Entry::Table { .. } => DropKind::Table,
            Entry::View { .. } => DropKind::View,
            Entry::MaterializedView { .. } => DropKind::MaterializedView,
        }
    }
}

/// What to do when the name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// Fail.
    Fail,
    /// Keep what is there.
    Keep,
    /// Replace it, if it is of the same kind.
    Replace,
}

type Entries = BTreeMap<String, Entry>;

/// See the module. Shared by all statements of a session.
#[derive(Debug)]
pub struct TableCatalog {
    schemas: RwLock<BTreeMap<String, Entries>>,
    indexes: Indexes,
    clock: Clock,
}

impl Default for TableCatalog {
    fn default() -> Self {
        let schemas =
            [DEFAULT_SCHEMA, TEMPORARY_SCHEMA].map(|name| (name.to_string(), Entries::new()));
        TableCatalog {
            schemas: RwLock::new(BTreeMap::from(schemas)),
            indexes: Indexes::default(),
            clock: Clock::default(),
        }
    }
}

impl TableCatalog {
    /// The time, for views that follow it.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Gives a table or view another name, within its schema; gives both full names.
    ///
    /// # Errors
    /// When there is nothing of the kind and name, or the other name is taken.
    pub fn rename(
        &self,
        kind: DropKind,
        from: &TableName,
        to: &TableName,
    ) -> Result<(EntryKey, EntryKey)> {
        self.check_drop(kind, from, false)?;
        let missing = || failure(format!("\"{from}\" does not exist"), "SHOW TABLES lists them.");
        let key = self.key_of(from).ok_or_else(missing)?;
        if to.schema.as_ref().is_some_and(|schema| *schema != key.schema) {
            return Err(Error::unsupported("RENAME TO a name in another schema"));
        }
        let mut schemas = self.schemas.write();
        let entries = schemas.get_mut(&key.schema).ok_or_else(missing)?;
        if entries.contains_key(&to.table) {
            let what = format!("\"{}\" exists already", to.table);
            return Err(failure(what, "DROP it first, or choose another name."));
        }
        let entry = entries.remove(&key.name).ok_or_else(missing)?;
        entries.insert(to.table.clone(), entry);
        let renamed = EntryKey { schema: key.schema.clone(), name: to.table.clone() };
        Ok((key, renamed))
    }

    /// What the name stands for.
    pub fn get(&self, name: &TableName) -> Option<Entry> {
        self.find(name).map(|(_, entry)| entry)
    }

    /// The full name of what the name stands for, if there is anything.
    pub fn key_of(&self, name: &TableName) -> Option<EntryKey> {
        let (schema, _) = self.find(name)?;
        Some(EntryKey { schema, name: name.table.clone() })
    }

    /// The full name that a new entry which is not temporary gets.
    pub fn key_for_creation(&self, name: &TableName) -> Result<EntryKey> {
        let schema = schema_for_creation(name, false)?.to_string();
        Ok(EntryKey { schema, name: name.table.clone() })
    }

    /// What the name stands for, with the schema it was found in.
    pub fn find(&self, name: &TableName) -> Option<(String, Entry)> {
        if name.catalog.as_deref().is_some_and(|catalog| catalog != CATALOG_NAME) {
            return None;
        }
        let schemas = self.schemas.read();
        let find = |schema: &str| {
            let entry = schemas.get(schema)?.get(&name.table)?;
            Some((schema.to_string(), entry.clone()))
        };
        match &name.schema {
            Some(schema) => find(schema),
            None => find(TEMPORARY_SCHEMA).or_else(|| find(DEFAULT_SCHEMA)),
        }
    }

    /// Fails when an entry of this kind that is not temporary could not be stored.
    pub fn check_free(&self, name: &TableName, kind: DropKind, conflict: OnConflict) -> Result<()> {
        let schema = schema_for_creation(name, false)?;
        let schemas = self.schemas.read();
        let known: Vec<String> = schemas.keys().cloned().collect();
        let entries = schemas.get(schema).ok_or_else(|| missing_schema(schema, &known))?;
        match entries.get(&name.table) {
            Some(there) => taken(name, there.drop_kind(), kind, conflict),
            None => Ok(()),
        }
    }

    /// Stores an entry; false when the name was taken and is kept.
    pub fn create(
        &self,
        name: &TableName,
        entry: Entry,
        temporary: bool,
        conflict: OnConflict,
    ) -> Result<bool> {
        let schema = schema_for_creation(name, temporary)?;
        let mut schemas = self.schemas.write();
        let known: Vec<String> = schemas.keys().cloned().collect();
        let entries = schemas.get_mut(schema).ok_or_else(|| missing_schema(schema, &known))?;
        if let Some(there) = entries.get(&name.table) {
            if conflict == OnConflict::Keep {
                return Ok(false);
            }
            taken(name, there.drop_kind(), entry.drop_kind(), conflict)?;
        }
        entries.insert(name.table.clone(), entry);
        Ok(true)
    }

    /// Whether [`Self::drop_entry`] would drop something; fails when that would.
    pub fn check_drop(&self, kind: DropKind, name: &TableName, if_exists: bool) -> Result<bool> {
        let Some(entry) = self.get(name) else {
            if if_exists {
                return Ok(false);
            }
            let names = self.names();
            let hint = suggest::did_you_mean(&name.to_string(), names.iter().map(String::as_str));
            let report = Report::new(format!("the {} \"{name}\" does not exist", kind_name(kind)));
            return Err(Error::catalog(report.with_hint(hint)));
        };
        if entry.drop_kind() != kind {
            let what = kind_name(entry.drop_kind());
            return Err(failure(
                format!("\"{name}\" is a {what}, not a {}", kind_name(kind)),
                format!("DROP {} drops it.", what.to_uppercase()),
            ));
        }
        Ok(true)
    }

    /// Drops a table or a view; false when there is none and that is no error.
    pub fn drop_entry(&self, kind: DropKind, name: &TableName, if_exists: bool) -> Result<bool> {
        if !self.check_drop(kind, name, if_exists)? {
            return Ok(false);
        }
        self.indexes.forget(name);
        let mut schemas = self.schemas.write();
        let candidates = match &name.schema {
            Some(schema) => vec![schema.as_str()],
            None => vec![TEMPORARY_SCHEMA, DEFAULT_SCHEMA],
        };
        Ok(candidates.iter().any(|s| {
            schemas.get_mut(*s).is_some_and(|entries| entries.remove(&name.table).is_some())
        }))
    }

    /// Declares an index of a table; false when its name is taken and that is no error.
    pub fn create_index(&self, name: &str, table: &TableName, if_not_exists: bool) -> Result<bool> {
        self.indexes.create(name, table, if_not_exists)
    }

    /// Drops the declaration of an index; false when there is none and that is no error.
    pub fn drop_index(&self, name: &str, if_exists: bool) -> Result<bool> {
        self.indexes.drop(name, if_exists)
    }

    /// Creates a schema; false when there is one and it is kept.
    pub fn create_schema(&self, name: &str, if_not_exists: bool) -> Result<bool> {
        let mut schemas = self.schemas.write();
        if name == INFORMATION_SCHEMA || schemas.contains_key(name) {
            let hint = "CREATE SCHEMA IF NOT EXISTS keeps it.";
            return if if_not_exists {
                Ok(false)
            } else {
                Err(failure(format!("the schema \"{name}\" already exists"), hint))
            };
        }
        schemas.insert(name.to_string(), Entries::new());
        Ok(true)
    }

    /// Drops an empty schema of the user's; false when there is none and that is no error.
    pub fn drop_schema(&self, name: &str, if_exists: bool) -> Result<bool> {
        if [DEFAULT_SCHEMA, TEMPORARY_SCHEMA, INFORMATION_SCHEMA].contains(&name) {
            return Err(Error::catalog(Report::new(format!(
                "the schema \"{name}\" cannot be dropped"
            ))));
        }
        let mut schemas = self.schemas.write();
        match schemas.get(name) {
            None if if_exists => Ok(false),
            None => Err(missing_schema(name, &schemas.keys().cloned().collect::<Vec<_>>())),
            Some(entries) if !entries.is_empty() => {
                let names: Vec<&str> = entries.keys().map(String::as_str).collect();
                Err(Error::catalog(
                    Report::new(format!("the schema \"{name}\" is not empty"))
                        .with_detail(format!("It holds {}.", names.join(", "))),
                ))
            }
            Some(_) => Ok(schemas.remove(name).is_some()),
        }
    }

    /// All schemas, `information_schema` among them.
    pub fn schemas(&self) -> Vec<String> {
        let mut names: Vec<String> = self.schemas.read().keys().cloned().collect();
        names.push(INFORMATION_SCHEMA.to_string());
        names.sort();
        names
    }

    /// All entries with their schema and name, sorted.
    pub fn entries(&self) -> Vec<(String, String, Entry)> {
        let schemas = self.schemas.read();
        let of = |(schema, entries): (&String, &Entries)| {
            let triple =
                |(name, entry): (&String, &Entry)| (schema.clone(), name.clone(), entry.clone());
            entries.iter().map(triple).collect::<Vec<_>>()
        };
        schemas.iter().flat_map(of).collect()
    }

    /// All names as a user would write them.
    pub fn names(&self) -> Vec<String> {
        let entries = self.entries().into_iter();
        entries
            .map(|(schema, name, _)| match schema.as_str() {
                DEFAULT_SCHEMA | TEMPORARY_SCHEMA => name,
                schema => format!("{schema}.{name}"),
            })
            .collect()
    }
}

fn kind_name(kind: DropKind) -> &'static str {
    match kind {
        DropKind::Table => "table",
        DropKind::View => "view",
        DropKind::MaterializedView => "materialized view",
        DropKind::Schema => "schema",
        DropKind::Index => "index",
    }
}

/// What it means for a new entry that its name is taken.
fn taken(name: &TableName, there: DropKind, new: DropKind, conflict: OnConflict) -> Result<()> {
    let what = kind_name(there);
    match conflict {
        OnConflict::Keep => Ok(()),
        OnConflict::Replace if there == new => Ok(()),
        OnConflict::Replace => Err(failure(
            format!("\"{name}\" is a {what}"),
            format!("DROP {} it first.", what.to_uppercase()),
        )),
        OnConflict::Fail => {
            let hint = "CREATE OR REPLACE replaces it, CREATE … IF NOT EXISTS keeps it.";
            Err(failure(format!("the {what} \"{name}\" already exists"), hint))
        }
    }
}

fn failure(message: String, hint: impl Into<String>) -> Error {
    Error::catalog(Report::new(message).with_hint(Some(hint.into())))
}

fn missing_schema(name: &str, known: &[String]) -> Error {
    let hint = suggest::did_you_mean(name, known.iter().map(String::as_str));
    Error::catalog(Report::new(format!("the schema \"{name}\" does not exist")).with_hint(hint))
}

/// The schema that a new entry goes to.
fn schema_for_creation(name: &TableName, temporary: bool) -> Result<&str> {
    if let Some(catalog) = name.catalog.as_deref().filter(|catalog| *catalog != CATALOG_NAME) {
        return Err(Error::catalog(Report::new(format!(
            "the catalog \"{catalog}\" does not exist"
        ))));
    }
    match (name.schema.as_deref(), temporary) {
        (None | Some(TEMPORARY_SCHEMA), true) => Ok(TEMPORARY_SCHEMA),
        (Some(schema), true) => {
            let message = format!("a temporary table or view cannot be in the schema \"{schema}\"");
            Err(Error::catalog(Report::new(message)))
        }
        (Some(INFORMATION_SCHEMA), false) => Err(Error::catalog(Report::new(format!(
            "the schema \"{INFORMATION_SCHEMA}\" cannot be written to"
        )))),
        (schema, false) => Ok(schema.unwrap_or(DEFAULT_SCHEMA)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;

    fn view(sql: &str) -> Entry {
        let definition = ViewDefinition { sql: sql.to_string(), columns: Vec::new() };
        Entry::View { definition, schema: Arc::new(Schema::empty()), sql: sql.to_string() }
    }

    fn sql_of(catalog: &TableCatalog, name: &TableName) -> Option<String> {
        catalog.get(name).and_then(|entry| entry.sql().map(str::to_string))
    }

    #[test]
    fn temporary_entries_hide_others() {
        let catalog = TableCatalog::default();
        let name = TableName::bare("v");
        assert!(catalog.create(&name, view("a"), false, OnConflict::Fail).unwrap());
        assert!(catalog.create(&name, view("b"), true, OnConflict::Fail).unwrap());
        assert_eq!(sql_of(&catalog, &name).as_deref(), Some("b"));
        assert_eq!(sql_of(&catalog, &TableName::partial("public", "v")).as_deref(), Some("a"));
        assert!(catalog.drop_entry(DropKind::View, &name, false).unwrap());
        assert_eq!(sql_of(&catalog, &name).as_deref(), Some("a"));
    }

    #[test]
    fn a_taken_name_is_an_error_kept_or_replaced() {
        let catalog = TableCatalog::default();
        let name = TableName::bare("v");
        catalog.create(&name, view("a"), false, OnConflict::Fail).unwrap();
        assert!(
            catalog
                .create(&name, view("b"), false, OnConflict::Fail)
                .unwrap_err()
                .to_string()
                .contains("already exists")
        );
        assert!(!catalog.create(&name, view("b"), false, OnConflict::Keep).unwrap());
        assert_eq!(sql_of(&catalog, &name).as_deref(), Some("a"));
        assert!(catalog.create(&name, view("b"), false, OnConflict::Replace).unwrap());
        assert_eq!(sql_of(&catalog, &name).as_deref(), Some("b"));
    }

    #[test]
    fn drops_say_what_is_wrong() {
        let catalog = TableCatalog::default();
        let name = TableName::bare("orders");
        catalog.create(&name, view("a"), false, OnConflict::Fail).unwrap();
        let error = catalog.drop_entry(DropKind::Table, &name, false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"orders\" is a view, not a table\nHINT: DROP VIEW drops it."
        );
        let error =
            catalog.drop_entry(DropKind::View, &TableName::bare("ordres"), false).unwrap_err();
        assert_eq!(error.hint(), Some("did you mean \"orders\"?"));
        assert!(!catalog.drop_entry(DropKind::View, &TableName::bare("ordres"), true).unwrap());
    }

    #[test]
    fn schemas_are_created_and_dropped_when_empty() {
        let catalog = TableCatalog::default();
        assert!(
            catalog
                .create(&TableName::partial("s", "v"), view("a"), false, OnConflict::Fail)
                .is_err()
        );
        catalog.create_schema("s", false).unwrap();
        assert!(catalog.create_schema("s", false).is_err());
        assert!(!catalog.create_schema("s", true).unwrap());
        catalog.create(&TableName::partial("s", "v"), view("a"), false, OnConflict::Fail).unwrap();
        assert_eq!(catalog.names(), ["s.v"]);
        assert!(catalog.drop_schema("s", false).unwrap_err().to_string().contains("not empty"));
        catalog.drop_entry(DropKind::View, &TableName::partial("s", "v"), false).unwrap();
        assert!(catalog.drop_schema("s", false).unwrap());
        assert!(catalog.drop_schema("public", false).is_err());
        assert_eq!(catalog.schemas(), ["information_schema", "public", "temp"]);
    }
}
