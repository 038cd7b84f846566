//! Tables that a stream reads more than once are read once, and the rows go to all readers.
//!
//! The scan in common has the columns that any reader wants, and lets rows through that any reader wants; each reader then
//! filters for itself. Refused where one reader would wait for the end of another: rows go to all readers at the same time,
//! so that the one that waits would hold up the one it waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::utils::{conjunction, disjunction};
use datafusion_expr::{Expr, TableSource};

use crate::physical::{ColumnId, ColumnTable};
use crate::relational::{Rel, RelOp, RelQuery, RelShared};

/// Puts readers of one scan in the place of several scans of a table. The query has been prepared as a stream.
pub(crate) fn share(query: &mut RelQuery) {
    let mut scans = Vec::new();
    collect(&query.root, &mut scans);
    let mut groups: Vec<(Arc<dyn TableSource>, usize)> = Vec::new();
    for scan in &scans {
        match groups.iter_mut().find(|(source, _)| Arc::ptr_eq(source, scan)) {
            Some((_, readers)) => *readers += 1,
            None => groups.push((Arc::clone(scan), 1)),
        }
    }
    for (source, readers) in groups {
        if readers > 1 && flows(&query.root, &source) {
            let id = query.shared.iter().map(|shared| shared.id + 1).max().unwrap_or(0);
            let shared = Common::of(&query.root, &source, &mut query.columns);
            shared.read(&mut query.root, id);
            query
                .shared
                .insert(0, RelShared { id, name: shared.table.clone(), root: shared.scan() });
        }
    }
}

/// The sources of scans that may be shared.
fn collect(rel: &Rel, into: &mut Vec<Arc<dyn TableSource>>) {
    into.extend(source_of(rel).cloned());
    rel.inputs.iter().for_each(|input| collect(input, into));
}

/// The source of a scan that may be shared.
fn source_of(rel: &Rel) -> Option<&Arc<dyn TableSource>> {
    match &rel.op {
        RelOp::Scan { source, filters, fetch: None, .. } if rel.flow.live => {
            (!filters.iter().any(Expr::is_volatile)).then_some(source)
        }
        _ => None,
    }
}

fn reads(rel: &Rel, source: &Arc<dyn TableSource>) -> bool {
    source_of(rel).is_some_and(|other| Arc::ptr_eq(source, other))
        || rel.inputs.iter().any(|input| reads(input, source))
}

/// Whether all readers of a source take rows as they come, and to the end.
fn flows(rel: &Rel, source: &Arc<dyn TableSource>) -> bool {
    let readers = rel.inputs.iter().filter(|input| reads(input, source)).count();
    let here = match &rel.op {
        RelOp::Limit { .. } | RelOp::RecursiveCte { .. } => readers == 0,
        RelOp::Join(_) => readers < 2 || rel.inputs.iter().all(|input| input.flow.live),
        _ => true,
    };
    here && rel.inputs.iter().all(|input| flows(input, source))
}

/// What the readers of a source have in common.
struct Common {
    source: Arc<dyn TableSource>,
    table: String,
    /// By position in the source: the scan's columns.
    columns: BTreeMap<usize, ColumnId>,
    /// What a reader wants of rows, for each reader, in terms of the scan's columns.
    wanted: Vec<Vec<Expr>>,
    flow: super::Flow,
}

impl Common {
    fn of(root: &Rel, source: &Arc<dyn TableSource>, columns: &mut ColumnTable) -> Self {
        let mut common = Common {
            source: Arc::clone(source),
            table: String::new(),
            columns: BTreeMap::new(),
            wanted: Vec::new(),
            flow: super::Flow::default(),
        };
        common.add(root, columns);
        common
    }

    fn is_read_by(&self, rel: &Rel) -> bool {
        source_of(rel).is_some_and(|source| Arc::ptr_eq(source, &self.source))
    }

    fn add(&mut self, rel: &Rel, table: &mut ColumnTable) {
        rel.inputs.iter().for_each(|input| self.add(input, table));
        let RelOp::Scan { table: name, columns, filters, .. } = &rel.op else { return };
        if !self.is_read_by(rel) {
            return;
        }
        self.table.clone_from(name);
        self.flow = rel.flow;
        for (id, position) in columns {
            self.columns.entry(*position).or_insert_with(|| {
                let info = table.get(*id).clone();
                table.add(info.name, info.data_type, info.nullable)
            });
        }
        let filters = filters.iter().map(|filter| self.in_common(filter, columns)).collect();
        self.wanted.push(filters);
    }

    /// An expression of a reader, in terms of the scan's columns.
    fn in_common(&self, expr: &Expr, columns: &[(ColumnId, usize)]) -> Expr {
        let of = |id: ColumnId| columns.iter().find(|(known, _)| *known == id);
        let replaced = expr.clone().transform(|node| {
            Ok(match ColumnId::from_expr(&node).and_then(of) {
                Some((_, position)) => Transformed::yes(self.columns[position].expr()),
                None => Transformed::no(node),
            })
        });
        replaced.map_or_else(|_| expr.clone(), |replaced| replaced.data)
    }

    /// Whether all readers want the same rows.
    fn is_one_filter(&self) -> bool {
        self.wanted.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// The scan in common.
    fn scan(self) -> Rel {
        let filters = if self.is_one_filter() {
            self.wanted.first().cloned().unwrap_or_default()
        } else {
            // A reader without a filter wants all rows.
            let each: Option<Vec<Expr>> = self.wanted.into_iter().map(conjunction).collect();
            each.and_then(disjunction).into_iter().collect()
        };
        let columns = self.columns.iter().map(|(position, id)| (*id, *position)).collect();
        let op =
            RelOp::Scan { source: self.source, table: self.table, columns, filters, fetch: None };
        let mut scan = Rel::new(op, Vec::new());
        scan.flow = self.flow;
        scan
    }

    /// Puts readers in the place of the scans.
    fn read(&self, rel: &mut Rel, id: u32) {
        rel.inputs.iter_mut().for_each(|input| self.read(input, id));
        if !self.is_read_by(rel) {
            return;
        }
        let RelOp::Scan { columns, filters, .. } = &rel.op else { return };
        let filters = if self.is_one_filter() { Vec::new() } else { filters.clone() };
        let filtered = |column: &ColumnId| {
            filters.iter().any(|filter| ColumnId::referenced(filter).contains(column))
        };
        let renamed = columns
            .iter()
            .filter(|(column, _)| rel.output.contains(column) || filtered(column))
            .map(|(column, position)| (*column, self.columns[position]))
            .collect();
        let op = RelOp::SharedScan { shared: id, columns: renamed };
        let mut reader = Rel::new(op, Vec::new());
        reader.flow = rel.flow;
        let output = std::mem::take(&mut rel.output);
        *rel = match filters.is_empty() {
            true => reader,
            false => Rel::new(RelOp::Filter { conjuncts: filters }, vec![reader]),
        };
        rel.output = output;
    }
}
