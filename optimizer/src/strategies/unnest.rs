//! Unnest: opens lists and structs. Keeps the spread of forwarded columns; requests nothing, blocks on nothing.

use crate::cost::Cost;
use crate::cost::constants::OUTPUT_ROW_NS;
use crate::error::Result;
use crate::physical::{PhysicalOp, Provenance, UnnestSource};
use crate::properties::InterestingProperties;
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};

impl Search<'_> {
    pub fn plan_unnest(
        &mut self,
        rel: &Rel,
        interesting: &InterestingProperties,
    ) -> Result<Planned> {
        let RelOp::Unnest { columns, null_handling } = &rel.op else {
            unreachable!("the dispatch passes unnests only")
        };
        let forwarded = |id| {
            columns
                .iter()
                .any(|column| column.output == id && column.source == UnnestSource::Forward(id))
        };
        let below = interesting.map(|id| forwarded(id).then_some(id));
        let input = self.plan(&rel.inputs[0], &below)?;
        let lists = columns
            .iter()
            .filter(|column| matches!(column.source, UnnestSource::List { .. }))
            .count();
        let rows = self.estimator.unnested(input.logical.rows, lists);
        let mut logical =
            input.logical.with_rows(rows, input.logical.provenance.and(Provenance::Default));
        logical.unique.clear();
        for column in columns.iter().filter(|column| !forwarded(column.output)) {
            let info = self.columns.get(column.output).clone();
            self.estimator.set_computed(&info, rows);
        }
        let mut candidates = Vec::new();
        for candidate in &input.candidates {
            let node = &candidate.node;
            let draft = Draft {
                op: PhysicalOp::Unnest { columns: columns.clone(), null_handling: *null_handling },
                inputs: vec![self.forward(candidate)],
                output: rel.output.clone(),
                provided: node.provided.clone(),
                work: Cost::cpu(
                    rows * OUTPUT_ROW_NS * columns.len() as f64 / self.degree(node.parallelism),
                ),
                parallelism: node.parallelism,
            };
            candidates.push(self.node(draft, &logical));
        }
        Ok(self.prune(candidates, interesting, &logical))
    }
}
