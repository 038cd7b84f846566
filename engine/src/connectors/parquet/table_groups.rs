//! The row groups of a whole table, with what footers say of some of its columns.
//!
//! Looks only at files whose footers are at hand, and of very many files only at some: for estimates, never for
//! reading a table.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Schema};
use thalweg_runtime::expr::Expr;

use super::decode::FilePlan;
use super::statistics::{GroupBounds, rows_of};
use crate::connectors::files::FileCache;
use crate::connectors::scan::prune::{Bounds, BoundsSource, may_match_all};
use crate::connectors::scan::{ColumnSource, FileScan, ReadLayout};

/// Files that are looked at.
const FILES_MAX: usize = 64;

/// One row group of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableGroup {
    /// Its file, among the plans.
    pub plan: usize,
    /// Its number in the file.
    pub group: usize,
    /// Its rows.
    pub rows: u64,
}

/// Row groups and columns of a table.
pub struct TableGroups {
    /// The table's positions of the columns looked at, ascending.
    pub columns: Vec<usize>,
    /// Their types.
    pub types: Vec<DataType>,
    /// The files.
    pub plans: Vec<Arc<FilePlan>>,
    /// All row groups of the files that have rows.
    pub groups: Vec<TableGroup>,
}

impl TableGroups {
    /// The row groups of a table's files. `None` if a footer is not at hand, or there are no rows.
    pub fn new(schema: &Schema, scan: &FileScan, mut columns: Vec<usize>) -> Option<Self> {
        columns.sort_unstable();
        columns.dedup();
        let fields: Vec<_> = columns.iter().map(|&c| schema.fields()[c].clone()).collect();
        let types = fields.iter().map(|f| f.data_type().clone()).collect();
        let layout = ReadLayout {
            columns,
            schema: Arc::new(Schema::new(fields)),
            output: Vec::new(),
            metadata: Vec::new(),
        };
        let (mut plans, mut groups) = (Vec::new(), Vec::new());
        // The footers of a table of very many files were read at a stride themselves: those are the ones at hand.
        let cached = scan.files.iter().enumerate().filter_map(|(index, file)| {
            let meta = FileCache::process().parquet(&file.path, file.size, file.mtime_ns)?;
            Some((index, file, meta))
        });
        for (index, file, meta) in cached.step_by(scan.files.len().div_ceil(FILES_MAX)) {
            let sources = layout.sources(schema, scan, file, &meta.table_schema).ok()?;
            groups.extend(meta.metadata().row_groups().iter().enumerate().filter_map(
                |(group, g)| {
                    let rows = rows_of(g);
                    (rows > 0).then_some(TableGroup { plan: plans.len(), group, rows })
                },
            ));
            let (name, schema) = (file.name.clone(), layout.schema.clone());
            plans.push(Arc::new(FilePlan { index, name, meta, schema, sources }));
        }
        let columns = layout.columns;
        (!groups.is_empty()).then_some(TableGroups { columns, types, plans, groups })
    }

    /// Rows of all groups.
    pub fn rows(&self) -> f64 {
        self.groups.iter().map(|g| g.rows as f64).sum()
    }

    /// Where a column (by its place among those looked at) comes from in a group.
    pub fn source(&self, group: &TableGroup, place: usize) -> &ColumnSource {
        &self.plans[group.plan].sources[place]
    }

    /// For each group whether all predicates over the table's positions can be true in one of its rows.
    pub fn may_match(&self, predicates: &[Expr]) -> Vec<bool> {
        let mut answers = Vec::with_capacity(self.groups.len());
        for plan in 0..self.plans.len() {
            answers.extend(may_match_all(predicates, &self.bounds_in(plan)).iter());
        }
        answers
    }

    /// What is known of a column in every group; `None` if nothing is.
    pub fn bounds(&self, place: usize) -> Option<Bounds> {
        let parts: Vec<Bounds> = (0..self.plans.len())
            .map(|plan| self.bounds_in(plan))
            .filter(|part| part.containers() > 0)
            .map(|part| part.bounds(self.columns[place]))
            .collect::<Option<_>>()?;
        if let [_] = parts.as_slice() {
            return parts.into_iter().next();
        }
        let joined = |side: fn(&Bounds) -> &ArrayRef| {
            let arrays: Vec<&dyn Array> = parts.iter().map(|p| side(p).as_ref()).collect();
            concat(&arrays).ok()
        };
        let nulls: UInt64Array = parts.iter().flat_map(|p| p.nulls.iter()).collect();
        Some(Bounds { min: joined(|b| &b.min)?, max: joined(|b| &b.max)?, nulls })
    }

    fn bounds_in(&self, plan: usize) -> GroupBounds<'_> {
        let file = &self.plans[plan];
        let columns = self.columns.iter().zip(&self.types).zip(&file.sources);
        GroupBounds {
            meta: &file.meta,
            columns: columns.map(|((&c, t), source)| (c, source, t.clone())).collect(),
            groups: self.groups.iter().filter(|g| g.plan == plan).map(|g| g.group).collect(),
        }
    }
}

/// Up to `count` of the things, spread evenly by their weights: of two that are alike in weight either both are taken or
/// they stand in for each other.
pub fn spread(weights: &[f64], count: usize) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let mut chosen = Vec::new();
    let (mut passed, mut next) = (0.0, 0);
    for (i, weight) in weights.iter().enumerate() {
        passed += weight;
        let mark = |n: usize| (n as f64 + 0.5) * total / count as f64;
        if next < count && *weight > 0.0 && passed >= mark(next) {
            chosen.push(i);
            while next < count && passed >= mark(next) {
                next += 1;
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn spread_follows_weights() {
        assert_eq!(spread(&[1.0; 8], 4), [0, 2, 4, 6]);
        assert_eq!(spread(&[1.0; 3], 4), [0, 1, 2]);
        assert_eq!(spread(&[0.0, 0.0, 5.0, 0.0], 4), [2]);
        assert_eq!(spread(&[], 4), [0_usize; 0]);
    }
}
