//! `COPY … FROM`: the rows of files are added to a table in memory.
//!
//! The files are read with the table's columns and types; a query fills the columns that the files do not have.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
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
        set_option(&mut reading, (&qualified(key), value), &["format"])?;
    }
    let file = open(&path, format, reading, &schema, &columns)?;
    let plan = filled(file, source.as_ref(), &schema, &columns);
    let plan = plan.map_err(|error| Error::statement(error.strip_backtrace()))?;
    let planner = cx.session.planner();
    let query = cx.session.with_catalog(|catalog| planner.rewrite(plan, catalog));
    let query = query.map_err(|error| Error::from_planner(error, &Arc::from("")))?;
    let read = rows(cx, &query, with_rest(&schema)).await?;
    let batches = read.iter().map(|batch| without_rest(batch, &schema));
    let batches = batches.collect::<Result<Vec<_>>>()?;
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

/// The file with the chosen columns. Delimited text is read with their types; when each of its lines ends with a
/// delimiter, there is one more column of text.
fn open(
    path: &str,
    format: Option<FileFormat>,
    reading: FileOptions,
    schema: &SchemaRef,
    columns: &[usize],
) -> Result<FileTable> {
    let paths = [path.to_string()];
    let wanted = columns.len();
    let found = FileTable::discover(&paths, format, &reading)?;
    let text = found.format() == FileFormat::Csv;
    let given = found.schema().fields().len();
    match (text, given) {
        (false, given) if given == wanted => Ok(found),
        (true, given) if given == wanted || given == wanted + 1 => {
            let fields = columns.iter().map(|&at| schema.field(at).clone().with_nullable(true));
            let rest = (wanted..given).map(|_| Field::new(REST, DataType::Utf8View, true));
            let declared = Arc::new(Schema::new(fields.chain(rest).collect::<Vec<_>>()));
            let reading = FileOptions { schema: Some(declared), ..reading };
            Ok(FileTable::discover(&paths, format, &reading)?)
        }
        (_, given) => {
            let (columns, are) = (plural(given), if wanted == 1 { "is" } else { "are" });
            Err(Error::statement(format!(
                "the file has {columns}, but {wanted} {are} to be filled"
            )))
        }
    }
}

/// What stands behind the delimiter that ends a line.
const REST: &str = "rest of the line";

fn with_rest(schema: &SchemaRef) -> SchemaRef {
    let rest = Arc::new(Field::new(REST, DataType::Utf8View, true));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([rest]).collect::<Vec<_>>()))
}

/// The table's columns; an error when there is anything behind the last of them.
fn without_rest(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let width = schema.fields().len();
    let rest = batch.column(width).as_string_view();
    if let Some(text) = rest.iter().flatten().find(|text| !text.is_empty()) {
        return Err(Error::statement(format!(
            "a line of the file has a field more than the table has columns: \"{text}\""
        )));
    }
    Ok(RecordBatch::try_new(schema.clone(), batch.columns()[..width].to_vec())?)
}

fn plural(columns: usize) -> String {
    if columns == 1 { "1 column".to_string() } else { format!("{columns} columns") }
}

/// The file's columns by position, cast to the table's types; all others have their defaults. The last one is what is
/// left of the line.
fn filled(
    file: FileTable,
    table: &dyn TableSource,
    schema: &SchemaRef,
    columns: &[usize],
) -> datafusion_common::Result<LogicalPlan> {
    let scan = LogicalPlanBuilder::scan("file", EngineTable::new(Arc::new(file)), None)?;
    let own = scan.schema().columns();
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
    let rest = match own.get(columns.len()) {
        Some(column) => Expr::Column(column.clone()),
        None => datafusion_expr::cast(Expr::Literal(ScalarValue::Null, None), DataType::Utf8View),
    };
    let exprs: Vec<Expr> = exprs.chain([rest.alias(REST)]).collect();
    scan.project(exprs)?.build()
}
