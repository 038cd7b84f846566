//! Scans of tables, shared plans and work tables.
//!
//! Provides: a random spread without order, because splits are handed out dynamically. Blocks on nothing, except that
//! a shared plan is a spool which is complete before its first reader starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion_common::Column;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{Expr, TableSource};

use crate::cardinality::Logical;
use crate::cost::Cost;
use crate::cost::constants::{SCAN_BYTE_NS, SCAN_ROW_NS, SCAN_VALUE_NS};
use crate::physical::{ColumnId, Parallelism, PhysicalOp, Provenance};
use crate::properties::{EquivalenceClasses, ProvidedProperties};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};
use crate::statistics::{MeasuredShare, TableStatistics};
use crate::strategies::conjuncts_ns;

/// From so many hits on a sample's share is taken as it is.
const CERTAIN_HITS: f64 = 24.0;
/// The hits that an expectation from statistics counts for.
const EXPECTED_HITS: f64 = 2.0;
/// Rows that stand together in a sample.
const ROWS_A_RUN: f64 = 8.0;

impl Search<'_> {
    pub fn plan_scan(&mut self, rel: &Rel) -> Planned {
        let RelOp::Scan { source, table, columns, filters, fetch } = &rel.op else {
            unreachable!("the dispatch passes scans only")
        };
        let mut statistics = self.statistics.table(source.as_ref());
        for &(id, index) in columns {
            if let Some(column) = statistics.columns.get_mut(index)
                && column.distinct.is_none()
            {
                column.distinct = self.statistics.distinct(source.as_ref(), index);
            }
            let info = self.columns.get(id).clone();
            self.estimator.set_from_statistics(&info, index, &statistics);
        }
        let total = self.estimator.table_rows(&statistics);
        let logical = self.scan_rows(source, columns, filters, *fetch, &statistics);
        let (output, filter_columns): (Vec<_>, Vec<_>) =
            columns.iter().copied().partition(|(id, _)| rel.output.contains(id));
        let read: Vec<ColumnId> = columns.iter().map(|(id, _)| *id).collect();
        let read_rows =
            fetch.map_or(total, |fetch| total.min(fetch as f64 * total / logical.rows.max(1.0)));
        let work = self.scan_cost(read_rows, &read, conjuncts_ns(filters));
        let draft = Draft {
            op: PhysicalOp::Scan {
                source: source.clone(),
                table: table.clone(),
                columns: output,
                filter_columns,
                filters: filters.clone(),
                fetch: *fetch,
                runtime_filters: Vec::new(),
            },
            inputs: Vec::new(),
            output: rel.output.clone(),
            provided: ProvidedProperties::random(),
            work,
            parallelism: self.full(),
        };
        let candidate = self.node(draft, &logical);
        Planned { logical, candidates: vec![candidate] }
    }

    fn scan_rows(
        &mut self,
        source: &Arc<dyn TableSource>,
        columns: &[(ColumnId, usize)],
        filters: &[Expr],
        fetch: Option<usize>,
        statistics: &TableStatistics,
    ) -> Logical {
        let total = self.estimator.table_rows(statistics);
        let (mut rows, mut provenance) = match statistics.rows {
            Some(rows) => (rows, statistics.provenance),
            None => (total, Provenance::Default),
        };
        if !filters.is_empty() {
            let measured = named_filters(source, columns, filters)
                .and_then(|filters| self.statistics.selectivity(source.as_ref(), &filters));
            let (share, from) = match measured {
                Some(measured) => self.measured_share(&measured, filters, total),
                None => (self.estimator.selectivity(filters, total), Provenance::Stats),
            };
            rows *= share.clamp(0.0, 1.0);
            provenance = provenance.and(from);
            self.estimator.narrow(filters);
        }
        if let Some(fetch) = fetch {
            rows = rows.min(fetch as f64);
        }
        let known_empty = statistics.rows == Some(0.0);
        let mut logical = Logical::new(if known_empty { 0.0 } else { rows.max(1.0) }, provenance);
        logical.classes = equal_columns(filters);
        logical
    }

    /// What was measured, times a guess for the filters that were not. Where few rows of a sample passed, statistics may
    /// know better how rare such rows are: both are weighed.
    fn measured_share(
        &self,
        measured: &MeasuredShare,
        filters: &[Expr],
        total: f64,
    ) -> (f64, Provenance) {
        let (known, open): (Vec<_>, Vec<_>) =
            filters.iter().cloned().zip(&measured.measured).partition(|(_, known)| **known);
        let estimate = |part: Vec<(Expr, &bool)>| {
            let part: Vec<Expr> = part.into_iter().map(|(filter, _)| filter).collect();
            if part.is_empty() { 1.0 } else { self.estimator.selectivity(&part, total) }
        };
        let share = match measured.hits < CERTAIN_HITS {
            true => weighed(measured, estimate(known)),
            false => measured.share,
        };
        let from = if measured.sample_rows > 0 { Provenance::Sample } else { Provenance::Stats };
        (share * estimate(open), from)
    }

    fn scan_cost(&self, rows: f64, columns: &[ColumnId], filter_ns: f64) -> Cost {
        let p = self.degree(self.full());
        let value_ns = |&id: &ColumnId| {
            let width = self.estimator.column(id).width;
            SCAN_VALUE_NS + (width - 8.0).max(0.0) * SCAN_BYTE_NS
        };
        let per_row: f64 = SCAN_ROW_NS + columns.iter().map(value_ns).sum::<f64>() + filter_ns;
        Cost { network: 0.0, disk: 0.0, cpu: rows * per_row / p }
    }

    pub fn plan_shared_scan(&mut self, rel: &Rel) -> Planned {
        let RelOp::SharedScan { shared, columns } = &rel.op else {
            unreachable!("the dispatch passes shared scans only")
        };
        let source = self
            .shared
            .get(shared)
            .cloned()
            .unwrap_or_else(|| Logical::new(1.0, Provenance::Default));
        for &(id, original) in columns {
            let estimate = self.estimator.column(original).clone();
            self.estimator.set(id, estimate);
        }
        let names: BTreeMap<ColumnId, ColumnId> =
            columns.iter().map(|&(id, original)| (original, id)).collect();
        let mut logical = Logical::new(source.rows, source.provenance);
        for set in &source.unique {
            let renamed: Option<_> = set.iter().map(|column| names.get(column).copied()).collect();
            logical.unique.extend(renamed);
        }
        let op = PhysicalOp::SharedScan { shared: *shared, columns: columns.clone() };
        let full = self.full();
        self.leaf(rel, op, logical, full)
    }

    pub fn plan_work_table_scan(&mut self, rel: &Rel) -> Planned {
        let RelOp::WorkTableScan { work_table, columns } = &rel.op else {
            unreachable!("the dispatch passes work table scans only")
        };
        let rows = self.work_tables.get(work_table).copied().unwrap_or(1.0);
        let op = PhysicalOp::WorkTableScan { work_table: *work_table, columns: columns.clone() };
        self.leaf(rel, op, Logical::new(rows, Provenance::Default), Parallelism::Singleton)
    }

    /// A source without choices that hands rows on as they are.
    pub fn leaf(
        &mut self,
        rel: &Rel,
        op: PhysicalOp,
        logical: Logical,
        parallelism: Parallelism,
    ) -> Planned {
        let draft = Draft {
            op,
            inputs: Vec::new(),
            output: rel.output.clone(),
            provided: ProvidedProperties::random(),
            work: Cost::cpu(logical.rows * SCAN_ROW_NS / self.degree(parallelism)),
            parallelism,
        };
        let candidate = self.node(draft, &logical);
        Planned { logical, candidates: vec![candidate] }
    }
}

/// A sample's share and what statistics expect, weighed by how much evidence there is: the expectation counts as a few
/// hits among as many runs as it would take to see them.
fn weighed(measured: &MeasuredShare, expected: f64) -> f64 {
    let share = measured.share.max(f64::MIN_POSITIVE);
    // Without a hit it is unknown whether rows that pass stand together, and so how many independent looks were taken.
    let looks = match measured.hits {
        0.0 => 0.5 / share / ROWS_A_RUN.sqrt(),
        hits => hits / share,
    };
    let expected = expected.clamp(f64::EPSILON, 1.0);
    (measured.hits + EXPECTED_HITS) / (looks + EXPECTED_HITS / expected)
}

/// Columns that the filters of a scan make equal.
pub(crate) fn equal_columns(filters: &[Expr]) -> EquivalenceClasses {
    let mut classes = EquivalenceClasses::default();
    for filter in filters {
        if let Some((left, right)) = column_equality(filter) {
            classes.unite(left, right);
        }
    }
    classes
}

/// The two columns of `a = b`.
pub(crate) fn column_equality(expr: &Expr) -> Option<(ColumnId, ColumnId)> {
    match expr {
        Expr::BinaryExpr(binary) if binary.op == datafusion_expr::Operator::Eq => {
            Some((ColumnId::from_expr(&binary.left)?, ColumnId::from_expr(&binary.right)?))
        }
        _ => None,
    }
}

/// The filters with columns under the names of the source's schema.
fn named_filters(
    source: &Arc<dyn TableSource>,
    columns: &[(ColumnId, usize)],
    filters: &[Expr],
) -> Option<Vec<Expr>> {
    let schema = source.schema();
    let name = |id: ColumnId| {
        columns.iter().find(|(known, _)| *known == id).map(|(_, i)| schema.field(*i).name())
    };
    let rename = |filter: &Expr| {
        let renamed = filter.clone().transform(|node| {
            Ok(match ColumnId::from_expr(&node).and_then(name) {
                Some(name) => Transformed::yes(Expr::Column(Column::new_unqualified(name))),
                None => Transformed::no(node),
            })
        });
        renamed.ok().map(|renamed| renamed.data)
    };
    filters.iter().map(rename).collect()
}
