//! Filter: keeps rows, their spread and their order. Requests nothing, blocks on nothing.

use crate::cost::Cost;
use crate::error::Result;
use crate::physical::{PhysicalOp, Provenance};
use crate::properties::InterestingProperties;
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};
use crate::strategies::scan::equal_columns;
use crate::strategies::{conjunction, conjuncts_ns};

impl Search<'_> {
    pub fn plan_filter(
        &mut self,
        rel: &Rel,
        interesting: &InterestingProperties,
    ) -> Result<Planned> {
        let RelOp::Filter { conjuncts } = &rel.op else {
            unreachable!("the dispatch passes filters only")
        };
        let input = self.plan(&rel.inputs[0], interesting)?;
        let share = self.estimator.selectivity(conjuncts, input.logical.rows);
        self.estimator.narrow(conjuncts);
        let rows = (input.logical.rows * share).max(1.0).min(input.logical.rows);
        let mut logical =
            input.logical.with_rows(rows, input.logical.provenance.and(Provenance::Stats));
        logical.classes.merge(&equal_columns(conjuncts));
        let predicate = conjunction(conjuncts).expect("a filter has a condition");
        let mut candidates = Vec::new();
        for candidate in &input.candidates {
            let node = &candidate.node;
            let work = input.logical.rows * conjuncts_ns(conjuncts) / self.degree(node.parallelism);
            let draft = Draft {
                op: PhysicalOp::Filter { predicate: predicate.clone() },
                inputs: vec![self.forward(candidate)],
                output: rel.output.clone(),
                provided: node.provided.clone(),
                work: Cost::cpu(work),
                parallelism: node.parallelism,
            };
            candidates.push(self.node(draft, &logical));
        }
        Ok(self.prune(candidates, interesting, &logical))
    }
}
