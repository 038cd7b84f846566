//! A loser tree: which of k ordered sources comes next, with log k comparisons for each row.
//!
//! The tree knows sources by number alone; what their heads are and how they compare is the caller's. It holds
//! no rows.

/// The tournament's inner nodes hold the loser of their match; the winner stands above all.
#[derive(Debug)]
pub(crate) struct LoserTree {
    /// Node 0 is the overall winner, nodes 1.. the losers.
    nodes: Vec<usize>,
}

/// A node nobody has reached while the tree is built.
const EMPTY: usize = usize::MAX;

impl LoserTree {
    /// Plays the first tournament of `sources` (at least one) sources. `before(a, b)` says whether the head of
    /// `a` comes before that of `b`; an exhausted source comes last.
    pub fn new(sources: usize, mut before: impl FnMut(usize, usize) -> bool) -> Self {
        let mut nodes = vec![EMPTY; sources.max(1)];
        for source in 0..sources {
            let mut contender = source;
            let mut node = (source + sources) / 2;
            while node > 0 {
                if nodes[node] == EMPTY {
                    nodes[node] = std::mem::replace(&mut contender, EMPTY);
                    break;
                }
                if before(nodes[node], contender) {
                    std::mem::swap(&mut nodes[node], &mut contender);
                }
                node /= 2;
            }
            if contender != EMPTY {
                nodes[0] = contender;
            }
        }
        LoserTree { nodes }
    }

    /// The source whose head comes first.
    #[inline]
    pub fn winner(&self) -> usize {
        self.nodes[0]
    }

    /// Plays again after the winner's head has changed.
    #[inline]
    pub fn replay(&mut self, mut before: impl FnMut(usize, usize) -> bool) {
        let mut contender = self.nodes[0];
        let mut node = (contender + self.nodes.len()) / 2;
        while node > 0 {
            if before(self.nodes[node], contender) {
                std::mem::swap(&mut self.nodes[node], &mut contender);
            }
            node /= 2;
        }
        self.nodes[0] = contender;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_any_number_of_sources() {
        for k in 1..9 {
            let sources: Vec<Vec<u32>> =
                (0..k).map(|s| (0..s as u32 * 3).map(|i| i * 7 % 50).collect()).collect();
            let mut sources: Vec<Vec<u32>> = sources
                .into_iter()
                .map(|mut s| {
                    s.sort_by(|a, b| b.cmp(a));
                    s
                })
                .collect();
            let mut expected: Vec<u32> = sources.iter().flatten().copied().collect();
            expected.sort_unstable();
            let head =
                |sources: &[Vec<u32>], s: usize| sources[s].last().copied().unwrap_or(u32::MAX);
            let mut tree = LoserTree::new(k, |a, b| head(&sources, a) < head(&sources, b));
            let mut merged = Vec::new();
            while let Some(value) = sources[tree.winner()].pop() {
                merged.push(value);
                tree.replay(|a, b| head(&sources, a) < head(&sources, b));
            }
            assert_eq!(merged, expected, "{k} sources");
        }
    }
}
