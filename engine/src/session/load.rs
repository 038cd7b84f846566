//! `COPY … FROM`: the rows of files are added to a table in memory.
//!
//! The files are read with the table's columns and types; a query fills the columns that the files do not have.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource};
use thalweg_planner::CopyFrom;

use super::frame::Frame;
use super::statement::StatementContext;
use super::write::{count, memory_table, rows};
use crate::catalog::{EngineTable, Table, set_option};
use crate::connectors::{FileFormat, FileOptions, FileTable};
use crate::error::{Error, Result};

/// Runs the statement; the frame tells how many rows were added.
pub(super) async fn copy_from(cx: &StatementContext<'_>, copy: CopyFrom) -> Result<Frame> {
    let CopyFrom { table: name, source, columns, path, format, options } = copy;
    let memory = memory_table(source.as_ref(), &format!("COPY \"{name}\" FROM"))?;
    let schema = memory.schema();
    let columns = match columns.as_slice() {
        [] => (0..schema.fields().len()).collect(),
        chosen => chosen.to_vec(),
    };
    let format = format.as_deref().map(FileFormat::by_name).transpose()?;
    let mut reading = FileOptions::default();
    for (key, value) in &options {
        set_option(&mut reading, &qualified(key), value)?;
    }
    let text = format.unwrap_or(FileFormat::Csv) == FileFormat::Csv && !names_other_format(&path);
    if text {
        reading.schema = Some(chosen(&schema, &columns));
    }
    let format = if text { Some(FileFormat::Csv) } else { format };
    let file = FileTable::discover(&[path], format, &reading)?;
    let (given, wanted) = (file.schema().fields().len(), columns.len());
    if given != wanted {
        return Err(Error::statement(format!(
            "the file has {given} columns, but {wanted} are to be filled"
        )));
    }
    let plan = filled(file, source.as_ref(), &columns);
    let plan = plan.map_err(|error| Error::statement(error.strip_backtrace()))?;
    let planner = cx.session.planner();
    let query = cx.session.with_catalog(|catalog| planner.rewrite(plan, catalog));
    let query = query.map_err(|error| Error::from_planner(error, &Arc::from("")))?;
    let batches = rows(cx, &query, schema).await?;
    let added = count(&batches);
    memory.append(batches)?;
    Ok(Frame::written(added))
}

/// COPY names the options of delimited text without the prefix that they have in WITH.
fn qualified(key: &str) -> String {
    match key {
        "header" | "delimiter" | "quote" | "null" | "ignore-errors" => format!("csv.{key}"),
        "delim" | "sep" => "csv.delimiter".to_string(),
        "nullstr" => "csv.null".to_string(),
        "ignore_errors" => "csv.ignore-errors".to_string(),
        other => other.to_string(),
    }
}

/// Whether the path's name says that it is no delimited text.
fn names_other_format(path: &str) -> bool {
    let name = path.trim_end_matches(".gz").trim_end_matches(".zst").to_ascii_lowercase();
    let other = [".parquet", ".json", ".ndjson", ".jsonl", ".arrow", ".feather", ".ipc"];
    other.iter().any(|ending| name.ends_with(ending))
}

fn chosen(schema: &SchemaRef, columns: &[usize]) -> SchemaRef {
    let fields = columns.iter().map(|&at| schema.field(at).clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The file's columns by position, cast to the table's types; all others have their defaults.
fn filled(
    file: FileTable,
    table: &dyn TableSource,
    columns: &[usize],
) -> datafusion_common::Result<LogicalPlan> {
    let scan = LogicalPlanBuilder::scan("file", EngineTable::new(Arc::new(file)), None)?;
    let own = scan.schema().columns();
    let schema = table.schema();
    let exprs = schema.fields().iter().enumerate().map(|(at, field)| {
        let value = match columns.iter().position(|&column| column == at) {
            Some(from) => Expr::Column(own[from].clone()),
            None => match table.get_column_default(field.name()) {
                Some(default) => default.clone(),
                None => Expr::Literal(ScalarValue::Null, None),
            },
        };
        datafusion_expr::cast(value, field.data_type().clone()).alias(field.name())
    });
    let exprs: Vec<Expr> = exprs.collect();
    scan.project(exprs)?.build()
}
