//! Window functions over a stream, over rows that event time completes or over partitions that go on changing. Requests:
//! rows of a partition meet, in any order. Provides that spread; keeps the partitions and blocks on nothing.

use crate::cost::Cost;
use crate::cost::constants::{GROUP_LOOKUP_NS, WINDOW_ROW_NS};
use crate::error::Result;
use crate::physical::{ColumnId, PhysicalOp, WindowCall};
use crate::properties::{InterestingProperties, SortKey};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};
use crate::strategies::column_set;
use crate::streaming::Completion;

impl Search<'_> {
    pub fn plan_streaming_window(
        &mut self,
        rel: &Rel,
        interesting: &InterestingProperties,
    ) -> Result<Planned> {
        let RelOp::Window { partition_by, order_by, functions, keep, completion } = &rel.op else {
            unreachable!("the caller passes windows only")
        };
        let mut below = InterestingProperties::default();
        below.want_partitioning(column_set(partition_by.iter().copied()));
        let input = self.plan(&rel.inputs[0], &below)?;
        for call in functions {
            let info = self.columns.get(call.output).clone();
            self.estimator.set_computed(&info, input.logical.rows);
        }
        let logical = input.logical.clone();
        let mut candidates = Vec::new();
        for candidate in &input.candidates {
            let channel = self.partitioned(candidate, partition_by, &logical);
            let per_row = GROUP_LOOKUP_NS + WINDOW_ROW_NS * functions.len().max(1) as f64;
            let draft = Draft {
                op: operator(partition_by, order_by, functions, *keep, completion.as_ref()),
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

fn operator(
    partition_by: &[ColumnId],
    order_by: &[SortKey],
    functions: &[WindowCall],
    keep: Option<usize>,
    completion: Option<&Completion>,
) -> PhysicalOp {
    let partition_by = partition_by.iter().map(|column| column.expr()).collect();
    let (order_by, functions) = (order_by.to_vec(), functions.to_vec());
    match completion.filter(|completion| completion.early_us.is_none()) {
        Some(completion) => PhysicalOp::EventTimeWindow {
            partition_by,
            order_by,
            functions,
            completion: completion.clone(),
            keep,
        },
        None => {
            let closing = completion.cloned();
            PhysicalOp::ChangelogWindow { partition_by, order_by, functions, keep, closing }
        }
    }
}
