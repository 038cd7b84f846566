//! Windows of HOP and CUMULATE that are put together from slices, instead of a row for each window that holds it.
//!
//! A grouping by windows reads lists of their starts, or ends, opened. Where neither the other keys nor the aggregates nor any
//! filter look at the windows, rows are grouped by slice instead, and the operator makes windows of slices. Other columns
//! of the windows, such as their ends, are computed behind the grouping. Invariant: the result is that of the opened lists.

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::Expr;
use thalweg_planner::{WindowSlices, shifted_time, slices_of};

use super::bounds::Bounds;
use super::flow::{Closing, Emission, Flow, Slices};
use super::take;
use crate::physical::{ColumnId, ColumnTable, UnnestSource};
use crate::relational::{AggregateSpec, Rel, RelOp};

/// Most slices in a window: each is gathered by itself.
const SLICES_MAX: i64 = 10_000;

/// Rewrites a grouping by windows that a watermark closes, if it is one that can be put together from slices. `flow` is
/// that of its rows.
pub(super) fn put_together(rel: &mut Rel, flow: Flow, bounds: &Bounds, columns: &mut ColumnTable) {
    let RelOp::Aggregate(spec) = &rel.op else { return };
    let Some(windows) = Windows::find(spec, &rel.inputs[0]) else { return };
    let Some((bound, watermark)) = bounds.of_expr(&windows.slices.start, columns) else { return };
    let (Ok(count), Ok(step)) =
        (u32::try_from(windows.slices.count), u32::try_from(windows.slices.step))
    else {
        return;
    };
    let info = columns.get(windows.start).clone();
    let slice = columns.add("slice", info.data_type, info.nullable);
    let mut spec = spec.clone();
    spec.emission = Emission::Closed(Closing {
        key: windows.start,
        bound,
        watermark,
        slices: Some(Slices {
            count,
            step,
            length: windows.slices.length,
            origin: windows.slices.origin,
            cumulative: windows.slices.cumulative,
        }),
    });
    spec.group_by.retain(|(_, key)| !windows.is_of_window(*key));
    spec.group_by.insert(0, (windows.start, slice));
    let mut input = take(&mut rel.inputs[0]);
    without_windows(&mut input, &windows, slice);
    let mut grouped = Rel::new(RelOp::Aggregate(spec), vec![input]);
    let computed: Vec<(ColumnId, Expr)> =
        windows.computed.into_iter().filter(|(id, _)| rel.output.contains(id)).collect();
    let needed =
        |id: &ColumnId| rel.output.contains(id) || (*id == windows.start && !computed.is_empty());
    grouped.output.retain(needed);
    grouped.flow = flow;
    let output = std::mem::take(&mut rel.output);
    *rel = match computed.is_empty() {
        true => grouped,
        false => Rel::new(RelOp::Compute { exprs: computed }, vec![grouped]),
    };
    rel.output = output;
    rel.flow = flow;
}

/// What a grouping by windows reads.
struct Windows {
    slices: WindowSlices,
    /// The lists of starts, or of ends.
    list: ColumnId,
    /// The start or end of a window, out of the list.
    start: ColumnId,
    /// Columns that are functions of the start alone, in terms of it.
    computed: Vec<(ColumnId, Expr)>,
}

impl Windows {
    /// The windows of a grouping that looks at them in no other way than by its keys.
    fn find(spec: &AggregateSpec, input: &Rel) -> Option<Self> {
        let Emission::Closed(closing) = &spec.emission else { return None };
        if spec.aggregates.iter().any(|call| !call.order_by.is_empty()) {
            return None;
        }
        let mut windows = Windows::opened(opening(input)?)?;
        let clean = windows.look_at(input);
        let keys = || spec.group_by.iter().map(|(_, key)| *key);
        let closes = spec.group_by.iter().any(|(output, key)| {
            *output == closing.key && output == key && windows.is_of_window(*key)
        });
        let told = keys().any(|key| windows.tells(key));
        let arguments = spec
            .aggregates
            .iter()
            .all(|call| call.args.iter().chain(&call.filter).all(|expr| !windows.is_read_by(expr)));
        (clean && closes && told && arguments).then_some(windows)
    }

    /// The windows that an operator opens the lists of.
    fn opened(rel: &Rel) -> Option<Self> {
        let RelOp::Unnest { columns, .. } = &rel.op else { return None };
        let (mut list, mut others) = (None, 0);
        for column in columns {
            match &column.source {
                UnnestSource::Forward(input) if *input == column.output => {}
                UnnestSource::List { input, depth: 1 } => list = Some((*input, column.output)),
                UnnestSource::Forward(_)
                | UnnestSource::List { .. }
                | UnnestSource::StructField { .. } => others += 1,
            }
        }
        let lists =
            columns.iter().filter(|c| matches!(c.source, UnnestSource::List { .. })).count();
        let (list, start) = list.filter(|_| lists == 1 && others == 0)?;
        let slices = slices_of(definition(list, &rel.inputs[0])?)?;
        let few = slices.count <= SLICES_MAX && slices.step <= SLICES_MAX;
        few.then(|| Windows { slices, list, start, computed: Vec::new() })
    }

    /// Collects the columns that are computed of windows alone; whether windows are used for nothing else.
    fn look_at(&mut self, rel: &Rel) -> bool {
        match &rel.op {
            RelOp::Unnest { .. } => true,
            RelOp::Filter { conjuncts } => {
                self.look_at(&rel.inputs[0]) && !conjuncts.iter().any(|c| self.is_read_by(c))
            }
            RelOp::Compute { exprs } => {
                if !self.look_at(&rel.inputs[0]) {
                    return false;
                }
                for (id, expr) in exprs {
                    if !self.is_read_by(expr) {
                        continue;
                    }
                    let read = ColumnId::referenced(expr);
                    if !read.iter().all(|column| self.is_of_window(*column)) {
                        return false;
                    }
                    let expr = self.in_terms_of_start(expr);
                    self.computed.push((*id, expr));
                }
                true
            }
            _ => false,
        }
    }

    fn in_terms_of_start(&self, expr: &Expr) -> Expr {
        let known = |id: ColumnId| self.computed.iter().find(|(known, _)| *known == id);
        let replaced = expr.clone().transform(|node| {
            Ok(match ColumnId::from_expr(&node).and_then(known) {
                Some((_, expr)) => Transformed::yes(expr.clone()),
                None => Transformed::no(node),
            })
        });
        replaced.map_or_else(|_| expr.clone(), |replaced| replaced.data)
    }

    fn is_of_window(&self, column: ColumnId) -> bool {
        column == self.start || self.computed.iter().any(|(id, _)| *id == column)
    }

    fn is_read_by(&self, expr: &Expr) -> bool {
        ColumnId::referenced(expr).iter().any(|column| self.is_of_window(*column))
    }

    /// Whether a column tells the windows apart.
    fn tells(&self, column: ColumnId) -> bool {
        let of_start = |expr: &Expr| ColumnId::from_expr(expr) == Some(self.start);
        let shifted = |expr: &Expr| shifted_time(expr).is_some_and(of_start);
        column == self.start
            || self.computed.iter().any(|(id, expr)| *id == column && shifted(expr))
    }
}

/// The operator that opens lists, below projections and filters.
fn opening(rel: &Rel) -> Option<&Rel> {
    match &rel.op {
        RelOp::Unnest { .. } => Some(rel),
        RelOp::Filter { .. } | RelOp::Compute { .. } => opening(&rel.inputs[0]),
        _ => None,
    }
}

/// What a column is computed by, below filters.
fn definition(column: ColumnId, rel: &Rel) -> Option<&Expr> {
    match &rel.op {
        RelOp::Compute { exprs } => match exprs.iter().find(|(id, _)| *id == column) {
            Some((_, expr)) => Some(expr),
            None => definition(column, &rel.inputs[0]),
        },
        RelOp::Filter { .. } => definition(column, &rel.inputs[0]),
        _ => None,
    }
}

/// Takes the windows out of what a grouping reads, and puts the start of the slice in.
fn without_windows(rel: &mut Rel, windows: &Windows, slice: ColumnId) {
    let mut output: Vec<ColumnId> = std::mem::take(&mut rel.output)
        .into_iter()
        .filter(|id| !windows.is_of_window(*id) && *id != windows.list)
        .collect();
    output.push(slice);
    match &mut rel.op {
        RelOp::Unnest { .. } => {
            *rel = take(&mut rel.inputs[0]);
            without_windows(rel, windows, slice);
        }
        RelOp::Compute { exprs } => {
            let lists = exprs.iter_mut().find(|(id, _)| *id == windows.list);
            let found = lists.map(|column| *column = (slice, windows.slices.start.clone()));
            exprs.retain(|(id, _)| !windows.is_of_window(*id));
            let idle = exprs.is_empty();
            if found.is_none() {
                without_windows(&mut rel.inputs[0], windows, slice);
            }
            if idle {
                *rel = take(&mut rel.inputs[0]);
            }
        }
        _ => without_windows(&mut rel.inputs[0], windows, slice),
    }
    rel.output = output;
}
