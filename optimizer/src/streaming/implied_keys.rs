//! Keys of groupings that close which follow from other keys, such as the end of a window from its start.
//!
//! They are computed of the results instead of each row, and rows are looked up by fewer keys. Invariant: what is left
//! tells the groups apart as all keys did, and closes them.

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::Expr;

use super::flow::{Closing, Emission, Flow};
use super::take;
use crate::physical::ColumnId;
use crate::relational::{AggregateSpec, Rel, RelOp};

/// Takes the keys that follow from others out of a grouping that closes and computes them behind it. `flow` is that of
/// its rows, and `closing` tells which key closes a grouping.
pub(super) fn compute_behind(
    rel: &mut Rel,
    flow: Flow,
    closing: impl Fn(&AggregateSpec) -> Option<Closing>,
) {
    let RelOp::Aggregate(spec) = &rel.op else { return };
    let Emission::Closed(closes) = &spec.emission else { return };
    if closes.slices.is_some() {
        return;
    }
    let implied = implied_by_others(spec, &rel.inputs[0]);
    if implied.is_empty() {
        return;
    }
    let is_implied = |id: ColumnId| implied.iter().any(|(key, _)| *key == id);
    let mut spec = spec.clone();
    spec.group_by.retain(|(output, _)| !is_implied(*output));
    let Some(closes) = closing(&spec) else { return };
    let read = |id: ColumnId| {
        let args = spec.aggregates.iter().flat_map(|call| call.args.iter().chain(&call.filter));
        let orders = spec.aggregates.iter().flat_map(|call| &call.order_by).map(|sort| &sort.expr);
        args.chain(orders).any(|expr| ColumnId::referenced(expr).contains(&id))
    };
    let mut unread: Vec<ColumnId> =
        implied.iter().map(|(id, _)| *id).filter(|id| !read(*id)).collect();
    while let Some(at) = unread.iter().position(|id| is_read_below(*id, &rel.inputs[0], &unread)) {
        unread.swap_remove(at);
    }
    spec.emission = Emission::Closed(closes);
    let mut input = take(&mut rel.inputs[0]);
    forget(&mut input, &unread);
    let mut grouped = Rel::new(RelOp::Aggregate(spec), vec![input]);
    grouped.flow = flow;
    let output = std::mem::take(&mut rel.output);
    let computed: Vec<(ColumnId, Expr)> =
        implied.into_iter().filter(|(id, _)| output.contains(id)).collect();
    let needed = |id: &ColumnId| {
        output.contains(id)
            || computed.iter().any(|(_, expr)| ColumnId::referenced(expr).contains(id))
    };
    grouped.output.retain(needed);
    *rel = match computed.is_empty() {
        true => grouped,
        false => Rel::new(RelOp::Compute { exprs: computed }, vec![grouped]),
    };
    rel.output = output;
    rel.flow = flow;
}

/// Whether a column that is computed just below is read there for a column that is still wanted.
fn is_read_below(column: ColumnId, rel: &Rel, unread: &[ColumnId]) -> bool {
    let RelOp::Compute { exprs } = &rel.op else { return false };
    let reads = |(id, expr): &(ColumnId, Expr)| {
        !unread.contains(id) && ColumnId::referenced(expr).contains(&column)
    };
    exprs.iter().any(reads) || is_read_below(column, &rel.inputs[0], unread)
}

/// The keys that are computed of other keys, in terms of those that are not.
fn implied_by_others(spec: &AggregateSpec, input: &Rel) -> Vec<(ColumnId, Expr)> {
    let mut implied: Vec<(ColumnId, Expr)> = Vec::new();
    let mut relied_on: Vec<ColumnId> = Vec::new();
    for (output, key) in &spec.group_by {
        let Some(expr) = definition(*key, input).filter(|_| output == key) else { continue };
        let expr = &in_terms_of(expr, &implied);
        let read = ColumnId::referenced(expr);
        let is_kept = |id: &ColumnId| {
            let is_key = spec.group_by.iter().any(|(output, key)| output == key && key == id);
            is_key && !implied.iter().any(|(implied, _)| implied == id)
        };
        let follows = !read.is_empty() && read.iter().all(is_kept) && !expr.is_volatile();
        if follows && !relied_on.contains(key) {
            relied_on.extend(read.iter().copied());
            implied.push((*key, expr.clone()));
        }
    }
    implied
}

/// An expression with what columns are computed by in their place.
fn in_terms_of(expr: &Expr, computed: &[(ColumnId, Expr)]) -> Expr {
    let replaced = expr.clone().transform(|node| {
        let id = ColumnId::from_expr(&node);
        Ok(match computed.iter().find(|(column, _)| Some(*column) == id) {
            Some((_, expr)) => Transformed::yes(expr.clone()),
            None => Transformed::no(node),
        })
    });
    replaced.map_or_else(|_| expr.clone(), |replaced| replaced.data)
}

/// What a column is computed by, just below a grouping.
fn definition(column: ColumnId, rel: &Rel) -> Option<&Expr> {
    match &rel.op {
        RelOp::Compute { exprs } => match exprs.iter().find(|(id, _)| *id == column) {
            Some((_, expr)) => Some(expr),
            None => definition(column, &rel.inputs[0]),
        },
        _ => None,
    }
}

/// Computes columns no more that nobody reads. They are computed just below and read by no other such column.
fn forget(rel: &mut Rel, columns: &[ColumnId]) {
    let RelOp::Compute { exprs } = &mut rel.op else { return };
    rel.output.retain(|id| !columns.contains(id));
    exprs.retain(|(id, _)| !columns.contains(id));
    let output = std::mem::take(&mut rel.output);
    forget(&mut rel.inputs[0], columns);
    if exprs.is_empty() {
        *rel = take(&mut rel.inputs[0]);
    }
    rel.output = output;
}
