//! Materialized views: creating and dropping them, and who reads what.
//!
//! A view is a job that folds the changes of its query's result into a table in memory. Creating one waits until it has
//! taken in the rows that its inputs have at that moment; it is then in the catalog, and not before.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan, TableSource, Volatility};
use futures::future::{Either, select};
use parking_lot::Mutex;
use thalweg_planner::{CreateMaterializedView, DropKind, Emit, EmitWhen, QueryPlan, TableName};

use super::cancellation::CancellationToken;
use super::frame::Frame;
use super::inserts::is_endless;
use super::jobs::{JobKind, Links, Run, Started};
use super::plan::{PlanUse, physical_plan, result_schema};
use super::statement::{StatementContext, on_conflict, statement_text};
use crate::catalog::{DeclaredTable, EngineTable, Entry, EntryKey, OnConflict, Table, TimeUse};
use crate::connectors::MemoryTable;
use crate::connectors::memory::{ChangelogTable, LiveTable, Subscription, ViewTable};
use crate::error::{Error, Report, Result};

/// `CREATE MATERIALIZED VIEW`.
pub(super) async fn create(
    cx: &StatementContext<'_>,
    create: CreateMaterializedView,
) -> Result<Frame> {
    let CreateMaterializedView { name, sql, query, or_replace, if_not_exists } = create;
    let conflict = on_conflict(or_replace, if_not_exists);
    let catalog = cx.session.catalog();
    let key = catalog.key_for_creation(&name)?;
    if conflict == OnConflict::Keep && catalog.get(&name).is_some() {
        return Ok(Frame::empty());
    }
    catalog.check_free(&name, DropKind::MaterializedView, conflict)?;
    if conflict == OnConflict::Replace {
        refuse_if_read(cx, &key, &format!("the materialized view \"{name}\" cannot be replaced"))?;
    }
    let reads = std::mem::take(&mut *cx.reads.lock());
    if reads.contains(&key) {
        return Err(Error::statement(format!("the view \"{name}\" cannot read itself")));
    }
    // Nobody commits until the new view is at the place of the others.
    let jobs = &cx.session.inner.jobs;
    let alone = jobs.commits.lock().await;
    let started = start(cx, &name, key.clone(), &query, reads)?;
    let (table, started) = started;
    let handle = started.runs[0].handle.clone();
    let created = absorb(cx, &started).await.and_then(|()| {
        let entry = Entry::MaterializedView {
            table,
            definition: sql,
            sql: statement_text(cx),
            job: handle.clone().into(),
        };
        catalog.create(&name, entry, false, conflict)
    });
    if let Err(error) = created {
        handle.cancel();
        return Err(error);
    }
    if let Some(replaced) = jobs.of_view(&key) {
        jobs.remove(&replaced);
    }
    jobs.add(cx.session, started);
    drop(alone);
    Ok(Frame::empty())
}

/// Starts the job of a view; gives the view's table, too.
fn start(
    cx: &StatementContext<'_>,
    name: &TableName,
    key: EntryKey,
    query: &QueryPlan,
    reads: BTreeSet<EntryKey>,
) -> Result<(Arc<dyn Table>, Started)> {
    let executor = &cx.session.inner.executor;
    let mut settings = cx.settings.clone();
    settings.reset("execution.runtime_mode")?;
    let mut live = Live::of(query);
    let query = live.follow(query)?;
    if live.withdraws {
        refuse_volatile(&query)?;
    }
    let plan = physical_plan(&query, &settings, PlanUse::VIEW)?;
    let shown = name.to_string();
    let view = ViewTable::new(result_schema(&query), executor.memory(), &shown)?.planned(&plan);
    let token = CancellationToken::default();
    let handle = executor.submit(&plan, view.fold(), false, &settings, &token)?;
    let started = Started {
        name: shown,
        kind: JobKind::View,
        sql: statement_text(cx),
        since_us: executor.now_us(),
        runs: vec![Run { handle, plan, target: None }],
        links: Mutex::new(Links { view: Some(key), reads }),
        subscriptions: live.subscriptions,
        endless: live.endless,
    };
    Ok((Arc::new(view), started))
}

/// Waits until a new view has taken in what its inputs hold: all of what has an end.
pub(super) async fn absorb(cx: &StatementContext<'_>, started: &Started) -> Result<()> {
    let handle = &started.runs[0].handle;
    let passed = handle.barrier(handle.ask_barrier());
    match select(passed, std::pin::pin!(cx.token.cancelled())).await {
        Either::Left((passed, _)) => {
            passed?;
            started.subscriptions.iter().for_each(|subscription| subscription.let_go());
            Ok(())
        }
        Either::Right(_) => Err(Error::Cancelled),
    }
}

/// The tables of a query that tell their changes.
#[derive(Default)]
pub(super) struct Live {
    /// What stands for each table, by its number and how its changes are told.
    tables: HashMap<(u64, Option<String>), Arc<dyn Table>>,
    pub(super) subscriptions: Vec<Arc<Subscription>>,
    /// Whether the query reads another table that has no end.
    pub(super) endless: bool,
    /// Whether rows may go that were read.
    pub(super) withdraws: bool,
    /// Whether the query says when its results are final; else they are what the tables hold at any time.
    emits: bool,
    /// Whether all that goes on are tables and views in memory, whose rows are not late.
    in_memory: bool,
    /// Whether any of them tells how far event time is.
    in_time: bool,
}

impl Live {
    /// For a query, of which nothing is followed yet.
    pub(super) fn of(query: &QueryPlan) -> Self {
        Live {
            emits: query.emit.is_some(),
            in_memory: !is_endless(query).unwrap_or(true),
            ..Live::default()
        }
    }

    /// The query over tables that go on with their changes.
    pub(super) fn follow(&mut self, query: &QueryPlan) -> Result<QueryPlan> {
        let mut followed = query.clone();
        followed.plan = self.follow_plan(followed.plan)?;
        for shared in &mut followed.shared {
            shared.plan = self.follow_plan(shared.plan.clone())?;
        }
        if self.in_time && !self.emits {
            // Results are there at once; what event time closes is forgotten.
            let at_once = Emit { when: EmitWhen::Update, allow_lateness_us: 0, keep: None };
            followed.emit = Some(at_once);
        }
        Ok(followed)
    }

    fn follow_plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let followed = plan.transform_down_with_subqueries(|node| match node {
            LogicalPlan::TableScan(mut scan) => match self.follow_source(scan.source.as_ref()) {
                Some(source) => {
                    scan.source = source;
                    // Rows that are enough now may be gone later.
                    scan.fetch = None;
                    Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
                }
                None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
            },
            other => Ok(Transformed::no(other)),
        });
        Ok(followed.map_err(thalweg_runtime::Error::from)?.data)
    }

    fn follow_source(&mut self, source: &dyn TableSource) -> Option<Arc<dyn TableSource>> {
        let engine = EngineTable::of(source)?;
        let table = engine.table.as_ref() as &dyn Any;
        let declared = table.downcast_ref::<DeclaredTable>();
        let stored = declared.map_or(&engine.table, |declared| declared.stored());
        let Some(live) = self.follow_table(stored) else {
            self.endless |= engine.table.is_unbounded();
            return None;
        };
        let live = match declared {
            Some(declared) => {
                let used = self.time_use(stored.as_ref());
                let followed = declared.over_stored(live, used);
                self.in_time |= followed.event_time().is_some();
                Arc::new(followed)
            }
            None => live,
        };
        Some(Arc::new(engine.replaced(live)))
    }

    /// What the event time of a table is for. A table whose rows may change has late ones.
    fn time_use(&self, stored: &dyn Table) -> TimeUse {
        let memory = (stored as &dyn Any).downcast_ref::<MemoryTable>();
        match (self.emits, memory) {
            (true, _) => TimeUse::Results,
            (false, Some(table)) if self.in_memory && table.is_append_only() => TimeUse::State,
            (false, _) => TimeUse::Nothing,
        }
    }

    fn follow_table(&mut self, table: &Arc<dyn Table>) -> Option<Arc<dyn Table>> {
        if let Some(changelog) = (table.as_ref() as &dyn Any).downcast_ref::<ChangelogTable>() {
            return self.follow_changelog(changelog);
        }
        let any = table.as_ref() as &dyn Any;
        let (id, withdraws, subscribe): (u64, bool, &dyn Fn() -> Arc<Subscription>) =
            match (any.downcast_ref::<MemoryTable>(), any.downcast_ref::<ViewTable>()) {
                (Some(table), _) => (table.id(), !table.is_append_only(), &|| table.subscribe()),
                (None, Some(view)) => (view.id(), view.may_withdraw(), &|| view.subscribe()),
                (None, None) => return None,
            };
        let view = any.downcast_ref::<ViewTable>().filter(|_| self.emits || self.in_memory);
        let bounds = view.map(|view| view.known_bounds().clone()).unwrap_or_default();
        self.in_time |= !bounds.is_empty();
        self.withdraws |= withdraws;
        let subscriptions = &mut self.subscriptions;
        let live = self.tables.entry((id, None)).or_insert_with(|| {
            let subscription = subscribe();
            subscriptions.push(subscription.clone());
            let live = LiveTable::new(subscription, table.as_ref(), withdraws);
            Arc::new(live.with_bounds(bounds))
        });
        Some(live.clone())
    }
}

impl Live {
    /// The changelog of a table, whose rows stay.
    fn follow_changelog(&mut self, changelog: &ChangelogTable) -> Option<Arc<dyn Table>> {
        let any = changelog.followed().as_ref() as &dyn Any;
        let (id, subscription) =
            match (any.downcast_ref::<MemoryTable>(), any.downcast_ref::<ViewTable>()) {
                (Some(table), _) => (table.id(), table.subscribe()),
                (None, Some(view)) => (view.id(), view.subscribe()),
                (None, None) => return None,
            };
        let told = Some(format!("{:?}", changelog.telling()));
        let subscriptions = &mut self.subscriptions;
        let live = self.tables.entry((id, told)).or_insert_with(|| {
            subscriptions.push(subscription.clone());
            Arc::new(LiveTable::told(subscription, changelog))
        });
        Some(live.clone())
    }
}

/// A row that goes must have the values with which it came.
pub(super) fn refuse_volatile(query: &QueryPlan) -> Result<()> {
    let mut volatile = false;
    for plan in std::iter::once(&query.plan).chain(query.shared.iter().map(|s| &s.plan)) {
        let looked = plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                volatile |= expr.exists(|part| Ok(is_volatile(part)))?;
                Ok(TreeNodeRecursion::Continue)
            })
        });
        looked.map_err(thalweg_runtime::Error::from)?;
    }
    match volatile {
        false => Ok(()),
        true => {
            let what = "a volatile function in a view over a table whose rows may go";
            let report = Report::new(format!("{what} is not supported"));
            let hint = "A table that is created APPEND ONLY keeps its rows.".to_string();
            Err(Error::Unsupported(Box::new(report.with_hint(hint))))
        }
    }
}

/// Whether a part of an expression gives another value each time. The planner's own functions, whose names begin with two
/// underscores, are called volatile only to keep their place.
fn is_volatile(part: &Expr) -> bool {
    let Expr::ScalarFunction(call) = part else { return false };
    call.func.signature().volatility == Volatility::Volatile && !call.name().starts_with("__")
}

/// Fails, naming them, when views read something that is to go.
pub(super) fn refuse_if_read(cx: &StatementContext<'_>, key: &EntryKey, what: &str) -> Result<()> {
    let readers = cx.session.inner.jobs.readers(key);
    if readers.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = readers.iter().map(|job| job.started.name.as_str()).collect();
    let all_views = readers.iter().all(|job| job.started.kind == JobKind::View);
    let who = if all_views { "Materialized views read it" } else { "Views read it, or sinks" };
    let detail = format!("{who}: {}.", names.join(", "));
    let report = Report::new(what).with_detail(detail);
    Err(Error::catalog(report.with_hint("DROP … CASCADE drops them, too.".to_string())))
}

/// Drops a table, view or materialized view, and with CASCADE the materialized views that read it.
pub(super) fn drop_relation(
    cx: &StatementContext<'_>,
    kind: DropKind,
    name: &TableName,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let (catalog, jobs) = (cx.session.catalog(), &cx.session.inner.jobs);
    let key = catalog.key_of(name);
    catalog.check_drop(kind, name, if_exists)?;
    let Some(key) = key else { return Ok(()) };
    if !cascade {
        refuse_if_read(cx, &key, &format!("\"{name}\" cannot be dropped"))?;
    }
    drop_readers(cx, &key)?;
    catalog.drop_entry(kind, name, if_exists)?;
    if let Some(job) = jobs.of_view(&key) {
        jobs.remove(&job);
    }
    Ok(())
}

/// Drops the views and sinks that read something, those that read them first.
fn drop_readers(cx: &StatementContext<'_>, key: &EntryKey) -> Result<()> {
    for job in cx.session.inner.jobs.readers(key) {
        let view = job.started.links.lock().view.clone();
        if let Some(view) = view {
            drop_readers(cx, &view)?;
            let name = TableName::partial(view.schema.clone(), view.name.clone());
            cx.session.catalog().drop_entry(DropKind::MaterializedView, &name, true)?;
        }
        cx.session.inner.jobs.remove(&job);
    }
    Ok(())
}
