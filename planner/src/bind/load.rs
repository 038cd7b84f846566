//! `COPY … FROM` and `CREATE INDEX`: statements about a table that bind names only.

use datafusion_expr::TableSource;
use datafusion_sql::sqlparser::ast::{self, Expr, Ident, ObjectName};

use super::computed::refuse_written;
use super::names::{normalized, span_of_name, table_name};
use super::sources::ViewSource;
use super::statements::Context;
use crate::catalog::TableName;
use crate::error::{PlannerError, Result};
use crate::parse::{CopyAst, span_of};
use crate::statement::{CopyFrom, CreateIndex, Statement};
use crate::suggest::did_you_mean;

impl Context<'_> {
    /// `COPY table [(columns)] FROM 'path'`.
    pub(super) fn copy_from(
        &self,
        copy: &CopyAst,
        name: &ObjectName,
        columns: &[Ident],
    ) -> Result<Statement> {
        let span = span_of_name(name);
        let table = table_name(name)?;
        let source = self.binder().resolve(&table).map_err(|error| error.with_span(span))?;
        if source.is::<ViewSource>() {
            let error = PlannerError::invalid(format!("cannot copy into the view {table}"));
            return Err(error.with_span(span));
        }
        if !copy.partition_by.is_empty() {
            return Err(PlannerError::not_supported("PARTITION BY in COPY … FROM"));
        }
        let computed = self.catalog.computed_columns(source.as_ref());
        let columns = columns.iter().map(|column| {
            let at = position(column, &table, source.as_ref())?;
            refuse_written(&normalized(column), at, &computed)
                .map_err(|error| error.with_span(span_of(column.span)))?;
            Ok(at - computed.iter().filter(|&&before| before < at).count())
        });
        let columns = columns.collect::<Result<Vec<usize>>>()?;
        Ok(Statement::CopyFrom(CopyFrom {
            table,
            source,
            columns,
            path: copy.path.clone(),
            format: copy.format.clone(),
            options: copy.options.clone(),
        }))
    }

    /// `CREATE INDEX name ON table (columns)`. A unique index is refused: nothing would enforce it.
    pub(super) fn create_index(&self, create: &ast::CreateIndex) -> Result<Statement> {
        let span = span_of_name(&create.table_name);
        let table = table_name(&create.table_name)?;
        if create.unique {
            return Err(PlannerError::not_supported("CREATE UNIQUE INDEX").with_span(span));
        }
        let source = self.binder().resolve(&table).map_err(|error| error.with_span(span))?;
        let mut names = Vec::new();
        for column in &create.columns {
            if let Expr::Identifier(ident) = &column.column.expr {
                position(ident, &table, source.as_ref())?;
                names.push(normalized(ident));
            }
        }
        let name = match &create.name {
            Some(name) => table_name(name)?.table,
            None => format!("{}_{}_idx", table.table, names.join("_")),
        };
        let if_not_exists = create.if_not_exists;
        Ok(Statement::CreateIndex(CreateIndex { name, table, if_not_exists }))
    }
}

fn position(column: &Ident, table: &TableName, source: &dyn TableSource) -> Result<usize> {
    let name = normalized(column);
    let schema = source.schema();
    schema.index_of(&name).map_err(|_| {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        PlannerError::name(format!("column {name} of {table} does not exist"))
            .with_hint(did_you_mean(&name, names))
            .with_span(span_of(column.span))
    })
}
