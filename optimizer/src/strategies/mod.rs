//! Strategies: one file per way to execute an operator.
//!
//! Invariant: a strategy answers what it requests of its inputs, what it provides and what it costs; it never looks at
//! how an input was made. Adding one touches its file, its dispatch (for joins
//! `join_choices`, else `search`) and `PhysicalOp`.

pub(crate) mod aggregate;
mod changelog_window;
mod distinct_aggregate;
mod filter;
mod fold;
pub(crate) mod hash_aggregate;
pub(crate) mod hash_join;
mod limit;
pub(crate) mod nested_loop_join;
mod project;
mod recursive_cte;
mod row_windows;
pub(crate) mod scan;
mod single_row;
mod sort;
mod sort_aggregate;
pub(crate) mod sort_merge_join;
mod stream_join;
mod union;
mod unnest;
mod values;
mod window;

use std::collections::BTreeSet;

use datafusion_expr::Expr;

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};

use crate::cost::constants::{EXPRESSION_NODE_NS, STRING_OPERATION_NS};
use crate::physical::ColumnId;

/// What evaluating an expression costs per row, nanoseconds.
pub(crate) fn expression_ns(expr: &Expr) -> f64 {
    let mut total = 0.0;
    let visited = expr.apply(|node| {
        total += match node {
            Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_) => 0.0,
            Expr::Like(_) | Expr::SimilarTo(_) | Expr::ScalarFunction(_) => STRING_OPERATION_NS,
            Expr::InList(list) => EXPRESSION_NODE_NS * (1.0 + list.list.len() as f64).min(8.0),
            _ => EXPRESSION_NODE_NS,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    visited.expect("the visitor never fails");
    total
}

/// What evaluating conjuncts costs per row when each is evaluated on all rows, nanoseconds.
pub(crate) fn conjuncts_ns(conjuncts: &[Expr]) -> f64 {
    conjuncts.iter().map(expression_ns).sum()
}

/// Conjuncts as one expression.
pub(crate) fn conjunction(conjuncts: &[Expr]) -> Option<Expr> {
    datafusion_expr::utils::conjunction(conjuncts.iter().cloned())
}

/// A set of columns.
pub(crate) fn column_set(columns: impl IntoIterator<Item = ColumnId>) -> BTreeSet<ColumnId> {
    columns.into_iter().collect()
}
