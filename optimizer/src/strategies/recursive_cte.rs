//! Recursive query: the fixpoint of the recursive term over the static term.
//!
//! The recursive term is planned for one subtask: a superstep is small as a rule, and a feedback edge that never leaves
//! its subtask cannot deadlock. Requests singletons, provides a singleton.

use crate::cardinality::Logical;
use crate::cost::Cost;
use crate::cost::constants::GROUP_LOOKUP_NS;
use crate::error::Result;
use crate::physical::{Parallelism, PhysicalOp, Provenance};
use crate::properties::{InterestingProperties, ProvidedProperties};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};

impl Search<'_> {
    pub fn plan_recursive(&mut self, rel: &Rel) -> Result<Planned> {
        let RelOp::RecursiveCte {
            name,
            work_table,
            distinct,
            targets,
            static_columns,
            recursive_columns,
        } = &rel.op
        else {
            unreachable!("the dispatch passes recursive queries only")
        };
        let nothing = InterestingProperties::default();
        let start = self.plan(&rel.inputs[0], &nothing)?;
        self.work_tables.insert(*work_table, start.logical.rows);
        let parallelism = std::mem::replace(&mut self.profile.parallelism, 1.0);
        let step = self.plan(&rel.inputs[1], &nothing);
        self.profile.parallelism = parallelism;
        let step = step?;
        let rows = self.estimator.recursion(start.logical.rows);
        for &id in targets {
            let info = self.columns.get(id).clone();
            self.estimator.set_computed(&info, rows);
        }
        let logical = Logical::new(rows, Provenance::Default);
        let lookup = if *distinct { GROUP_LOOKUP_NS } else { 0.0 };
        let draft = Draft {
            op: PhysicalOp::RecursiveCte {
                name: name.clone(),
                work_table: *work_table,
                distinct: *distinct,
                static_columns: static_columns.clone(),
                recursive_columns: recursive_columns.clone(),
            },
            inputs: vec![self.gather(start.cheapest()), self.gather(step.cheapest())],
            output: rel.output.clone(),
            provided: ProvidedProperties::singleton(),
            work: Cost::cpu(rows * lookup),
            parallelism: Parallelism::Singleton,
        };
        let candidate = self.node(draft, &logical);
        Ok(Planned { logical, candidates: vec![candidate] })
    }
}
