//! DELETE, TRUNCATE and UPDATE: a query gives the rows that take the place of the table's.
//!
//! Invariant: the table changes at once or not at all. When another statement has changed it while the query ran, the
//! query runs again over the new rows.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_planner::{Modification, Modify};

use super::frame::Frame;
use super::statement::StatementContext;
use super::write::{count, memory_table, refuse_append_only, rows};
use crate::catalog::Table;
use crate::error::{Error, Result};

/// How often a change starts anew because others change the table.
const ATTEMPTS_MAX: usize = 16;

/// Runs the statement; the frame tells how many rows were deleted or updated.
pub(super) async fn modify(cx: &StatementContext<'_>, modify: Modify) -> Result<Frame> {
    let Modify { table: name, source, kind, input } = modify;
    let what = match kind {
        Modification::Delete => format!("DELETE FROM \"{name}\""),
        Modification::Update => format!("UPDATE \"{name}\""),
    };
    let memory = memory_table(source.as_ref(), &what)?;
    refuse_append_only(memory, &what)?;
    for _ in 0..ATTEMPTS_MAX {
        let seen = memory.batches();
        let (kept, changed) = match kind {
            Modification::Delete => {
                let kept = rows(cx, &input, memory.schema()).await?;
                let changed = count(&seen).saturating_sub(count(&kept));
                (kept, changed)
            }
            Modification::Update => {
                let marked = rows(cx, &input, with_mark(&memory.schema())).await?;
                without_mark(marked, &memory.schema())?
            }
        };
        if changed == 0 || memory.replace_seen(&seen, kept)? {
            return Ok(Frame::written(changed));
        }
    }
    Err(Error::statement(format!("{what} met too many other changes of the table")))
}

/// The table's columns and one that says whether the row is changed.
fn with_mark(schema: &SchemaRef) -> SchemaRef {
    let mark = Arc::new(Field::new("changed", DataType::Boolean, true));
    let fields = schema.fields().iter().cloned().chain([mark]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The batches without their last column, and how often it is true.
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
