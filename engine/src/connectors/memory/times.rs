//! Event time of a table in memory: how far its rows say that it has come, and which rows are too late.
//!
//! A statement's rows are all compared with what was known before it. Times are timestamps, of which queries over the table
//! are told, or days and whole numbers, of which they are not. Invariant: what is known never goes back.

use arrow::array::{Array, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::{cast, filter_record_batch, max};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use thalweg_runtime::Result;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::expr::{CompiledExpr, Expr, FunctionRegistry, compile, positional_schema};

use crate::catalog::{EventTime, StoredColumns, Table};

/// What becomes of rows behind the watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LateRows {
    /// They are rows like others.
    Stay,
    /// They are left out when they come.
    AreLeftOut,
    /// Likewise, and rows that are there go when the watermark has passed all that came with them.
    AndOldOnesGo,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RowTimes {
    time: CompiledExpr,
    watermark: CompiledExpr,
    late: LateRows,
    /// No row before it is in time. In microseconds where times are timestamps, else in units of their type.
    reached: Option<i64>,
}

impl RowTimes {
    /// The event time that a table declares, over its stored columns.
    pub(crate) fn new(
        table: &dyn Table,
        declared: &EventTime,
        late: LateRows,
        functions: &FunctionRegistry,
    ) -> Result<Self> {
        let stored = StoredColumns::of(table);
        let schema = stored.schema(&table.schema());
        let types: Vec<DataType> =
            schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let schema = positional_schema(&types);
        let compiled = |expr: Expr| compile(&stored.over_stored(expr), &schema, functions);
        Ok(RowTimes {
            time: compiled(Expr::Column(declared.column))?,
            watermark: compiled(declared.watermark.clone())?,
            late,
            reached: None,
        })
    }

    /// How far event time has come, in microseconds, if times are timestamps.
    pub(super) fn reached_us(&self) -> Option<i64> {
        self.reached.filter(|_| self.are_timestamps())
    }

    /// The rows that are in time, and how many of them are not. Rows without a time are.
    pub(super) fn in_time(&self, rows: Vec<RecordBatch>) -> Result<(Vec<RecordBatch>, usize)> {
        let Some(reached) = self.reached.filter(|_| self.late != LateRows::Stay) else {
            return Ok((rows, 0));
        };
        let mut late = 0;
        let mut kept = Vec::with_capacity(rows.len());
        for batch in rows {
            let times = numbers(&self.time, &batch)?;
            let is_late = |time: Option<i64>| time.is_some_and(|time| time < reached);
            let in_time: BooleanArray = times.iter().map(|time| Some(!is_late(time))).collect();
            late += in_time.false_count();
            kept.push(match in_time.false_count() {
                0 => batch,
                _ => filter_record_batch(&batch, &in_time)?,
            });
        }
        Ok((kept, late))
    }

    /// Takes note of rows that have come; gives how far event time has come in microseconds, where it goes on and times
    /// are timestamps.
    pub(super) fn observe<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a RecordBatch>,
    ) -> Result<Option<i64>> {
        let before = self.reached;
        for batch in rows {
            let declared = max(&numbers(&self.watermark, batch)?);
            let unit = unit(self.watermark.data_type());
            self.reached = self.reached.max(declared.map(|at| at.saturating_add(unit)));
        }
        Ok(self.reached_us().filter(|_| self.reached != before))
    }

    /// Leaves out the batches whose rows are all behind the watermark, if such rows go; whether there were any.
    pub(super) fn forget(&self, batches: &mut Vec<RecordBatch>) -> Result<bool> {
        let Some(reached) = self.reached.filter(|_| self.late == LateRows::AndOldOnesGo) else {
            return Ok(false);
        };
        let mut old = Vec::with_capacity(batches.len());
        for batch in batches.iter() {
            let times = numbers(&self.time, batch)?;
            old.push(times.null_count() == 0 && max(&times).is_none_or(|last| last < reached));
        }
        let mut old_ones = old.iter();
        batches.retain(|_| !old_ones.next().copied().unwrap_or(false));
        Ok(old.contains(&true))
    }

    fn are_timestamps(&self) -> bool {
        matches!(self.time.data_type(), DataType::Timestamp(..))
    }
}

/// Timestamps as microseconds, rounded down, and days and integers as they are.
fn numbers(expr: &CompiledExpr, rows: &RecordBatch) -> Result<Int64Array> {
    let times = expr.evaluate(&Batch::new(rows.columns().to_vec(), rows.num_rows()))?;
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let plain = match times.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            cast(&cast(&times, &DataType::Timestamp(*unit, None))?, &micros)?
        }
        DataType::Timestamp(_, None) => cast(&times, &micros)?,
        DataType::Date32 => cast(&times, &DataType::Int32)?,
        _ => times,
    };
    Ok(cast(&plain, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// What lies between a time and the next one: later rows have times after what is declared. Types finer than microseconds
/// count as those.
fn unit(data_type: &DataType) -> i64 {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000,
        _ => 1,
    }
}
