//! Union of all rows. Keeps the parallelism of its inputs, spreads singletons among the others (or gathers
//! all, where rows may be withdrawn); provides no order.

use crate::cardinality::{ColumnEstimate, Logical};
use crate::cost::Cost;
use crate::error::Result;
use crate::physical::{ColumnId, Parallelism, PhysicalOp, Provenance, ShipStrategy};
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
            let sources = columns.iter().map(|ids| ids[position]);
            self.estimate_union(target, sources.zip(planned.iter().map(|p| p.logical.rows)));
        }
        let logical = Logical::new(rows, provenance);
        let cheapest: Vec<_> = planned.iter().map(|input| input.cheapest().clone()).collect();
        let of = |parallelism| cheapest.iter().any(|c| c.node.parallelism == parallelism);
        // A row must not be overtaken by its withdrawal, as it were if they were spread anew.
        let changes = cheapest.iter().any(|candidate| candidate.node.changes);
        let gathers = changes && of(Parallelism::Singleton) && of(Parallelism::Full);
        let any_full = of(Parallelism::Full) && !gathers;
        let inputs = cheapest
            .iter()
            .map(|candidate| match candidate.node.parallelism {
                Parallelism::Full if gathers => self.gather(candidate),
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

    /// The facts of a united column: those of its sources, weighed by their rows.
    fn estimate_union(&mut self, target: ColumnId, sources: impl Iterator<Item = (ColumnId, f64)>) {
        let mut united: Option<(ColumnEstimate, f64)> = None;
        for (source, rows) in sources {
            let mut from = self.estimator.column(source).clone();
            from.distinct = self.estimator.distinct(source, rows);
            from.base_rows = rows.max(1.0);
            united = Some(match united {
                None => (from, rows),
                Some((mut known, before)) => {
                    known.unite(from, before, rows);
                    (known, before + rows)
                }
            });
        }
        if let Some((united, _)) = united {
            self.estimator.set(target, united);
        }
    }
}
