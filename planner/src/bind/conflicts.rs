//! `ON CONFLICT` of an INSERT: what becomes of rows that have the same primary key.
//!
//! A whole row takes the place of another, or none does: an update of single columns is refused.

use datafusion_expr::TableSource;
use datafusion_sql::sqlparser::ast::{
    self, AssignmentTarget, ConflictTarget, DoUpdate, OnConflictAction, OnInsert,
};

use super::statements::Context;
use crate::error::{PlannerError, Result};
use crate::parse::{CONFLICT_ALL, CONFLICT_ERROR, is_conflict_marker, span_of};
use crate::statement::ConflictAction;

impl Context<'_> {
    /// The action of an INSERT into a table, if there is a clause.
    pub(super) fn conflict_action(
        &self,
        insert: &ast::Insert,
        table: &dyn TableSource,
    ) -> Result<Option<ConflictAction>> {
        let conflict = match &insert.on {
            None => return Ok(None),
            Some(OnInsert::OnConflict(conflict)) => conflict,
            Some(_) => return Err(PlannerError::not_supported("ON DUPLICATE KEY in INSERT")),
        };
        let schema = table.schema();
        let key: Vec<&str> = self
            .catalog
            .primary_key(table)
            .into_iter()
            .map(|at| schema.field(at).name().as_str())
            .collect();
        if key.is_empty() {
            let error = PlannerError::invalid("ON CONFLICT needs a table with a PRIMARY KEY");
            return Err(error.with_span(span_of(insert.insert_token.0.span)));
        }
        match &conflict.conflict_target {
            None => {}
            Some(ConflictTarget::Columns(columns)) => {
                let named = |name: &&str| columns.iter().any(|column| is_named(column, name));
                if columns.len() != key.len() || !key.iter().all(named) {
                    let error = PlannerError::invalid(
                        "ON CONFLICT must name the columns of the PRIMARY KEY",
                    );
                    let hint = format!("They are ({}).", key.join(", "));
                    return Err(error
                        .with_hint(hint)
                        .with_span(columns.first().and_then(|c| span_of(c.span))));
                }
            }
            Some(ConflictTarget::OnConstraint(_)) => {
                return Err(PlannerError::not_supported("ON CONFLICT ON CONSTRAINT"));
            }
        }
        match &conflict.action {
            OnConflictAction::DoNothing => Ok(Some(ConflictAction::Nothing)),
            OnConflictAction::DoUpdate(update) => {
                let columns = schema.fields().iter().map(|field| field.name().as_str());
                let computed = self.catalog.computed_columns(table);
                let columns = columns.enumerate().filter(|(at, _)| !computed.contains(at));
                let rest = columns.map(|(_, name)| name).filter(|name| !key.contains(name));
                update_action(update, &rest.collect::<Vec<_>>()).map(Some)
            }
        }
    }
}

/// The action of DO UPDATE, which must set all the columns beside the key to the new row's.
fn update_action(update: &DoUpdate, columns: &[&str]) -> Result<ConflictAction> {
    let mut set = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(refused());
        };
        let Some(target) = name.0.last().and_then(|part| part.as_ident()) else {
            return Err(refused());
        };
        if is_conflict_marker(target, CONFLICT_ERROR) {
            return Ok(ConflictAction::Error);
        }
        if is_conflict_marker(target, CONFLICT_ALL) {
            return Ok(ConflictAction::Update);
        }
        match &assignment.value {
            ast::Expr::CompoundIdentifier(parts)
                if parts.len() == 2
                    && parts[0].value.eq_ignore_ascii_case("excluded")
                    && is_named(&parts[1], &target.value.to_lowercase()) => {}
            _ => return Err(refused()),
        }
        set.push(target);
    }
    let all = columns.iter().all(|column| set.iter().any(|target| is_named(target, column)));
    match all && update.selection.is_none() {
        true => Ok(ConflictAction::Update),
        false => Err(refused()),
    }
}

fn is_named(ident: &ast::Ident, name: &str) -> bool {
    match ident.quote_style {
        Some(_) => ident.value == name,
        None => ident.value.eq_ignore_ascii_case(name),
    }
}

fn refused() -> PlannerError {
    PlannerError::not_supported("ON CONFLICT DO UPDATE that does not replace the whole row")
        .with_hint("ON CONFLICT DO UPDATE without SET replaces it".to_string())
}
