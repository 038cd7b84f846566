//! Constant rows. Provides a singleton.

use crate::cardinality::Logical;
use crate::physical::{Parallelism, PhysicalOp, Provenance};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::Planned;

impl Search<'_> {
    pub fn plan_values(&mut self, rel: &Rel) -> Planned {
        let (op, rows) = match &rel.op {
            RelOp::Values { rows, .. } => (PhysicalOp::Values { rows: rows.clone() }, rows.len()),
            RelOp::Empty { one_row, .. } => {
                (PhysicalOp::Empty { one_row: *one_row }, usize::from(*one_row))
            }
            _ => unreachable!("the dispatch passes constant rows only"),
        };
        for &id in &rel.output {
            let info = self.columns.get(id).clone();
            self.estimator.set_computed(&info, rows as f64);
        }
        let mut logical = Logical::new(rows as f64, Provenance::Exact);
        if rows <= 1 {
            logical.unique.push(std::collections::BTreeSet::new());
        }
        self.leaf(rel, op, logical, Parallelism::Singleton)
    }
}
