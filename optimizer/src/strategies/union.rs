//! Union of all rows. Keeps the parallelism of its inputs, spreads singletons among the others; provides no order.

use crate::cardinality::Logical;
use crate::cost::Cost;
use crate::error::Result;
use crate::physical::{Parallelism, PhysicalOp, Provenance, ShipStrategy};
use crate::properties::{InterestingProperties, ProvidedProperties};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};

impl Search<'_> {
    pub fn plan_union(&mut self, rel: &Rel) -> Result<Planned> {
        let RelOp::Union { targets, columns } = &rel.op else {
            unreachable!("the dispatch passes unions only")
        };
        let mut planned = Vec::with_capacity(rel.inputs.len());
        for input in &rel.inputs {
            planned.push(self.plan(input, &InterestingProperties::default())?);
        }
        let rows = planned.iter().map(|input| input.logical.rows).sum();
        let provenance =
            planned.iter().fold(Provenance::Exact, |p, input| p.and(input.logical.provenance));
        for (position, &target) in targets.iter().enumerate() {
            self.estimate_union(target, columns.iter().map(|ids| ids[position]), rows);
        }
        let logical = Logical::new(rows, provenance);
        let cheapest: Vec<_> = planned.iter().map(|input| input.cheapest().clone()).collect();
        let any_full =
            cheapest.iter().any(|candidate| candidate.node.parallelism == Parallelism::Full);
        let inputs = cheapest
            .iter()
            .map(|candidate| match candidate.node.parallelism {
                Parallelism::Singleton if any_full => self.ship(candidate, ShipStrategy::Rebalance),
                Parallelism::Singleton | Parallelism::Full => self.forward(candidate),
            })
            .collect();
        let draft = Draft {
            op: PhysicalOp::Union { columns: columns.clone() },
            inputs,
            output: rel.output.clone(),
            provided: ProvidedProperties::random(),
            work: Cost::default(),
            parallelism: if any_full { Parallelism::Full } else { Parallelism::Singleton },
        };
        let candidate = self.node(draft, &logical);
        Ok(Planned { logical, candidates: vec![candidate] })
    }

    /// The facts of a united column: widest bounds, no fewer distinct values than the richest input.
    fn estimate_union(
        &mut self,
        target: crate::physical::ColumnId,
        sources: impl Iterator<Item = crate::physical::ColumnId>,
        rows: f64,
    ) {
        let mut united: Option<crate::cardinality::ColumnEstimate> = None;
        for source in sources {
            let from = self.estimator.column(source).clone();
            united = Some(match united {
                None => from,
                Some(mut known) => {
                    known.distinct = known.distinct.max(from.distinct);
                    known.min = known.min.zip(from.min).map(|(a, b)| a.min(b));
                    known.max = known.max.zip(from.max).map(|(a, b)| a.max(b));
                    known.null_fraction = known.null_fraction.max(from.null_fraction);
                    known.width = known.width.max(from.width);
                    known
                }
            });
        }
        if let Some(mut united) = united {
            united.base_rows = rows.max(1.0);
            united.distinct = united.distinct.min(united.base_rows);
            self.estimator.set(target, united);
        }
    }
}
