//! Search for blocks with too many pairs: a greedy order first, then dynamic programming along that order.
//!
//! The greedy step joins the pair with the smallest result until one set is left; the leaves of its tree, read from
//! left to right, are the line. All intervals of the line are then planned from all their splits, so that bushy trees
//! are found as long as they keep the line.

use crate::joins::PairConsumer;
use crate::joins::combine::BlockSearch;
use crate::joins::graph::JoinGraph;
use crate::joins::relset::RelSet;

/// Beyond this many relations the greedy tree is kept as it is.
const MAX_LINE: usize = 40;

pub(super) fn enumerate(graph: &JoinGraph, block: &mut BlockSearch<'_, '_>) {
    let relations = graph.relations.len();
    let Some(line) = greedy(relations, block) else { return };
    if relations <= MAX_LINE {
        intervals(&line, block);
    }
}

/// Joins greedily; the order of the leaves, or `None` if the relations could not all be joined.
fn greedy(relations: usize, block: &mut BlockSearch<'_, '_>) -> Option<Vec<usize>> {
    let mut parts: Vec<(RelSet, Vec<usize>)> =
        (0..relations).map(|i| (RelSet::single(i), vec![i])).collect();
    while parts.len() > 1 {
        let mut best: Option<(f64, usize, usize)> = None;
        for i in 0..parts.len() {
            for j in i + 1..parts.len() {
                let (left, right) = (parts[i].0, parts[j].0);
                let set = left.union(right);
                if !block.has(set) && block.applicable(left, right).is_some() {
                    block.pair(left, right);
                }
                if block.has(set) {
                    let rows = block.memo.group(set).logical.rows;
                    if best.is_none_or(|(least, ..)| rows < least) {
                        best = Some((rows, i, j));
                    }
                }
            }
        }
        let (_, i, j) = best?;
        let (set, order) = parts.remove(j);
        parts[i].0 = parts[i].0.union(set);
        parts[i].1.extend(order);
    }
    parts.pop().map(|(_, order)| order)
}

fn intervals(line: &[usize], block: &mut BlockSearch<'_, '_>) {
    let set_of = |from: usize, to: usize| {
        line[from..to].iter().map(|&i| RelSet::single(i)).fold(RelSet::EMPTY, RelSet::union)
    };
    for length in 2..=line.len() {
        for from in 0..=line.len() - length {
            for middle in from + 1..from + length {
                let (left, right) = (set_of(from, middle), set_of(middle, from + length));
                if block.has(left) && block.has(right) {
                    block.pair(left, right);
                }
            }
        }
    }
}
