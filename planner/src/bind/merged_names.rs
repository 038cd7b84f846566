//! Columns that NATURAL and USING joins merge, where the library finds their names ambiguous: in WHERE, and behind a chain
//! of such joins.
//!
//! Which columns a NATURAL join merges is known only when it is bound, so that the library's error is the first to know.
//! It is answered here by the first of the columns that the name could be, which holds the merged value if all joins are
//! inner or left ones that merge it; any other ambiguity stays an error.

use std::ops::ControlFlow;

use datafusion_common::{DataFusionError, SchemaError};
use datafusion_sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select,
    Statement as SqlStatement, TableWithJoins, VisitMut, VisitorMut,
};

use super::names::normalized;

/// The statement with the name that an error finds ambiguous as the merged column that it is; `None` if it is none.
pub(super) fn with_merged_name(
    statement: &SqlStatement,
    error: &DataFusionError,
) -> Option<SqlStatement> {
    let DataFusionError::SchemaError(schema, _) = error.find_root() else { return None };
    let SchemaError::AmbiguousReference { field } = schema.as_ref() else { return None };
    let diagnostic = error.diagnostic()?;
    let place = diagnostic.span?.start;
    let first = diagnostic.notes.first()?.message.strip_prefix("possible column ")?;
    let table = first.strip_suffix(field.name.as_str())?.strip_suffix('.')?;
    let parts = table.split('.').chain([field.name.as_str()]);
    let merge = Merge {
        name: field.name.clone(),
        place: (place.line, place.column),
        column: parts.map(|part| Ident::with_quote('"', part)).collect(),
    };
    let mut merged = statement.clone();
    merged.visit(&mut { merge }).is_break().then_some(merged)
}

struct Merge {
    name: String,
    /// Where the name stands: line and column.
    place: (u64, u64),
    /// What it means.
    column: Vec<Ident>,
}

impl VisitorMut for Merge {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let [from] = select.from.as_slice() else { return ControlFlow::Continue(()) };
        if !merges(from, &self.name) {
            return ControlFlow::Continue(());
        }
        let mut rename = Rename { merge: self, depth: 0, found: false };
        let mut renamed = select.clone();
        let ControlFlow::Continue(()) = renamed.visit(&mut rename);
        if !rename.found {
            return ControlFlow::Continue(());
        }
        *select = renamed;
        ControlFlow::Break(())
    }
}

/// Whether all joins merge a column of this name, if both of their sides have it, and keep the left side's value.
fn merges(from: &TableWithJoins, name: &str) -> bool {
    let merges = |constraint: &JoinConstraint| match constraint {
        JoinConstraint::Natural => true,
        JoinConstraint::Using(columns) => columns.iter().any(|column| {
            let column = column.0.last().and_then(ObjectNamePart::as_ident);
            column.is_some_and(|column| normalized(column) == name)
        }),
        JoinConstraint::On(_) | JoinConstraint::None => false,
    };
    from.joins.iter().all(|join| match &join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => merges(constraint),
        _ => false,
    })
}

/// Replaces the name in a query block's own expressions.
struct Rename<'a> {
    merge: &'a Merge,
    depth: usize,
    /// The place that the error is about is among them.
    found: bool,
}

impl VisitorMut for Rename<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::Identifier(ident) = expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 || normalized(ident) != self.merge.name {
            return ControlFlow::Continue(());
        }
        let start = ident.span.start;
        self.found |= (start.line, start.column) == self.merge.place;
        *expr = Expr::CompoundIdentifier(self.merge.column.clone());
        ControlFlow::Continue(())
    }
}
