//! DPhyp: enumerates every pair of connected, disjoint sets of relations with an edge between them, each once, small
//! sets before the sets that contain them (Moerkotte and Neumann 2008).

use crate::joins::graph::{Edge, JoinGraph};
use crate::joins::relset::RelSet;
use crate::joins::{PairConsumer, PairCounter};

/// The number of pairs, or `None` if there are more than the budget.
pub(crate) fn count_pairs(graph: &JoinGraph, budget: usize) -> Option<usize> {
    let mut counter = PairCounter { budget, ..PairCounter::default() };
    enumerate(graph, graph.relations.len(), &mut counter);
    (counter.pairs <= budget).then_some(counter.pairs)
}

/// Announces all pairs to the consumer.
pub(crate) fn enumerate(graph: &JoinGraph, relations: usize, consumer: &mut dyn PairConsumer) {
    let mut search = Dphyp { edges: &graph.edges, consumer, stopped: false };
    for start in (0..relations).rev() {
        let set = RelSet::single(start);
        search.emit_connected(set);
        search.extend_connected(set, RelSet::first(start + 1));
        if search.stopped {
            return;
        }
    }
}

struct Dphyp<'a> {
    edges: &'a [Edge],
    consumer: &'a mut dyn PairConsumer,
    stopped: bool,
}

impl Dphyp<'_> {
    /// Relations through which the set can grow, one representative per edge.
    fn neighbourhood(&self, set: RelSet, excluded: RelSet) -> RelSet {
        let blocked = set.union(excluded);
        let reach = |from: RelSet, to: RelSet| {
            if from.is_subset(set) && !to.intersects(blocked) { to.lowest() } else { RelSet::EMPTY }
        };
        let both = |edge: &Edge| reach(edge.left, edge.right).union(reach(edge.right, edge.left));
        self.edges.iter().map(both).fold(RelSet::EMPTY, RelSet::union)
    }

    fn joined(&self, left: RelSet, right: RelSet) -> bool {
        let spans = |edge: &Edge| {
            (edge.left.is_subset(left) && edge.right.is_subset(right))
                || (edge.left.is_subset(right) && edge.right.is_subset(left))
        };
        self.edges.iter().any(spans)
    }

    fn extend_connected(&mut self, set: RelSet, excluded: RelSet) {
        let neighbours = self.neighbourhood(set, excluded);
        for part in neighbours.subsets() {
            let grown = set.union(part);
            if self.consumer.has(grown) {
                self.emit_connected(grown);
            }
            if self.stopped {
                return;
            }
        }
        for part in neighbours.subsets() {
            self.extend_connected(set.union(part), excluded.union(neighbours));
            if self.stopped {
                return;
            }
        }
    }

    /// Finds the partners of a connected set.
    fn emit_connected(&mut self, set: RelSet) {
        let smallest = set.lowest().iter().next().expect("the set is not empty");
        let excluded = set.union(RelSet::first(smallest + 1));
        let neighbours = self.neighbourhood(set, excluded);
        for index in neighbours.iter().rev() {
            let partner = RelSet::single(index);
            if self.joined(set, partner) {
                self.announce(set, partner);
            }
            let smaller = neighbours.intersect(RelSet::first(index + 1));
            self.extend_partner(set, partner, excluded.union(smaller));
            if self.stopped {
                return;
            }
        }
    }

    fn extend_partner(&mut self, set: RelSet, partner: RelSet, excluded: RelSet) {
        let neighbours = self.neighbourhood(partner, excluded);
        for part in neighbours.subsets() {
            let grown = partner.union(part);
            if self.consumer.has(grown) && self.joined(set, grown) {
                self.announce(set, grown);
            }
            if self.stopped {
                return;
            }
        }
        for part in neighbours.subsets() {
            self.extend_partner(set, partner.union(part), excluded.union(neighbours));
            if self.stopped {
                return;
            }
        }
    }

    fn announce(&mut self, left: RelSet, right: RelSet) {
        if !self.consumer.pair(left, right) {
            self.stopped = true;
        }
    }
}
