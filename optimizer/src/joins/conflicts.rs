//! Conflict detection: which reorderings of joins keep the result.
//!
//! Each operator gets the set of relations it needs on either side and rules "if one of these takes part, all of those
//! must". The rules follow from three algebraic properties of pairs of operators, associativity and the two ways of
//! commuting past each other, in the manner of the CD-C algorithm (Moerkotte, Fender, Eich 2013). Where a property
//! depends on predicates that reject NULLs, only equality keys count as rejecting; everything uncertain is forbidden.

use datafusion_common::JoinType;

use crate::joins::graph::{Edge, JoinGraph, Tree};
use crate::joins::relset::RelSet;

/// An operator of the written tree: its edge and the relations below on either side.
#[derive(Clone, Copy)]
struct Placed {
    edge: usize,
    left: RelSet,
    right: RelSet,
}

/// Fills `left`, `right` and `rules` of all edges.
pub(super) fn find_conflicts(tree: &Tree, graph: &mut JoinGraph) {
    place(tree, graph);
}

/// Handles the operators below, then those of this node; returns them all.
fn place(tree: &Tree, graph: &mut JoinGraph) -> Vec<Placed> {
    let Tree::Node { edges, left, right, .. } = tree else { return Vec::new() };
    let below_left = place(left, graph);
    let below_right = place(right, graph);
    let mut placed = Vec::new();
    for &edge in edges {
        let here = Placed { edge, left: left.set(), right: right.set() };
        detect(here, &below_left, &below_right, graph);
        placed.push(here);
    }
    placed.extend(below_left);
    placed.extend(below_right);
    placed
}

fn detect(here: Placed, below_left: &[Placed], below_right: &[Placed], graph: &mut JoinGraph) {
    let edge = &graph.edges[here.edge];
    let mut needed = graph.relations_of(&edge.columns());
    if !needed.intersects(here.left) {
        needed = needed.union(here.left);
    }
    if !needed.intersects(here.right) {
        needed = needed.union(here.right);
    }
    let mut rules = Vec::new();
    for &below in below_left {
        let other = &graph.edges[below.edge];
        if !associative(other, edge, graph, below.right) {
            rules.push((below.right, part(below.left, graph, other)));
        }
        if !left_commuting(other, edge) {
            rules.push((below.left, part(below.right, graph, other)));
        }
    }
    for &below in below_right {
        let other = &graph.edges[below.edge];
        if !associative(edge, other, graph, here.right) {
            rules.push((below.left, part(below.right, graph, other)));
        }
        if !right_commuting(edge, other) {
            rules.push((below.right, part(below.left, graph, other)));
        }
    }
    let (needed, rules) = absorb(needed, rules);
    let edge = &mut graph.edges[here.edge];
    edge.left = needed.intersect(here.left);
    edge.right = needed.intersect(here.right);
    edge.rules = rules;
}

/// The part of a side that the operator's predicate reads, or the whole side if it reads none of it.
fn part(side: RelSet, graph: &JoinGraph, edge: &Edge) -> RelSet {
    let read = side.intersect(graph.relations_of(&edge.columns()));
    if read.is_empty() { side } else { read }
}

/// Rules whose condition is sure to hold become needs; rules whose demand is met vanish.
fn absorb(mut needed: RelSet, rules: Vec<(RelSet, RelSet)>) -> (RelSet, Vec<(RelSet, RelSet)>) {
    loop {
        let before = needed;
        for (from, to) in &rules {
            if from.intersects(needed) {
                needed = needed.union(*to);
            }
        }
        if needed == before {
            break;
        }
    }
    let open = rules.into_iter().filter(|(_, to)| !to.is_subset(needed)).collect();
    (needed, open)
}

/// `(e1 a e2) b e3 = e1 a (e2 b e3)`; `middle` are the relations of `e2`.
fn associative(a: &Edge, b: &Edge, graph: &JoinGraph, middle: RelSet) -> bool {
    match (a.op, b.op) {
        (JoinType::Inner, JoinType::Full) => false,
        (JoinType::Inner, _) => true,
        (JoinType::Left, JoinType::Left) => rejects_nulls_of(b, graph, middle),
        _ => false,
    }
}

/// `(e1 a e2) b e3 = (e1 b e3) a e2`.
fn left_commuting(a: &Edge, b: &Edge) -> bool {
    a.op != JoinType::Full && b.op != JoinType::Full
}

/// `e1 a (e2 b e3) = e2 b (e1 a e3)`.
fn right_commuting(a: &Edge, b: &Edge) -> bool {
    a.op == JoinType::Inner && b.op == JoinType::Inner
}

/// Whether the operator's condition is never true when the columns it reads of `relations` are NULL.
fn rejects_nulls_of(edge: &Edge, graph: &JoinGraph, relations: RelSet) -> bool {
    let reads = |&(left, right): &(_, _)| {
        [left, right]
            .into_iter()
            .any(|column| graph.relations_of(&[column].into()).intersects(relations))
    };
    !edge.null_equal && edge.on.iter().any(reads)
}
