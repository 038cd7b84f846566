//! Join blocks: a maximal tree of joins is planned as one hypergraph.
//!
//! The path: `graph` collects relations and edges, `conflicts` finds how far each operator may move, `dphyp`
//! enumerates pairs of connected subplans, `combine` turns a pair into candidates by the join strategies, `memo` keeps
//! those that nothing dominates, `hints` restricts them to what the user asked for, `materialize` makes nodes of the winners. `probe_filters` tells what runtime filters
//! save, `null_extension` how many NULLs outer joins add. Beyond the budget of pairs `linearized`
//! searches along one order. Invariant: a pair is joined only if every predicate that first becomes complete there can
//! be applied there; so no order loses a predicate.

pub(crate) mod combine;
mod conflicts;
mod dphyp;
mod graph;
pub(crate) mod hints;
mod linearized;
mod materialize;
pub(crate) mod memo;
mod null_extension;
mod probe_filters;
mod relset;

use std::collections::HashMap;

use crate::error::{OptimizerError, Result};
use crate::joins::combine::BlockSearch;
use crate::joins::graph::{JoinGraph, Tree};
use crate::joins::relset::RelSet;
use crate::properties::InterestingProperties;
use crate::relational::Rel;
use crate::search::Search;
use crate::search::candidate::Planned;

impl Search<'_> {
    /// Plans a tree of joins.
    pub fn plan_joins(
        &mut self,
        rel: &Rel,
        interesting: &InterestingProperties,
    ) -> Result<Planned> {
        let graph = JoinGraph::build(rel);
        let mut leaves = Vec::with_capacity(graph.relations.len());
        for (index, relation) in graph.relations.iter().enumerate() {
            let wanted = graph.wanted(RelSet::single(index), interesting);
            leaves.push(self.plan(relation, &wanted)?);
        }
        let mut block = BlockSearch::new(self, &graph, rel, interesting, leaves);
        let all = RelSet::first(graph.relations.len());
        enumerate(&mut block, &graph);
        if !block.has(all) {
            as_written(&mut block, &graph.tree)?;
        }
        let candidates = block.materialize(all);
        let logical = block.memo.group(all).logical.clone();
        let extended = block.null_extended();
        for (column, share) in extended {
            self.estimator.extend_nulls(column, share);
        }
        Ok(self.prune(candidates, interesting, &logical))
    }
}

fn enumerate(block: &mut BlockSearch<'_, '_>, graph: &JoinGraph) {
    let options = block.search.options;
    if !options.strategies.join_reordering {
        return;
    }
    let relations = graph.relations.len();
    if dphyp::count_pairs(&graph.edges, relations, options.pair_budget).is_some() {
        dphyp::enumerate(&graph.edges, relations, block);
    } else {
        linearized::enumerate(graph, block);
    }
}

/// Joins in the written order: always possible, because the graph was made from it.
fn as_written(block: &mut BlockSearch<'_, '_>, tree: &Tree) -> Result<()> {
    let Tree::Node { left, right, .. } = tree else { return Ok(()) };
    as_written(block, left)?;
    as_written(block, right)?;
    let (left, right) = (left.set(), right.set());
    if !block.has(left.union(right)) {
        block.pair(left, right);
    }
    if block.has(left.union(right)) {
        Ok(())
    } else {
        Err(OptimizerError::InvalidPlan("a join cannot be planned in its written order".to_owned()))
    }
}

/// What an enumerator drives: it announces pairs and asks which sets have plans.
pub(crate) trait PairConsumer {
    /// Whether the set has a plan.
    fn has(&self, set: RelSet) -> bool;
    /// Two disjoint sets with plans and an edge between them; false ends the enumeration.
    fn pair(&mut self, left: RelSet, right: RelSet) -> bool;
}

/// Which pairs exist, without planning them.
#[derive(Default)]
pub(crate) struct PairCounter {
    known: HashMap<RelSet, ()>,
    pub pairs: usize,
    pub budget: usize,
}

impl PairConsumer for PairCounter {
    fn has(&self, set: RelSet) -> bool {
        set.len() == 1 || self.known.contains_key(&set)
    }

    fn pair(&mut self, left: RelSet, right: RelSet) -> bool {
        self.known.insert(left.union(right), ());
        self.pairs += 1;
        self.pairs <= self.budget
    }
}
