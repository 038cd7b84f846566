//! KEEP LAST where results are told before their groups close: the last rows of each group as they change.
//!
//! A number of rows are the first ones in falling order of their times; a stretch of time are those that are not too far
//! behind the greatest time of their group. Both withdraw what is not among them any more. Invariant: of rows with one
//! time, those are later that are greater in the other columns, as where rows are kept until their group closes.

use datafusion_expr::{BinaryExpr, Expr, Operator, WindowFrame, WindowFunctionDefinition};
use thalweg_planner::{Emit, RowWindowKind, max_udaf, shifted};

use super::completion::{self, Completion, CompletionUnit};
use super::{Flow, Walk, take};
use crate::physical::{ColumnId, WindowCall};
use crate::properties::SortKey;
use crate::relational::{Rel, RelOp};

/// Puts windows over changes in the place of a step that keeps the last rows of groups until they close.
pub(super) fn early(walk: &mut Walk<'_>, rel: &mut Rel, emit: Option<Emit>) -> Flow {
    let RelOp::RowWindows(spec) = &rel.op else { return rel.flow };
    let (kind, keys, time) = (spec.kind, spec.keys.clone(), spec.time);
    let (input, output) = (rel.inputs[0].flow, rel.output.clone());
    let completion = match input.changes {
        true => None,
        false => completion::of_window((&keys, &[]), &[], false, &walk.bounds, walk.columns),
    };
    let early_us = emit.map_or(0, |emit| emit.allow_lateness_us);
    let completion = completion
        .filter(|completion| completion.unit == CompletionUnit::Partition)
        .map(|completion| Completion { early_us: Some(early_us), ..completion });
    match &completion {
        // What closes the groups above allows for late rows itself.
        Some(completion) => {
            completion::keep_bounds(completion, &rel.inputs[0].output, &[], &mut walk.bounds);
        }
        None => walk.forget(&rel.inputs),
    }
    let flow = Flow { changes: true, ..input };
    let below = take(&mut rel.inputs[0]);
    *rel = match kind {
        RowWindowKind::LastInterval { length } => {
            within(walk, below, (keys, time), length, completion)
        }
        RowWindowKind::LastRows { rows } => {
            let keep = Some(usize::try_from(rows).unwrap_or(usize::MAX));
            let order_by = latest_first(time, &output);
            let functions = Vec::new();
            let op = RelOp::Window { partition_by: keys, order_by, functions, keep, completion };
            Rel::new(op, vec![below])
        }
        RowWindowKind::Count { .. }
        | RowWindowKind::Delta { .. }
        | RowWindowKind::Punctuation
        | RowWindowKind::Landmark
        | RowWindowKind::Own { .. } => below,
    };
    for part in rel.inputs.iter_mut().filter(|part| matches!(part.op, RelOp::Window { .. })) {
        part.flow = flow;
    }
    (rel.flow, rel.output) = (flow, output);
    flow
}

/// The order that begins with the last row of a group.
fn latest_first(time: ColumnId, columns: &[ColumnId]) -> Vec<SortKey> {
    let mut others: Vec<ColumnId> = columns.iter().copied().filter(|id| *id != time).collect();
    others.sort_unstable();
    let falling = |column| SortKey { column, descending: true, nulls_first: true };
    [time].into_iter().chain(others).map(falling).collect()
}

/// The rows that are less than a length behind the greatest time of their group.
fn within(
    walk: &mut Walk<'_>,
    below: Rel,
    (keys, time): (Vec<ColumnId>, ColumnId),
    length: i64,
    completion: Option<Completion>,
) -> Rel {
    let data_type = walk.columns.get(time).data_type.clone();
    let call = WindowCall {
        output: walk.columns.add("last", data_type.clone(), true),
        function: WindowFunctionDefinition::AggregateUDF(max_udaf()),
        args: vec![time.expr()],
        frame: WindowFrame::new(None),
        filter: None,
        distinct: false,
        null_treatment: None,
        data_type,
    };
    let first = shifted(call.output.expr(), length.saturating_neg());
    let op = RelOp::Window {
        partition_by: keys,
        order_by: Vec::new(),
        functions: vec![call],
        keep: None,
        completion,
    };
    let latest = Rel::new(op, vec![below]);
    let is_late =
        Expr::BinaryExpr(BinaryExpr::new(Box::new(time.expr()), Operator::Gt, Box::new(first)));
    Rel::new(RelOp::Filter { conjuncts: vec![is_late] }, vec![latest])
}
