//! INSERT INTO a table that declares no columns: it takes those of the query.

use std::sync::Arc;

use datafusion_expr::TableSource;
use datafusion_sql::sqlparser::ast::{self, ObjectName, Spanned};

use super::names::{span_of_name, table_name};
use super::statements::Context;
use crate::error::{PlannerError, Result};
use crate::parse::span_of;
use crate::statement::{Insert, Statement};

impl Context<'_> {
    /// The statement; the rows have the columns and names of the query.
    pub(super) fn insert_into_any(
        &self,
        insert: &ast::Insert,
        name: &ObjectName,
        source: Arc<dyn TableSource>,
    ) -> Result<Statement> {
        if insert.on.is_some() {
            let error = PlannerError::invalid("ON CONFLICT needs a table with a PRIMARY KEY");
            return Err(error.with_span(span_of_name(name)));
        }
        if let Some(column) = insert.columns.first() {
            let error = PlannerError::name(format!("the table {name} declares no column {column}"));
            let hint = "leave the list of columns out: the table takes those of the query";
            return Err(error.with_hint(hint.to_string()).with_span(span_of(column.span())));
        }
        let Some(query) = &insert.source else {
            let error = PlannerError::invalid("an INSERT without a query has no columns");
            return Err(error.with_span(span_of_name(name)));
        };
        let table = table_name(name)?;
        Ok(Statement::Insert(Insert {
            table,
            source,
            input: self.query(query)?,
            overwrite: insert.overwrite,
            on_conflict: None,
        }))
    }
}
