//! What runtime filters save: rows without a partner in a build never leave the scan at the start of the probe path,
//! so that the work on that path so far is done for the others only.
//!
//! Invariant: only joins that drop such rows and keys that reach the scan count, as in the pass that later places the
//! filters; a saving never exceeds the work on the path.

use std::collections::BTreeSet;

use datafusion_common::JoinType;

use crate::cost::constants::{FILTER_TEST_NS, HASH_PROBE_ROW_NS};
use crate::finish::{LEAST_DROPPED_SHARE, drops_unmatched};
use crate::joins::combine::BlockSearch;
use crate::joins::memo::{Entry, JoinStrategy, Pair};
use crate::physical::{ColumnId, Side};
use crate::relational::{Rel, RelOp};

/// The share of a scan's work that a filter on its rows can spare: the values of the other columns.
const SCAN_SHARE: f64 = 0.3;
/// The share of the work of a larger leaf that a filter on its scans can spare.
const LEAF_SHARE: f64 = 0.7;

/// The share of a leaf's work that each further filter can spare however few rows the others leave: what rows lie in the
/// order of its column, it rules out by pages and row groups, before anything is read.
const PAGES_SHARE: f64 = 0.05;

/// The path of the rows that stream into a join, from their scan on.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProbePath {
    /// Columns by which rows can be dropped in the scan.
    pub columns: BTreeSet<ColumnId>,
    /// Work that is proportional to the rows of the scan, nanoseconds.
    pub work_ns: f64,
    /// Work of the scan that filters on other columns do not spare, nanoseconds.
    pub scan_ns: f64,
}

impl ProbePath {
    /// The path within a relation of the block that takes `time` nanoseconds.
    pub fn of_leaf(rel: &Rel, time: f64) -> Self {
        let scan = matches!(rel.op, RelOp::Scan { .. });
        let share = if scan { SCAN_SHARE } else { LEAF_SHARE };
        Self { columns: scanned(rel), work_ns: time * share, scan_ns: time * (1.0 - share) }
    }
}

/// Columns of a relation by which its scans can be filtered.
fn scanned(rel: &Rel) -> BTreeSet<ColumnId> {
    let input = |index: usize| scanned(&rel.inputs[index]);
    let all: BTreeSet<ColumnId> = match &rel.op {
        RelOp::Scan { columns, fetch: None, .. } => columns.iter().map(|(id, _)| *id).collect(),
        RelOp::Filter { .. } | RelOp::Compute { .. } | RelOp::Sort { fetch: None, .. } => input(0),
        RelOp::Aggregate(spec) if spec.grouping_sets.is_none() => {
            let below = input(0);
            let keys = spec.group_by.iter().filter(|(_, key)| below.contains(key));
            keys.map(|(output, _)| *output).collect()
        }
        RelOp::Window { partition_by, .. } => {
            let below = input(0);
            partition_by.iter().copied().filter(|key| below.contains(key)).collect()
        }
        RelOp::RowWindows(spec) => {
            let below = input(0);
            spec.keys.iter().copied().filter(|key| below.contains(key)).collect()
        }
        RelOp::Join(spec) => match spec.join_type {
            JoinType::Inner => input(0).union(&input(1)).copied().collect(),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                input(0)
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                input(1)
            }
            JoinType::Full => BTreeSet::new(),
        },
        RelOp::Union { targets, columns } => {
            let below: Vec<BTreeSet<ColumnId>> = (0..columns.len()).map(input).collect();
            let reaches = |position: &usize| {
                columns.iter().zip(&below).all(|(ids, below)| below.contains(&ids[*position]))
            };
            (0..targets.len()).filter(reaches).map(|position| targets[position]).collect()
        }
        RelOp::Scan { .. }
        | RelOp::Sort { .. }
        | RelOp::Aggregate(_)
        | RelOp::SharedScan { .. }
        | RelOp::WorkTableScan { .. }
        | RelOp::Values { .. }
        | RelOp::Empty { .. }
        | RelOp::Limit { .. }
        | RelOp::Unnest { .. }
        | RelOp::AssertSingleRow
        | RelOp::Fold
        | RelOp::RecursiveCte { .. } => BTreeSet::new(),
    };
    all.into_iter().filter(|id| rel.output.contains(id)).collect()
}

impl BlockSearch<'_, '_> {
    /// What the filters of a join save, nanoseconds, and the probe path of its result.
    pub fn probe_path(
        &self,
        pair: &Pair,
        (left, right): (&Entry, &Entry),
        strategy: &JoinStrategy,
        work_ns: f64,
    ) -> (f64, ProbePath) {
        let JoinStrategy::Hash { build } = strategy else { return (0.0, ProbePath::default()) };
        let (probe, share) = match build {
            Side::Right => (left, self.matched(pair, left, right, false)),
            Side::Left => (right, self.matched(pair, right, left, true)),
        };
        let rows = self.memo.group(probe.set).logical.rows;
        let degree = self.search.degree(probe.parallelism);
        let probing = rows * HASH_PROBE_ROW_NS / degree;
        let reached = pair.keys.iter().any(|&(l, r)| {
            probe.path.columns.contains(if *build == Side::Right { &l } else { &r })
        });
        let filters = self.search.options.strategies.runtime_filters
            && reached
            && !pair.null_equal
            && !pair.null_aware
            && drops_unmatched(pair.op, *build)
            && share <= 1.0 - LEAST_DROPPED_SHARE;
        let share = if filters { share } else { 1.0 };
        let pages = probe.path.scan_ns * PAGES_SHARE * (1.0 - share);
        let saved = (probe.path.work_ns + probing) * (1.0 - share) + pages;
        let tested = if filters { rows * FILTER_TEST_NS / degree } else { 0.0 };
        let path = ProbePath {
            columns: match pair.op {
                JoinType::Full => BTreeSet::new(),
                _ => probe.path.columns.clone(),
            },
            work_ns: probe.path.work_ns * share + work_ns.min(probing * share),
            scan_ns: probe.path.scan_ns - pages,
        };
        (saved - tested, path)
    }

    /// The share of the probe's rows that have a partner in the build.
    fn matched(&self, pair: &Pair, probe: &Entry, build: &Entry, swap: bool) -> f64 {
        let rows = |entry: &Entry| self.memo.group(entry.set).logical.rows;
        let turned = |&(left, right): &(ColumnId, ColumnId)| {
            if swap { (right, left) } else { (left, right) }
        };
        let keys: Vec<_> = pair.keys.iter().map(turned).collect();
        let keys = self.key_parts(&keys);
        if keys.is_empty() {
            return 1.0;
        }
        let semi = JoinType::LeftSemi;
        let matched = self.search.estimator.join(semi, &keys, &[], rows(probe), rows(build)).rows;
        (matched / rows(probe).max(1.0)).clamp(0.0, 1.0)
    }
}
