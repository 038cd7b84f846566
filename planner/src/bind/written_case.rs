//! Names without quotes that are written in the very letters of a column that was created with quotes.
//!
//! A name without quotes means the one in small letters. Where there is no such column, but one in the letters as they are
//! written, nothing else can be meant: scripts of systems that keep the case of all names are read so. Invariant: a name
//! that means something is left alone.

use std::ops::ControlFlow;

use datafusion_common::{DataFusionError, SchemaError};
use datafusion_sql::sqlparser::ast::{
    Expr, Ident, Statement as SqlStatement, VisitMut, VisitorMut,
};

/// The statement with the names quoted that an error does not find; `None` if there is no column in their letters.
pub(super) fn with_written_case(
    statement: &SqlStatement,
    error: &DataFusionError,
) -> Option<SqlStatement> {
    let DataFusionError::SchemaError(schema, _) = error.find_root() else { return None };
    let SchemaError::FieldNotFound { field, valid_fields } = schema.as_ref() else { return None };
    let known: Vec<String> = valid_fields
        .iter()
        .map(|valid| valid.name.clone())
        .filter(|name| *name != field.name && name.to_lowercase() == field.name)
        .collect();
    if known.is_empty() {
        return None;
    }
    let mut quote = Quote { known: &known, found: false };
    let mut quoted = statement.clone();
    let ControlFlow::Continue(()) = quoted.visit(&mut quote);
    quote.found.then_some(quoted)
}

struct Quote<'a> {
    known: &'a [String],
    found: bool,
}

impl Quote<'_> {
    fn quote(&mut self, ident: &mut Ident) {
        if ident.quote_style.is_none() && self.known.contains(&ident.value) {
            ident.quote_style = Some('"');
            self.found = true;
        }
    }
}

impl VisitorMut for Quote<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Identifier(ident) => self.quote(ident),
            Expr::CompoundIdentifier(parts) => {
                if let Some(ident) = parts.last_mut() {
                    self.quote(ident);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
