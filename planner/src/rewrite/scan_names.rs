//! Scans of different sources never have the same name.
//!
//! The library compares plans by the names of their scans and not by what is read: two files of the same name in
//! different folders, or a table function called twice with other arguments, would be one table to every rule that looks
//! for equal parts. A second source of a name is therefore scanned under a name of its own, below an alias that keeps the
//! name for everybody else. Whoever binds a statement sees to it that what is read twice is one source.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Result, TableReference};
use datafusion_expr::logical_plan::SubqueryAlias;
use datafusion_expr::{LogicalPlan, TableScan, TableScanBuilder, TableSource};

use crate::bind::WorkTableSource;

/// The names of a statement's scans.
#[derive(Debug, Default)]
pub(super) struct ScanNames {
    known: Mutex<HashMap<TableReference, Source>>,
}

struct Source(Arc<dyn TableSource>);

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", Arc::as_ptr(&self.0).cast::<()>())
    }
}

impl ScanNames {
    /// The plan with scans renamed where another source has the name already.
    pub(super) fn tell_apart(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let renamed = plan.transform_down_with_subqueries(|node| {
            let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
            // A working table is known by its name to the recursion around it.
            if scan.source.downcast_ref::<WorkTableSource>().is_some() {
                return Ok(Transformed::no(node));
            }
            let name = self.name_of(&scan.table_name, &scan.source);
            if name == scan.table_name {
                return Ok(Transformed::no(node));
            }
            let plan = under_name(scan, name)?;
            Ok(Transformed::new(plan, true, TreeNodeRecursion::Jump))
        })?;
        Ok(renamed.data)
    }

    /// The name that a source is scanned under: the one given, unless another source has it.
    fn name_of(&self, given: &TableReference, source: &Arc<dyn TableSource>) -> TableReference {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut name = given.clone();
        let mut number = 1;
        loop {
            match known.get(&name) {
                None => {
                    known.insert(name.clone(), Source(Arc::clone(source)));
                    return name;
                }
                Some(other) if is_one(&other.0, source) => return name,
                Some(_) => {
                    number += 1;
                    name = TableReference::bare(format!("{} #{number}", given.table()));
                }
            }
        }
    }
}

/// Whether two sources are one: the same, or made of the same table, which has one schema.
fn is_one(a: &Arc<dyn TableSource>, b: &Arc<dyn TableSource>) -> bool {
    Arc::ptr_eq(a, b) || Arc::ptr_eq(&a.schema(), &b.schema())
}

fn under_name(scan: &TableScan, name: TableReference) -> Result<LogicalPlan> {
    let renamed = TableScanBuilder::new(name, Arc::clone(&scan.source))
        .with_projection(scan.projection.clone())
        .with_fetch(scan.fetch)
        .build()?;
    let plan = Arc::new(LogicalPlan::TableScan(renamed));
    SubqueryAlias::try_new(plan, scan.table_name.clone()).map(LogicalPlan::SubqueryAlias)
}
