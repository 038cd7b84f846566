//! DELETE, TRUNCATE and UPDATE: a query gives the rows that take the place of the table's.
//!
//! Invariant: the table changes at once or not at all. When another statement has changed it while the query ran, the
//! query runs again over the new rows.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_planner::{Modification, Modify, QueryPlan};

use super::frame::Frame;
use super::statement::StatementContext;
use super::write::{count, memory_table, refuse_append_only, rows};
use crate::catalog::Table;
use crate::error::{Error, Result};

/// How often a change starts anew because others change the table.
const ATTEMPTS_MAX: usize = 16;

/// Runs the statement; the frame tells how many rows were deleted or updated, or has what RETURNING asks of them.
pub(super) async fn modify(cx: &StatementContext<'_>, modify: Modify) -> Result<Frame> {
    let Modify { table: name, source, kind, input, returned } = modify;
    let what = match kind {
        Modification::Delete => format!("DELETE FROM \"{name}\""),
        Modification::Update => format!("UPDATE \"{name}\""),
    };
    let memory = memory_table(source.as_ref(), &what)?;
    refuse_append_only(memory, &what)?;
    for _ in 0..ATTEMPTS_MAX {
        let seen = memory.batches();
        let mut result = Vec::new();
        let (kept, changed) = match kind {
            Modification::Delete => {
                let kept = rows(cx, &input, memory.schema()).await?;
                let changed = count(&seen).saturating_sub(count(&kept));
                (kept, changed)
            }
            Modification::Update => {
                let schema = with_mark(&memory.schema(), &input, &returned);
                let marked = rows(cx, &input, schema).await?;
                result = returned_rows(&marked, &memory.schema())?;
                without_mark(marked, &memory.schema())?
            }
        };
        if changed == 0 || memory.replace_seen(&seen, kept)? {
            if returned.is_empty() {
                return Ok(Frame::written(changed));
            }
            let fields = with_mark(&memory.schema(), &input, &returned);
            let first = memory.schema().fields().len() + 1;
            let schema = Arc::new(Schema::new(fields.fields()[first..].to_vec()));
            return Ok(Frame::of_batch(concat_batches(&schema, &result)?));
        }
    }
    Err(Error::statement(format!("{what} met too many other changes of the table")))
}

/// The table's columns, one that says whether the row is changed, and those of the result under their names.
fn with_mark(schema: &SchemaRef, input: &QueryPlan, returned: &[String]) -> SchemaRef {
    let mark = Arc::new(Field::new("changed", DataType::Boolean, true));
    let first = schema.fields().len() + 1;
    let types = input.plan.schema().fields().iter().skip(first).map(|field| field.data_type());
    let results = returned.iter().zip(types);
    let results =
        results.map(|(name, data_type)| Arc::new(Field::new(name, data_type.clone(), true)));
    let fields = schema.fields().iter().cloned().chain([mark]).chain(results);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns behind the mark, of rows that are marked.
fn returned_rows(marked: &[RecordBatch], schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let width = schema.fields().len();
    let of = |batch: &RecordBatch| {
        let behind: Vec<usize> = (width + 1..batch.num_columns()).collect();
        Ok(filter_record_batch(&batch.project(&behind)?, batch.column(width).as_boolean())?)
    };
    marked.iter().map(of).collect()
}

/// The table's own columns of batches, and how often the mark behind them is true.
fn without_mark(batches: Vec<RecordBatch>, schema: &SchemaRef) -> Result<(Vec<RecordBatch>, u64)> {
    let width = schema.fields().len();
    let mut changed = 0;
    let mut kept = Vec::with_capacity(batches.len());
    for batch in batches {
        let marks = batch.column(width).as_boolean();
        changed += marks.true_count() as u64;
        kept.push(RecordBatch::try_new(schema.clone(), batch.columns()[..width].to_vec())?);
    }
    Ok((kept, changed))
}
