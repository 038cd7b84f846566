//! When rows of two streams that are joined can match nothing more.
//!
//! A conjunct `a <= b` (or `a = b`) with `a` over one side and `b` over the other: once no row still to come of the
//! first side has an `a` below some bound, rows of the second whose `b` is below it are done with.

use datafusion_common::{JoinType, ScalarValue};
use datafusion_expr::{BinaryExpr, Expr, Operator};

use super::bounds::Bounds;
use super::flow::Expiry;
use crate::physical::{ColumnId, ColumnTable};
use crate::relational::JoinSpec;

/// The expiries of both sides of a join, and the bounds that columns of its result have because of them.
pub(super) fn of_join(
    spec: &JoinSpec,
    sides: [&[ColumnId]; 2],
    bounds: &Bounds,
    columns: &ColumnTable,
) -> (Vec<Expiry>, Vec<(ColumnId, Expr)>) {
    let mut expiries = Vec::new();
    let mut take = |earlier: &Expr, later: &Expr| {
        let Some((bound, watermark)) = bounds.of_expr(earlier, columns) else { return };
        let type_of = |id: ColumnId| &columns.get(id).data_type;
        let own =
            bounds.of_expr(later, columns).filter(|(_, of)| type_of(*of) == type_of(watermark));
        let own = own.map(|(own, of)| replaced(&own, of, watermark));
        expiries.push(Expiry { time: later.clone(), bound, own, watermark });
    };
    for (left, right) in &spec.on {
        take(&left.expr(), &right.expr());
        take(&right.expr(), &left.expr());
    }
    for conjunct in &spec.filter {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { continue };
        if !across(left, right, sides) {
            continue;
        }
        match op {
            Operator::LtEq | Operator::Lt => take(left, right),
            Operator::GtEq | Operator::Gt => take(right, left),
            Operator::Eq => {
                take(left, right);
                take(right, left);
            }
            _ => {}
        }
    }
    let expiries = first_of_each_side(expiries, sides);
    let kept = |expiry: &Expiry| {
        let side = sides.iter().position(|side| within(&expiry.time, side))?;
        let alone = expiries.len() == 2 || keeps_bound(spec.join_type, side);
        kept_bound(&expiry.time, &expiry.bound, expiry.watermark, bounds).filter(|_| alone)
    };
    let inherited = expiries.iter().filter_map(kept).collect();
    (expiries, inherited)
}

/// Whether the times of a side (0 is the left one) whose rows expire have a bound behind the join although rows of the
/// other side never do: each row of the result has one of that side.
fn keeps_bound(join_type: JoinType, side: usize) -> bool {
    match join_type {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => side == 0,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            side == 1
        }
        JoinType::Full => false,
    }
}

/// One expiry a side is enough: a row that one conjunct rules out matches nothing.
fn first_of_each_side(expiries: Vec<Expiry>, sides: [&[ColumnId]; 2]) -> Vec<Expiry> {
    let of_side =
        |side: &[ColumnId]| expiries.iter().find(|expiry| within(&expiry.time, side)).cloned();
    sides.into_iter().filter_map(of_side).collect()
}

fn across(left: &Expr, right: &Expr, sides: [&[ColumnId]; 2]) -> bool {
    (within(left, sides[0]) && within(right, sides[1]))
        || (within(left, sides[1]) && within(right, sides[0]))
}

fn within(expr: &Expr, side: &[ColumnId]) -> bool {
    let ids = ColumnId::referenced(expr);
    !ids.is_empty() && ids.iter().all(|id| side.contains(id))
}

/// What a column of the result is never below: rows are forgotten below the expiry's bound, and new ones are not below
/// the column's own. Known where the two are the same function of the watermark, or the expiry's lies an interval before.
fn kept_bound(
    time: &Expr,
    bound: &Expr,
    watermark: ColumnId,
    bounds: &Bounds,
) -> Option<(ColumnId, Expr)> {
    let column = ColumnId::from_expr(time)?;
    let own = bounds.of(column)?;
    let own_watermark = *ColumnId::referenced(own).iter().next()?;
    let own = replaced(own, own_watermark, watermark);
    (own == *bound || is_before(bound, &own)).then(|| (column, bound.clone()))
}

/// Whether a bound is another one less an interval.
fn is_before(bound: &Expr, other: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) = bound else {
        return false;
    };
    let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) = right.as_ref() else {
        return false;
    };
    **left == *other && length.months >= 0 && length.days >= 0 && length.nanoseconds >= 0
}

/// An expression with one column in the place of another.
pub(super) fn replaced(expr: &Expr, from: ColumnId, to: ColumnId) -> Expr {
    use datafusion_common::tree_node::{Transformed, TreeNode};
    let changed = expr.clone().transform(|node| {
        Ok(match ColumnId::from_expr(&node) {
            Some(id) if id == from => Transformed::yes(to.expr()),
            _ => Transformed::no(node),
        })
    });
    changed.map_or_else(|_| expr.clone(), |changed| changed.data)
}
