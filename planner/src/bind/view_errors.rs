//! Materialized views in which what cannot be computed is NULL, for sessions that ask for it.
//!
//! A view that meets one bad row fails for good. With the setting a division by zero and a value that cannot be cast are
//! NULL instead, each by itself: `10/x IS NULL` is true for 0. Invariant: nothing else is lost; other errors end the
//! view as ever.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{CastKind, Expr, VisitMut, visit_expressions_mut};

use super::quotients::divide_to_null;

/// Rewrites the query of a view.
pub(super) fn null_for_errors<T: VisitMut>(tree: &mut T) {
    divide_to_null(tree);
    let _ = visit_expressions_mut(tree, |expr| {
        if let Expr::Cast { kind: kind @ (CastKind::Cast | CastKind::DoubleColon), expr, .. } = expr
            && !matches!(**expr, Expr::Value(_))
        {
            *kind = CastKind::TryCast;
        }
        ControlFlow::<()>::Continue(())
    });
}
