//! How many NULLs the outer joins of a block add to the columns of the side that may lack a partner.
//!
//! Invariant: shares are taken at the operands that the join's condition needs, whatever order was chosen.

use datafusion_common::JoinType;

use crate::joins::combine::BlockSearch;
use crate::joins::graph::Edge;
use crate::joins::relset::RelSet;
use crate::physical::ColumnId;

impl BlockSearch<'_, '_> {
    /// Columns that outer joins extend by NULLs, with the share of rows that lack a partner.
    pub fn null_extended(&self) -> Vec<(ColumnId, f64)> {
        let mut extended = Vec::new();
        for edge in &self.graph.edges {
            match edge.op {
                JoinType::Left => self.extend(edge, edge.left, edge.right, &mut extended),
                JoinType::Full => {
                    self.extend(edge, edge.left, edge.right, &mut extended);
                    self.extend(edge, edge.right, edge.left, &mut extended);
                }
                JoinType::Inner
                | JoinType::Right
                | JoinType::LeftSemi
                | JoinType::RightSemi
                | JoinType::LeftAnti
                | JoinType::RightAnti
                | JoinType::LeftMark
                | JoinType::RightMark => {}
            }
        }
        extended
    }

    fn extend(&self, edge: &Edge, kept: RelSet, gone: RelSet, into: &mut Vec<(ColumnId, f64)>) {
        if !self.memo.has(kept) || !self.memo.has(gone) {
            return;
        }
        let (own, other) = (self.memo.group(kept).logical.rows, self.memo.group(gone).logical.rows);
        let keys: Vec<(ColumnId, ColumnId)> = match kept == edge.left {
            true => edge.on.clone(),
            false => edge.on.iter().map(|&(left, right)| (right, left)).collect(),
        };
        let keys = self.key_parts(&keys);
        let anti = JoinType::LeftAnti;
        let unmatched = self.search.estimator.join(anti, &keys, &edge.filter, own, other).rows;
        let share = (unmatched / own.max(1.0)).clamp(0.0, 1.0);
        for index in gone.iter() {
            into.extend(self.graph.relations[index].output.iter().map(|&column| (column, share)));
        }
    }
}
