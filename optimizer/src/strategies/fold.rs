//! The rows that are left of a changelog when it ends. Requests: all changes in one subtask, so that a row and its
//! withdrawal meet. Blocks on its input.

use crate::cost::Cost;
use crate::cost::constants::GROUP_LOOKUP_NS;
use crate::error::Result;
use crate::physical::{Parallelism, PhysicalOp};
use crate::properties::{InterestingProperties, ProvidedProperties};
use crate::relational::Rel;
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};

impl Search<'_> {
    pub fn plan_fold(&mut self, rel: &Rel) -> Result<Planned> {
        let nothing = InterestingProperties::default();
        let input = self.plan(&rel.inputs[0], &nothing)?;
        let logical = input.logical;
        let candidates = input.candidates.iter().map(|candidate| {
            let channel = self.gather(candidate);
            let draft = Draft {
                op: PhysicalOp::Fold,
                output: channel.channel.node.output.clone(),
                inputs: vec![channel],
                provided: ProvidedProperties::singleton(),
                work: Cost::cpu(logical.rows * GROUP_LOOKUP_NS),
                parallelism: Parallelism::Singleton,
            };
            self.node(draft, &logical)
        });
        Ok(self.prune(candidates.collect(), &nothing, &logical))
    }
}
