//! Rewrites a query together with the plans it shares.
//!
//! Rewrites stop at scans of shared plans. When all readers of a shared plan have been rewritten, it is known which of
//! its columns they read and which rows they can use at all; the plan is narrowed to these, and rewritten in turn. That
//! goes from the last plan to the first, because readers always come later than what they read.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::utils::{conjunction, disjunction};
use datafusion_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableScan, TableScanBuilder, TableSource,
};

use super::common_subplans;
use super::leftovers;
use super::rules::Rewriter;
use crate::bind::{SharedSource, translate};
use crate::statement::{QueryPlan, SharedId, SharedPlan};

/// More readers than this make a condition that costs more than it saves.
const MAX_FILTERED_READERS: usize = 16;

/// The shared plans of one statement, each of which reads only earlier ones. Clones are the same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedPlans {
    plans: Arc<Mutex<Vec<SharedPlan>>>,
    known: Arc<AtomicUsize>,
    leave_common: Arc<AtomicBool>,
}

impl SharedPlans {
    /// Adds an analysed plan.
    pub(crate) fn push(&self, name: &str, plan: LogicalPlan) -> SharedId {
        let id = self.next_id();
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.push(SharedPlan { id, name: name.to_string(), plan });
        id
    }

    /// An identity that no other plan of the statement has.
    pub(super) fn next_id(&self) -> SharedId {
        SharedId(self.known.fetch_add(1, Ordering::Relaxed))
    }

    /// Equal parts of the statement are to be computed each for itself.
    pub(crate) fn leave_common(&self) {
        self.leave_common.store(true, Ordering::Relaxed);
    }

    /// Takes all plans out; they are analysed, but not yet optimised.
    fn take(&self) -> Vec<SharedPlan> {
        std::mem::take(&mut *self.plans.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Analyses and rewrites the main plan and all shared plans that it needs.
pub(crate) fn finish_query(rewriter: &Rewriter, plan: LogicalPlan) -> crate::Result<QueryPlan> {
    let plan = rewriter.analyze(plan).map_err(translate)?;
    let shared = rewriter.shared().take();
    let plan = rewriter
        .optimize(plan.clone())
        .map_err(|error| leftovers::explain(&plan, translate(error)))?;
    let names = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut query = QueryPlan {
        plan,
        names,
        shared: Vec::new(),
        hints: Vec::new(),
        emit: None,
        options: Box::default(),
    };
    for plan in shared.into_iter().rev() {
        if let Some(plan) = narrow(rewriter, &mut query, plan).map_err(translate)? {
            query.shared.insert(0, plan);
        }
    }
    if !rewriter.shared().leave_common.load(Ordering::Relaxed) {
        common_subplans::share(rewriter.shared(), &mut query).map_err(translate)?;
    }
    leftovers::check(&query.plan)?;
    for shared in &query.shared {
        leftovers::check(&shared.plan)?;
    }
    Ok(query)
}

/// The rewritten shared plan, with its readers adjusted; `None` when nothing reads it.
fn narrow(
    rewriter: &Rewriter,
    query: &mut QueryPlan,
    shared: SharedPlan,
) -> Result<Option<SharedPlan>> {
    let SharedPlan { id, name, plan } = shared;
    let readers = readers(query, id)?;
    if readers.is_empty() {
        return Ok(None);
    }
    let columns = columns_read(&readers, plan.schema())?;
    // The readers' plans rely on the nullability that they were bound with.
    let schema = Arc::new(plan.schema().inner().project(&columns)?);
    let mut builder = LogicalPlanBuilder::from(plan);
    if let Some(filter) = filter_of(&readers, builder.schema())? {
        builder = builder.filter(filter)?;
    }
    let narrowed: Vec<Expr> = columns
        .iter()
        .map(|&at| Expr::Column(Column::from(builder.schema().qualified_field(at))))
        .collect();
    let plan = rewriter.optimize(builder.project(narrowed)?.build()?)?;
    let source: Arc<dyn TableSource> = Arc::new(SharedSource::new(id, name.clone(), schema));
    for reader in
        std::iter::once(&mut query.plan).chain(query.shared.iter_mut().map(|s| &mut s.plan))
    {
        let taken = std::mem::take(reader);
        *reader = redirect(taken, id, &columns, &source)?;
    }
    Ok(Some(SharedPlan { id, name, plan }))
}

fn scan_of(node: &LogicalPlan, id: SharedId) -> Option<&TableScan> {
    match node {
        LogicalPlan::TableScan(scan) => {
            scan.source.downcast_ref::<SharedSource>().filter(|s| s.id() == id).map(|_| scan)
        }
        _ => None,
    }
}

/// All scans of a shared plan.
fn readers(query: &QueryPlan, id: SharedId) -> Result<Vec<TableScan>> {
    let mut scans = Vec::new();
    for plan in std::iter::once(&query.plan).chain(query.shared.iter().map(|s| &s.plan)) {
        plan.apply_with_subqueries(|node| {
            scans.extend(scan_of(node, id).cloned());
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(scans)
}

/// The positions of all columns that any reader reads, for its rows or its filters; never empty.
fn columns_read(readers: &[TableScan], schema: &DFSchema) -> Result<Vec<usize>> {
    let mut columns = BTreeSet::new();
    for scan in readers {
        match &scan.projection {
            Some(projection) => columns.extend(projection.iter().copied()),
            None => columns.extend(0..schema.fields().len()),
        }
        for column in scan.filters.iter().flat_map(Expr::column_refs) {
            columns.insert(schema.inner().index_of(&column.name)?);
        }
    }
    if columns.is_empty() {
        columns.insert(0);
    }
    Ok(columns.into_iter().collect())
}

/// What a row must fulfil to be of use to any reader; `None` when some reader takes all.
fn filter_of(readers: &[TableScan], schema: &DFSchema) -> Result<Option<Expr>> {
    if readers.len() > MAX_FILTERED_READERS {
        return Ok(None);
    }
    let mut alternatives: Vec<Vec<Expr>> = Vec::new();
    for scan in readers {
        let usable = scan.filters.iter().filter(|f| usable(f));
        let conditions = usable.map(|f| over(f.clone(), schema)).collect::<Result<Vec<_>>>()?;
        if conditions.is_empty() {
            return Ok(None);
        }
        if !alternatives.contains(&conditions) {
            alternatives.push(conditions);
        }
    }
    let mut all = implied(&alternatives);
    all.extend(disjunction(alternatives.into_iter().filter_map(conjunction)));
    Ok(conjunction(all))
}

/// For each column that every alternative restricts by itself, the disjunction of these restrictions.
///
/// The disjunction of whole alternatives stays above an aggregate as soon as one of them restricts its result; what
/// it implies for a grouping column alone still goes down to the scans.
fn implied(alternatives: &[Vec<Expr>]) -> Vec<Expr> {
    let [first, rest @ ..] = alternatives else {
        return Vec::new();
    };
    if rest.is_empty() {
        return Vec::new();
    }
    let only = |condition: &Expr, column: &Column| {
        let columns = condition.column_refs();
        columns.len() == 1 && columns.contains(column)
    };
    let restriction = |alternative: &Vec<Expr>, column: &Column| {
        conjunction(alternative.iter().filter(|c| only(c, column)).cloned())
    };
    let columns: BTreeSet<&Column> = first.iter().flat_map(Expr::column_refs).collect();
    columns
        .into_iter()
        .filter_map(|column| {
            let each: Option<Vec<Expr>> =
                alternatives.iter().map(|a| restriction(a, column)).collect();
            let mut distinct: Vec<Expr> = Vec::new();
            for restriction in each? {
                if !distinct.contains(&restriction) {
                    distinct.push(restriction);
                }
            }
            disjunction(distinct)
        })
        .collect()
}

/// Whether a scan's filter can be evaluated in the shared plan with the same outcome.
fn usable(filter: &Expr) -> bool {
    !filter.is_volatile() && !filter.contains_outer() && !has_subquery(filter)
}

fn has_subquery(expr: &Expr) -> bool {
    let found = expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    });
    found.unwrap_or(true)
}

/// A scan's filter as a condition on the shared plan's own columns.
fn over(filter: Expr, schema: &DFSchema) -> Result<Expr> {
    let rewritten = filter.transform(|expr| match expr {
        Expr::Column(column) => {
            let at = schema.inner().index_of(&column.name)?;
            Ok(Transformed::yes(Expr::Column(Column::from(schema.qualified_field(at)))))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// Lets all scans of a shared plan read the narrowed source, which has only the given columns of the old one.
fn redirect(
    plan: LogicalPlan,
    id: SharedId,
    columns: &[usize],
    source: &Arc<dyn TableSource>,
) -> Result<LogicalPlan> {
    let rewritten = plan.transform_down_with_subqueries(|node| {
        let Some(scan) = scan_of(&node, id) else {
            return Ok(Transformed::no(node));
        };
        let old: Vec<usize> = match &scan.projection {
            Some(projection) => projection.clone(),
            None => (0..scan.source.schema().fields().len()).collect(),
        };
        let projection = old.iter().filter_map(|at| columns.binary_search(at).ok()).collect();
        let scan = TableScanBuilder::new(scan.table_name.clone(), Arc::clone(source))
            .with_projection(Some(projection))
            .with_filters(scan.filters.clone())
            .with_fetch(scan.fetch)
            .build()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok(rewritten.data)
}
