//! Window functions. Requests: rows of a partition meet, sorted by the partition keys and then by the window's order.
//! Provides that spread and order; blocks on nothing beyond the sort.

use crate::cardinality::Logical;
use crate::cost::Cost;
use crate::cost::constants::WINDOW_ROW_NS;
use crate::error::Result;
use crate::physical::{ColumnId, Parallelism, PhysicalOp, ShipStrategy};
use crate::properties::{InterestingProperties, Ordering, RequestedPartitioning, SortKey};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Candidate, Draft, Input, Planned};
use crate::strategies::column_set;

impl Search<'_> {
    pub fn plan_window(
        &mut self,
        rel: &Rel,
        interesting: &InterestingProperties,
    ) -> Result<Planned> {
        let RelOp::Window { partition_by, order_by, functions, .. } = &rel.op else {
            unreachable!("the dispatch passes windows only")
        };
        if rel.inputs[0].flow.live {
            return self.plan_streaming_window(rel, interesting);
        }
        let computed = |id: ColumnId| functions.iter().any(|call| call.output == id);
        let mut below = interesting.map(|id| if computed(id) { None } else { Some(id) });
        below.want_partitioning(column_set(partition_by.iter().copied()));
        let wanted = window_order(partition_by, order_by);
        below.want_ordering(wanted.clone());
        let input = self.plan(&rel.inputs[0], &below)?;
        for call in functions {
            let info = self.columns.get(call.output).clone();
            self.estimator.set_computed(&info, input.logical.rows);
        }
        let logical = input.logical.clone();
        let mut candidates = Vec::new();
        for candidate in &input.candidates {
            let channel = self.window_input(candidate, partition_by, &wanted, &logical);
            let order = self
                .usable_order(&channel, partition_by, order_by, &logical)
                .unwrap_or(wanted.clone());
            let channel = self.sorted(channel, &order, &logical);
            let per_row = WINDOW_ROW_NS * functions.len() as f64;
            let draft = Draft {
                op: PhysicalOp::Window {
                    partition_by: partition_by.iter().map(|column| column.expr()).collect(),
                    order_by: order_by.clone(),
                    functions: functions.clone(),
                },
                output: rel.output.clone(),
                provided: channel.provided.clone(),
                work: Cost::cpu(logical.rows * per_row / self.degree(channel.parallelism)),
                parallelism: channel.parallelism,
                inputs: vec![channel],
            };
            candidates.push(self.node(draft, &logical));
        }
        Ok(self.prune(candidates, interesting, &logical))
    }

    /// Rows of a partition together; without partition keys, all rows in one subtask, sorted before they get there.
    fn window_input(
        &self,
        candidate: &Candidate,
        partition_by: &[ColumnId],
        wanted: &Ordering,
        logical: &Logical,
    ) -> Input {
        let parallel = candidate.node.parallelism == Parallelism::Full;
        if !(parallel && partition_by.is_empty() && !wanted.is_empty()) {
            return self.partitioned(candidate, partition_by, logical);
        }
        let sorted = self.sorted(self.forward(candidate), wanted, logical).channel.node;
        let local = Candidate { time: self.profile.time_ns(&sorted.cumulative), node: sorted };
        self.ship(&local, ShipStrategy::Merge(wanted.clone()))
    }

    /// Reads a candidate so that rows with equal keys meet; without keys, all rows.
    pub fn partitioned(
        &self,
        candidate: &Candidate,
        keys: &[ColumnId],
        logical: &Logical,
    ) -> Input {
        let canonical = column_set(keys.iter().map(|&key| logical.classes.canonical(key)));
        let node = &candidate.node;
        if node.parallelism == Parallelism::Singleton {
            return self.forward(candidate);
        }
        if keys.is_empty() {
            return self.gather(candidate);
        }
        if node.provided.meets_partitioning(&RequestedPartitioning::Keys(canonical)) {
            return self.forward(candidate);
        }
        self.ship(candidate, ShipStrategy::Hash(keys.to_vec()))
    }

    /// An order the input has already that serves the window: any order of the partition keys, then the window's own.
    fn usable_order(
        &self,
        input: &Input,
        partition_by: &[ColumnId],
        order_by: &[SortKey],
        logical: &Logical,
    ) -> Option<Ordering> {
        let canonical = |column: ColumnId| logical.classes.canonical(column);
        let keys = column_set(partition_by.iter().map(|&column| canonical(column)));
        let have = input.provided.ordering.map(canonical);
        if !have.groups(&keys) {
            return None;
        }
        let rest = Ordering::new(order_by.iter().copied()).map(canonical);
        let wanted = Ordering::new(have.0[..keys.len()].iter().copied().chain(rest.0));
        have.satisfies(&wanted).then_some(wanted)
    }
}

fn window_order(partition_by: &[ColumnId], order_by: &[SortKey]) -> Ordering {
    let partition = partition_by.iter().map(|&column| {
        let own = order_by.iter().find(|key| key.column == column);
        own.copied().unwrap_or_else(|| SortKey::ascending(column))
    });
    Ordering::new(partition.chain(order_by.iter().copied()))
}
