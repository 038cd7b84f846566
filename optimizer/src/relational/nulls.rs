//! Which conditions reject NULLs, and which columns never are NULL.
//!
//! Invariant: a column is named only if every NULL in it certainly makes the condition other than true; whatever is
//! not understood names nothing.

use std::collections::BTreeSet;

use datafusion_common::JoinType;
use datafusion_expr::expr::BinaryExpr;
use datafusion_expr::{Expr, Operator};

use crate::physical::ColumnId;
use crate::relational::{Rel, RelOp};

/// The columns that are not NULL in any row for which the condition is true.
pub(crate) fn rejected_by(condition: &Expr) -> BTreeSet<ColumnId> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            rejected_by(left).union(&rejected_by(right)).copied().collect()
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            rejected_by(left).intersection(&rejected_by(right)).copied().collect()
        }
        Expr::IsTrue(inner) => rejected_by(inner),
        Expr::IsNotNull(inner) | Expr::IsFalse(inner) => strict_columns(inner),
        other => strict_columns(other),
    }
}

/// The columns of which a single NULL makes the whole expression NULL.
fn strict_columns(expr: &Expr) -> BTreeSet<ColumnId> {
    let both = |a: &Expr, b: &Expr| strict_columns(a).union(&strict_columns(b)).copied().collect();
    match expr {
        Expr::Column(column) => ColumnId::from_column(column).into_iter().collect(),
        Expr::Cast(cast) => strict_columns(&cast.expr),
        Expr::TryCast(cast) => strict_columns(&cast.expr),
        Expr::Negative(inner) | Expr::Not(inner) => strict_columns(inner),
        Expr::Between(between) => strict_columns(&between.expr),
        Expr::InList(list) if !list.list.is_empty() => strict_columns(&list.expr),
        Expr::Like(like) | Expr::SimilarTo(like) => both(&like.expr, &like.pattern),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_strict(*op) => both(left, right),
        _ => BTreeSet::new(),
    }
}

/// Operators that give NULL for a NULL operand.
fn is_strict(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::Plus
            | Operator::Minus
            | Operator::Multiply
            | Operator::Divide
            | Operator::Modulo
            | Operator::LikeMatch
            | Operator::ILikeMatch
            | Operator::NotLikeMatch
            | Operator::NotILikeMatch
    )
}

/// Whether a column of a relation holds no NULL, as far as schemas and joins tell.
pub(crate) fn never_null(rel: &Rel, column: ColumnId) -> bool {
    let passed = || {
        let from = rel.inputs.iter().find(|input| input.output.contains(&column));
        from.is_some_and(|input| never_null(input, column))
    };
    match &rel.op {
        RelOp::Scan { source, columns, .. } => {
            let found = columns.iter().find(|(id, _)| *id == column);
            found.is_some_and(|(_, index)| !source.schema().field(*index).is_nullable())
        }
        RelOp::Filter { conjuncts } => {
            passed() || conjuncts.iter().any(|filter| rejected_by(filter).contains(&column))
        }
        RelOp::Compute { exprs } => match exprs.iter().find(|(id, _)| *id == column) {
            Some((_, Expr::Literal(value, _))) => !value.is_null(),
            Some(_) => false,
            None => passed(),
        },
        RelOp::Sort { .. }
        | RelOp::Limit { .. }
        | RelOp::Fold
        | RelOp::Window { .. }
        | RelOp::RowWindows(_) => passed(),
        RelOp::Join(spec) => {
            let left = rel.inputs[0].output.contains(&column);
            let kept = match spec.join_type {
                JoinType::Inner => true,
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                    left
                }
                JoinType::Right
                | JoinType::RightSemi
                | JoinType::RightAnti
                | JoinType::RightMark => !left,
                JoinType::Full => false,
            };
            kept && spec.mark != Some(column) && passed()
        }
        RelOp::Aggregate(spec) if spec.grouping_sets.is_none() => {
            let key = spec.group_by.iter().find(|(output, _)| *output == column);
            key.is_some_and(|(_, key)| never_null(&rel.inputs[0], *key))
        }
        RelOp::SharedScan { .. }
        | RelOp::WorkTableScan { .. }
        | RelOp::Values { .. }
        | RelOp::Empty { .. }
        | RelOp::Aggregate(_)
        | RelOp::Union { .. }
        | RelOp::Unnest { .. }
        | RelOp::AssertSingleRow
        | RelOp::RecursiveCte { .. } => false,
    }
}
