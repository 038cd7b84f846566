//! The session: the way in. It holds settings, tables, prepared statements and the threads that run queries.
//!
//! Statements run one after another or at the same time; each works on the settings and tables it found when it was
//! planned. Between statements only metadata is kept. Planning runs in place, on a deep stack; no executor is needed.

mod builder;
mod cancellation;
mod changelog;
mod channel;
mod commits;
pub(crate) mod executor;
mod explain;
mod frame;
mod inserts;
mod job_listing;
mod jobs;
mod late_rows;
mod load;
mod modify;
mod plan;
mod query;
mod query_status;
mod sink_kinds;
mod sinks;
mod statement;
mod table_options;
mod verify;
mod views;
mod watermark_holder;
mod write;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use datafusion_expr::{AggregateUDF, ScalarUDF};
use futures::executor::block_on;
use parking_lot::Mutex;
use thalweg_planner::{ParsedStatement, Planner, PlannerError, PlannerOptions, TableName, suggest};
use thalweg_runtime::env::{Environment, System};
use thalweg_runtime::windowing::Windowing;

use crate::catalog::{Entry, OnConflict, Table, TableCatalog};
use crate::connectors::{ExternalTable, FileOptions, FileTable, MemoryTable, RowSource};
use crate::error::{Error, Report, Result};
use crate::settings::{SettingEntry, Settings};

use executor::Executor;

pub use builder::SessionBuilder;
pub use cancellation::CancellationToken;
pub(crate) use frame::Changing;
pub use frame::{Frame, FrameStream, ProgressHandle};
pub(crate) use query_status::QueryStatus;

/// A session. Cheap to clone: clones share everything.
#[derive(Clone)]
pub struct Session {
    inner: Arc<SessionState>,
}

struct SessionState {
    settings: Mutex<Settings>,
    catalog: TableCatalog,
    planner: Mutex<Option<Planner>>,
    prepared: Mutex<HashMap<String, ParsedStatement>>,
    executor: Arc<Executor>,
    running: cancellation::RunningStatements,
    jobs: jobs::Jobs,
    /// Whether queries give their changes.
    changes: AtomicBool,
    /// Whether queries without an end do.
    live: AtomicBool,
}

impl Session {
    /// A session with default settings.
    pub fn new() -> Self {
        Self::with_settings(Settings::default(), System::new())
    }

    /// Sets a session up.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    pub(crate) fn with_settings(settings: Settings, env: Arc<dyn Environment>) -> Self {
        Session {
            inner: Arc::new(SessionState {
                settings: Mutex::new(settings),
                catalog: TableCatalog::default(),
                planner: Mutex::default(),
                prepared: Mutex::default(),
                executor: Executor::new(env),
                running: cancellation::RunningStatements::default(),
                jobs: jobs::Jobs::default(),
                changes: AtomicBool::default(),
                live: AtomicBool::default(),
            }),
        }
    }

    /// Whether queries give the changes of their results, with a column `op` before the others (`+I`, `-U`, `+U`, `-D`),
    /// instead of the rows that are left at the end.
    pub fn show_changes(&self, shown: bool) {
        self.inner.changes.store(shown, Ordering::Relaxed);
    }

    /// Whether queries over tables without an end give the changes of their results, for somebody who watches them.
    pub(crate) fn show_live(&self, live: bool) {
        self.inner.live.store(live, Ordering::Relaxed);
    }

    /// Whether jobs that are to be ended are showing what they have taken in.
    pub(crate) fn is_settling(&self) -> bool {
        self.inner.jobs.are_settling()
    }

    /// Ends all jobs that write; rows that have come to their sinks stay.
    pub(crate) fn stop_jobs(&self) {
        block_on(commits::stop_all(self));
    }

    /// Bytes that this session has reserved at this moment: for what the operators of its queries and jobs keep, and for
    /// the rows of materialized views.
    pub fn reserved_bytes(&self) -> usize {
        self.inner.executor.memory().used()
    }

    /// Plans one statement. A query runs when its frame is read; other statements have run when this returns. A text
    /// of several statements is refused before any of them runs.
    pub async fn sql(&self, text: &str) -> Result<Frame> {
        let mut script = self.execute(text);
        if let Some(error) = script.error.take() {
            return Err(Error::from_planner(error, &script.text));
        }
        match script.statements.len() {
            0 => Err(Error::statement("there is no statement")),
            1 => {
                let frame = script.next_frame().await?;
                frame.ok_or_else(|| Error::internal("one statement gives one frame"))
            }
            several => {
                let report = Report::new(format!("there are {several} statements instead of one"));
                Err(Error::Statement(Box::new(
                    report.with_hint("Session::execute runs several.".to_string()),
                )))
            }
        }
    }

    /// The statements of a text, to be run one by one.
    pub fn execute(&self, text: &str) -> Script {
        let (statements, error) = self.planner().parse_script(text);
        Script {
            session: self.clone(),
            text: Arc::from(text),
            statements: statements.into(),
            error,
        }
    }

    /// Makes a table available under a name, replacing what has the name.
    pub fn register_table(&self, name: &str, table: Arc<dyn Table>) -> Result<()> {
        let entry = Entry::table(table);
        self.inner
            .catalog
            .create(&TableName::bare(name), entry, false, OnConflict::Replace)
            .map(|_| ())
    }

    /// Makes rows available under a name; all batches must have one schema, and there must be at least one.
    pub fn register_batches(&self, name: &str, batches: Vec<RecordBatch>) -> Result<()> {
        let Some(first) = batches.first() else {
            return Err(Error::statement(
                "a table needs at least one batch, which tells its columns",
            ));
        };
        let schema = first.schema();
        if let Some(other) = batches.iter().find(|batch| batch.schema() != schema) {
            let report = Report::new("the batches of a table have different columns");
            return Err(Error::catalog(
                report.with_detail(format!("{schema} and {}", other.schema())),
            ));
        }
        self.register_table(name, Arc::new(MemoryTable::new(schema, batches)))
    }

    /// Makes rows of the program's own available under a name; they are made as queries read them.
    pub fn register_source(&self, name: &str, source: Arc<dyn RowSource>) -> Result<()> {
        self.register_table(name, Arc::new(ExternalTable::new(source)))
    }

    /// Makes a file, or the files of a glob or folder, available under a name.
    pub fn register_file(&self, name: &str, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref().to_string_lossy().into_owned();
        let table = FileTable::discover(&[path], None, &FileOptions::default())?;
        self.register_table(name, Arc::new(table))
    }

    /// Makes a scalar function available to statements that are planned from now on.
    pub fn register_scalar_function(&self, function: ScalarUDF) {
        let function = Arc::new(function);
        self.inner.executor.add_function(function.clone());
        self.change_planner(|planner| planner.functions_mut().register_scalar(function));
    }

    /// Makes an aggregate function available to statements that are planned from now on.
    pub fn register_aggregate_function(&self, function: AggregateUDF) {
        self.change_planner(|planner| {
            planner.functions_mut().register_aggregate(Arc::new(function))
        });
    }

    /// Offers windows of one's own to queries that are planned from now on. Gives the number that plans name them by.
    pub(crate) fn add_windowing(&self, windowing: Windowing) -> u64 {
        self.inner.executor.add_windowing(windowing)
    }

    /// Changes a setting, as `SET key = value` does.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        self.inner.settings.lock().set(key, value)
    }

    /// All settings with their values now.
    pub fn settings(&self) -> Vec<SettingEntry> {
        self.settings_now().list()
    }

    /// The names of all tables and views, as a user would write them.
    pub fn table_names(&self) -> Vec<String> {
        self.inner.catalog.names()
    }

    /// The statements that create the tables and views, or the one of this name. What no statement creates is left out.
    pub fn create_statements(&self, name: Option<&str>) -> Result<Vec<String>> {
        let entries = self.inner.catalog.entries();
        let wanted = |table: &str| name.is_none_or(|name| name.eq_ignore_ascii_case(table));
        if let Some(name) = name.filter(|_| !entries.iter().any(|(_, table, _)| wanted(table))) {
            let hint =
                suggest::did_you_mean(name, entries.iter().map(|(_, table, _)| table.as_str()));
            let report = Report::new(format!("the table or view \"{name}\" does not exist"));
            return Err(Error::catalog(report.with_hint(hint)));
        }
        let chosen = entries.iter().filter(|(_, table, _)| wanted(table));
        Ok(chosen.filter_map(|(_, _, entry)| entry.sql().map(str::to_string)).collect())
    }

    /// Cancels every statement that is being run; each ends with [`Error::Cancelled`].
    pub fn cancel_all(&self) {
        self.inner.running.cancel_all();
    }

    /// Whether INSERTs that read endless tables go on in the background, as jobs of the session, instead of being waited
    /// for.
    pub fn run_inserts_in_background(&self, background: bool) {
        self.inner.jobs.set_background(background);
    }

    /// Who hears of jobs that have failed; each once. Called on a thread of the session's.
    pub fn on_job_failure(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.jobs.set_listener(Arc::new(listener));
    }

    pub(crate) fn settings_now(&self) -> Settings {
        self.inner.settings.lock().clone()
    }

    pub(crate) fn catalog(&self) -> &TableCatalog {
        &self.inner.catalog
    }

    /// The planner under the settings now; its functions are read in at first use.
    pub(crate) fn planner(&self) -> Planner {
        let settings = self.settings_now();
        let options = PlannerOptions {
            time_zone: settings.time_zone(),
            decimal_literals: settings.decimal_literals(),
            null_divisions: settings.null_divisions(),
            null_view_errors: settings.null_view_errors(),
            series_rows: settings.series_rows(),
            ..PlannerOptions::default()
        };
        let mut planner = self.inner.planner.lock();
        match planner.as_ref() {
            Some(planner) if *planner.options() == options => planner.clone(),
            Some(known) => {
                let changed = known.reconfigured(options);
                *planner = Some(changed.clone());
                changed
            }
            None => planner.insert(Planner::with_options(options)).clone(),
        }
    }

    fn change_planner(&self, change: impl FnOnce(&mut Planner)) {
        let mut changed = self.planner();
        change(&mut changed);
        *self.inner.planner.lock() = Some(changed);
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("tables", &self.table_names()).finish_non_exhaustive()
    }
}

/// Statements that are run one by one, each planned when those before it have run.
pub struct Script {
    session: Session,
    text: Arc<str>,
    statements: VecDeque<ParsedStatement>,
    error: Option<PlannerError>,
}

impl Script {
    /// Runs the next statement as [`Session::sql`] does; `None` when all have run. After an error the next call goes
    /// on with the statement behind the failed one, unless the text could not be read from there on.
    pub async fn next_frame(&mut self) -> Result<Option<Frame>> {
        match self.next_statement()? {
            Some(statement) => self.session.run_statement(&statement).await.map(Some),
            None => Ok(None),
        }
    }

    fn next_statement(&mut self) -> Result<Option<ParsedStatement>> {
        match (self.statements.pop_front(), self.error.take()) {
            (Some(statement), error) => {
                self.error = error;
                Ok(Some(statement))
            }
            (None, Some(error)) => Err(Error::from_planner(error, &self.text)),
            (None, None) => Ok(None),
        }
    }
}
