//! Assertion of a single row, as a scalar subquery demands. Requests and provides a singleton.

use std::collections::BTreeSet;

use crate::cardinality::Logical;
use crate::cost::Cost;
use crate::error::Result;
use crate::physical::{Parallelism, PhysicalOp, Provenance};
use crate::properties::{InterestingProperties, ProvidedProperties};
use crate::relational::Rel;
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};

impl Search<'_> {
    pub fn plan_single_row(&mut self, rel: &Rel) -> Result<Planned> {
        let input = self.plan(&rel.inputs[0], &InterestingProperties::default())?;
        for &id in &rel.output {
            let mut estimate = self.estimator.column(id).clone();
            (estimate.distinct, estimate.base_rows) = (1.0, 1.0);
            self.estimator.set(id, estimate);
        }
        let mut logical = Logical::new(1.0, Provenance::Exact);
        logical.unique.push(BTreeSet::new());
        let channels = input.candidates.iter().map(|candidate| self.gather(candidate));
        let candidates = channels
            .map(|channel| {
                let draft = Draft {
                    op: PhysicalOp::AssertSingleRow,
                    inputs: vec![channel],
                    output: rel.output.clone(),
                    provided: ProvidedProperties::singleton(),
                    work: Cost::default(),
                    parallelism: Parallelism::Singleton,
                };
                self.node(draft, &logical)
            })
            .collect();
        Ok(self.prune(candidates, &InterestingProperties::default(), &logical))
    }
}
