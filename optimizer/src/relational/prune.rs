//! Column pruning: every operator outputs only what operators above read.
//!
//! Invariant: after pruning, `output` is what is needed above, in the order the operator produces it. Operators that
//! only pass rows on (sort, limit, single-row assertion) output what their input does. A recursive query keeps all
//! columns of its work table. Where all columns are wanted, operators get all that their inputs can give.

use std::collections::BTreeSet;

use datafusion_expr::Expr;

use crate::physical::{AggregateCall, ColumnId, UnnestSource, WindowCall};
use crate::relational::{Rel, RelOp, RelQuery};

type Needed = BTreeSet<ColumnId>;

/// Prunes the query, then the shared plans from the last to the first by what their readers need.
pub(super) fn prune_query(query: &mut RelQuery, all_columns: bool) {
    let needed = query.output.iter().map(|(id, _)| *id).collect();
    prune(&mut query.root, &needed, all_columns);
    let mut used = Needed::new();
    shared_columns(&query.root, &mut used);
    for shared in query.shared.iter_mut().rev() {
        prune(&mut shared.root, &used, all_columns);
        shared_columns(&shared.root, &mut used);
    }
}

fn shared_columns(rel: &Rel, used: &mut Needed) {
    if let RelOp::SharedScan { columns, .. } = &rel.op {
        used.extend(columns.iter().map(|(_, source)| *source));
    }
    rel.inputs.iter().for_each(|input| shared_columns(input, used));
}

fn prune(rel: &mut Rel, needed: &Needed, all_columns: bool) {
    let below = match &mut rel.op {
        RelOp::Scan { columns, filters, .. } => {
            let mut read = needed.clone();
            filters.iter().for_each(|filter| ColumnId::collect(filter, &mut read));
            columns.retain(|(id, _)| read.contains(id));
            read
        }
        RelOp::SharedScan { columns, .. } => {
            columns.retain(|(id, _)| needed.contains(id));
            Needed::new()
        }
        RelOp::WorkTableScan { columns, .. } => {
            columns.retain(|(id, _)| needed.contains(id));
            Needed::new()
        }
        RelOp::Values { .. } | RelOp::Empty { .. } => Needed::new(),
        RelOp::Filter { conjuncts } => with_exprs(needed, conjuncts.iter()),
        RelOp::Compute { exprs } => {
            exprs.retain(|(id, _)| needed.contains(id));
            let computed: Needed = exprs.iter().map(|(id, _)| *id).collect();
            let passed: Needed = needed.difference(&computed).copied().collect();
            with_exprs(&passed, exprs.iter().map(|(_, expr)| expr))
        }
        RelOp::Join(spec) => {
            let mut below = with_exprs(needed, spec.filter.iter());
            below.extend(spec.on.iter().flat_map(|&(left, right)| [left, right]));
            below
        }
        RelOp::Aggregate(spec) => {
            spec.aggregates.retain(|call| needed.contains(&call.output));
            let mut below: Needed = spec.group_by.iter().map(|(_, key)| *key).collect();
            spec.aggregates.iter().for_each(|call| aggregate_columns(call, &mut below));
            below
        }
        RelOp::Window { partition_by, order_by, functions, .. } => {
            functions.retain(|call| needed.contains(&call.output));
            let computed: Needed = functions.iter().map(|call| call.output).collect();
            let mut below: Needed = needed.difference(&computed).copied().collect();
            if !functions.is_empty() {
                below.extend(partition_by.iter().copied());
                below.extend(order_by.iter().map(|key| key.column));
            }
            functions.iter().for_each(|call| window_columns(call, &mut below));
            below
        }
        RelOp::RowWindows(spec) => {
            let mut below: Needed =
                needed.iter().filter(|id| !spec.outputs.contains(id)).copied().collect();
            below.extend(spec.read());
            below
        }
        RelOp::Sort { keys, .. } => {
            needed.iter().copied().chain(keys.iter().map(|key| key.column)).collect()
        }
        RelOp::Limit { .. } | RelOp::Fold | RelOp::AssertSingleRow => needed.clone(),
        RelOp::Union { targets, columns } => {
            return prune_union(
                rel_parts(targets, columns),
                &mut rel.inputs,
                &mut rel.output,
                (needed, all_columns),
            );
        }
        RelOp::Unnest { columns, .. } => {
            let opened = |source: &UnnestSource| !matches!(source, UnnestSource::Forward(_));
            columns.retain(|column| opened(&column.source) || needed.contains(&column.output));
            columns.iter().map(|column| unnest_input(&column.source)).collect()
        }
        RelOp::RecursiveCte { static_columns, recursive_columns, .. } => {
            static_columns.iter().chain(recursive_columns.iter()).copied().collect()
        }
    };
    for input in &mut rel.inputs {
        let mut below = below.clone();
        if all_columns {
            below.extend(input.available());
        }
        prune(input, &below, all_columns);
    }
    finish(rel, needed);
}

/// Sets the output, and removes operators that have nothing left to do.
fn finish(rel: &mut Rel, needed: &Needed) {
    let idle = matches!(&rel.op, RelOp::Compute { exprs } if exprs.is_empty())
        || matches!(&rel.op, RelOp::Window { functions, .. } if functions.is_empty());
    if idle {
        let input = rel.inputs.pop().expect("computing operators have one input");
        *rel = input;
        return;
    }
    let passes = matches!(
        &rel.op,
        RelOp::Sort { .. }
            | RelOp::Limit { .. }
            | RelOp::AssertSingleRow
            | RelOp::Fold
            | RelOp::RecursiveCte { .. }
            | RelOp::Unnest { .. }
    );
    let available = rel.available();
    rel.output = if passes {
        available
    } else {
        available.into_iter().filter(|id| needed.contains(id)).collect()
    };
    if let RelOp::Values { columns, rows } = &mut rel.op {
        prune_values(columns, rows, needed);
    }
}

fn prune_values(columns: &mut Vec<ColumnId>, rows: &mut [Vec<Expr>], needed: &Needed) {
    let keep: Vec<bool> = columns.iter().map(|id| needed.contains(id)).collect();
    let retain = |index: &mut usize| {
        *index += 1;
        keep[*index - 1]
    };
    for row in rows.iter_mut() {
        let mut index = 0;
        row.retain(|_| retain(&mut index));
    }
    let mut index = 0;
    columns.retain(|_| retain(&mut index));
}

type UnionParts<'a> = (&'a mut Vec<ColumnId>, &'a mut Vec<Vec<ColumnId>>);

fn rel_parts<'a>(
    targets: &'a mut Vec<ColumnId>,
    columns: &'a mut Vec<Vec<ColumnId>>,
) -> UnionParts<'a> {
    (targets, columns)
}

fn prune_union(
    parts: UnionParts<'_>,
    inputs: &mut [Rel],
    output: &mut Vec<ColumnId>,
    (needed, all_columns): (&Needed, bool),
) {
    let (targets, columns) = parts;
    let keep: Vec<bool> = targets.iter().map(|id| needed.contains(id)).collect();
    let kept = |list: &[ColumnId]| {
        list.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(id, _)| *id).collect()
    };
    for (list, input) in columns.iter_mut().zip(inputs) {
        *list = kept(list);
        prune(input, &list.iter().copied().collect(), all_columns);
    }
    *targets = kept(targets);
    output.clone_from(targets);
}

fn with_exprs<'a>(needed: &Needed, exprs: impl Iterator<Item = &'a Expr>) -> Needed {
    let mut below = needed.clone();
    exprs.for_each(|expr| ColumnId::collect(expr, &mut below));
    below
}

fn aggregate_columns(call: &AggregateCall, into: &mut Needed) {
    let sorted = call.order_by.iter().map(|sort| &sort.expr);
    call.args
        .iter()
        .chain(&call.filter)
        .chain(sorted)
        .for_each(|expr| ColumnId::collect(expr, into));
}

fn window_columns(call: &WindowCall, into: &mut Needed) {
    call.args.iter().chain(&call.filter).for_each(|expr| ColumnId::collect(expr, into));
}

fn unnest_input(source: &UnnestSource) -> ColumnId {
    match source {
        UnnestSource::Forward(input)
        | UnnestSource::List { input, .. }
        | UnnestSource::StructField { input, .. } => *input,
    }
}
