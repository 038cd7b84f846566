//! Limit: cuts locally, gathers, and cuts again. Provides a singleton; keeps the order.

use crate::cardinality::Logical;
use crate::cost::Cost;
use crate::error::Result;
use crate::physical::{Parallelism, PhysicalOp};
use crate::properties::InterestingProperties;
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Candidate, Draft, Input, Planned};

impl Search<'_> {
    pub fn plan_limit(
        &mut self,
        rel: &Rel,
        interesting: &InterestingProperties,
    ) -> Result<Planned> {
        let RelOp::Limit { skip, fetch } = rel.op else {
            unreachable!("the dispatch passes limits only")
        };
        let input = self.plan(&rel.inputs[0], interesting)?;
        let left = (input.logical.rows - skip as f64).max(0.0);
        let rows =
            fetch.map_or(left, |fetch| left.min(fetch as f64)).max(1.0).min(input.logical.rows);
        let logical = input.logical.with_rows(rows, input.logical.provenance);
        let mut candidates = Vec::new();
        for candidate in &input.candidates {
            if skip == 0 && already_limited(candidate, fetch) {
                candidates.push(candidate.clone());
                continue;
            }
            let local = self.local_limit(candidate, skip, fetch, &input.logical);
            candidates.push(self.limit(self.gather(&local), skip, fetch, &logical));
        }
        Ok(self.prune(candidates, interesting, &logical))
    }

    fn local_limit(
        &self,
        candidate: &Candidate,
        skip: usize,
        fetch: Option<usize>,
        logical: &Logical,
    ) -> Candidate {
        match (candidate.node.parallelism, fetch) {
            (Parallelism::Full, Some(fetch)) => {
                let keep = fetch.saturating_add(skip);
                let rows = (keep as f64 * self.profile.parallelism).min(logical.rows);
                let local = logical.with_rows(rows.max(1.0), logical.provenance);
                self.limit(self.forward(candidate), 0, Some(keep), &local)
            }
            (Parallelism::Full, None) | (Parallelism::Singleton, _) => candidate.clone(),
        }
    }

    /// A limit over one channel.
    pub fn limit(
        &self,
        input: Input,
        skip: usize,
        fetch: Option<usize>,
        logical: &Logical,
    ) -> Candidate {
        let draft = Draft {
            op: PhysicalOp::Limit { skip, fetch },
            output: input.channel.node.output.clone(),
            provided: input.provided.clone(),
            work: Cost::default(),
            parallelism: input.parallelism,
            inputs: vec![input],
        };
        self.node(draft, logical)
    }
}

/// Whether a singleton already emits no more rows than that.
fn already_limited(candidate: &Candidate, fetch: Option<usize>) -> bool {
    let known = if let PhysicalOp::TopN { fetch, .. } = &candidate.node.op {
        Some(*fetch)
    } else if let PhysicalOp::Limit { fetch, .. } | PhysicalOp::Sort { fetch, .. } =
        &candidate.node.op
    {
        *fetch
    } else {
        None
    };
    candidate.node.parallelism == Parallelism::Singleton
        && known.zip(fetch).is_some_and(|(known, fetch)| known <= fetch)
}
