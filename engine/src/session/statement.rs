//! Running one statement: planning it and obeying it. The `match` here only dispatches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use thalweg_optimizer::ResultUse;
use thalweg_planner::{
    CreateIndex, CreateView, DescribeTarget, DropKind, Parameter, ParsedStatement, QueryPlan,
    ShowKind, SqlFunction, Statement, TableName, ViewDefinition, limit_results, suggest,
};
use thalweg_runtime::job::JobHandle;

use super::cancellation::CancellationToken;
use super::frame::Frame;
use super::plan::PlanUse;
use super::{
    Session, commits, explain, inserts, job_listing, late_rows, load, modify, query, sinks, views,
    write,
};
use crate::catalog::{
    CATALOG_NAME, Entry, EntryKey, Listings, OnConflict, StatementCatalog, describe, texts,
};
use crate::connectors::spool;
use crate::error::{Error, Report, Result};
use crate::settings::Settings;

/// The share of the memory that the result of a function may take for one batch: it is copied on its way.
const RESULT_SHARE: u64 = 4;

/// What a statement works on: the session, and the settings as they were when it began.
pub(super) struct StatementContext<'a> {
    pub(super) session: &'a Session,
    pub(super) settings: Settings,
    pub(super) token: CancellationToken,
    pub(super) sql: &'a str,
    /// The last job that wrote rows and has ended, for EXPLAIN ANALYZE.
    pub(super) last_job: Mutex<Option<Arc<JobHandle>>>,
    /// The tables and views that the statement names, by themselves or through views.
    pub(super) reads: Mutex<BTreeSet<EntryKey>>,
}

impl Session {
    /// Plans a statement and runs it; a query waits until its frame is read.
    pub(super) async fn run_statement(&self, parsed: &ParsedStatement) -> Result<Frame> {
        let cx = self.statement_context(parsed.sql());
        let statement = cx.plan(parsed, &[])?;
        let frame = run(&cx, statement).await.map_err(|error| error.placed_in(parsed))?;
        let job = cx.last_job.lock().take();
        Ok(match job {
            Some(job) => frame.warned_of(&job),
            None => frame,
        })
    }

    /// The frame of a query that was not planned from a statement.
    pub(crate) fn frame_of(&self, query: QueryPlan) -> Result<Frame> {
        query::frame(&self.statement_context(""), query)
    }

    /// The catalog for the planning of one statement.
    pub(crate) fn with_catalog<T>(&self, plan: impl FnOnce(&StatementCatalog<'_>) -> T) -> T {
        let (planner, settings) = (self.planner(), self.settings_now());
        let functions = planner.functions();
        let listings = Listings { catalog: self.catalog(), settings: &settings, functions };
        let late_rows = |text: &str| late_rows::table(self, text);
        plan(&StatementCatalog::new(listings, &late_rows))
    }

    fn statement_context<'a>(&'a self, sql: &'a str) -> StatementContext<'a> {
        let settings = self.settings_now();
        limit_results(match settings.memory_limit() {
            Some(bytes) => usize::try_from(bytes / RESULT_SHARE).unwrap_or(usize::MAX),
            None => usize::MAX,
        });
        spool::configure(settings.spill_directory().into(), settings.max_spill_bytes());
        StatementContext {
            session: self,
            settings,
            token: self.inner.running.token(),
            sql,
            last_job: Mutex::default(),
            reads: Mutex::default(),
        }
    }
}

impl StatementContext<'_> {
    /// What the plan of a query is for that the session shows.
    pub(super) fn plan_use(&self) -> PlanUse {
        let result = match self.session.inner.changes.load(Ordering::Relaxed) {
            true => ResultUse::Changelog,
            false => ResultUse::Rows,
        };
        PlanUse { result, ..PlanUse::default() }
    }

    /// The same for a query, which goes on changing before somebody's eyes if it has no end.
    pub(super) fn query_use(&self, query: &QueryPlan) -> Result<PlanUse> {
        let live = self.session.inner.live.load(Ordering::Relaxed) && inserts::is_endless(query)?;
        Ok(match live {
            true => PlanUse { result: ResultUse::Changelog, ..PlanUse::default() },
            false => self.plan_use(),
        })
    }

    /// Binds a statement to the session's tables, with values for `$1`, `$2`, ….
    fn plan(&self, parsed: &ParsedStatement, parameters: &[Parameter]) -> Result<Statement> {
        let planner = self.session.planner();
        let planned = self.session.with_catalog(|catalog| {
            let planned = match parameters {
                [] => planner.plan(parsed, catalog),
                parameters => planner.plan_with_parameters(parsed, catalog, parameters),
            };
            *self.reads.lock() = catalog.found();
            planned
        });
        planned.map_err(|error| match self.token.is_cancelled() {
            true => Error::Cancelled,
            false => Error::from_planner(error, parsed.source_text()),
        })
    }

    fn listed<T>(&self, list: impl FnOnce(&Listings<'_>) -> T) -> T {
        let planner = self.session.planner();
        list(&Listings {
            catalog: self.session.catalog(),
            settings: &self.settings,
            functions: planner.functions(),
        })
    }
}

pub(super) async fn run(cx: &StatementContext<'_>, statement: Statement) -> Result<Frame> {
    match statement {
        Statement::Query(plan) => query::frame(cx, plan),
        Statement::Explain { options, statement } => explain::frame(cx, *statement, options).await,
        Statement::CreateTable(create) => write::create_table(cx, *create).await,
        Statement::CreateView(create) => create_view(cx, create),
        Statement::CreateExternalTable(create) => write::create_external_table(cx, create),
        Statement::CreateSchema { name, if_not_exists } => {
            cx.session.catalog().create_schema(&name, if_not_exists).map(|_| Frame::empty())
        }
        Statement::Insert(insert) if inserts::goes_on(cx, &insert)? => inserts::start(cx, &insert),
        Statement::Insert(insert) => commits::flushed(cx, write::insert(cx, insert).await).await,
        Statement::Copy(copy) => write::copy(cx, copy).await,
        Statement::CopyFrom(copy) => commits::flushed(cx, load::copy_from(cx, copy).await).await,
        Statement::Modify(modify) => commits::flushed(cx, modify::modify(cx, modify).await).await,
        Statement::CreateIndex(create) => {
            let CreateIndex { name, table, if_not_exists } = create;
            cx.session.catalog().create_index(&name, &table, if_not_exists)?;
            Ok(Frame::empty())
        }
        Statement::CreateFunction { function, or_replace, if_not_exists } => {
            create_function(cx, function, on_conflict(or_replace, if_not_exists))
        }
        Statement::DropFunction { names, if_exists } => drop_functions(cx, &names, if_exists),
        Statement::CreateMaterializedView(create) => views::create(cx, create).await,
        Statement::StatementSet(inserts) => {
            commits::flushed(cx, inserts::statement_set(cx, &inserts).await).await
        }
        Statement::Flush => commits::flush(cx).await.map(|()| Frame::empty()),
        Statement::StopJob(job) => {
            let job = cx.session.inner.jobs.running(&job)?;
            commits::stop(cx.session, &job).await;
            Ok(Frame::empty())
        }
        Statement::CreateSink(create) => sinks::create(cx, create).await,
        Statement::DropSink { name, if_exists } => sinks::drop_sink(cx, &name, if_exists),
        Statement::Rename { kind, from, to } => {
            let (from, to) = cx.session.catalog().rename(kind, &from, &to)?;
            cx.session.inner.jobs.renamed(&from, &to);
            Ok(Frame::empty())
        }
        Statement::Set { key, value } => cx.session.set(&key, &value).map(|()| Frame::empty()),
        Statement::Reset { key } => reset(cx, key),
        Statement::Show(kind) => show(cx, kind),
        Statement::Describe(
            DescribeTarget::Table { schema, .. } | DescribeTarget::Query { schema },
        ) => describe(&schema).map(Frame::of_batch),
        Statement::Describe(DescribeTarget::Job(name)) => {
            let job = cx.session.inner.jobs.named(&name)?;
            job_listing::operators(&job).map(Frame::of_batch)
        }
        Statement::Drop { kind, names, if_exists, cascade } => {
            drop_objects(cx, kind, &names, if_exists, cascade)
        }
        Statement::Prepare { name, statement } => prepare(cx, name, *statement),
        Statement::Execute { name, parameters } => execute(cx, &name, &parameters).await,
        Statement::Deallocate { name } => deallocate(cx, name),
    }
}

fn create_view(cx: &StatementContext<'_>, create: CreateView) -> Result<Frame> {
    let CreateView { name, sql, columns, schema, or_replace, if_not_exists, temporary } = create;
    let entry = Entry::View {
        definition: ViewDefinition { sql, columns },
        schema,
        sql: statement_text(cx),
    };
    cx.session.catalog().create(&name, entry, temporary, on_conflict(or_replace, if_not_exists))?;
    Ok(Frame::empty())
}

/// The statement as SHOW CREATE prints it.
pub(super) fn statement_text(cx: &StatementContext<'_>) -> String {
    format!("{};", cx.sql.trim())
}

/// What a CREATE does when the name is taken.
pub(super) fn on_conflict(or_replace: bool, if_not_exists: bool) -> OnConflict {
    match (or_replace, if_not_exists) {
        (true, _) => OnConflict::Replace,
        (false, true) => OnConflict::Keep,
        (false, false) => OnConflict::Fail,
    }
}

fn reset(cx: &StatementContext<'_>, key: Option<String>) -> Result<Frame> {
    let mut settings = cx.session.inner.settings.lock();
    match key {
        Some(key) => settings.reset(&key)?,
        None => settings.reset_all(),
    }
    Ok(Frame::empty())
}

fn show(cx: &StatementContext<'_>, kind: ShowKind) -> Result<Frame> {
    let batch = match kind {
        ShowKind::Setting(key) => cx.listed(|l| l.setting(&key)),
        ShowKind::All => cx.listed(|l| l.settings()),
        ShowKind::Tables => cx.listed(|l| l.relations(false)),
        ShowKind::Views => cx.listed(|l| l.relations(true)),
        ShowKind::Schemas => cx.listed(|l| l.schemas()),
        ShowKind::Functions => cx.listed(|l| l.functions()),
        ShowKind::Jobs => job_listing::listing(&cx.session.inner.jobs.all()),
        ShowKind::Columns(name) => describe(&entry(cx, &name)?.schema()),
        ShowKind::Create(name) => {
            let entry = entry(cx, &name)?;
            let Some(sql) = entry.sql() else {
                return Err(Error::catalog(Report::new(format!(
                    "\"{name}\" was not created by a statement"
                ))));
            };
            texts(
                ["table_catalog", "table_name", "create_statement"],
                &[[CATALOG_NAME, &name.to_string(), sql]],
            )
        }
    };
    batch.map(Frame::of_batch)
}

fn entry(cx: &StatementContext<'_>, name: &TableName) -> Result<Entry> {
    cx.session.catalog().get(name).ok_or_else(|| {
        let names = cx.session.catalog().names();
        let hint = suggest::did_you_mean(&name.to_string(), names.iter().map(String::as_str));
        Error::catalog(
            Report::new(format!("the table or view \"{name}\" does not exist")).with_hint(hint),
        )
    })
}

fn drop_objects(
    cx: &StatementContext<'_>,
    kind: DropKind,
    names: &[TableName],
    if_exists: bool,
    cascade: bool,
) -> Result<Frame> {
    let catalog = cx.session.catalog();
    for name in names {
        match kind {
            DropKind::Table | DropKind::View | DropKind::MaterializedView => {
                views::drop_relation(cx, kind, name, if_exists, cascade)?;
            }
            DropKind::Schema => {
                catalog.drop_schema(&name.table, if_exists)?;
            }
            DropKind::Index => {
                catalog.drop_index(&name.table, if_exists)?;
            }
        }
    }
    Ok(Frame::empty())
}

fn create_function(
    cx: &StatementContext<'_>,
    function: SqlFunction,
    conflict: OnConflict,
) -> Result<Frame> {
    let name = function.name().to_string();
    if cx.session.planner().functions().sql(&name).is_some() {
        match conflict {
            OnConflict::Keep => return Ok(Frame::empty()),
            OnConflict::Replace => {}
            OnConflict::Fail => {
                let report = Report::new(format!("the function \"{name}\" already exists"));
                let hint = "CREATE OR REPLACE FUNCTION replaces it.".to_string();
                return Err(Error::catalog(report.with_hint(hint)));
            }
        }
    }
    cx.session.change_planner(|planner| planner.functions_mut().register_sql(function));
    Ok(Frame::empty())
}

fn drop_functions(cx: &StatementContext<'_>, names: &[String], if_exists: bool) -> Result<Frame> {
    for name in names {
        let mut removed = false;
        cx.session.change_planner(|planner| removed = planner.functions_mut().remove_sql(name));
        if !removed && !if_exists {
            let known = cx.session.planner().functions().sql_names();
            let hint = suggest::did_you_mean(name, known.iter().map(String::as_str));
            let report = Report::new(format!("no statement has created the function \"{name}\""));
            return Err(Error::catalog(report.with_hint(hint)));
        }
    }
    Ok(Frame::empty())
}

fn prepare(cx: &StatementContext<'_>, name: String, statement: ParsedStatement) -> Result<Frame> {
    let mut prepared = cx.session.inner.prepared.lock();
    if prepared.contains_key(&name) {
        let report = Report::new(format!("the prepared statement \"{name}\" already exists"));
        return Err(Error::catalog(report.with_hint(format!("DEALLOCATE {name} forgets it."))));
    }
    prepared.insert(name, statement);
    Ok(Frame::empty())
}

async fn execute(cx: &StatementContext<'_>, name: &str, parameters: &[Parameter]) -> Result<Frame> {
    let statement = cx.session.inner.prepared.lock().get(name).cloned();
    let Some(statement) = statement else { return Err(missing_prepared(cx, name)) };
    let planned = cx.plan(&statement, parameters)?;
    // A prepared statement may itself be no EXECUTE, so that this ends.
    Box::pin(run(cx, planned)).await
}

fn deallocate(cx: &StatementContext<'_>, name: Option<String>) -> Result<Frame> {
    let Some(name) = name else {
        cx.session.inner.prepared.lock().clear();
        return Ok(Frame::empty());
    };
    let removed = cx.session.inner.prepared.lock().remove(&name);
    removed.map(|_| Frame::empty()).ok_or_else(|| missing_prepared(cx, &name))
}

fn missing_prepared(cx: &StatementContext<'_>, name: &str) -> Error {
    let names: Vec<String> = cx.session.inner.prepared.lock().keys().cloned().collect();
    let hint = suggest::did_you_mean(name, names.iter().map(String::as_str));
    Error::catalog(
        Report::new(format!("the prepared statement \"{name}\" does not exist")).with_hint(hint),
    )
}
