//! Windows that rows make. Requests: rows of a key meet, in any order. Provides that spread; keeps rows until their
//! windows are complete.

use crate::cost::Cost;
use crate::cost::constants::{GROUP_LOOKUP_NS, WINDOW_ROW_NS};
use crate::error::Result;
use crate::physical::{PhysicalOp, RowWindowsSpec};
use crate::properties::InterestingProperties;
use crate::relational::Rel;
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};
use crate::strategies::column_set;

impl Search<'_> {
    pub fn plan_row_windows(
        &mut self,
        rel: &Rel,
        spec: &RowWindowsSpec,
        interesting: &InterestingProperties,
    ) -> Result<Planned> {
        let mut below = InterestingProperties::default();
        below.want_partitioning(column_set(spec.keys.iter().copied()));
        let input = self.plan(&rel.inputs[0], &below)?;
        for output in &spec.outputs {
            let info = self.columns.get(*output).clone();
            self.estimator.set_computed(&info, input.logical.rows);
        }
        let logical = input.logical.clone();
        let mut candidates = Vec::new();
        for candidate in &input.candidates {
            let channel = self.partitioned(candidate, &spec.keys, &logical);
            let per_row = GROUP_LOOKUP_NS + WINDOW_ROW_NS;
            let draft = Draft {
                op: PhysicalOp::RowWindows(spec.clone()),
                output: rel.output.clone(),
                provided: channel.provided.clone().without_order(),
                work: Cost::cpu(logical.rows * per_row / self.degree(channel.parallelism)),
                parallelism: channel.parallelism,
                inputs: vec![channel],
            };
            candidates.push(self.node(draft, &logical));
        }
        Ok(self.prune(candidates, interesting, &logical))
    }
}
