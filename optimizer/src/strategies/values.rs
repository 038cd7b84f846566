//! Constant rows. Provides a singleton.

use crate::cardinality::Logical;
use crate::physical::{Parallelism, PhysicalOp, Provenance};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::Planned;

impl Search<'_> {
    pub fn plan_values(&mut self, rel: &Rel) -> Planned {
        let RelOp::Values { rows, .. } = &rel.op else {
            unreachable!("the dispatch passes constant rows only")
        };
        self.constant_rows(rel, PhysicalOp::Values { rows: rows.clone() }, rows.len())
    }

    pub fn plan_empty(&mut self, rel: &Rel) -> Planned {
        let RelOp::Empty { one_row, .. } = rel.op else {
            unreachable!("the dispatch passes empty relations only")
        };
        self.constant_rows(rel, PhysicalOp::Empty { one_row }, usize::from(one_row))
    }

    fn constant_rows(&mut self, rel: &Rel, op: PhysicalOp, rows: usize) -> Planned {
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
