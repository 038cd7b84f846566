//! Sort and top-n: sorts (or keeps the first rows) per subtask and merges the orders into one.
//!
//! Provides: a singleton in the wanted order. Blocks on its input.

use crate::cardinality::Logical;
use crate::cost::Cost;
use crate::cost::constants::COMPARE_NS;
use crate::error::Result;
use crate::physical::{Parallelism, PhysicalOp, ShipStrategy};
use crate::properties::{InterestingProperties, Ordering, ProvidedProperties};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Candidate, Draft, Planned};

impl Search<'_> {
    pub fn plan_sort(&mut self, rel: &Rel) -> Result<Planned> {
        let RelOp::Sort { keys, fetch } = &rel.op else {
            unreachable!("the dispatch passes sorts only")
        };
        let ordering = Ordering::new(keys.iter().copied());
        let mut wanted = InterestingProperties::default();
        wanted.want_ordering(ordering.clone());
        let input = self.plan(&rel.inputs[0], &wanted)?;
        let rows = fetch.map_or(input.logical.rows, |fetch| input.logical.rows.min(fetch as f64));
        let logical = input.logical.with_rows(rows, input.logical.provenance);
        let candidates = input
            .candidates
            .iter()
            .map(|candidate| match fetch {
                Some(fetch) => {
                    self.first_rows(candidate, &ordering, *fetch, &input.logical, &logical)
                }
                None => self.total_order(candidate, &ordering, &logical),
            })
            .collect();
        Ok(self.prune(candidates, &wanted, &logical))
    }

    fn total_order(
        &self,
        candidate: &Candidate,
        ordering: &Ordering,
        logical: &Logical,
    ) -> Candidate {
        let sorted = self.sorted(self.forward(candidate), ordering, logical);
        let local = Candidate {
            time: self.profile.time_ns(&sorted.channel.node.cumulative),
            node: sorted.channel.node,
        };
        self.merged(&local, ordering, logical)
    }

    /// Merges the sorted subtasks into one.
    fn merged(&self, local: &Candidate, ordering: &Ordering, logical: &Logical) -> Candidate {
        match local.node.parallelism {
            Parallelism::Singleton => local.clone(),
            Parallelism::Full => {
                self.collected(self.ship(local, ShipStrategy::Merge(ordering.clone())), logical)
            }
        }
    }

    fn first_rows(
        &self,
        candidate: &Candidate,
        ordering: &Ordering,
        fetch: usize,
        input: &Logical,
        logical: &Logical,
    ) -> Candidate {
        let degree = self.degree(candidate.node.parallelism);
        let local_rows = (fetch as f64 * degree).min(input.rows).max(1.0);
        let local = input.with_rows(local_rows, input.provenance);
        let canonical = ordering.map(|column| input.classes.canonical(column));
        let kept = if candidate.node.provided.ordering.satisfies(&canonical) {
            self.limit(self.forward(candidate), 0, Some(fetch), &local)
        } else {
            self.top_n(candidate, ordering, fetch, input, &local)
        };
        match kept.node.parallelism {
            Parallelism::Singleton => kept,
            Parallelism::Full => {
                let merged = self.ship(&kept, ShipStrategy::Merge(ordering.clone()));
                self.limit(merged, 0, Some(fetch), logical)
            }
        }
    }

    fn top_n(
        &self,
        candidate: &Candidate,
        ordering: &Ordering,
        fetch: usize,
        input: &Logical,
        local: &Logical,
    ) -> Candidate {
        let node = &candidate.node;
        let (keys, bytes) = (ordering.0.clone(), node.estimates.bytes);
        let (op, work) = if self.options.strategies.top_n {
            let each = input.rows / self.degree(node.parallelism);
            let kept = (fetch as f64).min(each).max(2.0);
            let replaced = kept * (each / kept).max(1.0).ln().max(1.0);
            let work = Cost::cpu(each * COMPARE_NS * 0.5 + replaced * kept.log2() * COMPARE_NS);
            (PhysicalOp::TopN { keys, skip: 0, fetch }, work)
        } else {
            let work = self.sort_cost(input.rows, bytes, keys.len(), node.parallelism);
            (PhysicalOp::Sort { keys, fetch: Some(fetch) }, work)
        };
        let draft = Draft {
            op,
            inputs: vec![self.forward(candidate)],
            output: node.output.clone(),
            provided: ProvidedProperties { ordering: ordering.clone(), ..node.provided.clone() },
            work,
            parallelism: node.parallelism,
        };
        self.node(draft, local)
    }
}
