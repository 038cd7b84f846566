//! DPhyp: enumerates every pair of connected, disjoint sets of relations with an edge between them, each once, small
//! sets before the sets that contain them (Moerkotte and Neumann 2008).

use crate::joins::graph::Edge;
use crate::joins::relset::RelSet;
use crate::joins::{PairConsumer, PairCounter};

/// The number of pairs, or `None` if there are more than the budget.
pub(crate) fn count_pairs(edges: &[Edge], relations: usize, budget: usize) -> Option<usize> {
    let mut counter = PairCounter { budget, ..PairCounter::default() };
    enumerate(edges, relations, &mut counter);
    (counter.pairs <= budget).then_some(counter.pairs)
}

/// Announces all pairs to the consumer.
pub(crate) fn enumerate(edges: &[Edge], relations: usize, consumer: &mut dyn PairConsumer) {
    let mut search = Dphyp { edges, consumer, stopped: false };
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::relational::JoinSpec;

    /// Records every pair.
    #[derive(Default)]
    struct Recorder {
        known: BTreeSet<RelSet>,
        pairs: Vec<(RelSet, RelSet)>,
    }

    impl PairConsumer for Recorder {
        fn has(&self, set: RelSet) -> bool {
            set.len() == 1 || self.known.contains(&set)
        }

        fn pair(&mut self, left: RelSet, right: RelSet) -> bool {
            assert!(self.has(left) && self.has(right), "operands come before their pair");
            self.known.insert(left.union(right));
            self.pairs.push((left.min(right), left.max(right)));
            true
        }
    }

    fn edge(left: u64, right: u64) -> Edge {
        let mut edge = Edge::of(&JoinSpec::cross());
        (edge.left, edge.right) = (RelSet(left), RelSet(right));
        edge
    }

    /// All pairs by definition: both sets are connected and an edge spans them.
    fn by_definition(edges: &[Edge], relations: usize) -> BTreeSet<(RelSet, RelSet)> {
        let mut connected: BTreeSet<RelSet> = (0..relations).map(RelSet::single).collect();
        let mut pairs = BTreeSet::new();
        let spans = |l: RelSet, r: RelSet| {
            edges.iter().any(|e| {
                (e.left.is_subset(l) && e.right.is_subset(r))
                    || (e.left.is_subset(r) && e.right.is_subset(l))
            })
        };
        let mut sets: Vec<RelSet> = RelSet::first(relations).subsets().collect();
        sets.sort_by_key(|set| set.len());
        for set in sets {
            for left in set.subsets().filter(|left| *left != set) {
                let right = RelSet(set.0 & !left.0);
                if connected.contains(&left) && connected.contains(&right) && spans(left, right) {
                    pairs.insert((left.min(right), left.max(right)));
                }
            }
            if pairs.iter().any(|(l, r)| l.union(*r) == set) {
                connected.insert(set);
            }
        }
        pairs
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % bound
        }
    }

    #[test]
    fn every_pair_is_found_once() {
        for seed in 0..300 {
            let mut random = Random(seed);
            let relations = 2 + random.below(5);
            let mut edges = Vec::new();
            for _ in 0..relations + random.below(4) {
                let (a, b) = (random.below(relations), random.below(relations));
                if a != b {
                    edges.push(edge(1 << a, 1 << b));
                }
            }
            if random.below(2) == 0 {
                let (left, right) = (random.below(1 << relations), random.below(1 << relations));
                if left & right == 0 && left != 0 && right != 0 {
                    edges.push(edge(left, right));
                }
            }
            let mut recorder = Recorder::default();
            enumerate(&edges, relations as usize, &mut recorder);
            let found: BTreeSet<_> = recorder.pairs.iter().copied().collect();
            assert_eq!(found.len(), recorder.pairs.len(), "seed {seed}: a pair was found twice");
            assert_eq!(found, by_definition(&edges, relations as usize), "seed {seed}");
        }
    }

    #[test]
    fn a_budget_stops_the_count() {
        let clique: Vec<Edge> =
            (0..8).flat_map(|a| (a + 1..8).map(move |b| edge(1 << a, 1 << b))).collect();
        assert_eq!(count_pairs(&clique, 8, 100), None);
        assert!(count_pairs(&clique, 8, 100_000).is_some());
    }
}
