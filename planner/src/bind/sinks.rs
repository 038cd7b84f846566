//! `CREATE SINK … INTO t`: an INSERT that goes on with the changes of what it reads; and new names for objects.

use datafusion_sql::sqlparser::ast::{
    Insert as InsertAst, ObjectName, Statement as SqlStatement, TableObject,
};

use super::cte::select_all_from;
use super::names::{span_of_name, table_name};
use super::statements::Context;
use crate::error::{PlannerError, Result};
use crate::parse::{Ast, CreateSinkAst, SinkSource, parse_script};
use crate::statement::{CreateSink, Statement};

impl Context<'_> {
    pub(super) fn create_sink(&self, sink: &CreateSinkAst) -> Result<Statement> {
        let CreateSinkAst { name, if_not_exists, table, columns, source, ignore_delete } = sink;
        let mut insert = empty_insert()?;
        insert.table = TableObject::TableName(table.clone());
        insert.columns = columns.iter().map(|c| ObjectName::from(vec![c.clone()])).collect();
        insert.source = Some(match source {
            SinkSource::Table(from) => Box::new(select_all_from(from.clone())),
            SinkSource::Query(query) => query.clone(),
        });
        let Statement::Insert(insert) = self.insert(&insert)? else {
            let error = PlannerError::not_supported("a sink into a table without columns");
            return Err(error.with_span(span_of_name(table)));
        };
        Ok(Statement::CreateSink(CreateSink {
            name: table_name(name)?.to_string(),
            insert,
            if_not_exists: *if_not_exists,
            ignore_delete: *ignore_delete,
        }))
    }
}

/// An INSERT as the parser makes one, to be filled in.
fn empty_insert() -> Result<InsertAst> {
    let (statements, _) = parse_script("INSERT INTO t SELECT 1");
    if let Some(Ast::Sql(statement)) = statements.into_iter().next().map(|s| s.ast)
        && let SqlStatement::Insert(insert) = *statement
    {
        return Ok(insert);
    }
    Err(PlannerError::internal("an INSERT is read as something else"))
}
